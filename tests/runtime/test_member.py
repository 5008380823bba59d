"""A member from its birth to its end: joining, leading, being asked, leaving."""

from __future__ import annotations

import threading
import time

import pytest
from runtime_tools import CALM, PATIENCE, Crew, binding, ids, until

import pares
from pares.core.errors import ClosedError, ConfigError, LeadershipLost
from pares.runtime.driver.lifecycle import Life


def test_a_lone_member_leads_what_it_declares(any_crew: Crew) -> None:
    me = any_crew.member("a", ["A", "B"])
    term = me.wait("A", PATIENCE)
    assert term is not None
    assert (term.role, term.seat, term.member) == ("A", 0, me.id)
    assert term.token > 0
    assert term
    assert 0 < term.remaining() <= CALM
    term.check()
    assert term.why == ""
    assert me.holds("A")
    assert me.wait("B", PATIENCE)
    assert me.state == "live"
    assert me.id.startswith("a~")
    holder = me.leader("A")
    assert holder is not None
    assert (holder.member, holder.name, holder.role, holder.seat, holder.token) == (me.id, "a", "A", 0, term.token)
    assert holder.since is not None
    assert abs(holder.since - time.time()) < PATIENCE
    assert me.roles() == {"A": 1, "B": 1}
    assert "a~" in repr(me)
    assert "'A'" in repr(term)


def test_a_second_member_waits_until_the_first_is_gone(any_crew: Crew) -> None:
    first = any_crew.leader("a")
    second = any_crew.standby("b")
    before = first.term("A")
    assert before is not None
    assert second.wait("A", 0.2) is None
    assert not second.holds("A")
    assert second.term("A") is None
    assert ids(first) == ids(second) == {first.id, second.id}
    first.close()
    after = second.wait("A", PATIENCE)
    assert after is not None
    assert after.token > before.token
    assert not before
    assert not first.holds("A")


def test_roles_are_shared_evenly(any_crew: Crew) -> None:
    roles = [f"r{i}" for i in range(9)]
    members = [any_crew.member(name, roles) for name in "abc"]
    until(lambda: [sum(m.holds(r) for r in roles) for m in members] == [3, 3, 3], "three roles each")
    assert all(sum(m.holds(r) for m in members) == 1 for r in roles)


def test_a_role_with_two_seats_has_two_leaders(crew: Crew) -> None:
    members = [crew.member(name, seats=2) for name in "abc"]
    until(lambda: sum(m.holds("A") for m in members) == 2, "two of three lead")
    terms = [term for m in members if (term := m.term("A"))]
    assert {term.seat for term in terms} == {0, 1}
    asked = next(m for m in members if m.holds("A"))
    until(lambda: len(asked.leaders("A")) == 2, "both are known")
    assert [holder.seat for holder in asked.leaders("A")] == [0, 1]


def test_lower_rank_leads(crew: Crew) -> None:
    spare = crew.leader("spare", rank=1)
    first = crew.member("first", rank=0)
    assert first.wait("A", PATIENCE)
    until(lambda: not spare.holds("A"), "the spare one no longer leads")


def test_eligible_is_what_may_be_led(crew: Crew) -> None:
    crew.leader("a", ["A"], eligible=["A"])
    anything = crew.member("b", ["B"], eligible="*")
    assert anything.wait("B", PATIENCE)
    crew.members[0].close()
    assert anything.wait("A", PATIENCE)


def test_a_member_without_roles_watches(crew: Crew) -> None:
    leader = crew.leader("a")
    watching = crew.member("w", ())
    until(lambda: (found := watching.leader("A")) is not None and found.name == "a", "it sees who leads")
    assert not watching.holds("A")
    assert watching.id not in ids(leader)
    with pytest.raises(ConfigError, match="never leads 'A'"):
        watching.wait("A")


def test_terms_come_one_for_each_tenure(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")

    def give_it_back() -> None:
        for _ in other.terms("A"):
            other.step_down("A")

    threading.Thread(target=give_it_back, daemon=True).start()
    tokens: list[int] = []
    for term in me.terms("A", timeout=PATIENCE):
        tokens.append(term.token)
        if len(tokens) == 3:
            break
        me.step_down("A")
        assert term.wait_lost(PATIENCE)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 3


def test_terms_end_when_none_comes(crew: Crew) -> None:
    crew.leader("a")
    assert list(crew.standby("b").terms("A", timeout=0.1)) == []


def test_terms_end_when_the_member_is_closed(crew: Crew) -> None:
    crew.leader("a")
    waiting = crew.standby("b")
    found: list[pares.Term] = []
    thread = threading.Thread(target=lambda: found.extend(waiting.terms("A")))
    thread.start()
    waiting.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert found == []


def test_pulse_waits_for_any_role(crew: Crew) -> None:
    me = crew.leader("a")
    assert me.pulse(PATIENCE) is True
    other = crew.standby("b", ["A", "B"], eligible=["A"])
    assert other.pulse(0.05) is False
    me.hand_over("A", to="b")
    assert other.pulse(PATIENCE) is True


def test_wait_lost_returns_at_the_end_of_the_term(crew: Crew) -> None:
    me = crew.leader("a")
    term = me.term("A")
    assert term is not None
    assert term.wait_lost(0.01) is False
    crew.standby("b")
    threading.Timer(0.05, me.step_down, args=("A",)).start()
    assert term.wait_lost(PATIENCE) is True
    assert term.why == "stepped down"
    assert term.remaining() == 0.0
    with pytest.raises(LeadershipLost, match="stepped down"):
        term.check()


def test_close_leaves_the_group(any_crew: Crew) -> None:
    first, second = any_crew.leader("a"), any_crew.standby("b")
    term = first.term("A")
    assert term is not None
    first.close()
    assert first.state == "closed"
    assert not term
    assert term.why == "closed"
    until(lambda: ids(second) == {second.id}, "the other one sees that it left")
    first.close()  # twice is fine


def test_what_a_closed_member_says(crew: Crew) -> None:
    me = crew.leader("a")
    me.close()
    assert me.holds("A") is False
    assert me.term("A") is None
    assert me.wait("A") is None
    assert list(me.terms("A")) == []
    assert list(me.events()) == []
    for call in (me.step_down, me.drain, me.pulse, lambda: me.hand_over("A"), lambda: me.add_role("B")):
        with pytest.raises(ClosedError, match="was closed"):
            call()


def test_with_closes_also_after_an_error(memory: str) -> None:
    def fail() -> None:
        with pares.Member(memory, group="g", roles=["A"], session=CALM) as me:
            assert me.wait("A", PATIENCE)
            raise RuntimeError("of the user's own")

    with pytest.raises(RuntimeError, match="of the user's own"):
        fail()
    with pares.Observer(memory, group="g") as observer:
        assert observer.world.members == {}


def test_the_last_member_leaves_a_free_seat_and_its_roles(url: str) -> None:
    with pares.Member(url, group="g", roles=["A"], session=CALM) as me:
        first = me.wait("A", PATIENCE)
    with pares.Observer(url, group="g") as observer:
        assert observer.leader("A") is None
    with pares.Member(url, group="g", roles=["A"], session=CALM) as me:
        second = me.wait("A", PATIENCE)
    assert first is not None
    assert second is not None
    assert second.token > first.token


def test_groups_on_one_ledger_know_nothing_of_each_other(url: str) -> None:
    with (
        pares.Member(url, group="one", roles=["A"], session=CALM, name="a") as one,
        pares.Member(url, group="two", roles=["A"], session=CALM, name="a") as two,
    ):
        assert one.wait("A", PATIENCE)
        assert two.wait("A", PATIENCE)
        assert ids(one) == {one.id}
        assert one.health().problems == two.health().problems == ()


def test_a_group_lives_in_the_partition_that_its_url_names(memory: str) -> None:
    with (
        pares.Member(f"{memory}?partitions=3&partition=2", group="g", roles=["A"], session=CALM, name="a") as here,
        pares.Member(f"{memory}?partition=1", group="g", roles=["A"], session=CALM, name="b") as there,
    ):
        assert here.wait("A", PATIENCE)
        assert there.wait("A", PATIENCE)  # another log, so another group
    with pares.Observer(memory, group="g") as observer:
        assert observer.world.members == {}


def test_an_opened_ledger_stays_open(memory: str) -> None:
    ledger = pares.open(memory)
    for _ in range(2):
        with pares.Member(ledger, group="g", roles=["A"], session=CALM) as me:
            assert me.wait("A", PATIENCE)
    assert ledger.end() > 0
    ledger.close()


def test_two_live_members_of_one_name_are_reported_to_the_older(crew: Crew) -> None:
    older = crew.leader("same")
    younger = crew.standby("same")
    until(lambda: older.health().problems, "the older one reports it")
    (problem,) = older.health().problems
    assert problem.startswith("duplicate-name")
    assert younger.id in problem
    assert older.holds("A")  # nothing changes hands by that
    assert younger.health().problems == ()


def test_members_without_names_have_names_of_their_own(memory: str) -> None:
    with (
        pares.Member(memory, group="g", roles=["A"], session=CALM) as one,
        pares.Member(memory, group="g", roles=["A"], session=CALM) as two,
        pares.Admin(memory, group="g") as admin,
    ):
        until(lambda: one.holds("A") or two.holds("A"), "one leads")
        admin.roles()
        until(lambda: ids(one) == {one.id, two.id}, "they know each other")
        assert one.name != two.name
        assert one.health().problems == two.health().problems == ()


def test_health_of_a_leader(any_crew: Crew) -> None:
    me = any_crew.leader("a", ["A", "B"])
    health = me.health()
    assert health.ok
    assert health.thread_alive
    assert health.state == "live"
    assert 0 < health.lease_left <= CALM
    assert health.read_age < PATIENCE
    assert (health.unreachable, health.failure) == (None, None)
    assert health.terms == 2
    assert (health.fences, health.lapses, health.restarts) == (0, 0, 0)
    assert (health.bad_records, health.uncounted_records, health.problems) == (0, 0, ())
    me.close()
    health = me.health()
    assert not health.ok
    assert not health.thread_alive
    assert health.state == "closed"
    assert health.lease_left == 0.0


def test_a_member_on_sqlite_can_be_proven_dead(sqlite: str, memory: str) -> None:
    with pares.Member(sqlite, group="g", roles=["A"]) as proven, pares.Member(memory, group="g", roles=["A"]) as not_so:
        assert proven.health().no_proof is None
        assert not_so.health().no_proof is None  # inside one process there is nobody to prove it to
        assert proven.wait("A", PATIENCE)
        world = binding(proven).core.reader.world  # pyright: ignore[reportPrivateUsage]
        assert world.members[proven.id].lock is not None


def test_health_fits_together_also_of_a_member_that_is_just_ending(crew: Crew) -> None:
    me = crew.leader("a")
    states = iter(["live", *["closed"] * 9])

    class Ending(Life):
        state = property(lambda self: next(states))  # type: ignore[assignment]  # pyright: ignore

    me._life.__class__ = Ending  # pyright: ignore
    health = me.health()
    me._life.__class__ = Life  # pyright: ignore
    assert health.ok == (health.state == "live")
