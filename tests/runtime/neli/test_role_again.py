"""A role that is removed and added again while a member has its partition: another term, under a token of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from induction_tools import member
from runtime_tools import PATIENCE, Crew, Recorder, until

import pares
from pares.runtime.config.protocols import ProtocolName


@pytest.fixture(params=["fast-neli", "neli", "nele"])
def protocol(request: pytest.FixtureRequest) -> ProtocolName:
    return request.param


@pytest.fixture
def one_partition(memory: str) -> Crew:
    """Members whose roles belong to one partition, all of them."""
    return Crew(f"{memory}?partitions=1")


def reader(me: pares.Member, role: str) -> tuple[list[int], Callable[[], None]]:
    """The tokens of the terms that one open iteration yields; and what ends it."""
    tokens: list[int] = []

    def read() -> None:
        for term in me.terms(role):
            tokens.append(term.token)
            term.wait_lost()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()

    def end() -> None:
        me.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()

    return tokens, end


def test_an_open_iteration_yields_the_new_term(crew: Crew, protocol: ProtocolName) -> None:
    barrier = Recorder()
    me = member(crew, "one", protocol, ("0",), barrier=barrier)
    tokens, end = reader(me, "0")
    for count in (1, 2, 3):
        until(lambda count=count: len(tokens) == count, f"term {count} is yielded")
        until(lambda: me.holds("0"), "it leads")
        if count < 3:
            me.remove_role("0")
            until(lambda: not me.holds("0"), "it was removed")
            me.add_role("0")
    assert tokens == sorted(set(tokens)), "each term has a token above the one before"
    until(lambda: barrier.kinds() == ["Acquired", "Revoked"] * 2 + ["Acquired"], "no term ends by a fence")
    assert me.health().problems == ()
    end()


def test_the_other_roles_of_its_partition_go_on_under_a_new_term(one_partition: Crew, protocol: ProtocolName) -> None:
    """All of them rest on one announcement, so that they are given up by plan and begin anew."""
    barrier = Recorder()
    me = member(one_partition, "one", protocol, ("0", "1"), barrier=barrier)
    assert me.wait("0", PATIENCE)
    before = me.wait("1", PATIENCE)
    assert before is not None
    me.remove_role("0")
    until(lambda: not me.holds("0"), "it was removed")
    assert before, "the other role is led on meanwhile"
    me.add_role("0")
    again, after = me.wait("0", PATIENCE), None
    until(lambda: (found := me.term("1")) is not None and found.token > before.token, "the other one too")
    after = me.term("1")
    assert again is not None
    assert after is not None
    assert not before
    assert again.token == after.token > before.token
    assert "Fenced" not in barrier.kinds()


def test_a_barrier_that_still_runs_is_waited_for(one_partition: Crew) -> None:
    """The other role's body is through before its next term begins."""
    barrier = Recorder()
    me = member(one_partition, "one", "fast-neli", ("0", "1"), barrier=barrier)
    assert me.wait("0", PATIENCE)
    term = me.wait("1", PATIENCE)
    assert term is not None
    me.remove_role("0")
    until(lambda: not me.holds("0"), "it was removed")
    barrier.hold()
    barrier.entered.clear()
    me.add_role("0")
    assert barrier.entered.wait(PATIENCE), "the other role's barrier is called"
    until(lambda: not term, "its term is over")
    assert me.wait("1", 0.3) is None, "and the next one waits for the barrier"
    barrier.let_go.set()
    found = me.wait("1", PATIENCE)
    assert found is not None
    assert found.token > term.token
    assert me.wait("0", PATIENCE)
