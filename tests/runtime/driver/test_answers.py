"""Answers to what was asked of a member's loop come once, not before they are true, and also when the loop ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_tools import PATIENCE, Crew, Faulty, until

import pares
from pares.core.errors import ClosedError, LedgerUnavailable, ParesError
from pares.core.events import Closed, Stop
from pares.runtime.driver.answers import Answers

ROUNDS = 2000


@given(steps=st.lists(st.one_of(st.just("ask"), st.integers(0, 4), st.just("end")), max_size=30))
def test_each_is_told_once_in_their_order_and_true_only_before_the_end(steps: list[Any]) -> None:
    answers, told, asked, ended = Answers(), list[tuple[int, bool]](), 0, False
    for step in steps:
        if step == "ask":
            answers.ask(lambda done, number=asked: told.append((number, done)))
            asked += 1
        elif step == "end":
            answers.end()
            ended = True
        else:
            answers.done(min(step, len(answers)))
    assert [number for number, _ in told] == list(range(len(told)))
    assert len(told) + len(answers) == asked
    assert not ended or not len(answers)
    outcomes = [done for _, done in told]
    assert outcomes == sorted(outcomes, reverse=True)


def test_who_asks_while_the_loop_ends_is_told_once() -> None:
    for _ in range(ROUNDS):
        answers, told = Answers(), SimpleQueue[bool]()
        asker = threading.Thread(target=answers.ask, args=(told.put,))
        asker.start()
        answers.end()
        asker.join()
        assert told.get(timeout=PATIENCE) is False
        assert told.empty()


def test_who_asks_while_others_are_answered_is_not_answered_with_them() -> None:
    """A request is handed over before its answer is waited for: who was counted before the look at requests has none left."""
    answers, requests, early = Answers(), list[int](), list[int]()
    going = threading.Event()

    def ask(first: int) -> None:
        going.wait(PATIENCE)
        for number in range(first, first + ROUNDS):
            requests.append(number)
            answers.ask(lambda _, number=number: early.append(number) if number in requests else None)

    askers = [threading.Thread(target=ask, args=(first,)) for first in (0, ROUNDS)]
    for asker in askers:
        asker.start()
    going.set()
    while any(asker.is_alive() for asker in askers) or len(answers):
        asked = len(answers)
        while requests:
            requests.pop()
        answers.done(asked)
    assert early == []


class Slow:
    """Carries effects, but takes its time with the one that tells a member's end."""

    def __init__(self, carry: Callable[[Any], None]) -> None:
        self._carry = carry

    def __call__(self, effect: Any) -> None:
        if isinstance(effect, Stop | Closed):
            time.sleep(0.3)
        self._carry(effect)


@pytest.fixture(params=["claims", "fast-neli"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def slow(faulty: Faulty, protocol: str) -> Iterator[pares.Member]:
    """It leads, and is slow to tell its end."""
    crew = Crew(faulty)
    me = crew.leader("a", protocol=protocol)
    me._life.carry = Slow(me._life.carry)  # type: ignore[method-assign]  # pyright: ignore
    yield me
    faulty.heal()
    crew.close()


def test_who_asked_a_loop_that_fails_is_told_that_it_failed(slow: pares.Member, faulty: Faulty) -> None:
    """Not that it was done, however long the loop takes to say how it ended."""
    faulty.break_appends = lambda: ZeroDivisionError("by the test")
    faulty.break_reads = lambda: ZeroDivisionError("by the test")
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        slow.add_role("B")
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        slow.add_role("C")


def test_who_asked_a_member_that_is_closed_meanwhile_is_told_so(slow: pares.Member, faulty: Faulty) -> None:
    faulty.away()
    until(lambda: slow.health().unreachable, "it is out of reach")
    came = SimpleQueue[ParesError | None]()

    def ask() -> None:
        try:
            slow.add_role("B")
        except ParesError as error:
            came.put(error)
        else:
            came.put(None)

    asker = threading.Thread(target=ask)
    asker.start()
    until(lambda: len(slow._loop._answers), "it waits")  # pyright: ignore
    slow.close(timeout=0)
    error = came.get(timeout=PATIENCE)
    asker.join()
    assert isinstance(error, ClosedError | LedgerUnavailable)
    with pytest.raises(ClosedError):
        slow.add_role("B")
