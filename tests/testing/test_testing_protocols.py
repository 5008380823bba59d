"""The stage by protocols other than claims: the real core of each, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.sim.checker import Broken
from pares.testing import Stage

INDUCED = ["fast-neli", "neli", "nele"]
QUICK = pares.AllCall(heartbeat=0.2, lease=1.0, skew=0.2)
"""ALLCALL within seconds."""


def three(protocol: Any, **options: Any) -> Stage:
    stage = Stage(**options)
    for rank, name in enumerate(("alice", "bob", "carol")):
        more: dict[str, Any] = {"rank": rank} if protocol is QUICK else {}
        stage.member(name, roles=["mail"], protocol=protocol, **more)
    stage.run(4)
    return stage


@pytest.mark.parametrize("protocol", [*INDUCED, QUICK])
def test_somebody_leads_and_after_a_crash_somebody_else(protocol: Any) -> None:
    stage = three(protocol)
    first = stage.leader("mail")
    assert first is not None
    token = stage.actors[first].token("mail") or 0
    assert token > 0
    assert stage.actors[first].seats() == ["mail/0"]
    stage.kill(first)
    assert stage.leader("mail") is None
    assert stage.actors[first].state == "dead"
    stage.run(4)
    second = stage.actors[stage.leader("mail") or ""]
    assert second.name != first
    assert (second.token("mail") or 0) > token
    stage.restart(first)
    stage.run(4)
    assert stage.actors[first].id == f"{first}~2"
    assert stage.actors[first].state == "live"
    assert len(stage.leaders("mail")) == 1


@pytest.mark.parametrize("protocol", [*INDUCED, QUICK])
def test_a_frozen_leader_believes_no_more_when_it_is_thawed(protocol: Any) -> None:
    stage = three(protocol)
    first = stage.actors[stage.leader("mail") or ""]
    stage.freeze(first)
    assert first.state == "frozen"
    stage.run(6)
    assert not first.holds("mail")
    assert stage.leader("mail") not in (None, first.name)
    stage.thaw(first)
    stage.run(4)
    assert first.state == "live"
    assert len(stage.leaders("mail")) == 1


@pytest.mark.parametrize("protocol", ["fast-neli", "neli"])
def test_exclusive_never_two_when_one_is_cut_off(protocol: Any) -> None:
    """Looked at every few milliseconds, while the stage's own checkers look at each belief as it begins."""
    stage = three(protocol)
    first = stage.leader("mail") or ""
    stage.cut(first)
    led: set[str] = set()
    for _ in range(800):
        stage.run(0.005)
        assert len(stage.leaders("mail")) <= 1
        led.update(stage.leaders("mail"))
    assert len(led) == 2
    stage.heal()
    stage.run(3)
    assert len(stage.leaders("mail")) == 1


def test_nele_never_nobody_and_for_a_while_two() -> None:
    """Two lead while a leader can't be heard; and when a partition moves by plan, there is no instant without a leader."""
    stage = three(pares.Nele(T=3.0))
    first = stage.leader("mail") or ""
    stage.actors[first].cut(group=True)
    most = 0
    for _ in range(500):
        stage.run(0.01)
        assert stage.leaders("mail")
        most = max(most, len(stage.leaders("mail")))
    assert most <= 2
    stage.heal()
    stage.run(3)
    second = stage.actors[stage.leader("mail") or ""]
    second.close()
    for _ in range(500):
        stage.run(0.01)
        assert stage.leaders("mail")
    assert stage.leader("mail") != second.name
    assert second.state == "closed"


@pytest.mark.parametrize("protocol", INDUCED)
def test_partitions_are_shared_out(protocol: Any) -> None:
    stage = Stage(partitions=4)
    roles = [str(number) for number in range(4)]
    for name in ("alice", "bob"):
        stage.member(name, roles=roles, protocol=protocol)
    stage.run(4)
    assert [len(actor.seats()) for actor in stage.actors.values()] == [2, 2]
    stage.actors["alice"].add_role("4")  # an integer is its own partition: number 4 of 4 is the first again
    stage.run(2)
    assert stage.leaders("4") == stage.leaders("0")
    stage.actors["bob"].remove_role("4")
    stage.run(2)
    assert stage.leader("4") is None


@pytest.mark.parametrize("barrier", [0.2, 0.4, 2.5], ids=["deadline", "beyond the deadline", "beyond the session"])
@pytest.mark.parametrize("protocol", ["fast-neli", "neli"])
def test_a_slow_barrier_holds_the_handover_back(protocol: Any, barrier: float) -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"], protocol=protocol, barrier=barrier)
    stage.run(2)
    stage.member("bob", roles=["mail"], protocol=protocol)
    stage.run(2)
    assert alice.holds("mail")
    alice.close()
    stage.run(barrier - 0.05)
    assert stage.leaders("mail") == []
    stage.run(1)
    assert stage.leader("mail") == "bob"
    assert not [line for line in stage.trace if "is fenced" in line]
    assert alice.state == "closed"


def test_a_split_has_a_leader_on_each_side_and_a_heal_leaves_one() -> None:
    stage = three(QUICK)
    assert stage.leader("mail") == "alice", "the lowest rank"
    stage.split(["alice"], ["bob", "carol"])
    stage.run(4)
    assert stage.leaders("mail") == ["alice", "bob"]
    stage.heal()
    stage.run(1)
    assert len(stage.leaders("mail")) == 1


def test_what_users_of_allcall_ask_for() -> None:
    stage = three(QUICK)
    alice, bob = stage.actors["alice"], stage.actors["bob"]
    alice.step_down("mail")
    stage.run(0.6)
    assert stage.leader("mail") == "bob"
    bob.drain()
    stage.run(2)
    assert stage.leader("mail") not in ("bob", None)
    stage.cut(stage.leader("mail") or "", writes=False)
    stage.heal()
    bob.close()
    stage.run(1)
    assert bob.state == "closed"


@pytest.mark.parametrize("protocol", [*INDUCED, QUICK])
def test_one_script_gives_one_trace(protocol: Any) -> None:
    def script() -> list[str]:
        stage = three(protocol, seed=5, drift=0.05)
        stage.note("now it begins")
        stage.actors["alice"].freeze(2)
        stage.run(4)
        return stage.trace

    lines = script()
    assert lines == script()
    assert any("leads" in line and "mail/0" in line for line in lines)
    assert any(line.split()[1:] == ["--", "now", "it", "begins"] for line in lines)


def test_a_broken_promise_ends_the_play() -> None:
    """A belief that is prolonged behind the protocol's back, and so a way to see two believe."""
    stage = three("fast-neli")
    first = stage.actors[stage.leader("mail") or ""]
    stage.cut(first)
    seat = ("mail", 0)
    first.process.beliefs[seat] = (first.process.beliefs[seat][0], 2**62)
    first.freeze()
    with pytest.raises(Broken, match="both believe"):
        stage.run(5)


def test_wrong_use_is_told() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"], protocol="neli", session=2)
    wrongs: tuple[tuple[dict[str, Any], str, type[Exception]], ...] = (
        ({"protocol": "claims"}, "a group runs one protocol", ConfigError),
        ({"protocol": "raft"}, "is not in this version", CapabilityError),
        ({"protocol": "neli", "session": 1}, "the coordinator has one for all", ConfigError),
        ({"protocol": pares.Neli(T=5), "session": 2}, "T below", ConfigError),
        ({"protocol": "neli", "session": 2, "sesion": 3}, "knows no argument 'sesion'", ConfigError),
        ({"protocol": "neli", "session": 2, "rank": 3}, "knows no rank", CapabilityError),
        ({"protocol": "neli", "session": 2, "proof": True}, "by silence", ConfigError),
        ({"protocol": "neli", "session": 2, "seats": 2}, "partition of its own", ConfigError),
    )
    for wrong, said, error in wrongs:
        with pytest.raises(error, match=said):
            stage.member("bob", roles=["mail"], **wrong)
    assert list(stage.actors) == ["alice"]
    for wish in (lambda: alice.hand_over("mail"), alice.hold, lambda: stage.write(b"x"), lambda: stage.world):
        with pytest.raises(ConfigError, match=r"'neli'|claims"):
            wish()
    with pytest.raises(ConfigError, match=r"split\(\) is ALLCALL's"):
        stage.split(["alice"])
    calls = Stage()
    ann = calls.member("ann", roles=["mail"], protocol=QUICK)
    with pytest.raises(ConfigError, match="all of a group have the same"):
        calls.member("bob", roles=["mail"], protocol="allcall")
    with pytest.raises(ConfigError, match="leaders have a lease here"):
        calls.member("bob", roles=["mail"], protocol=QUICK, session=3)
    with pytest.raises(ConfigError, match="no log and no administrators"):
        ann.pause(seconds=3)
    ann.kill()
    with pytest.raises(ConfigError, match="does not run"):
        ann.close()
