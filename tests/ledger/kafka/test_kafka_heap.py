"""When a client that has caught up gives memory back, and that it comes back."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest

from pares.ledger.kafka.ahead import heap
from pares.ledger.kafka.ahead.heap import GROWN, MOST, REST, Spare, give_back, private
from pares.ledger.kafka.client import let_go_of_id


class Process:
    """How large it is, and what giving back makes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, kept: int) -> None:
        self.size = self.kept = kept
        self.tries = list[int]()
        monkeypatch.setattr(heap, "private", lambda: self.size)

    def live(self, seconds: int, spare: Spare, grows: int) -> None:
        """It grows by so much each second."""
        for second in range(seconds):
            self.size += grows
            if spare.due(second):
                self.tries.append(second)
                self.size = self.kept
                spare.gave()


def test_what_grew_is_given_back_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, kept=100 * GROWN)
    process.live(int(10 * REST), Spare(), grows=GROWN)
    assert len(process.tries) == 9
    assert process.size <= process.kept + REST * GROWN


def test_a_process_that_does_not_grow_is_left_alone_after_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, kept=100 * GROWN)
    process.live(100_000, Spare(), grows=0)
    assert len(process.tries) == 1


def test_what_was_needed_once_is_not_left_to_it_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch, kept=100 * GROWN)
    spare = Spare()
    process.live(int(2 * REST), spare, grows=0)
    process.kept = 150 * GROWN  # it is in the midst of catching up
    for second in range(int(2 * REST), int(3 * REST)):
        process.size = process.kept
        if spare.due(second):
            spare.gave()
    process.kept = 100 * GROWN
    tries = len(process.tries)
    for second in range(int(3 * REST), int(7 * REST)):
        if spare.due(second):
            process.tries.append(second)
            process.size = process.kept
            spare.gave()
    assert len(process.tries) == tries + 1
    assert process.size == process.kept


def test_it_is_tried_again_soon_when_something_has_come_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it had become seldom."""
    process = Process(monkeypatch, kept=0)
    spare = Spare()
    for second in range(2000):
        process.size = process.kept = second * GROWN
        if spare.due(second):
            process.tries.append(second)
            spare.gave()
    assert process.tries[-1] - process.tries[-2] == MOST
    process.tries.clear()
    for second in range(2000, 3000):
        process.size += GROWN
        if spare.due(second):
            process.tries.append(second)
            process.size = process.kept
            spare.gave()
    assert process.tries[1] - process.tries[0] == REST


def test_where_nothing_comes_of_it_tries_become_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows for reasons of its own."""
    process = Process(monkeypatch, kept=0)
    spare, size = Spare(), 0
    for second in range(100_000):
        size += GROWN
        process.size = process.kept = size
        if spare.due(second):
            process.tries.append(second)
            spare.gave()
    assert len(process.tries) <= 8 + 100_000 // MOST
    assert process.tries[-1] - process.tries[-2] >= MOST


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a C library without arenas like glibc's")
def test_what_was_freed_in_front_of_something_that_lives_comes_back() -> None:
    held = list[bytes]()

    def fill() -> None:
        """In a thread, and so in an arena of its own."""
        many = [bytes(4000) for _ in range(10_000)]
        held.append(bytes(4000))
        many.clear()

    give_back()
    before = private()
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    assert private() > before + (30 << 20), "the block at the end keeps the rest"
    give_back()
    assert private() < before + (5 << 20)
    assert held


class Described:
    def __init__(self, topic_id: object) -> None:
        self.topic_id = topic_id


def test_only_a_reference_too_many_is_dropped() -> None:
    described = Described(object())

    def references() -> int:
        return sys.getrefcount(described.topic_id)

    usual = references()
    let_go_of_id(described)
    found = [references()]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(described.topic_id))
    found.append(references())
    for _ in range(3):
        let_go_of_id(described)
        found.append(references())
    assert found == [usual, usual + 1, usual, usual, usual]
