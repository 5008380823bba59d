"""When a client that has caught up gives memory back, and that it comes back."""

from __future__ import annotations

import ctypes
import threading

import pytest

from pares.ledger.kafka.ahead.heap import MUCH, REST, Spare, give_back


def test_traffic_is_not_followed_by_giving_back() -> None:
    spare = Spare()
    for second in range(1000):
        spare.came(MUCH)
        assert not spare.due(second)


def test_it_is_given_back_once_after_much_has_come_and_when_it_is_calm() -> None:
    spare = Spare()
    for second in range(3):
        for _ in range(3):
            spare.came(MUCH // 2)
        assert not spare.due(second), "more may be coming"
    assert [spare.due(second) for second in range(3, 6)] == [True, False, False]


def test_between_two_times_it_rests() -> None:
    spare, given = Spare(), list[int]()
    for second in range(100):
        spare.came(MUCH + 1 if second % 2 else 0)
        if spare.due(second):
            given.append(second)
    assert given == [2, 32, 62, 92]
    assert REST == 30


def anonymous() -> float:
    """Megabytes of memory of this process that no file backs."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a C library without arenas like glibc's")
def test_what_was_freed_in_front_of_something_that_lives_comes_back() -> None:
    held = list[bytes]()

    def fill() -> None:
        """In a thread, and so in an arena of its own."""
        many = [bytes(4000) for _ in range(10_000)]
        held.append(bytes(4000))
        many.clear()

    give_back()
    before = anonymous()
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    assert anonymous() > before + 30, "the block at the end keeps the rest"
    give_back()
    assert anonymous() < before + 5
    assert held
