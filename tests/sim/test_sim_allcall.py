"""ALLCALL in the simulator: seeds in which everything holds, broken rules that are noticed, and what a group says in a beat."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from pares.sim.allcall.knobs import FAULTS, Weather, draw
from pares.sim.allcall.mutants import MUTANTS
from pares.sim.allcall.play import AllCallPlay, play
from pares.sim.allcall.scene import AllCallScene
from pares.sim.allcall.storm import STRIKES
from pares.sim.engine import MS, SECOND
from pares.sim.mutant import applied

CHEAP = {"members": 3, "beat_ms": 100, "lease_ms": 300}
"""A second or more is what a seed with eight members takes; of these eight are one."""
SEEDS = 12
MUTANT_SEEDS = 40
FIRST = {
    "absolute-expiry": 1,
    "no-skew": 6,
    "relay-maximum": 3,
    "no-loopback": 1,
    "deaf-is-waited-for": 1,
    "by-what-is-left": 3,
    "bar-lifted-for-all": 5,
    "never-on-its-own": 1,
    "not-ready-is-waited-for": 11,
    "declined-for-ever": 4,
}
"""The first seeds that notice, where that is not 0."""


def test_all_promises_hold() -> None:
    for seed in range(SEEDS):
        outcome = play(draw(seed, CHEAP))
        assert not outcome.broken, f"{seed}: {outcome.what}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    first = FIRST.get(name, 0)
    for seed in range(first, first + MUTANT_SEEDS):
        with applied(mutant):
            if play(draw(seed, mutant.bias)).broken:
                break
    else:
        pytest.fail(f"{name} was not noticed in {MUTANT_SEEDS} seeds")


def test_every_rule_has_a_mutant() -> None:
    """H1 to H18: each is broken by at least one. (H13 is accepted; what is broken there is that newcomers wait.)"""
    assert {mutant.rule for mutant in MUTANTS.values()} >= {f"H{number}" for number in range(1, 19)}


def test_a_seed_is_always_the_same_history() -> None:
    one, two = (play(draw(3, CHEAP), told=True) for _ in range(2))
    assert one == two
    assert len(one.trace) > 10


def test_every_fault_has_a_name_and_is_carried_out() -> None:
    assert set(STRIKES) == set(FAULTS)
    for fault in FAULTS:
        outcome = play(draw(1, {**CHEAP, "faults": {fault: 1.0}, "storm": 6.0, "pace": 1.0, "probes": ()}))
        assert not outcome.broken, f"{fault}: {outcome.what}"


def test_every_probe_is_carried_out() -> None:
    asked = ("crash", "close", "step_down", "split", "join", "restart")
    played = AllCallPlay(draw(2, {**CHEAP, "faults": {}, "probes": asked, "order": "rank"}))
    assert not played.play().broken
    assert set(played.probes.measured) == {"cold", "crash", "close", "step_down", "heal", "best", "join", "restart"}


def _said_per_beat(count: int) -> tuple[float, float]:
    """Messages published, and delivered, in a beat of a quiet group."""
    scene = AllCallScene(count, weather=Weather(delay=(MS // 2, 2 * MS)))
    phases = scene.random("phases")
    for rank in range(count):
        settings = {"rank": rank, "phase_ms": phases.randrange(1000), "init_ms": 0}
        scene.add(f"n{rank}", settings).start()
    scene.engine.run(3 * SECOND)
    published, delivered = scene.net.published, scene.net.delivered
    scene.engine.run(5 * SECOND)
    return (scene.net.published - published) / 2, (scene.net.delivered - delivered) / 2


def test_in_some_seeds_everybody_wakes_late() -> None:
    drawn = [draw(seed) for seed in range(20)]
    assert 0 < sum(knobs.wakes_late == 0 for knobs in drawn) < 20
    assert all(knobs.wakes_late < knobs.beat_ms * MS / 2 for knobs in drawn), "half a beat is what the rules allow for"
    on_time = play(draw(5, {**CHEAP, "wakes_late": 0}), told=True)
    late = play(draw(5, {**CHEAP, "wakes_late": 30 * MS}), told=True)
    assert not late.broken, late.what
    assert late.trace != on_time.trace
    assert late.knobs == msgspec.structs.replace(on_time.knobs, wakes_late=30 * MS)


def test_messages_grow_with_the_square_of_the_members() -> None:
    """A member says three things a beat at most, and each reaches all; an answer to each call would be the cube."""
    counts = [5, 10, 20, 40]
    measured = [_said_per_beat(count) for count in counts]
    for count, (published, delivered) in zip(counts, measured, strict=True):
        assert count <= published <= 3 * count + 2
        assert delivered <= 3 * count * count + 2 * count
    for (_, before), (_, after) in pairwise(measured):
        assert after / before < 6, "twice the members: four times the messages, not eight"
