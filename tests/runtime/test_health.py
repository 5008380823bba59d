"""What health says of a member that holds a role and does not lead it."""

from __future__ import annotations

import time

from runtime_tools import PATIENCE, Crew, Faulty, Recorder, until

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
