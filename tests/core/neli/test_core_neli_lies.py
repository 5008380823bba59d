"""NELI's core on logs in virtual time: whatever the group says two never lead, and an announcement that is late."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neli_judges import OneLeader, Tokens
from neli_scene import NeliScene

from pares.core.wire.neli_records import Announce, decode
from pares.sim.engine import MS, SECOND, Stopwatch, WallClock

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
