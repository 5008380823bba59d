"""Promises 1 and 2 on a stage with clocks at the ends of what drift allows: R3 and R4 together, with the real members."""

from __future__ import annotations

import pytest
from core_stage import Stage
from hypothesis import example, given
from hypothesis import strategies as st

from pares.sim.checker import Broken
from pares.sim.members.mutants import MUTANTS
from pares.sim.mutant import applied

DRIFT = 0.1
RATES = st.sampled_from([1 - DRIFT, 1.0, 1 + DRIFT])


def pair(holder_rate: float, other_rate: float, session: float = 1.0) -> Stage:
    """`a` leads A, `b` stands by; their stopwatches run as said. The stage looks for two leaders at every instant."""
    stage = Stage(timeout=0.2)
    for name, rate in (("a", holder_rate), ("b", other_rate)):
        actor = stage.member(name, roles=["A"], session=session, start=False, settle=100.0)
        actor.process.stopwatch.rate = rate
        actor.process.start()
    stage.run(1.5)
    assert stage.leaders("A") == ["a"]
    return stage


@given(
    RATES,
    RATES,
    st.sampled_from(["freeze", "reads", "writes", "acks", "reads and acks", "all"]),
    st.integers(0, 400),
    st.integers(50, 3000),
    st.floats(0.9, 1.1),
)
@example(0.9, 1.1, "freeze", 0, 1000, 0.9)
@example(0.9, 1.1, "acks", 200, 2500, 0.9)
def test_r3_r4_never_two_whatever_the_clocks_and_the_fault(
    holder: float, other: float, fault: str, begins_ms: int, lasts_ms: int, later_rate: float
) -> None:
    stage = pair(holder, other)
    a = stage.actors["a"]
    stage.run(begins_ms / 1000)
    if fault == "freeze":
        a.freeze()
    elif fault == "all":
        a.cut(reads=True, writes=True)
    else:
        a.cut(**dict.fromkeys(fault.split(" and "), True))
    # A rate need not be the same all the time, as long as it is within drift.
    watch, now = a.process.stopwatch, stage.scene.engine.now
    shown, watch.rate = watch.read(now), later_rate
    watch.offset += shown - watch.read(now)
    stage.run(lasts_ms / 1000)
    if fault == "freeze":
        a.thaw()
    else:
        a.heal()
    stage.run(4)
    assert len(stage.leaders("A")) == 1, stage.trace


@given(RATES, RATES, st.integers(0, 300), st.sampled_from([0.3, 1.0, 2.0]))
def test_promise_2_a_crash_costs_at_most_a_session_by_the_slowest_clock(
    holder: float, other: float, begins_ms: int, session: float
) -> None:
    stage = pair(holder, other, session)
    stage.run(begins_ms / 1000)
    stage.kill("a")
    # One append and its reading: four deliveries of a millisecond, and the rounds that they take.
    stage.run(session / (1 - DRIFT) + 0.02)
    assert stage.leaders("A") == ["b"], stage.trace


@pytest.mark.parametrize("mutant", ["lease-longer-than-session", "challenger-waits-too-short"])
def test_the_stage_would_notice(mutant: str) -> None:
    """The same property, with a rule broken, does find two leaders."""
    with applied(MUTANTS[mutant]), pytest.raises(Broken):
        freeze_at_any_time()


def freeze_at_any_time() -> None:
    for begins in (0.0, 0.05, 0.1, 0.15, 0.2):
        stage = pair(0.9, 1.1)
        stage.run(begins)
        stage.freeze("a")
        stage.run(3)
