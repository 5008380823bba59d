"""NELI and Fast NELI in the simulator: seeds in which everything holds, and broken rules that are noticed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pares.core.wire.neli_records import Announce, decode
from pares.sim.engine import MS, SECOND, Stopwatch, WallClock
from pares.sim.mutant import applied
from pares.sim.neli.checkers import OneLeader, Tokens
from pares.sim.neli.group import BEATS
from pares.sim.neli.knobs import FAULTS, MODES, draw
from pares.sim.neli.mutants import MUTANTS
from pares.sim.neli.overlap import Overlap
from pares.sim.neli.play import STRIKES, play
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import NeliScene

SEEDS = 6
CAUGHT_BY: dict[str, tuple[int, ...]] = {
    "any-beat-re-arms": (0, 1),
    "beat-from-reading": (6, 14),
    "no-announcement": (0, 1),
    "no-wait": (0, 1),
    "same-term-resumes": (0, 1),
    "width-ignored": (0, 1),
    "budget-ignored": (0, 1),
    "budget-before-deadline": (0, 1),
    "barrier-not-awaited": (1, 2),
    "old-log-not-awaited": (0, 6),
    "blindness-not-awaited": (31,),
    "no-grace": (2, 3),
    "local-time": (4, 6),
    "wall-clock-first": (1, 5),
    "any-beacon-re-arms": (4, 5),
    "no-clock-error": (1, 5),
    "threshold-above-session": (0, 1),
    "stop-at-once": (1, 2),
    "rival-ignored": (1, 4),
    "history-counts": (0, 1),
}
"""Seeds known to meet the damage; any of them will do. `pares sim --protocol neli --mutant all` looks for them from scratch."""


@pytest.mark.parametrize("mode", MODES)
def test_all_promises_hold(mode: str) -> None:
    for seed in range(SEEDS):
        outcome = play(draw(seed, mode))
        assert not outcome.broken, f"{mode} {seed}: {outcome.what}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    made, seeds = MUTANTS[name], CAUGHT_BY[name]
    with applied(made.mutant):
        noticed = any(play(draw(seed, made.mode, made.mutant.bias)).broken for seed in seeds)
    assert noticed, f"{name}: {made.mutant.what}, and no seed of {seeds} shows it"


@pytest.mark.parametrize("name", [name for name in MUTANTS if name != "threshold-above-session"])
def test_it_is_the_rule_that_makes_the_difference(name: str) -> None:
    """The same troubles, with all rules in force, break no promise."""
    made = MUTANTS[name]
    for seed in CAUGHT_BY[name]:
        outcome = play(draw(seed, made.mode, made.mutant.bias))
        assert not outcome.broken, f"{name} {seed}: {outcome.what}"


def test_a_seed_is_always_the_same_history() -> None:
    one, two = (play(draw(3, "fast-neli"), told=True) for _ in range(2))
    assert one == two
    assert len(one.trace) > 10


def test_every_fault_has_a_name_and_is_carried_out() -> None:
    assert set(STRIKES) == set(FAULTS)


LIES = st.tuples(
    st.integers(1, 400),
    st.sampled_from(
        ("give", "lose", "freeze", "thaw", "cut", "heal", "buffered", "clocks", "ticked", "late", "kill", "start")
    ),
    st.integers(0, 2),
    st.integers(0, 1),
)


@pytest.mark.parametrize("protocol", ["fast-neli", "neli"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(LIES, min_size=5, max_size=40),
    rates=st.tuples(*[st.sampled_from((0.9, 1.0, 1.1))] * 3),
    errors=st.tuples(*[st.sampled_from((-50, 0, 50))] * 3),
)
def test_two_never_lead_whatever_the_group_says(
    protocol: str,
    script: list[tuple[int, str, int, int]],
    rates: tuple[float, ...],
    errors: tuple[int, ...],
) -> None:
    """The group is made to say anything at any time: exclusiveness rests on the log and on the rates of clocks (in NELI, on
    their error bound too), not on the group."""
    scene = NeliScene(protocol=protocol, partitions=2, session=SECOND)
    scene.watch([OneLeader(scene), Tokens(scene)])
    common = {"roles": ("0", "1"), "threshold_ms": 300, "interval_ms": 40, "session_ms": 1000, "error_ms": 50}
    members = [
        scene.add(name, common, stopwatch=Stopwatch(0, rate), wall=WallClock(error * 1000))
        for name, rate, error in zip("abc", rates, errors, strict=True)
    ]
    for member in members:
        member.start()
    for wait, what, who, partition in script:
        scene.engine.run(scene.engine.now + wait * MS)
        member = members[who]
        if what in ("give", "lose"):
            scene.coordinator.lie(member, partition, what == "lose")
        elif what in ("buffered", "clocks", "ticked"):
            member.freeze_at = (what, (200 if what == "clocks" else 350) * MS)
        elif what == "freeze":
            member.freeze()
        elif what == "thaw":
            member.thaw()
        elif what == "cut":
            member.cut(log=True)
        elif what == "heal":
            member.cut()
        elif what == "late":
            member.parts[partition].wire.fate = "unknown"
        elif what == "kill":
            member.kill()
        elif not member.running:
            member.start()
    scene.engine.run(scene.engine.now + SECOND)


def test_a_lost_announcement_that_lands_late_is_not_taken_for_the_newest() -> None:
    """Two announcements hang in the air, and the first lands: in the log the second will close what that began, and a successor
    would not look at beats of it. So the tenure is the second's, though the first would do for a belief."""
    scene = NeliScene(protocol="fast-neli", partitions=1, session=SECOND)
    common = {"roles": ("0",), "threshold_ms": 300, "interval_ms": 40, "session_ms": 1000}
    member = scene.add("a", common)
    wire = member.parts[0].wire
    member.start()
    core = member.core
    assert core is not None
    while not core.parts[0].wide and scene.engine.now < SECOND:
        scene.engine.run(scene.engine.now + MS // 20)
    wire.holding = True  # from its announcement on
    scene.engine.run(scene.engine.now + 700 * MS)
    flights = [(flight, decode(payload)) for flight in wire.held for payload in flight.payloads]
    held = [(flight, record) for flight, record in flights if isinstance(record, Announce)]
    assert len(held) == 2, "the first was taken for lost"
    wire.holding = False
    (first, _), (second, newest) = held
    wire.land(first)
    scene.engine.run(scene.engine.now + 100 * MS)
    assert not member.beliefs, "it is not the newest"
    wire.land(second)
    scene.engine.run(scene.engine.now + SECOND)
    assert member.beliefs["0", 0][0] == newest.b + second.landed


# What NELE promises of a single failure, at the settings that it is made for: T above the session.
SESSION_MS, T_MS, HEARTBEAT_MS = 1000, 1500, 1000 / BEATS
RATES = st.tuples(*[st.sampled_from((0.9, 1.0, 1.1))] * 3)


def nele(rates: tuple[float, ...], allowed_ms: float) -> tuple[NeliScene, list[NeliProcess]]:
    """Three members, whose group is at rest."""
    scene = NeliScene(protocol="neli", partitions=3, session=SESSION_MS * MS)
    scene.watch([Overlap(scene, int(allowed_ms * MS)), Tokens(scene, exclusive=False)])
    common = {"roles": ("0", "1", "2"), "threshold_ms": T_MS, "interval_ms": 100, "session_ms": SESSION_MS}
    members = [
        scene.add(name, {**common, "exclusive": False}, stopwatch=Stopwatch(0, rate))
        for name, rate in zip("abc", rates, strict=True)
    ]
    for member in members:
        member.start()
    scene.engine.run(2 * SECOND)
    assert all(len(member.beliefs) == 1 for member in members)
    return scene, members


@settings(max_examples=40, deadline=None)
@given(rates=RATES, who=st.integers(0, 2), after=st.integers(0, 400))
def test_nele_an_owner_that_is_cut_off_overlaps_its_successor_for_t_less_the_session(
    rates: tuple[float, ...], who: int, after: int
) -> None:
    """By its own stopwatch, which may be slow, and from its last heartbeat, which is not the last beacon that it read."""
    scene, members = nele(rates, T_MS / min(rates) - SESSION_MS + HEARTBEAT_MS + 20)
    scene.engine.run(scene.engine.now + after * MS)
    (seat,) = members[who].beliefs
    members[who].cut(log=True, group=True, oblivious=True)
    began, led = scene.engine.now, False
    while scene.engine.now < began + 3 * SECOND:
        scene.engine.run(scene.engine.now + MS)
        led = led or any(m.believes(seat) for m in members if m is not members[who])
        assert any(m.believes(seat) for m in members), "and there is a leader at every instant"
    assert led
    assert not members[who].believes(seat)


@settings(max_examples=40, deadline=None)
@given(rates=RATES, who=st.integers(0, 2), after=st.integers(0, 400))
def test_nele_somebody_leads_within_t_of_a_crash(rates: tuple[float, ...], who: int, after: int) -> None:
    scene, members = nele(rates, T_MS)
    scene.engine.run(scene.engine.now + after * MS)
    (seat,) = members[who].beliefs
    members[who].kill()
    scene.engine.run(scene.engine.now + T_MS * MS)
    assert any(m.believes(seat) for m in members)
