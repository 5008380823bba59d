"""A background task's pace, its end and the cause of it; and the end of `events()`."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from typing import Any

import pytest
from runtime_tools import PATIENCE, Crew, break_down, until

import pares
from pares import aio
from pares.core.errors import ParesError


def test_a_task_that_returns_at_once_is_held_to_a_sane_pace_with_one_warning(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    me = crew.leader("a")
    runs: list[float] = []
    task = me.background(lambda: runs.append(time.monotonic()), "A")
    until(lambda: len(runs) > 250, "it runs")
    task.stop()
    assert len(runs) / (runs[-1] - runs[0]) <= 110
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING and "every=" in record.message]
    assert len(warnings) == 1
    assert "'A'" in warnings[0].message


def test_a_task_that_takes_its_time_is_not_slowed_down(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    """It does something: the next run follows at once."""
    me = crew.leader("a")
    rests: list[float] = []
    ended = [0.0]

    def work() -> None:
        if ended[0]:
            rests.append(time.monotonic() - ended[0])
        time.sleep(0.002)
        ended[0] = time.monotonic()

    task = me.background(work, "A")
    until(lambda: len(rests) >= 200, "it runs")
    task.stop()
    assert sorted(rests)[len(rests) // 2] < 0.008, "half of the runs, at least, follow at once"
    assert "every=" not in caplog.text


def test_runs_are_so_many_seconds_apart(crew: Crew) -> None:
    me = crew.leader("a")
    begun: list[float] = []

    def work() -> None:
        begun.append(time.monotonic())
        time.sleep(0.1)

    task = me.background(work, "A", every=0.2)
    until(lambda: len(begun) >= 5, "it runs")
    task.stop()
    apart = [after - before for before, after in itertools.pairwise(begun)]
    assert min(apart) >= 0.15, "and not as soon as it has ended, after 0.1; it may see its own beginning a little late"
    assert sorted(apart)[len(apart) // 2] < 0.3, "counted from the beginning of each"


def test_every_0_is_as_fast_as_it_goes(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    me = crew.leader("a")
    runs: list[float] = []
    task = me.background(lambda: runs.append(time.monotonic()), "A", every=0)
    until(lambda: len(runs) > 2000, "it runs")
    task.stop()
    assert len(runs) / (runs[-1] - runs[0]) > 150, "beyond the pace of tasks that say nothing"
    assert "every=" not in caplog.text


@pytest.mark.parametrize("every", [-1, "often", True])
def test_no_such_pace(crew: Crew, every: Any) -> None:
    me = crew.leader("a")
    with pytest.raises(pares.ConfigError, match="every is"):
        me.background(time.time, "A", every=every)


def test_a_long_pause_keeps_neither_a_stop_nor_a_new_term_waiting(crew: Crew) -> None:
    me = crew.leader("a")
    runs: list[int] = []

    def work() -> None:
        term = me.term("A")
        if term is not None:
            runs.append(term.token)

    task = me.background(work, "A", every=3600)
    until(lambda: runs, "it runs")
    me.step_down("A")  # nobody else is there: it comes back under another token
    until(lambda: len(set(runs)) == 2, "it runs in the next term")
    began = time.monotonic()
    task.stop()
    assert time.monotonic() - began < PATIENCE
    assert task.wait(0)


def test_wait_and_error(crew: Crew) -> None:
    me = crew.leader("a")
    task = me.background(lambda: time.sleep(0.01), "A")
    assert not task.wait(0.05)
    assert task.error is None
    me.close()
    assert task.wait(PATIENCE)
    assert task.error is None, "as planned"
    failing = crew.leader("b")
    task = failing.background(lambda: time.sleep(0.01), "A")
    break_down(failing)
    assert task.wait(PATIENCE)
    assert isinstance(task.error, ParesError)
    assert "ZeroDivisionError" in str(task.error)


def test_events_end_with_the_cause(crew: Crew) -> None:
    me = crew.leader("a")
    events, other = me.events(), me.events()
    break_down(me)
    seen: list[pares.Event] = []
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        seen.extend(events)
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        list(other)
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        next(events)
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        list(me.events())


def test_events_of_a_member_that_is_closed_just_end(crew: Crew) -> None:
    me = crew.leader("a")
    events = me.events()
    me.close()
    assert [type(event) for event in events] == [pares.Revoked]
    assert list(me.events()) == []


def test_asyncio(memory: str) -> None:
    async def main() -> None:
        async with aio.Member(memory, group="g", roles="A", session=5.0) as me:
            assert await me.wait("A", PATIENCE)
            runs: list[float] = []

            async def work() -> None:
                runs.append(time.monotonic())

            task = me.background(work, "A", every=0.1)
            while len(runs) < 4:
                await asyncio.sleep(0.01)
            task.cancel()
            assert min(after - before for before, after in itertools.pairwise(runs)) >= 0.099
            fast: list[float] = []

            async def at_once() -> None:
                fast.append(time.monotonic())

            task = me.background(at_once, "A")
            while len(fast) < 100:
                await asyncio.sleep(0.01)
            assert len(fast) / (fast[-1] - fast[0]) <= 110
            events = me.events()
            ended = threading.Event()

            async def listen() -> None:
                try:
                    async for _ in events:
                        pass
                finally:
                    ended.set()

            listening = asyncio.ensure_future(listen())
            await asyncio.sleep(0.05)
            break_down(me._member)  # pyright: ignore
            with pytest.raises(ParesError, match="ZeroDivisionError"):
                await asyncio.wait_for(listening, PATIENCE)
            with pytest.raises(ParesError, match="ZeroDivisionError"):
                await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())
