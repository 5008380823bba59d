"""Work that belongs to leadership: `only` and `background`."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest
from runtime_tools import PATIENCE, Crew, until

import pares
from pares.core.errors import ConfigError
from pares.runtime.work import hang_watcher


def test_only_runs_while_leading(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")

    @me.only("A")
    def on_me(left: int, *, right: int) -> int:
        """Adds."""
        return left + right

    @other.only("A")
    def on_other() -> str:
        return "ran"

    assert on_me(1, right=2) == 3
    assert on_other() is None
    assert (on_me.__name__, on_me.__doc__) == ("on_me", "Adds.")
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    assert on_me(1, right=2) is None
    assert on_other() == "ran"


def test_a_handover_waits_for_a_call_under_only(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    inside, go = threading.Event(), threading.Event()

    @me.only("A")
    def work() -> str:
        inside.set()
        go.wait(PATIENCE)
        return "done"

    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    assert inside.wait(PATIENCE)
    me.step_down("A")
    assert other.wait("A", 0.3) is None
    go.set()
    assert other.wait("A", PATIENCE)
    thread.join(PATIENCE)
    assert found == ["done"]


def test_an_exception_under_only_is_the_callers(crew: Crew) -> None:
    me = crew.leader("a")
    term = me.term("A")

    @me.only("A")
    def fail() -> None:
        raise KeyError("by the test")

    with pytest.raises(KeyError, match="by the test"):
        fail()
    assert term  # leadership is not touched by that


def test_an_exception_can_end_the_term(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")

    @me.only("A", give_up_on_error=True)
    def fail() -> None:
        raise KeyError("by the test")

    with pytest.raises(KeyError, match="by the test"):
        fail()
    assert other.wait("A", PATIENCE)


def test_a_call_that_is_stuck_can_end_the_term(crew: Crew) -> None:
    me, other = crew.leader("a", barrier_timeout=0.2), crew.standby("b")
    go = threading.Event()

    @me.only("A", stuck_after=0.2)
    def hang() -> None:
        go.wait(PATIENCE)

    thread = threading.Thread(target=hang)
    thread.start()
    assert other.wait("A", PATIENCE)
    go.set()
    thread.join(PATIENCE)


def test_a_call_in_time_ends_nothing(crew: Crew) -> None:
    before = threading.enumerate()
    me = crew.leader("a")
    crew.standby("b")
    term = me.term("A")

    @me.only("A", stuck_after=0.3)
    def work() -> None:
        time.sleep(0.01)

    for _ in range(5):
        work()
    time.sleep(0.5)
    assert term
    assert (
        len([thread for thread in threading.enumerate() if "stuck work" in thread.name and thread not in before]) == 1
    )


def test_background_runs_again_and_again_while_leading(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    runs, elsewhere = 0, 0

    def here() -> None:
        nonlocal runs
        runs += 1
        time.sleep(0.001)

    def there() -> None:
        nonlocal elsewhere
        elsewhere += 1
        time.sleep(0.001)

    me.background(here, "A")
    other.background(there, "A")
    until(lambda: runs >= 3, "it runs")
    assert elsewhere == 0
    me.step_down("A")
    until(lambda: elsewhere >= 3, "it runs there")
    after = runs
    time.sleep(0.05)
    assert runs == after
    other.step_down("A")
    until(lambda: runs > after, "it runs here again")


def test_background_never_runs_in_two_places_at_once(crew: Crew) -> None:
    """A handover waits for the run under way, so with planned moves alone runs of two members never overlap."""
    inside, together = threading.Lock(), 0

    def task() -> None:
        nonlocal together
        if not inside.acquire(blocking=False):
            together += 1
            return
        time.sleep(0.002)
        inside.release()

    members = [crew.leader("a"), crew.standby("b"), crew.standby("c")]
    for member in members:
        member.background(task, "A")
    for round_ in range(9):
        to = members[(round_ + 1) % 3]
        next(m for m in members if m.holds("A")).hand_over("A", to=to.id)
        assert to.wait("A", PATIENCE)
    assert together == 0


def test_background_stops_with_its_member(crew: Crew) -> None:
    me = crew.leader("a")
    work = me.background(lambda: time.sleep(0.001), "A")
    me.close()
    work.thread.join(PATIENCE)
    assert not work.thread.is_alive()


def test_background_of_a_standby_stops_with_its_member(crew: Crew) -> None:
    crew.leader("a")
    standby = crew.standby("b")
    work = standby.background(lambda: None, "A")
    standby.close()
    work.thread.join(PATIENCE)
    assert not work.thread.is_alive()


@pytest.mark.parametrize("task", [None, 7, "task"])
def test_a_task_that_can_not_be_called_is_refused_at_once(crew: Crew, task: Any) -> None:
    me = crew.leader("a", ["A"])
    before = threading.active_count()
    with pytest.raises(ConfigError, match=f"task is {task!r}: give a callable"):
        me.background(task, "A")
    assert threading.active_count() == before


def test_background_can_be_stopped(crew: Crew) -> None:
    me = crew.leader("a")
    runs = 0

    def task() -> None:
        nonlocal runs
        runs += 1

    work = me.background(task, "A")
    until(lambda: runs, "it runs")
    work.stop(PATIENCE)
    assert not work.thread.is_alive()
    after = runs
    time.sleep(0.02)
    assert runs == after
    assert me.holds("A")


def test_background_can_stop_itself(crew: Crew) -> None:
    me = crew.leader("a")
    stopped = threading.Event()
    ready = threading.Event()

    def task() -> None:
        ready.wait(PATIENCE)
        work.stop()
        stopped.set()

    work = me.background(task, "A")
    ready.set()
    assert stopped.wait(PATIENCE)
    work.thread.join(PATIENCE)
    assert not work.thread.is_alive()


def test_a_task_that_raises_runs_again(crew: Crew) -> None:
    me = crew.leader("a")
    term = me.term("A")
    runs = 0

    def task() -> None:
        nonlocal runs
        runs += 1
        raise RuntimeError("by the test")

    me.background(task, "A")
    until(lambda: runs >= 2, "it runs again")
    assert runs < 50, "and takes a moment each time"
    assert term


def test_a_task_that_raises_can_end_the_term(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")

    def task() -> None:
        raise RuntimeError("by the test")

    me.background(task, "A", give_up_on_error=True)
    assert other.wait("A", PATIENCE)


def test_a_task_that_is_stuck_can_end_the_term(crew: Crew) -> None:
    lost: list[pares.Term] = []
    me = crew.leader("a", barrier_timeout=0.2, on_lost=lost.append)
    other = crew.standby("b")
    go = threading.Event()
    me.background(lambda: go.wait(PATIENCE), "A", stuck_after=0.2)
    assert other.wait("A", PATIENCE)
    until(lambda: lost, "on_lost is told")
    go.set()


def test_who_watches_over_work_ends_with_its_member(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_watcher, "LINGER", 10 * PATIENCE)  # as if the next piece of work came soon
    me = crew.leader("a")
    done = threading.Event()
    me.background(done.set, "A", stuck_after=60.0)
    assert done.wait(PATIENCE)

    def watching() -> bool:
        return any(me.name in thread.name and "stuck" in thread.name for thread in threading.enumerate())

    until(watching, "somebody watches over it")
    me.close()
    until(lambda: not watching(), "nobody does any more")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "soon", True])
def test_impossible_limits(crew: Crew, seconds: Any) -> None:
    me = crew.member("a")
    with pytest.raises(ConfigError, match="stuck_after"):
        me.only("A", stuck_after=seconds)
    with pytest.raises(ConfigError, match="stuck_after"):
        me.background(print, "A", stuck_after=seconds)


def test_a_task_that_exits_ends_neither_its_thread_nor_leadership(crew: Crew) -> None:
    """`sys.exit` in a task: a thread that ended by that would say nothing, and the member would lead and do nothing."""
    me = crew.leader("a")
    runs: list[int] = []

    def task() -> None:
        runs.append(1)
        sys.exit("by the test")

    me.background(task, "A")
    until(lambda: len(runs) >= 2, "it runs again")
    assert me.holds("A")


def test_a_task_that_exits_can_end_the_term(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    me.background(sys.exit, "A", give_up_on_error=True)
    assert other.wait("A", PATIENCE)


def test_while_its_work_hangs_a_member_is_ill_and_keeps_no_later_term(crew: Crew) -> None:
    me, other = crew.leader("a", barrier_timeout=0.2), crew.standby("b")
    go, runs = threading.Event(), 0

    def task() -> None:
        nonlocal runs
        runs += 1
        go.wait(PATIENCE)
        time.sleep(0.001)

    me.background(task, "A", stuck_after=0.2)
    assert me.health().ok
    assert other.wait("A", PATIENCE)
    assert me.health().stuck == ("A",)
    assert not me.health().ok
    other.close()  # nobody else is left: it comes back, and is given away again, as nobody would do its work
    first = me.wait("A", PATIENCE)
    assert first is not None
    second = next(iter(t for t in me.terms("A") if t.token > first.token))
    assert runs == 1
    go.set()
    until(lambda: me.health().ok, "it is well again")
    until(lambda: runs >= 3, "and works")
    assert second.token > first.token


def test_a_ready_that_hangs_gives_leadership_up(crew: Crew) -> None:
    hangs, go = threading.Event(), threading.Event()
    asked = 0

    def ready() -> bool:
        nonlocal asked
        asked += 1
        return not hangs.is_set() or go.wait(PATIENCE)

    me = crew.leader("a", ready=ready, session=1.0)
    other = crew.standby("b")
    hangs.set()
    assert other.wait("A", PATIENCE)
    before = asked
    time.sleep(1.0)
    assert asked == before, "nobody asks again before there is an answer"
    hangs.clear()
    go.set()
    until(lambda: asked > before, "it is asked again")
    other.close()
    assert me.wait("A", PATIENCE)
