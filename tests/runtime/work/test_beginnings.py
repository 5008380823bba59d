"""Work of a term begins when its barrier has returned from `Acquired`."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runtime_tools import PATIENCE, Crew, until

import pares
from pares import aio

PROTOCOLS: dict[str, dict[str, Any]] = {
    "claims": {},
    "fast-neli": {"protocol": "fast-neli"},
    "neli": {"protocol": "neli"},
    "allcall": {"protocol": pares.AllCall(heartbeat=0.05, lease=1.0, skew=0.05)},
}


def made(crew: Crew, protocol: str, barrier: Callable[[pares.Event], None]) -> pares.Member:
    """A member that is closed at the end of the test. (ALLCALL has no session, so it takes none.)"""
    settings: dict[str, Any] = PROTOCOLS[protocol] | ({} if protocol == "allcall" else {"session": 5.0, "settle": 0.05})
    me = pares.Member(crew.ledger, group="g", roles="A", name="a", barrier=barrier, **settings)
    crew.members.append(me)
    return me


class Gate:
    """A barrier that holds `Acquired` back until it is opened."""

    def __init__(self) -> None:
        self.came, self.open = threading.Event(), threading.Event()

    def __call__(self, event: pares.Event) -> None:
        if isinstance(event, pares.Acquired):
            self.came.set()
            self.open.wait(PATIENCE)


class Raising:
    """A barrier that raises on the first `times` calls with `Acquired`."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.calls: list[tuple[float, int]] = []

    def __call__(self, event: pares.Event) -> None:
        if isinstance(event, pares.Acquired):
            self.calls.append((time.monotonic(), event.token))
            self.left -= 1
            if self.left >= 0:
                raise OSError("no database")


def in_thread(call: Callable[[], object]) -> list[object]:
    """What it returns, as soon as it does."""
    said: list[object] = []
    threading.Thread(target=lambda: said.append(call()), daemon=True).start()
    return said


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_work_waits_for_the_barrier(crew: Crew, protocol: str) -> None:
    gate = Gate()
    me = made(crew, protocol, gate)
    work: list[str] = []
    said = {
        "wait": in_thread(lambda: me.wait("A", PATIENCE)),
        "terms": in_thread(lambda: next(me.terms("A", PATIENCE))),
        "pulse": in_thread(lambda: me.pulse(PATIENCE)),
    }
    task = me.background(lambda: (work.append("task"), time.sleep(0.01)), "A")
    assert gate.came.wait(PATIENCE)
    until(lambda: me.holds("A"), "the bare belief does not wait")
    assert me.term("A")
    guarded = me.only("A")(lambda: "ran")
    time.sleep(0.2)
    assert guarded() is None
    assert not me.pulse(0.01)
    assert me.wait("A", 0.01) is None
    assert not any(said.values())
    assert not work
    gate.open.set()
    until(lambda: all(said.values()), "what waits for the term gets it")
    assert said["pulse"] == [True]
    assert said["wait"] == [me.term("A")] == said["terms"]
    assert guarded() == "ran"
    until(lambda: work, "the task runs")
    task.stop()


def test_asyncio_waits_for_the_barrier(memory: str) -> None:
    async def main() -> None:
        gate = Gate()
        async with aio.Member(memory, group="g", roles="A", session=5.0, barrier=gate) as me:
            done: list[str] = []

            async def work() -> str:
                done.append("work")
                await asyncio.sleep(0.01)
                return "ran"

            async def first_term() -> aio.Term:
                async for term in me.terms("A"):
                    return term
                raise AssertionError("no term")

            guarded = me.only("A")(work)
            waits = [asyncio.ensure_future(me.wait("A")), asyncio.ensure_future(first_term())]
            task = me.background(work, "A")
            assert await asyncio.to_thread(gate.came.wait, PATIENCE)
            await asyncio.sleep(0.2)
            assert me.holds("A")
            assert me.term("A")
            assert await guarded() is None
            assert not await me.pulse(0.01)
            assert not done
            assert not any(one.done() for one in waits)
            gate.open.set()
            for one in waits:
                assert await asyncio.wait_for(one, PATIENCE)
            assert await guarded() == "ran"
            task.cancel()

    asyncio.run(main())


def test_a_barrier_that_raises_gives_the_term_up_to_somebody_else(crew: Crew) -> None:
    barrier = Raising(1000)
    me = crew.member("a", barrier=barrier, rank=0)
    until(lambda: barrier.calls, "it leads, and its barrier raises")
    other = crew.member("b", rank=0)
    assert other.wait("A", PATIENCE)
    until(lambda: not me.holds("A"), "it has given the role up")
    calls = len(barrier.calls)
    time.sleep(0.5)
    assert len(barrier.calls) == calls, "and does not get it back"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_barrier_that_raises_does_not_spin(crew: Crew, protocol: str) -> None:
    """Nobody else is there: it tries again, each time after a longer pause, until it succeeds."""
    barrier = Raising(3)
    me = made(crew, protocol, barrier)
    assert me.wait("A", PATIENCE), "it leads in the end"
    assert len(barrier.calls) == 4
    times = [at for at, _ in barrier.calls]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] >= 0.25
    assert pauses[1] >= 0.5
    assert pauses[2] >= 1.0
    if protocol in ("claims", "allcall"):
        assert len({token for _, token in barrier.calls}) == 4, "each in a term of its own"


def test_a_barrier_that_does_not_return_gives_the_term_up(crew: Crew) -> None:
    gate = Gate()
    me = crew.member("a", barrier=gate, barrier_timeout=0.3)
    assert gate.came.wait(PATIENCE)
    other = crew.standby("b")
    assert other.wait("A", PATIENCE)
    assert not me.holds("A")
    assert me.wait("A", 0.05) is None
    assert not me.health().ok, "its barrier hangs"
    gate.open.set()
    until(lambda: me.health().ok, "it has come back")


def test_the_barrier_itself_waits_for_no_barrier(crew: Crew) -> None:
    """What it calls runs in the term that it is told of."""
    said: list[object] = []

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Acquired):
            said.extend((me.wait("A", 1) is not None, me.only("A")(lambda: "ran")()))

    made: list[pares.Member] = []
    gate = threading.Event()

    def waits(event: pares.Event) -> None:
        gate.wait(PATIENCE)
        barrier(event)

    me = crew.member("a", barrier=waits)
    made.append(me)
    gate.set()
    assert me.wait("A", PATIENCE)
    assert said == [True, "ran"]


def test_no_time_limit_no_wait(crew: Crew) -> None:
    """With barrier_timeout=0 nothing waits for the barrier, at the beginning as at the end."""
    gate = Gate()
    me = crew.member("a", barrier=gate, barrier_timeout=0)
    assert me.wait("A", PATIENCE)
    assert not gate.open.is_set()
    gate.open.set()
