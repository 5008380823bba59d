"""Every bug that the simulation has found in the kernel stays a scenario."""

import pytest
from core_stage import Stage
from kernel.promises import Agreement

from pares.core.wire.records import Snapshot
from pares.sim.checker import Broken


def test_a_group_that_lives_long_enough_writes_snapshots() -> None:
    stage = Stage()
    stage.member("alice", roles=["mail"])
    stage.run(70)
    assert any(b'"k":"snapshot"' in payload for _, _, payload in stage.log)


def test_hostile_parts_of_snapshots_stop_no_joiner() -> None:
    stage = Stage()
    stage.member("alice", roles=["mail"])
    stage.run(40)
    stage.trim(100)
    bob = stage.member("bob", roles=["mail"], start=False)
    stage.write(stage.record(Snapshot, "x~1", upto=101, id="A", part=0, parts=2, world="{"))
    for i in range(5):
        stage.write(stage.record(Snapshot, "x~1", upto=10**6, id=f"I{i}", part=0, parts=1, world="{"))
    stage.write(stage.record(Snapshot, "x~1", upto=101, id="A", part=1, parts=2, world="}"))
    bob.restart()
    stage.run(10)
    assert bob.state == "live"


def test_a_member_that_starts_while_the_ledger_is_out_of_reach_comes_in_later() -> None:
    stage = Stage(timeout=0.2)
    stage.member("alice", roles=["mail"])
    stage.run(1)
    bob = stage.member("bob", roles=["post"], start=False)
    bob.cut(writes=True, acks=True)
    bob.restart()
    stage.run(10)
    assert bob.state == "joining"
    bob.heal()
    stage.run(3)
    assert bob.holds("post")


def test_roles_are_declared_though_the_first_append_is_lost() -> None:
    stage = Stage(timeout=0.2)
    alice = stage.member("alice", roles=["mail"])
    stage.run(0.0035)
    alice.next_append("lost")
    stage.run(3)
    assert alice.holds("mail")


def test_a_joiner_without_a_way_in_asks_again() -> None:
    stage = Stage(timeout=0.2)
    stage.member("alice", roles=["mail"])
    stage.run(40)
    stage.trim(100)
    bob = stage.member("bob", roles=["mail"], start=False)
    bob.next_append("lost")
    bob.restart()
    stage.run(15)
    assert bob.state == "live"


def test_an_obituary_that_is_lost_is_written_again() -> None:
    stage = Stage(timeout=0.2)
    alice = stage.member("alice", roles=["mail"], proof=True, session=5)
    bob = stage.member("bob", roles=["mail"], proof=True, session=5)
    stage.run(10)
    first, second = (alice, bob) if alice.holds("mail") else (bob, alice)
    second.next_append("lost")
    first.kill()
    stage.run(2)
    assert second.holds("mail")


def test_tokens_outlive_the_log_though_the_wall_clock_is_set_back() -> None:
    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    stage.run(2)
    before = alice.token("mail") or 0
    alice.process.wall.offset_us -= 3600 * 10**6
    stage.replace_log()
    stage.run(3)
    assert (alice.token("mail") or 0) > before


@pytest.mark.parametrize("after", [0.002, 0.05, 0.2])
def test_a_crash_right_after_acquiring_takes_no_longer_than_a_session(after: float) -> None:
    stage = Stage()
    members = [stage.member(name, roles=["mail"]) for name in ("alice", "bob", "carol")]
    stage.run(3)
    first = next(m for m in members if m.holds("mail"))
    first.kill()
    while stage.leader("mail") is None:
        stage.run(0.001)
    second = stage.actors[stage.leader("mail") or ""]
    stage.run(after)
    second.kill()
    stage.run(1 / 0.9 + 0.02)
    assert stage.leader("mail") is not None


def test_a_member_that_hears_nothing_blocks_nobody() -> None:
    stage = Stage(timeout=0.2)
    alice = stage.member("alice", roles=["mail", "post"])
    bob = stage.member("bob", roles=["mail", "post"])
    stage.run(3)
    alice.cut(reads=True, acks=True)
    for _ in range(20):
        stage.run(1)
    assert sorted(r for r in ("mail", "post") if bob.holds(r)) == ["mail", "post"]
    alice.heal()
    stage.run(5)
    assert alice.state == "live"


def test_a_standby_does_not_begin_a_term_on_the_last_of_its_lease() -> None:
    stage = Stage(latency=0.02)
    members = [stage.member(name, roles=["mail"]) for name in ("alice", "bob")]
    stage.run(3)
    for _ in range(12):
        first = next(m for m in members if m.holds("mail"))
        first.hand_over("mail")
        stage.run(0.87)
    assert not any("lease ran out" in line for line in stage.trace)


def test_a_world_that_differs_is_seen_although_the_log_has_forgotten_all_of_the_group() -> None:
    """The judge goes on with a member that has read it all, and the two are compared as before (R12)."""
    stage = Stage()
    alice = stage.member("alice", roles=["mail"])
    stage.run(3)
    scene = stage.scene
    agreement = Agreement(scene)
    before = scene.judge
    scene.trim(scene.log.end)
    assert scene.judge is before
    agreement.end()
    claims = alice.process.claims
    assert claims is not None
    claims.reader.world.gone["nobody~1"] = 1
    claims.reader.world.changed(("gone", "nobody~1"))
    with pytest.raises(Broken, match="another world"):
        agreement.end()
    scene.replace_log(same=True)
    assert scene.judge is not before, "what stands in another log is judged anew, whoever goes on"
