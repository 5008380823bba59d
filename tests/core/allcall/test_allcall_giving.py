"""What is given up by plan waits for its barrier; who is not ready leads nothing; who may have missed something listens."""

from __future__ import annotations

from typing import Any

import pytest
from allcall_world import World

from pares.core.events import Close, HandOver, Ready, Reconnected, WorkOver

FAST: dict[str, Any] = {"heartbeat_ms": 100, "lease_ms": 1000, "skew_ms": 50, "barrier_ms": 3000}


def two(seed: int = 1, **options: Any) -> World:
    world = World(seed)
    for rank, name in enumerate("ab"):
        world.start(name, rank, start_offset_ms=rank * 7, **(FAST | options))
    world.until(lambda: world.leaders() == ["a"], 3)
    world.run(0.3)
    return world


def test_nobody_leads_until_the_barrier_returns_however_short_the_lease_is() -> None:
    world = two()
    world.step_down("a")
    node = world.nodes["a"]
    assert world.leaders() == []
    assert node.barriers == [node.terms[-1][1]]
    world.run(2.5)
    assert world.leaders() == [], "the claim is prolonged while the barrier runs"
    world.tell("a", WorkOver(("x", 0), node.barriers[0]))
    world.until(lambda: world.leaders() == ["b"], 0.2)
    assert [why for _, why in node.ended] == ["stepped down"]


def test_a_barrier_that_overruns_is_fenced() -> None:
    world = two()
    world.step_down("a")
    world.run(2.9)
    assert world.leaders() == []
    world.until(lambda: world.leaders() == ["b"], 0.3)
    node = world.nodes["a"]
    assert [why for _, why in node.ended] == ["stepped down", "barrier timed out"]
    world.tell("a", WorkOver(("x", 0), node.barriers[0]))
    world.run(0.5)
    assert world.leaders() == ["b"], "that comes too late to mean anything"


@pytest.mark.parametrize("seed", range(12))
def test_who_wakes_up_late_yields_by_plan_all_the_same(seed: int) -> None:
    """A lease of ten beats that was prolonged at a beat ends at a beat: which of the two comes first is chance."""
    world = World(seed)
    world.late = 3.0
    world.start("b", 1, **FAST)
    world.until(lambda: world.leaders() == ["b"], 3)
    world.run(1 + seed * 0.13)
    world.start("a", 0, **FAST)
    b = world.nodes["b"]
    world.until(lambda: b.barriers != [], 1.5)
    assert [why for _, why in b.ended] == ["outranked by a~1"]
    assert world.leaders() == []
    world.tell("b", WorkOver(("x", 0), b.barriers[0]))
    world.until(lambda: world.leaders() == ["a"], 0.2)


def test_the_return_of_another_terms_barrier_releases_nothing() -> None:
    world = two()
    world.step_down("a")
    world.tell("a", WorkOver(("x", 0), world.nodes["a"].barriers[0] + 1))
    world.run(1.5)
    assert world.leaders() == []


def test_who_waits_for_a_barrier_and_is_cut_off_is_fenced() -> None:
    world = two(when_isolated="step_down")
    world.step_down("a")
    world.cut = lambda source, target: "a" in (source, target)
    world.until(lambda: len(world.nodes["a"].ended) == 2, 1.5)
    assert world.nodes["a"].ended[-1][1] == "lease ran out"
    world.until(lambda: world.leaders() == ["b"], 1.5)


def test_closing_waits_for_the_barriers_and_then_says_goodbye() -> None:
    world = two()
    node = world.nodes["a"]
    world.tell("a", Close())
    world.run(0.3)
    assert world.leaders() == []
    assert ("left", "a~1") not in world.nodes["b"].peers
    world.tell("a", WorkOver(("x", 0), node.barriers[0]))
    world.until(lambda: world.leaders() == ["b"], 0.2)
    assert ("left", "a~1") in world.nodes["b"].peers


def test_a_better_member_gets_its_turn_after_the_barrier() -> None:
    """At the end of the term (H6), which then waits for the barrier as any other planned end does."""
    world = World()
    world.start("b", 1, **FAST)
    world.until(lambda: world.leaders() == ["b"], 3)
    world.start("a", 0, **FAST)
    node = world.nodes["b"]
    world.until(lambda: bool(node.barriers), 3)
    world.run(2)
    assert world.leaders() == []
    world.tell("b", WorkOver(("x", 0), node.barriers[0]))
    world.until(lambda: world.leaders() == ["a"], 0.2)


def test_who_is_not_ready_leads_nothing_until_it_is() -> None:
    world = two(barrier_ms=0)
    world.tell("a", Ready(False))
    world.until(lambda: world.leaders() == ["b"], 0.2)
    world.kill("b")
    world.run(5)
    assert world.leaders() == []
    world.tell("a", Ready(True))
    world.until(lambda: world.leaders() == ["a"], 2)


def test_who_comes_in_while_the_barrier_runs_leads_after_it() -> None:
    """Nobody else could lead when it was stepped down from; when the barrier has returned, somebody can."""
    world = World(1)
    world.start("a", 0, **FAST)
    world.until(lambda: world.leaders() == ["a"], 3)
    world.start("b", 1, start_offset_ms=7, **FAST)
    world.step_down("a")
    world.run(1.0)
    assert world.leaders() == []
    node = world.nodes["a"]
    world.tell("a", WorkOver(("x", 0), node.barriers[0]))
    world.until(lambda: bool(world.leaders()), 0.3)
    assert world.leaders() == ["b"]


def test_somebody_who_was_not_heard_for_a_moment_is_not_passed_over() -> None:
    world = two()
    world.step_down("a")
    world.cut = lambda source, target: source == "b"
    world.run(0.5)
    world.cut = lambda source, target: False
    world.run(0.5)
    world.tell("a", WorkOver(("x", 0), world.nodes["a"].barriers[0]))
    world.until(lambda: bool(world.leaders()), 0.3)
    assert world.leaders() == ["b"]


def test_stepping_down_ends_when_nobody_else_is_left_to_lead() -> None:
    world = two(barrier_ms=0)
    world.cut = lambda source, target: source != target  # so b does not hear of it
    world.step_down("a")
    assert world.leaders() == []
    world.kill("b")
    world.until(lambda: world.leaders() == ["a"], 1)


@pytest.mark.parametrize("seed", range(5))
def test_who_may_have_missed_something_listens_for_a_beat_first(seed: int) -> None:
    """A connection that was gone for long and is there again: the other side's claim is yet to be heard."""
    world = two(seed, when_isolated="step_down", barrier_ms=0)
    world.cut = lambda source, target: "a" in (source, target)
    world.until(lambda: world.leaders() == ["b"], 3)
    terms = len(world.nodes["a"].terms)
    world.run(0.5)
    world.heal()
    world.tell("a", Reconnected())
    for _ in range(150):
        world.run(0.001)
        assert world.leaders() == ["b"]
    assert len(world.nodes["a"].terms) == terms


@pytest.mark.parametrize("after", [0.0, 0.005, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("seed", range(4))
def test_a_handover_waits_for_a_member_that_has_only_just_come(seed: int, after: float) -> None:
    """Nothing may have been heard of it yet, and it has yet to listen: the role goes to it all the same, and does not come
    back at once."""
    world = World(seed)
    a = world.start("a", 0, **FAST)
    world.until(lambda: world.leaders() == ["a"], 3)
    world.start("b", 1, **FAST)
    world.run(after)
    terms = len(a.terms)
    world.tell("a", HandOver("x"))
    world.until(lambda: bool(a.barriers), 0.3, step=0.001)
    world.tell("a", WorkOver(("x", 0), a.barriers[-1]))
    world.until(lambda: world.leaders() == ["b"], 0.5)
    assert len(a.terms) == terms, "it came back before"
    assert [why for _, why in a.ended] == ["handed over"]


def test_a_handover_to_nobody_changes_nothing() -> None:
    world = World(3)
    a = world.start("a", 0, **FAST)
    world.until(lambda: world.leaders() == ["a"], 3)
    world.tell("a", HandOver("x", why="lunch"))
    world.run(1)
    assert world.leaders() == ["a"]
    assert len(a.terms) == 1
    assert a.reports == ["not-handed-over"]
    assert not a.ended
