"""A seed that breaks a promise is made smaller: what is left breaks the same one, and can be read."""

from __future__ import annotations

import msgspec

from pares.sim.members.mutants import MUTANTS
from pares.sim.members.plan import draw
from pares.sim.members.play import Play, play
from pares.sim.mutant import applied
from pares.sim.shrink import readable, shrink


def test_a_failing_seed_shrinks_to_what_its_failure_needs() -> None:
    mutant = MUTANTS["unready-is-ready"]
    plan = draw(0, mutant.bias)
    with applied(mutant):
        broken = play(plan).broken
        assert broken
        found = shrink(plan, broken, seconds=60)
        assert play(found.plan).broken == broken, "what is left breaks the same promise, played once more"
    assert found.outcome.broken == broken
    assert found.plan.members < plan.members
    assert found.plan.faults == {"ready": 1.0}, "without its fault it would break nothing"
    assert len(readable(found.outcome.trace)) < 40
    assert readable(found.outcome.trace)[-1].endswith(found.outcome.what)


def test_time_is_a_limit() -> None:
    mutant = MUTANTS["unready-is-ready"]
    with applied(mutant):
        assert shrink(draw(0, mutant.bias), "an unready member leads nothing", seconds=0).tried == 1


def test_what_is_left_out_changes_nothing_of_what_stays() -> None:
    plan = msgspec.structs.replace(draw(1001), acts={}, faults={"freeze": 1.0}, pace=1.0)

    def frozen(*skip: int) -> tuple[list[str], int]:
        played = Play(msgspec.structs.replace(plan, skip={"storm": skip}), told=True)
        return [line for line in played.play().trace if " frozen for " in line], played.stage.chances[0].happened

    whole, count = frozen()
    assert len(whole) > 3
    assert frozen(*range(count))[0] == []
    last = next(number for number in reversed(range(count)) if frozen(number)[0] != whole)
    assert frozen(last)[0] == whole[:-1], "the others are frozen when they were, for as long as they were"


def test_what_members_write_all_the_time_is_left_out_for_readers() -> None:
    trace = play(draw(1001), told=True).trace
    assert 10 < len(readable(trace)) < len(trace) / 2
    assert not any(" beat" in line for line in readable(trace) if " log " in line)
