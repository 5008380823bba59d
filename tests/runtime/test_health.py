"""What health says of a member that holds a role and does not lead it."""

from __future__ import annotations

import time
from typing import Any

from runtime_tools import PATIENCE, Crew, Faulty, Recorder, until

import pares
from pares.runtime.views import Health


def test_a_member_too_slow_to_believe_is_not_well_and_says_why(faulty: Faulty) -> None:
    me = Crew(faulty).leader("a", session=1.0)
    assert me.health().ok
    assert me.health().why == ""
    faulty.append_seconds = 0.9
    found: list[Health] = []

    def unwell() -> bool:
        found.append(me.health())
        return bool(found[-1].unled) or any(problem.startswith("slow:") for problem in found[-1].problems)

    until(unwell, "it can't lead, and says so")
    health = found[-1]
    assert health.unreachable is None
    if health.unled:  # else it has let the role go before that (R18)
        assert not health.ok
        assert "too late" in health.why
    faulty.append_seconds = 0.0
    assert me.wait("A", PATIENCE)
    until(lambda: me.health().ok, "it is well when it leads again")
    assert not any(problem.startswith("slow:") for problem in me.health().problems)
    assert me.health().unled == ()


def test_an_owner_of_neli_too_slow_to_believe_says_so(faulty: Faulty) -> None:
    """The group has given it the partition, and its own beats come back after its deadline."""
    crew = Crew(faulty)  # type: ignore[arg-type]
    me = crew.member("a", ("0",), protocol=pares.FastNeli(heartbeat_timeout=0.5), session=4.0)
    assert me.wait("0", PATIENCE)
    assert me.health().ok
    faulty.append_seconds = 0.9
    until(lambda: me.health().unled, "it can't lead, and says so")
    health = me.health()
    assert health.unled == ("0",)
    assert not health.ok
    assert "it holds '0' and leads not" in health.why
    assert health.unreachable is None
    faulty.append_seconds = 0.0
    assert me.wait("0", PATIENCE)
    until(lambda: me.health().ok, "it is well when it leads again")


def test_an_owner_that_waits_for_the_one_before_is_not_ill(crew: Crew) -> None:
    """It waits out the tenure of a leader that died, for longer than its own session and a second."""
    settings: dict[str, Any] = {"protocol": pares.FastNeli(heartbeat_timeout=3.5), "session": 4.0}
    before = crew.member("a", ("0",), **settings)
    assert before.wait("0", PATIENCE)
    me = crew.member("b", ("0",), **settings)
    until(lambda: me.state == "live" and me.leader("0"), "it knows the leader")
    before._loop.abandon()
    found: list[Health] = []

    def leads() -> bool:
        found.append(me.health())
        return me.holds("0")

    until(leads, "it leads")
    assert {health.why for health in found} == {""}


def test_an_owner_whose_ledger_was_away_is_not_ill(faulty: Faulty) -> None:
    crew = Crew(faulty)  # type: ignore[arg-type]
    me = crew.member("a", ("0",), protocol=pares.FastNeli(heartbeat_timeout=0.2), session=0.3)
    assert me.wait("0", PATIENCE)
    faulty.away()
    until(lambda: not me.holds("0"), "its lease runs out")
    time.sleep(1.5)
    assert me.health().unreachable
    faulty.back()
    found: list[Health] = []

    def leads() -> bool:
        found.append(me.health())
        return me.holds("0")

    until(leads, "it leads again")
    assert {health.why for health in found} == {""}


def test_a_ledger_out_of_reach_is_no_illness_of_its_members(faulty: Faulty) -> None:
    me = Crew(faulty).leader("a", session=0.3)
    faulty.away()
    until(lambda: not me.holds("A"), "its lease runs out")
    time.sleep(1.5)
    health = me.health()
    assert health.ok
    assert not health.ready
    assert health.unled == ()
    assert health.unreachable


def test_a_planned_end_is_no_illness(crew: Crew) -> None:
    """Its barrier may take its time: the role is held by plan, and led by nobody."""
    barrier = Recorder()
    me = crew.leader("a", session=0.5, barrier=barrier)
    crew.standby("b", session=0.5)
    barrier.hold()
    me.step_down("A")
    assert barrier.entered.wait(PATIENCE)
    time.sleep(1.6)
    assert me.leader("A").member == me.id  # type: ignore[union-attr]
    assert not me.holds("A")
    health = me.health()
    assert health.ok, health.why
    barrier.let_go.set()


def test_why_says_what_ails_it(crew: Crew) -> None:
    me = crew.leader("a")
    me._loop.each_round = lambda: 1 / 0  # pyright: ignore
    until(lambda: me.state == "failed", "it fails")
    assert "ZeroDivisionError" in me.health().why
    other = crew.member("b")
    other.close()
    assert "closed" in other.health().why
