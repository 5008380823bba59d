"""`pares.testing.Stage` with members of all five protocols, each struck by every fault; a fault that did nothing would show."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import pares
from pares.testing import Actor, Stage

QUICK = pares.AllCall(heartbeat=0.2, lease=1.0, skew=0.2, silence=0.0)
PROTOCOLS: dict[str, Any] = {
    "claims": "claims",
    "fast-neli": "fast-neli",
    "neli": "neli",
    "nele": pares.Nele(T=1.5),
    "allcall": QUICK,
}
each = pytest.mark.parametrize("protocol", PROTOCOLS)
exclusive = pytest.mark.parametrize("protocol", ["claims", "fast-neli", "neli"])


def three(protocol: str, **options: Any) -> Stage:
    """A stage on which one of three members leads "mail"."""
    stage = Stage(**options)
    for rank, name in enumerate(("alice", "bob", "carol")):
        stage.member(name, roles=["mail"], protocol=PROTOCOLS[protocol], rank=rank if protocol == "allcall" else 0)
    stage.until(lambda: stage.leader("mail"))
    stage.run(2)
    return stage


def first(stage: Stage) -> Actor:
    return stage.actors[stage.leader("mail") or "nobody leads"]


@each
def test_after_a_crash_somebody_else_leads_under_a_higher_token(protocol: str) -> None:
    stage = three(protocol)
    dead = first(stage)
    token = dead.token("mail")
    assert token
    assert dead.seats() == ["mail/0"]
    stage.kill(dead)
    assert dead.state == "dead"
    assert stage.leader("mail") is None
    stage.until(lambda: stage.leader("mail"), 5)
    assert first(stage) is not dead
    assert (first(stage).token("mail") or 0) > token
    stage.restart(dead)
    stage.run(4)
    assert dead.state == "live"
    assert len(stage.leaders("mail")) == 1
    assert stage.most_leaders("mail") == 1


@each
def test_a_frozen_leader_believes_no_more_when_it_is_thawed(protocol: str) -> None:
    stage = three(protocol)
    stood = first(stage)
    stage.freeze(stood)
    assert stood.state == "frozen"
    stage.run(6)
    assert not stood.holds("mail")
    assert stage.leader("mail") not in (None, stood.name)
    stage.thaw(stood)
    stage.run(4)
    assert stood.state == "live"
    assert len(stage.leaders("mail")) == 1


@each
def test_a_leader_that_is_cut_off_is_followed_by_another_one(protocol: str) -> None:
    stage = three(protocol)
    away = first(stage)
    stage.cut(away)
    stage.until(lambda: set(stage.leaders("mail")) - {away.name}, 6)
    stage.run(4)
    assert away.holds("mail") == (protocol == "allcall"), "only there does one that hears itself alone lead on"
    stage.heal()
    stage.run(4)
    assert len(stage.leaders("mail")) == 1
    assert stage.most_leaders("mail") == (1 if protocol in ("claims", "fast-neli", "neli") else 2)
    for other in set(stage.actors) - {away.name}:
        stage.kill(other)
    stage.until(lambda: away.holds("mail"), 8)


@pytest.mark.parametrize("way", ["reads", "writes", "acks"])
def test_each_way_may_be_cut_alone(way: str) -> None:
    stage = three("claims")
    away = first(stage)
    stage.cut(away, **{"reads": False, "writes": False, way: True})
    stage.until(lambda: stage.leader("mail") not in (None, away.name), 6)
    assert any(f"is cut off: {way}" in line for line in stage.trace)
    stage.heal(away)
    stage.run(4)
    assert (away.state, len(stage.leaders("mail")), stage.most_leaders("mail")) == ("live", 1, 1)


@each
def test_a_leader_whose_ledger_answers_too_late_leads_no_more(protocol: str) -> None:
    stage = three(protocol)
    late = first(stage)
    stage.slow(late, 3.0)
    stage.run(8)
    assert stage.leaders("mail") != [late.name]
    stage.slow(late)
    stage.run(4)
    assert len(stage.leaders("mail")) == 1


@exclusive
def test_a_stopwatch_beyond_the_drift_breaks_the_promise_and_one_within_it_does_not(protocol: str) -> None:
    """Its lease lasts too long because its time passes too slowly."""
    met: dict[float, int] = {}
    for rate in (0.95, 0.2):
        stage = three(protocol)
        stage.skew(first(stage), rate=rate)
        stage.cut(first(stage))
        stage.run(8)
        met[rate] = stage.most_leaders("mail")
        stage.close()
    assert met == {0.95: 1, 0.2: 2}


@each
def test_a_slow_barrier_holds_a_handover_back(protocol: str) -> None:
    stage = Stage()
    ended: list[float] = []

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Revoked):
            time.sleep(0.4)
            ended.append(stage.now)

    member: Callable[[str], Actor] = lambda name: stage.member(  # noqa: E731
        name, roles=["mail"], protocol=PROTOCOLS[protocol], barrier=barrier
    )
    alice = member("alice")
    stage.until(lambda: alice.holds("mail"))
    member("bob")
    stage.run(2)
    began = stage.now
    assert stage.leader("mail") == "alice"
    stage.stop(alice)
    stage.until(lambda: stage.leader("mail") == "bob", 4)
    assert alice.state in ("closing", "closed")
    if protocol == "nele":
        return  # there a successor does not wait
    assert ended
    assert 0.4 <= ended[0] - began <= stage.now - began


@each
def test_one_seed_is_one_history_and_another_seed_another_one(protocol: str) -> None:
    def history(seed: int) -> list[str]:
        with three(protocol, seed=seed, drift=0.05) as stage:
            stage.freeze("alice", 2)
            stage.run(3)
            stage.note("the end")
            return stage.trace

    lines = history(5)
    assert lines == history(5)
    assert lines != history(6)
    assert any("leads 'mail'" in line for line in lines)
    assert lines[-1].split()[1:] == ["--", "the", "end"]
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


@pytest.mark.parametrize("protocol", ["fast-neli", "neli", "nele"])
def test_partitions_are_shared_out(protocol: str) -> None:
    stage = Stage(partitions=4)
    roles = [str(number) for number in range(4)]
    for name in ("alice", "bob"):
        stage.member(name, roles=roles, protocol=PROTOCOLS[protocol])
    stage.run(4)
    assert [len(actor.seats()) for actor in stage.actors.values()] == [2, 2]


def test_on_kafka_a_broker_shares_out_partitions_and_may_not_hear_a_leader() -> None:
    """NELE: two lead while a leader can't be heard; while a partition moves by plan somebody always does."""
    stage = Stage()
    for name in ("alice", "bob", "carol"):
        stage.member(name, "kafka://broker:9092/pares", roles=["mail"], protocol=pares.Nele(T=9.0))
    stage.until(lambda: stage.leader("mail"))
    unheard = first(stage)
    stage.cut(unheard, writes=False, group=True)
    stage.until(lambda: len(stage.leaders("mail")) == 2, 10)
    stage.heal()
    stage.run(10)
    heard = first(stage)
    assert heard is not unheard
    stage.stop(heard)
    for _ in range(500):
        stage.run(0.02)
        assert stage.leaders("mail")
    assert (heard.state, stage.leaders("mail") != [heard.name]) == ("closed", True)
    assert stage.most_leaders("mail") == 2


def test_a_split_has_a_leader_on_each_side_and_a_heal_leaves_one() -> None:
    stage = three("allcall")
    assert stage.leader("mail") == "alice", "the lowest rank"
    stage.split(["alice"], ["bob", "carol"])
    stage.run(4)
    assert stage.leaders("mail") == ["alice", "bob"]
    assert stage.most_leaders("mail") == 2
    stage.heal()
    stage.run(1)
    assert len(stage.leaders("mail")) == 1
