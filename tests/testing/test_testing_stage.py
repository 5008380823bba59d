"""`pares.testing.Stage`: what a user of pares can play with."""

import time

import pytest

from pares.core.errors import ConfigError
from pares.core.wire.records import Beat, Release
from pares.sim.checker import Broken
from pares.testing import Stage


def three() -> Stage:
    stage = Stage()
    for name in ("alice", "bob", "carol"):
        stage.member(name, roles=["mail"])
    stage.run(1)
    return stage


def test_virtual_time_costs_next_to_nothing() -> None:
    stage = three()
    began = time.monotonic()
    stage.run(120)
    assert stage.now == pytest.approx(121)
    assert time.monotonic() - began < 60


def test_somebody_leads_and_after_a_crash_somebody_else() -> None:
    stage = three()
    first = stage.leader("mail")
    assert first is not None
    stage.kill(first)
    assert stage.leader("mail") is None
    stage.run(1.5)
    assert stage.leader("mail") not in (None, first)
    assert stage.actors[first].state == "dead"


def test_with_proof_a_crash_takes_milliseconds() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"], proof=True)
    stage.run(0.1)
    bob = stage.member("bob", roles=["mail"], proof=True)
    stage.run(1)
    alice.kill()
    stage.run(0.02)
    assert bob.holds("mail")
    assert any("obituary" in line for line in stage.trace)


def test_a_frozen_leader_believes_no_more_when_it_is_thawed() -> None:
    stage = three()
    first = stage.actors[stage.leader("mail") or ""]
    token = first.token("mail")
    stage.freeze(first, 3)
    assert first.state == "frozen"
    stage.run(2.9)
    assert not first.holds("mail")
    second = stage.actors[stage.leader("mail") or ""]
    stage.run(1)
    assert first.state == "live"
    assert second is not first
    assert (second.token("mail") or 0) > (token or 0)


def test_cut_off_and_healed() -> None:
    stage = three()
    first = stage.leader("mail") or ""
    stage.cut(first)
    stage.run(2)
    assert stage.leader("mail") not in (None, first)
    stage.heal()
    stage.run(1)
    assert stage.actors[first].state == "live"
    assert len(stage.leaders("mail")) == 1


def test_the_trace_reads_line_by_line() -> None:
    stage = three()
    stage.note("now it begins")
    lines = stage.trace
    assert any(line.split()[1:4] == ["alice~1", "leads", "mail/0"] for line in lines)
    assert lines[-1].split()[1:] == ["--", "now", "it", "begins"]
    assert [float(line.split()[0]) for line in lines] == sorted(float(line.split()[0]) for line in lines)


def test_one_script_gives_one_trace() -> None:
    def script() -> list[str]:
        stage = Stage(seed=5, drift=0.1)
        alice = stage.member("alice", roles=["mail"])
        stage.member("bob", roles=["mail"])
        stage.run(1)
        alice.freeze(2)
        stage.run(4)
        return stage.trace

    assert script() == script()


def test_what_users_ask_for() -> None:
    stage = Stage()
    alice, bob = stage.member("alice", roles=["mail"]), stage.member("bob", roles=["mail"], rank=0)
    admin = stage.admin()
    stage.run(1)
    first, second = (alice, bob) if alice.holds("mail") else (bob, alice)
    first.mark("mail", 7)
    first.hand_over("mail", second)
    stage.run(0.1)
    assert second.holds("mail")
    assert stage.world.seats["mail", 0].mark == 7
    admin.pause(seconds=5)
    stage.run(0.5)
    assert stage.leader("mail") is None
    admin.rewind({("mail", 0): 3})
    stage.run(0.1)
    assert stage.world.seats["mail", 0].mark == 3
    admin.resume()
    admin.add_role("post", seats=2)
    stage.run(0.5)
    assert stage.world.roles["post"].seats == 2
    admin.remove_role("post")
    stage.run(0.5)
    assert "post" not in stage.world.roles
    first.close()
    stage.run(0.5)
    assert first.state == "closed"
    assert second.holds("mail")


def test_a_slow_barrier_holds_the_handover_back() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"], barrier=0.4)
    stage.run(0.5)
    bob = stage.member("bob", roles=["mail"])
    stage.run(1)
    alice.step_down()
    stage.run(0.3)
    assert stage.leaders("mail") == []
    stage.run(0.2)
    assert bob.holds("mail")


def test_appends_can_be_held_lost_and_doubled() -> None:
    stage = Stage(timeout=0.2)
    alice = stage.member("alice", roles=["mail"])
    stage.run(0.5)
    alice.hold()
    before = len(stage.log)
    stage.run(0.15)
    alice.next_append("lost")
    assert len(stage.log) == before
    alice.let_go()
    assert len(stage.log) > before
    alice.next_append("doubled")
    stage.run(1)
    assert any("does not count" in line for line in stage.trace)


def test_freezing_inside_a_round() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    stage.run(0.5)
    alice.freeze(2, at="ticked")
    stage.run(1.5)
    assert alice.state == "frozen"
    assert not alice.holds("mail")
    stage.run(3)
    assert alice.holds("mail")


def test_trouble_makers() -> None:
    stage = three()
    offset = stage.write(b"not a record")
    assert offset == len(stage.log) - 1
    assert "bad record" in stage.trace[-1]
    stage.write(stage.record(Beat, "nobody~1"))
    assert "does not count" in stage.trace[-1]
    again = stage.replay(0)
    assert stage.log[again][2] == stage.log[0][2]
    stage.run(1)
    assert len(stage.leaders("mail")) == 1


def test_a_broken_promise_ends_the_play() -> None:
    """Forging is beyond what is promised, and so a way to see two believe."""
    stage = three()
    first = stage.actors[stage.leader("mail") or ""]
    forged = stage.record(Release, first.id, seat=("mail", 0), token=first.token("mail"))
    first.freeze(0.5)
    stage.write(forged)
    with pytest.raises(Broken, match="both believe"):
        stage.run(0.3)


def test_wrong_use_is_told() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    with pytest.raises(ConfigError, match="there is a member 'alice'"):
        stage.member("alice")
    with pytest.raises(ConfigError, match="knows no argument 'sesion'"):
        stage.member("bob", sesion=3)
    with pytest.raises(ConfigError, match="does not lead"):
        alice.mark("mail", 3)
    with pytest.raises(ConfigError, match="choose one of"):
        alice.next_append("eaten")
    with pytest.raises(ConfigError, match="fetched"):
        alice.freeze(at="midnight")
    with pytest.raises(ConfigError, match="no entry 99"):
        stage.replay(99)
    alice.kill()
    with pytest.raises(ConfigError, match="does not run"):
        alice.close()


def test_a_log_that_begins_late_and_one_that_is_replaced() -> None:
    stage = Stage(begin=1000)
    alice = stage.member("alice", roles=["mail"])
    stage.run(3)
    assert alice.holds("mail")
    assert stage.log[0][0] == 1000
    token = alice.token("mail") or 0
    stage.replace_log()
    stage.run(2)
    assert alice.id == "alice~2"
    assert (alice.token("mail") or 0) > token
