"""A member's place among those who share partitions out: what it hears of it, and when it is to be out of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from induction_tools import ROLES, member
from runtime_tools import PATIENCE, QUICK, Crew, binding, until

import pares
from pares.core.events import Assigned, Lost, Restart, Revoked
from pares.runtime.clock import stopwatch
from pares.runtime.driver.kit import contends
from pares.runtime.here import here
from pares.runtime.neli.assignment import Assignment, Callbacks
from pares.runtime.neli.claims_group import ClaimsGroup

MOMENT = 0.3
"""Seconds that one thread stands still for another to get ahead of it, if it can."""


@pytest.fixture
def memory(memory: str) -> str:
    return f"{memory}?partitions={len(ROLES)}"


def test_what_an_earlier_place_tells_is_not_heard_by_the_next_incarnation() -> None:
    heard: list[Assigned | Revoked | Lost] = []
    callbacks = Callbacks(heard.append, PATIENCE, here())
    callbacks.assigned([0])
    callbacks.end()
    callbacks.assigned([1])
    callbacks.lost([0])
    callbacks.revoked([1])
    assert heard == [Assigned((0,))]


class Entrance:
    """A lock; before the first who comes has it, `first` is done by another thread."""

    def __init__(self, first: Any) -> None:
        self._lock, self._first = threading.Lock(), first

    def __enter__(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            thread = threading.Thread(target=first)
            thread.start()
            thread.join()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_revocation_that_comes_as_nobody_answers_any_more_waits_for_nobody() -> None:
    heard: list[Assigned | Revoked | Lost] = []
    callbacks = Callbacks(heard.append, 1.0, here())
    callbacks._lock = Entrance(callbacks.end)  # type: ignore[assignment]  # pyright: ignore
    callbacks.revoked([0])
    assert heard == []


class Place:
    """A place in a group that is polled in vain."""

    reassignment_bound, callback_limit, joined = 1.0, 1.0, True

    def __init__(self) -> None:
        self.polls = 0

    def poll(self, timeout: float = 0.0) -> None:
        self.polls += 1

    def leave(self) -> None:
        pass


def test_who_is_to_leave_while_it_joins_does_not_wait_in_a_poll_first() -> None:
    places, assignments = list[Place](), list[Assignment]()

    def join(_: Callbacks) -> Any:
        places.append(Place())
        if len(places) == 2:
            assignments[0].leave()
        return places[-1]

    left = threading.Event()
    callbacks = Callbacks(lambda event: None, 1.0, here())
    assignment = Assignment(join, callbacks, "it", lambda: True, left.set, lambda: None, here())
    assignments.append(assignment)
    assignment.give_up()
    assignment._membership = None  # pyright: ignore
    assignment.start()
    assert left.wait(PATIENCE)
    assert [place.polls for place in places] == [0, 0]


@pytest.fixture
def pair(memory: str) -> Iterator[tuple[pares.Member, pares.Member, list[bool]]]:
    """One that was drained, another one that leads all; and what the first one's `ready=` check says."""
    crew, ready = Crew(memory), [True]
    one = member(crew, "one", "fast-neli", session=QUICK, ready=lambda: ready[-1])
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = member(crew, "two", "fast-neli", session=QUICK)
    one.drain()
    assert all(two.wait(role, PATIENCE) for role in ROLES)
    yield one, two, ready
    crew.close()


def test_stepping_down_ends_no_draining(pair: tuple[pares.Member, pares.Member, list[bool]]) -> None:
    one, two, _ = pair
    one.step_down()
    two.close()
    assert one.wait(ROLES[0], 4 * QUICK) is None


def test_being_ready_again_ends_no_draining(pair: tuple[pares.Member, pares.Member, list[bool]]) -> None:
    one, two, ready = pair
    for answer in (False, True):
        ready.append(answer)
        until(lambda answer=answer: binding(one)._unready is not answer, "it was told")  # pyright: ignore
    two.close()
    assert one.wait(ROLES[0], 4 * QUICK) is None


def test_a_role_that_is_added_as_its_member_begins_anew_is_there_when_the_call_returns(memory: str) -> None:
    crew = Crew(memory)
    one = member(crew, "one", "fast-neli")
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    loop: Any = one._loop  # pyright: ignore
    carry, adding = loop._life.carry, threading.Thread(target=one.add_role, args=("late",))

    def late(effect: Any) -> None:
        if isinstance(effect, Restart):
            adding.start()
            until(lambda: any(getattr(event, "add", ()) for event in list(loop._inbox.events)), "it asks")
        carry(effect)

    loop._life.carry = late
    member(crew, "two", "fast-neli", ledger=memory.replace("partitions=2", "partitions=4"))
    until(lambda: one.health().restarts == 1, "it begins anew")
    adding.join(2 * PATIENCE)
    assert "late" in one.roles()


def test_a_partition_goes_to_nobody_while_who_leaves_is_still_at_work_on_it(memory: str) -> None:
    """Also if the group wants to move it in that very moment."""
    ledger = pares.open(memory)
    has, working, through = threading.Event(), threading.Event(), threading.Event()

    def on_revoked(_: object) -> None:
        working.set()
        through.wait(PATIENCE)

    place = ClaimsGroup(ledger, contends(pares.Member)).join("g", 1, lambda _: has.set(), on_revoked, lambda _: None)
    end = stopwatch() + int(PATIENCE * 1e9)
    while not has.is_set() and stopwatch() < end:
        place.poll(0.05)
    ((number, token),) = place._held.items()  # pyright: ignore
    leaving = threading.Thread(target=place.leave)
    leaving.start()
    assert working.wait(PATIENCE)
    moved = pares.Revoked(str(number), 0, token, "balance", time.time())
    moving = threading.Thread(target=place._told, args=(moved,))  # pyright: ignore
    moving.start()
    moving.join(MOMENT)
    assert moving.is_alive(), "the barrier has not returned"
    through.set()
    leaving.join(PATIENCE)
    moving.join(PATIENCE)
    assert not moving.is_alive()
    ledger.close()


def test_a_log_that_was_begun_anew_assigns_by_smaller_tokens_and_late_notices_count_no_more(memory: str) -> None:
    told: list[tuple[str, list[int]]] = []
    ledger = pares.open(memory)
    place = ClaimsGroup(ledger, contends(pares.Member)).join(
        "g",
        1,
        lambda numbers: told.append(("assigned", [*numbers])),
        lambda numbers: told.append(("revoked", [*numbers])),
        lambda numbers: told.append(("lost", [*numbers])),
    )
    end = stopwatch() + int(PATIENCE * 1e9)
    while not told and stopwatch() < end:
        place.poll(0.05)
    ((_, token),) = place._held.items()  # pyright: ignore
    told.clear()

    def hear(kind: type[pares.Acquired | pares.Fenced], number: int) -> None:
        place._told(kind("0", 0, number, "", time.time()))  # pyright: ignore
        place.poll()

    hear(pares.Fenced, token)
    hear(pares.Acquired, token - 1000)
    assert told == [("lost", [0]), ("assigned", [0])], "it is another log's, and this member's"
    hear(pares.Fenced, token - 1000)
    hear(pares.Fenced, token - 900)
    hear(pares.Acquired, token - 900)
    assert told[2:] == [("lost", [0])], "it was over before it was told"
    place.leave()
    ledger.close()
