"""R18 and R20 at their limits: a ledger that was slow for all, a living namesake in a busy group, a crash loop beside many."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_authors import Pen, began, world_of
from core_driver import A, Solo
from core_stage import Stage

from pares.core.lease import MS, challenge_ns
from pares.core.wire import fold, records
from pares.core.wire.forgetting import GRACE
from pares.core.wire.records import Claim
from pares.core.wire.world import FORGET, World


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("times", [1, 12, 30])
def test_r18_a_ledger_that_was_slow_for_all_has_a_leader_soon_after(members: int, times: int) -> None:
    stage = Stage(timeout=30)
    actors = [stage.member(f"m{i}", roles=["A"]) for i in range(members)]
    stage.run(5)
    wires = [actor.process.wire for actor in actors]
    good = wires[0].weather
    for _ in range(times):
        for wire in wires:
            slow = {"send": (450_000_000,) * 2, "ack": (450_000_000,) * 2, "timeout": 10**11, "blocking": True}
            wire.weather = msgspec.structs.replace(good, **slow)
        stage.run(60 if times == 1 else 4)
        for wire in wires:
            wire.weather = good
        # An append of before may be on its way for 0.9 s; then comes a beat, and a claim.
        stage.run(2)
        assert stage.leader("A") is not None
        stage.run(4)


def test_r20_a_living_namesake_stays_in_a_busy_group() -> None:
    """Nothing of it has counted lately, for it is a standby: it can't have known of its successor."""
    paper, (a, old) = began("a~1", "x~1", reads=2)
    for _ in range(GRACE + 30):
        a.beat(v=2)
    new = Pen(paper, "x~2", reads=2).join()
    assert "x~1" in world_of(paper).members
    for pen in (a, a, a, new):
        pen.beat(v=2)
    old.beat(v=2)
    for _ in range(GRACE + 60):
        a.beat(v=2)
    assert {"x~1", "x~2"} <= world_of(paper).members.keys(), "it has answered"


def test_r20_two_living_members_of_one_name_do_not_push_each_other_out() -> None:
    stage = Stage()
    stage.member("l", roles=["A"])
    for i in range(12):
        stage.member(f"h{i}", roles=[f"R{i}"], session=0.4)
    stage.member("u", roles=["A"], ready=False)  # brings version 2 into force
    stage.run(2)
    x = stage.member("x", roles=["A"])
    stage.run(3.6)
    y = stage.member("y", roles=["A"], start=False)
    y.process.settings["name"] = "x"
    y.process.start()
    stage.run(10)
    assert (x.process.incarnations, y.process.incarnations) == (1, 1)


def test_r20_many_living_members_do_not_make_a_crash_loop_be_remembered() -> None:
    """Above 200 members the memory grows with them: the dead must not count among them. With ten records a start, of which
    each is under a new name, 250 living members had 10,000 dead beside them after 120,000 records."""
    world, offset, numbers = World(), 0, dict[str, int]()

    def put(kind: Any, member: str, **fields: Any) -> None:
        nonlocal offset
        numbers[member] = numbers.get(member, 0) + 1
        record = kind(v=fields.pop("v", 1), g="g", m=member, n=numbers[member], b=1000, s=1000, **fields)
        if fold.fold(world, offset, record, []):
            fold.at_place(world, offset, record, [])
        offset += 1

    put(records.Genesis, "f", base=1000)
    for i in range(250):
        put(records.Join, f"l{i}~1", name=f"l{i}", session=1000, reads=2)
    put(records.Beat, "l0~1", v=2)
    most = 0
    for start in range(6 * FORGET // 10):
        for beat in range(9):
            put(records.Beat, f"l{(9 * start + beat) % 250}~1")
        put(records.Join, f"d{start}~1", name=f"d{start}", session=1000, reads=2)
        most = max(most, len(world.members))
    assert world.members.keys() >= {f"l{i}~1" for i in range(250)}
    assert most < 250 + 2 * FORGET // 10


@pytest.mark.parametrize("held", [False, True])
def test_r20_a_living_member_leaves_no_seat_to_those_that_wrote_after_it(held: bool) -> None:
    """What it wrote last is older than what was due of the dead holder: it lives all the same, and takes the seat at once if it
    is the first. The other one may hold a seat of that role and not be able to take it."""
    paper, (h, c) = began("h~1", "c~1", session=500)
    h.role("A", seats=1 + held)
    h.claim("A")
    if held:
        c.claim("A", index=1)
    solo = Solo("A", paper=paper, session_ms=2000)
    while "Beat" not in solo.kinds(solo.run(0.01)):
        assert solo.now < 5000 * MS
        h.beat()
        c.beat()
    last = h.beat()
    solo.tick()
    read_at, written = solo.now, list[Any]()
    while not (claims := [record for record in written if isinstance(record, Claim)]):
        assert solo.now < read_at + 2000 * MS
        c.beat()
        written += solo.run(0.01)
    assert "Beat" not in solo.kinds(written)
    assert (claims[0].over, claims[0].free) == (("h~1", last), False)
    assert solo.now < read_at + challenge_ns(500, 0.1, 0.1) + 20 * MS
    assert solo.world.seats[A].holder == solo.me
