"""Real members in simulated worlds: clean seeds keep every promise, and a seed is one history, however often it is played."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from pares.core.claims.decisions import Moves, Take
from pares.core.claims.tenure import Tenure
from pares.core.wire import records
from pares.core.wire.world import World as Folded
from pares.sim.members.claims.judge import Judge
from pares.sim.members.mutants import MUTANTS
from pares.sim.members.plan import FAULTS, STYLES, draw
from pares.sim.members.play import Play, perform, play
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.simulation import World

CLEAN = range(1000, 1024)


@pytest.mark.parametrize("first", range(CLEAN.start, CLEAN.stop, 6))
def test_clean_seeds_keep_every_promise(first: int) -> None:
    outcomes = [perform(seed) for seed in range(first, first + 6)]
    assert [(outcome.seed, outcome.what) for outcome in outcomes if outcome.broken] == []
    assert sum(outcome.records for outcome in outcomes) > 6 * 30, "nothing happened in these seeds"


def test_r20_those_who_come_under_other_names_are_forgotten_and_no_sooner_than_they_may_be() -> None:
    outcome = perform(2711, told=True)
    assert outcome.what == ""
    text = "\n".join(outcome.trace)
    assert "new36      killed" in text
    assert text.count("forget of new") > 10


def test_users_that_move_a_role_without_end_are_no_defect_of_its_members() -> None:
    """In a weather that costs each handover a session or so, users ask for one after the other."""
    assert play(draw(217, MUTANTS["release-without-token"].bias)).what == ""


def test_a_role_that_a_user_moved_is_to_be_led_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a handover is given has an end."""

    def nobody(self: Moves, world: Folded, tenure: Tenure, now: int) -> None:
        return None

    def but_moved(self: Moves, world: Folded, now: int) -> list[Take]:
        return [take for take in takes(self, world, now) if world.seats[take.seat].avoid is None]

    takes = Moves.takes
    plan = draw(1002, {"faults": {}, "acts": {"step_down": 1.0}, "starts": (False,) * 5, "storm": 30.0})
    assert play(plan).what == ""
    monkeypatch.setattr(Moves, "heir", nobody)
    monkeypatch.setattr(Moves, "takes", but_moved)
    assert play(plan).broken == "it goes on"


def test_the_clean_seeds_meet_most_faults_and_every_style() -> None:
    plans = [draw(seed) for seed in CLEAN]
    assert len({kind for plan in plans for kind in plan.faults}) > len(FAULTS) * 3 / 4
    assert {style for plan in plans for style in plan.styles} == set(STYLES)


def _record(kind: type[records.Record], number: int, **fields: Any) -> bytes:
    envelope = {"v": 1, "g": "g", "m": "a~1", "n": number, "b": 7, "s": 100}
    return msgspec.json.encode(kind(**{**envelope, **fields}))


def test_the_judge_of_claims_goes_on_in_a_log_that_was_trimmed_and_then_lost_its_tail() -> None:
    """The members do; and a judge to which nothing counts finds nothing broken."""
    with World(1).playing() as world:
        log = SharedLog("log")
        judge, one = Judge(world, log, "g"), log.partitions[0]
        began = [_record(records.Genesis, 1, base=7), _record(records.Join, 1, name="a", session=1000)]
        one.append([*began, *(_record(records.Beat, number) for number in range(2, 8))], world.now)
        assert (judge.records, judge.judge.world.members["a~1"].n) == (8, 7)
        one.trim(4)
        log.lose_tail(2)
        assert (judge.records, judge.judge.world.members["a~1"].n) == (6, 5)
        one.append([_record(records.Beat, 9)], world.now)
        assert (judge.records, judge.judge.world.members["a~1"].n) == (7, 9)
        log.replace()
        assert (judge.records, judge.judge.position) == (0, 0), "of another log it knows nothing"


def test_one_seed_is_one_history() -> None:
    for seed in (1001, 1005):
        one, two = perform(seed, told=True), perform(seed, told=True)
        assert one.trace == two.trace
        assert len(one.trace) > 50


def test_telling_the_story_does_not_change_it() -> None:
    for seed in (1002, 1003):
        assert msgspec.structs.replace(perform(seed, told=True), trace=[]) == perform(seed)


def test_a_history_does_not_depend_on_the_hashes_of_strings() -> None:
    """Nor on anything else that another interpreter has another of."""
    code = "from pares.sim.members.play import perform; print(*perform(1004, told=True).trace, sep='\\n')"
    traces = []
    for hashes in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        traces.append(made.stdout.splitlines())
    assert len(traces[0]) > 50
    assert traces[0] == traces[1]


def test_a_plan_says_all_there_is_to_know_of_a_seed() -> None:
    plan = draw(1006)
    again = msgspec.json.decode(str(plan), type=type(plan))
    assert again == plan
    assert play(again) == play(plan)


def test_roles_are_led_and_work_is_done() -> None:
    """The promises look at something: in calm seeds roles are led nearly all the time, and programs write."""
    for seed in range(1000, 1003):
        played = Play(
            draw(seed, {"faults": {}, "acts": {}, "starts": (False,) * 5, "barrier_raises": 0.0, "starving": 0.0})
        )
        outcome = played.play()
        stage = played.stage
        assert not outcome.broken, outcome.what
        led = next(promise for promise in stage.promises if promise.name == "roles are led")
        assert led.looked > 0  # type: ignore[attr-defined]
        assert led.led > 0.8 * led.looked  # type: ignore[attr-defined]
        assert stage.tokens.writes
        late = sum(not taken for _, _, _, taken in stage.tokens.writes)
        assert late < 0.05 * len(stage.tokens.writes), "steps that no handover waits for may end too late"


def test_nothing_of_a_world_is_left() -> None:
    """Tasks are unwound, processes that were killed included; logging and the collector are as they were."""
    import gc
    import logging

    from greenlet import greenlet

    def alive() -> int:
        # By type: isinstance asks each object for its __class__, and a lazy one of somebody else may then raise.
        return sum(issubclass(type(thing), greenlet) and not thing.dead for thing in gc.get_objects())

    perform(1007)
    gc.collect()
    before = alive()
    perform(1008)
    gc.collect()
    after = alive()
    assert after <= before
    assert gc.isenabled()
    assert logging.getLogger("pares").propagate
