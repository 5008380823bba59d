"""Members that run ALLCALL: the same surface as every protocol has, over the memory bus and over a SQLite log."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from typing import Any

import pytest
from allcall_tools import PAST_A_LEASE, PATIENCE, TIMES, band, leading, member, settle
from runtime_tools import Crew, Recorder, in_child, until

import pares
from pares.core.errors import ConfigError
from pares.core.events import Ask, Ready
from pares.ledger import open_bus


def test_one_leads_and_all_know_it(any_crew: Crew) -> None:
    a, b, c = band(any_crew)
    term = a.term("x")
    assert term is not None
    assert 0 < term.remaining() <= TIMES["lease"]
    assert a.pulse(0)
    assert not b.pulse(0)
    for one in (a, b, c):
        holder = one.leader("x")
        assert holder is not None
        assert (holder.name, holder.role, holder.seat, holder.token) == ("a", "x", 0, term.token)
        until(lambda one=one: (held := one.leader("x")) is not None and held.since, "it knows since when")
        assert one.health().ok
        assert one.state == "live"
    peers = {peer.name: peer for peer in b.members()}
    assert [(p.rank, p.session, p.roles) for p in peers.values()] == [(0, 1.6, ("x",)), (1, 1.6, ()), (2, 1.6, ())]
    assert peers["a"].host == os.uname().nodename
    until(lambda: all(p.views == {"x": a.id} for p in b.members()), "everybody's view is there")
    assert b.roles() == {"x": 1}


def test_a_term_goes_on_lease_after_lease(crew: Crew) -> None:
    a, b = band(crew, "ab")
    term = a.term("x")
    time.sleep(PAST_A_LEASE)
    assert a.term("x") is term
    assert a.health().terms == 1
    assert not b.holds("x")


def test_who_begins_alone_listens_for_a_lease_and_the_skew(memory: str) -> None:
    began = time.monotonic()
    with pares.Member(memory, group="g", roles=["x"], protocol=pares.AllCall(**TIMES)) as me:
        assert me.wait("x", PATIENCE)
        assert time.monotonic() - began >= TIMES["lease"] + TIMES["skew"]


def test_closing_hands_over_after_the_barrier(crew: Crew) -> None:
    barrier = Recorder()
    a = member(crew, "a", 0, barrier=barrier)
    b = member(crew, "b", 1)
    settle([a, b])
    barrier.hold()
    closing = threading.Thread(target=a.close)
    closing.start()
    assert barrier.entered.wait(PATIENCE)
    time.sleep(PAST_A_LEASE)
    assert not a.holds("x")
    assert not b.holds("x")
    barrier.let_go.set()
    assert b.wait("x", PATIENCE)
    closing.join(PATIENCE)
    assert a.state == "closed"
    assert barrier.kinds() == ["Acquired", "Revoked"]


def test_the_end_of_a_leader_that_says_goodbye_costs_no_lease(crew: Crew) -> None:
    a, b = band(crew, "ab")
    token = a.term("x").token  # type: ignore[union-attr]
    a.close()
    term = b.wait("x", PATIENCE)
    assert term is not None
    assert term.token > token
    until(lambda: [p.name for p in b.members()] == ["b"], "a is gone")


def test_a_barrier_that_overruns_is_fenced(crew: Crew) -> None:
    barrier = Recorder()
    a = member(crew, "a", 0, barrier=barrier, barrier_timeout=0.3)
    b = member(crew, "b", 1)
    settle([a, b])
    barrier.hold()
    a.step_down("x")
    assert b.wait("x", PATIENCE)
    until(lambda: "Fenced" in barrier.kinds(), "it was told")
    barrier.let_go.set()


def test_yielding_and_stepping_down(crew: Crew) -> None:
    barrier = Recorder()
    a = member(crew, "a", 0, barrier=barrier)
    b = member(crew, "b", 1)
    settle([a, b])
    a.hand_over("x", why="lunch")
    assert b.wait("x", PATIENCE)
    until(lambda: "Revoked" in barrier.kinds(), "a was told")
    assert next(event.why for event in barrier.events if isinstance(event, pares.Revoked)) == "lunch"
    assert a.wait("x", PATIENCE), "at the end of b's term, for a has the lower rank"
    b.hand_over("x")  # it holds nothing: nothing happens
    a.step_down()
    assert b.wait("x", PATIENCE)


def test_draining_and_readiness(crew: Crew) -> None:
    ready = threading.Event()
    b = member(crew, "b", 1)
    a = member(crew, "a", 0, ready=ready.is_set)
    settle([b, a])
    ready.set()
    assert a.wait("x", PATIENCE)
    ready.clear()
    assert b.wait("x", PATIENCE)
    ready.set()
    assert a.wait("x", PATIENCE)
    a.drain()
    assert b.wait("x", PATIENCE)
    b.step_down("x")
    until(lambda: b.holds("x"), "a takes nothing more, so there is nobody else")
    assert not a.holds("x")


class Late(deque[Any]):
    """What is there for a member to hear; before a `Ready(True)` comes in, its user has drained it on another thread."""

    def __init__(self, me: pares.Member) -> None:
        super().__init__()
        self._draining = threading.Thread(target=me._loop.request, args=(Ask(drain=me.id),))  # pyright: ignore

    def append(self, what: Any) -> None:
        if what == Ready(True) and self._draining.ident is None:
            self._draining.start()
            self._draining.join()
        super().append(what)


def test_ready_in_the_moment_in_which_it_is_drained_does_not_undo_that(crew: Crew) -> None:
    me = member(crew, "a")
    settle([me])
    loop: Any = me._loop  # pyright: ignore
    me._inbox.events = Late(me)  # pyright: ignore
    loop.request(Ready(True))
    until(lambda: not me.holds("x"), "it has let go")
    assert me.wait("x", PAST_A_LEASE) is None


def test_one_election_for_each_role_on_one_set_of_calls(crew: Crew) -> None:
    a = member(crew, "a", 0, ("x", "y"))
    b = member(crew, "b", 1, ("y", "z"))
    settle([a, b], a, "y")
    assert a.wait("x", PATIENCE)
    assert b.wait("z", PATIENCE)
    assert leading([a, b], "z") == ["b"]
    a.step_down("y")
    assert b.wait("y", PATIENCE)
    assert a.holds("x")
    with pytest.raises(ConfigError, match="never leads 'z'"):
        a.term("z")


def test_events_of_members_and_terms(crew: Crew) -> None:
    barrier = Recorder()
    a = member(crew, "a", 0, barrier=barrier)
    assert a.wait("x", PATIENCE)
    b = member(crew, "b", 1, host="elsewhere")
    until(lambda: barrier.kinds(pares.Joined), "it is told of b")
    joined = next(event for event in barrier.events if isinstance(event, pares.Joined))
    assert (joined.name, joined.host, joined.member) == ("b", "elsewhere", b.id)
    b.close()
    until(lambda: barrier.kinds(pares.Left), "it is told that b is gone")
    left = next(event for event in barrier.events if isinstance(event, pares.Left))
    assert (left.name, left.why) == ("b", "left")


def test_work_that_belongs_to_leadership(crew: Crew) -> None:
    a, b = band(crew, "ab")
    ran: list[str] = []

    @a.only("x")
    def mine() -> str:
        return "done"

    @b.only("x")
    def theirs() -> str:
        return "done"

    assert (mine(), theirs()) == ("done", None)
    work = [one.background(lambda one=one: (ran.append(one.name), time.sleep(0.01)), "x") for one in (a, b)]
    until(lambda: "a" in ran, "the leader's runs")
    a.close()
    until(lambda: ran[-1] == "b", "the next leader's runs")
    assert ran == sorted(ran), "and never the other's in between"
    for one in work:
        one.stop(PATIENCE)


def test_a_body_holds_its_handover_back(crew: Crew) -> None:
    a, b = band(crew, "ab")
    entered, go_on = threading.Event(), threading.Event()

    def body() -> None:
        for _ in a.terms("x"):
            entered.set()
            go_on.wait(PATIENCE)
            break

    working = threading.Thread(target=body)
    working.start()
    assert entered.wait(PATIENCE)
    a.step_down("x")
    time.sleep(PAST_A_LEASE)
    assert not b.holds("x")
    go_on.set()
    assert b.wait("x", PATIENCE)
    working.join(PATIENCE)


def test_a_member_for_asyncio(memory: str) -> None:
    async def play() -> str:
        async with pares.aio.Member(memory, group="g", roles=["x"], protocol=pares.AllCall(**TIMES), name="a") as me:
            async for term in me.terms("x", timeout=PATIENCE):
                async with term:
                    await me.step_down("x")
                    await asyncio.sleep(PATIENCE)
                return term.why
        return "never led"

    assert asyncio.run(play()) == "stepped down"


def test_in_a_forked_child_a_member_is_dead(any_crew: Crew) -> None:
    (me,) = band(any_crew, "a")
    term = me.term("x")
    assert term is not None
    assert in_child(lambda: (me.holds("x"), bool(term))) == "(False, False)"
    assert in_child(lambda: me.pulse(0)).startswith("ForkedError: ")
    assert me.holds("x")


def test_a_member_that_had_no_time_to_leave_keeps_nothing(crew: Crew) -> None:
    barrier = Recorder()
    barrier.hold()
    a = member(crew, "a", 0, barrier=barrier)
    b = member(crew, "b", 1)
    settle([a, b])
    a.close(timeout=0.1)
    assert not a.holds("x")
    assert b.wait("x", PATIENCE)
    barrier.let_go.set()


def test_a_ledger_that_is_closed_under_a_member_ends_it(memory: str) -> None:
    before = threading.active_count()
    bus = open_bus(memory)
    one = pares.Member(bus, group="g", roles=["x"], protocol=pares.AllCall(**TIMES, silence=0))
    assert one.wait("x", PATIENCE)
    bus.close()
    until(lambda: one.state == "closed", "it has ended")
    assert not one.holds("x")
    one.close()
    until(lambda: threading.active_count() <= before, "nothing of it is left running")


def test_an_opened_ledger_stays_open(any_crew: Crew) -> None:
    ledger = pares.open(str(any_crew.ledger))
    before = threading.active_count()
    with pares.Member(ledger, group="g", roles=["x"], protocol=pares.AllCall(**TIMES, silence=0)) as one:
        assert one.wait("x", PATIENCE)
    until(lambda: threading.active_count() <= before, "nothing of it is left running")
    assert ledger.end() == 0
    ledger.close()


def test_two_of_one_name_are_reported(crew: Crew) -> None:
    a = member(crew, "same", 0)
    assert a.wait("x", PATIENCE)
    b = member(crew, "same", 1)
    until(lambda: any("duplicate-name" in p for p in (*a.health().problems, *b.health().problems)), "somebody says so")
    time.sleep(0.5)
    assert len(a.health().problems) <= 1, "once, not with every call"
