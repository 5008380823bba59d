"""Real members of ALLCALL in simulated worlds: clean seeds keep every promise, and a seed is one history."""

from __future__ import annotations

import msgspec
import pytest

from pares.sim.members.allcall.draw import draw
from pares.sim.members.allcall.exhaust import LEASE, Struck, short
from pares.sim.members.allcall.plan import ACTS, FAULTS
from pares.sim.members.allcall.storm import AllCallStorm
from pares.sim.members.play import Play, perform, play
from pares.sim.world.faults import Strike

CLEAN = range(1000, 1004)
HELD_UP = 559
"""A user's wish comes while the driver is held up, which says all that follows from it more than a beat later."""
WISHES_WHILE_FROZEN = 322
"""Its user drains a member four times while its process is frozen, which says so when it goes on."""
UNREAD = 345
"""A member stands still twice, and the call of a peer waits for it meanwhile."""
OUTBIDS = 837
"""A leader that remains after a split is between two tokens when another one hears of it, and stops."""
CHEAP = {"members": 3, "beat_ms": 100, "session_ms": 300, "storm": 3.0, "probes": (), "acts": {}}
PART = 200
"""Of so many calls one is struck here."""
STRIKES = {
    "killed": Strike("kill", 1),
    "frozen": Strike("freeze", 1, length=3 * LEASE),
    "late": Strike("starve", 1, length=LEASE),
    "late after the clock": Strike("starve", 1, length=LEASE, late=True),
    "out of memory": Strike("raise", 1),
    "out of files": Strike("raise", 1, error="OSError"),
}


@pytest.mark.parametrize("seed", [*CLEAN, HELD_UP, WISHES_WHILE_FROZEN, UNREAD, OUTBIDS])
def test_clean_seeds_keep_every_promise(seed: int) -> None:
    outcome = perform(seed, protocol="allcall")
    assert outcome.what == ""
    assert outcome.records > 50, "nothing was said"


def test_one_seed_is_one_history_told_or_not() -> None:
    one, two = (perform(3, CHEAP, protocol="allcall", told=True) for _ in range(2))
    assert one == two
    assert len(one.trace) > 10
    assert msgspec.structs.replace(one, trace=[]) == perform(3, CHEAP, protocol="allcall")


def test_a_plan_says_all_there_is_to_know_of_a_seed() -> None:
    plan = draw(7, CHEAP)
    again = msgspec.json.decode(str(plan), type=type(plan))
    assert again == plan
    assert play(again) == play(plan)


def test_every_fault_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: set[str] = set()
    usual = AllCallStorm.happen

    def happen(self: AllCallStorm, kind: str) -> None:
        happened.add(kind)
        usual(self, kind)

    monkeypatch.setattr(AllCallStorm, "happen", happen)
    for part in range(3):
        faults = dict.fromkeys(FAULTS[part::3], 1.0)
        assert perform(5, {**CHEAP, "faults": faults, "storm": 6.0, "pace": 6.0}, protocol="allcall").what == ""
    assert happened == set(FAULTS)


def test_members_are_asked_for_everything() -> None:
    played = Play(draw(4, {**CHEAP, "acts": dict.fromkeys(ACTS, 1.0), "act_pace": 10.0, "faults": {}}), told=True)
    outcome = played.play()
    assert outcome.what == ""
    asked = {line.partition("its user: ")[2] for line in outcome.trace if "its user: " in line}
    assert asked == set(ACTS)


def test_every_probe_is_made_and_comes_right_in_time() -> None:
    probes = ("crash", "close", "step_down", "split", "join", "restart")
    quiet = {"faults": {}, "starts": (False,) * 3, "barrier_raises": 0.0, "ranks": (0, 1, 2), "roles": 1}
    played = Play(draw(2, {**CHEAP, **quiet, "storm": 0.1, "probes": probes, "order": "rank"}))
    assert played.play().what == ""
    measured = played.stage.probes.measured  # type: ignore[attr-defined]
    assert set(measured) == {"cold", "crash", "close", "step_down", "heal", "best", "join", "restart"}
    for what, times in measured.items():
        for took, bound in times:
            assert took <= bound + played.stage.bounds.beat // 40, what  # type: ignore[attr-defined]


def test_the_promises_look_at_something() -> None:
    played = Play(draw(1, {**CHEAP, "faults": {"split": 1.0}, "reach": 2.0, "pace": 1.0}))
    assert played.play().what == ""
    stage = played.stage
    assert stage.work.done > 20
    assert len(stage.tokens.writes) > 20
    assert len(stage.tokens.holders) > 2, "two sides led"
    assert stage.promise(type(stage.promises[0])).name == "one leader among those who hear each other"


def test_the_short_history() -> None:
    run = Struck(short(), None, told=True)
    assert run.broken == ""
    assert run.work > 200
    assert sum(" leads 'r0'" in line and "no longer" not in line for line in run.trace) == 4


@pytest.mark.parametrize("kind", STRIKES)
def test_whatever_strikes_and_wherever_every_promise_holds(kind: str) -> None:
    plan, make = short(), STRIKES[kind]
    calls = Struck(plan, None).calls
    assert calls > 1500
    first = 1 + 17 * list(STRIKES).index(kind)
    runs = {call: Struck(plan, msgspec.structs.replace(make, at=call)) for call in range(first, calls + 1, PART)}
    assert {call: run.broken for call, run in runs.items() if run.broken} == {}
    assert sum(run.struck for run in runs.values()) > 0.8 * len(runs)
