"""ALLCALL's own tests, 101 to 107, as its author had them; and elections, healing, order and counts in virtual time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from allcall_world import SECOND, World

from pares.core.allcall.config import Settings, check
from pares.core.allcall.election import Known, by_lease, by_rank
from pares.core.allcall.messages import Bad, Claim, decode, token
from pares.core.errors import ConfigError

FAST: dict[str, Any] = {"heartbeat_ms": 200, "lease_ms": 800, "skew_ms": 50}


def three(seed: int = 1, **options: Any) -> World:
    world = World(seed)
    for rank, name in enumerate("abc"):
        world.start(name, rank, start_offset_ms=rank * 7, **options)
    return world


# The author's --------------------------------------------------------------------------------------------------------


def test_101_many_members_start_and_stop() -> None:
    world = World()
    for rank in range(50):
        world.start(f"n{rank}", rank, heartbeat_ms=10, lease_ms=30, skew_ms=1, start_offset_ms=rank % 10)
    world.run(0.1)
    assert world.leaders() == ["n0"]
    for rank in range(50):
        world.close(f"n{rank}")
    world.run(0.1)
    assert world.leaders() == []


@pytest.mark.parametrize("order", ["lease", "rank"])
def test_102_convergence_to_the_lowest_rank_and_liveness(order: str) -> None:
    world = World(2)
    for rank in range(10):
        world.start(f"n{rank}", rank, order=order, start_offset_ms=rank * 13, **FAST)
    deaf = {f"n{rank}" for rank in range(1, 10)}
    world.cut = lambda source, target: target in deaf and source != target
    world.run(5 * 0.8)
    for node in world.nodes.values():
        assert node.led, f"{node.name} knew of no leader"
        assert node.led[0][1] is not None
    for name in sorted(deaf):
        deaf.discard(name)
        world.run(world.random.uniform(0.02, 0.07))
    world.run(20 * 0.8)
    assert world.leaders() == ["n0"]
    for node in world.nodes.values():
        assert node.core.leader("x", world.now + node.stopwatch) == "n0~1"
        last = node.led[-1]
        assert last[1] == "n0~1"
        assert last[0] < world.now - 10 * 0.8 * SECOND, "it went on changing"


def test_103_tied_ranks_use_the_id_and_do_not_alternate() -> None:
    world = World()
    for name in "ab":
        world.start(name, 0, heartbeat_ms=100, lease_ms=400, skew_ms=20)
    world.run(13 * 0.4)
    for node in world.nodes.values():
        assert [holder for _, holder in node.led] == ["a~1"]


def test_104_one_s_own_calls_come_back_and_claims_of_others_count() -> None:
    world = World()
    node = world.start("a", 0)
    world.run(13)
    assert world.leaders() == ["a"]
    assert node.ended == []
    other = world.start("b", -100, init_ms=0, lease_ms=600_000, heartbeat_ms=1000)
    world.run(2.1)
    world.close("a")
    world.run(2)
    assert world.leaders() == ["b"]
    assert other.core.leader("x", world.now + other.stopwatch) == "b~1"


@pytest.mark.parametrize(("when", "leads"), [("lead", True), ("step_down", False)])
def test_105_a_member_whose_server_is_gone(when: str, leads: bool) -> None:
    """The author's agent ended then; here it leads alone, or stops, as it was told."""
    world = World()
    world.start("a", 0, when_isolated=when)
    world.start("b", 1, when_isolated=when)
    world.run(15)
    assert world.leaders() == ["a"]
    world.cut = lambda source, target: "a" in (source, target)  # not even its own calls come back
    world.run(2.6)
    assert ("a" in world.leaders()) is leads
    world.run(30)
    assert ("a" in world.leaders()) is leads
    assert "b" in world.leaders()


def test_106_claims_are_in_a_total_order() -> None:
    claims = [
        Known(holder, rank, 1, 1, expires, 0) for holder in ("a", "b") for rank in (-1, 0, 7) for expires in (1, 2)
    ]
    for key in (by_lease, by_rank):
        for one, other in itertools.combinations(claims, 2):
            assert (key(one) < key(other)) is not (key(other) < key(one))
    for nameless in (b"", b"{}", b'{"v":1,"k":"ping","g":"g","m":"","n":1,"s":1,"r":0,"p":"ping","e":[],"c":[]}'):
        assert isinstance(decode(nameless), Bad)


def test_107_one_alone_leads_one_term_and_does_not_begin_new_ones() -> None:
    world = World()
    node = world.start("a", 0, lease_ms=3000)
    world.run(4 + 3 * 3 + 1)
    assert [holder for _, holder in node.led] == ["a~1"]
    assert len(node.terms) == 1


# Elections -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_cold_start(seed: int) -> None:
    """Bound: lease + skew + beat + a delay."""
    world = three(seed)
    took = world.until(lambda: bool(world.leaders()), 12.1)
    assert took > 11.0
    world.until(lambda: world.views() == {"a~1"}, 0.1)
    world.run(60)
    assert world.leaders() == ["a"]
    assert len(world.nodes["a"].terms) == 1, "a quiet group needs one term"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("order", ["lease", "rank"])
def test_a_crash_is_over_within_a_lease_and_the_skew(order: str, seed: int) -> None:
    world = three(seed, order=order)
    world.run(20 + world.random.uniform(0, 10))
    world.kill("a")
    took = world.until(lambda: world.leaders() == ["b"], 10 + 1 + 1 + 0.1)
    assert took > 10 / 3, "its claim still stood"
    world.run(1)
    assert world.views() == {"b~1"}


def test_a_graceful_stop_costs_a_beat_at_most() -> None:
    world = three()
    world.run(20)
    world.close("a")
    assert world.until(lambda: world.leaders() == ["b"], 1.1) < 0.1
    assert ("left", "a~1") in world.nodes["b"].peers


def test_stepping_down_gives_the_role_to_another_and_it_does_not_fall_back_at_once() -> None:
    world = three()
    world.run(20)
    world.step_down("a")
    world.until(lambda: world.leaders() == ["b"], 1.1)
    # Then it is a better ranked one like any other, and gets the role back when b's term ends.
    world.until(lambda: world.leaders() == ["a"], 12)
    alone = World()
    alone.start("z")
    alone.run(15)
    alone.step_down("z")
    alone.until(lambda: alone.leaders() == ["z"], 1.1)


def test_a_better_ranked_newcomer_waits_for_the_end_of_the_term() -> None:
    world = World()
    world.start("b", 1)
    world.start("c", 2)
    world.run(20)
    assert world.leaders() == ["b"]
    world.start("a", 0)
    moved = world.until(lambda: world.leaders() == ["a"], 12)
    assert moved > 1
    planned = [why for _, why in world.nodes["b"].ended]
    assert planned == ["outranked by a~1"]
    gap = world.nodes["a"].terms[0][0] - world.nodes["b"].ended[0][0]
    assert gap < 0.05 * SECOND, "a handover by plan has no gap of a lease"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ["lease", "rank"])
@pytest.mark.parametrize("sides", [[{"a"}, {"b", "c"}], [{"a"}, {"b"}, {"c"}]])
def test_a_split_has_a_leader_on_each_side_and_heals(order: str, sides: list[set[str]], seed: int) -> None:
    world = three(seed, order=order)
    world.run(20)
    world.split(*sides)
    world.run(30 + world.random.uniform(0, 10))
    assert len(world.leaders()) == len(sides)
    world.heal()
    # Several lead for a beat and a delay at most.
    world.until(lambda: len(world.leaders()) == 1, 1.1)
    if order == "rank":
        assert world.leaders() == ["a"]
    # The lowest rank has it within a lease and a beat.
    world.until(lambda: world.leaders() == ["a"], 11.2)
    world.run(1.1)
    assert world.views() == {"a~1"}
    world.run(30)
    assert world.leaders() == ["a"]


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_delay_disturb_nobody(seed: int) -> None:
    world = World(seed, delay=(200.0, 900.0), loss=0.1)
    for rank, name in enumerate("abcd"):
        world.start(name, rank, start_offset_ms=rank * 211, wall=world.random.uniform(-0.5, 0.5))
    world.run(60)
    assert len(world.leaders()) == 1
    changes = sum(len(node.terms) for node in world.nodes.values())
    for _ in range(200):
        world.run(1)
        assert len(world.leaders()) <= 1
    assert sum(len(node.terms) for node in world.nodes.values()) <= changes + 2


def test_tokens_grow_on_one_side_through_everything() -> None:
    world = three()
    world.run(20)
    for victim in ("a", "b"):
        world.kill(victim)
        world.run(20)
    for name in "abc":
        world.kill(name)
    world.start("d", 0)  # all are gone, and all is forgotten
    world.run(20)
    terms = sorted(term for node in world.nodes.values() for term in node.terms)
    assert len(terms) == 4
    assert [number for _, number in terms] == sorted({number for _, number in terms})
    assert all(number < 2**53 for _, number in terms)
    assert token(5, "a~1") != token(5, "b~1")


def test_members_and_their_views() -> None:
    world = three()
    world.run(20)
    views = {id: peer.views for id, peer in world.nodes["a"].core.peers().items()}
    assert views == {"b~1": {"x": "a~1"}, "c~1": {"x": "a~1"}}
    assert world.nodes["b"].peers == [("joined", "a~1"), ("joined", "c~1")] or len(world.nodes["b"].peers) == 2
    world.kill("c")
    world.run(2.6)
    assert ("not heard", "c~1") in world.nodes["a"].peers
    assert set(world.nodes["a"].core.peers()) == {"b~1"}


def test_one_election_for_each_role_on_one_set_of_calls() -> None:
    world = World()
    world.start("a", 0, roles=("x",))
    world.start("b", 1, roles=("x", "y"))
    world.start("c", 2, roles=("x", "y", "z"))
    world.run(20)
    assert [world.leaders(role) for role in ("x",)] == [["a"]]
    b, c = world.nodes["b"], world.nodes["c"]
    assert b.core.holds("y", world.now + b.stopwatch)
    assert c.core.holds("z", world.now + c.stopwatch)
    before = world.sent
    world.run(10)
    assert world.sent - before <= 10 * 3 * 3, "calls for each role of its own"


@pytest.mark.parametrize("count", [5, 10, 20, 40, 80])
def test_traffic_grows_with_the_square_of_the_members(count: int) -> None:
    world = World(delay=(0.5, 2.0))
    for rank in range(count):
        world.start(f"n{rank}", rank, start_offset_ms=world.random.randrange(1000), init_ms=0)
    world.run(2)
    before, beats = world.delivered, 2
    world.run(beats)
    assert count * count <= (world.delivered - before) / beats <= 3 * count * count + count


def test_what_is_heard_may_be_anything() -> None:
    world = three()
    world.run(20)
    claim = Claim("x", "evil~1", -5, 2**31 - 1, 1, 600_000, 2**52)
    evil = b'{"v":1,"k":"ping","g":"g","m":"evil~1","n":1,"s":1795000020000,"r":-5,"p":"ping","e":["x"],"c":['
    evil += b'{"role":"x","holder":"evil~1","rank":-5,"term":%d,"seq":1,"ttl":600000,"expires":9}]}' % claim.term
    for payload in (b"", b"\xff", b"[" * 5000, b"{}", b"x" * 70_000, b'{"v":2}', evil):
        world.send("evil", "a", payload)
    world.run(1)
    assert world.nodes["a"].core.bad == 7
    world.run(30)
    assert world.leaders() == ["a"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lease_ms": 2000}, "3 beats"),
        ({"heartbeat_ms": 0}, "a beat 1 ms"),
        ({"skew_ms": -1}, "negative"),
        ({"init_ms": -1}, "negative"),
        ({"lease_ms": 700_000}, "600000"),
        ({"order": "age"}, "neither 'lease' nor 'rank'"),
        ({"when_isolated": "panic"}, "neither 'lead' nor 'step_down'"),
    ],
)
def test_settings_that_can_t_work(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check(Settings("g", "a~1", **options))
