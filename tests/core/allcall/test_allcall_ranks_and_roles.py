"""Ranks are any distinct integers, and everybody knows who leads what, whoever may lead it (seed 001)."""

from __future__ import annotations

from typing import Any

import pytest
from allcall_world import World

from pares.core.allcall.election import Election, Known
from pares.core.allcall.messages import MAX_RANK, VERSION, Bad, Call, Claim, decode, encode
from pares.core.allcall.others import MAX_WATCHED
from pares.core.events import Received

FAST: dict[str, Any] = {"heartbeat_ms": 200, "lease_ms": 800, "skew_ms": 50}
LONG = 0x9F3C_77A1_0B5D_42E8_8A6F_1C90_D7E3_25B4


@pytest.mark.parametrize(
    ("ranks", "first"),
    [
        ((-7, 0, 3), 0),
        ((2**31, 2**40, -(2**63)), 2),
        ((LONG, LONG - 1, 2**200), 1),
        ((1 - MAX_RANK, 0, MAX_RANK - 1), 0),
    ],
)
@pytest.mark.parametrize("order", ["lease", "rank"])
def test_ranks_are_any_integers_and_the_lowest_leads(ranks: tuple[int, ...], first: int, order: str) -> None:
    world = World()
    for name, rank in zip("abc", ranks, strict=True):
        world.start(name, rank, order=order, start_offset_ms=abs(rank) % 200, **FAST)
    world.run(6.0)
    assert world.leaders() == ["abc"[first]]
    now = world.now
    assert all(node.core.leader("x", now + node.stopwatch) == f"{'abc'[first]}~1" for node in world.nodes.values())
    assert {peer.rank for node in world.nodes.values() for peer in node.core.peers().values()} == set(ranks)
    assert not any(node.core.bad for node in world.nodes.values())


def test_a_rank_beyond_what_a_call_has_room_for_is_no_call() -> None:
    good = Call(VERSION, "ping", "g", "a~1", 1, 1, MAX_RANK - 1, "ping", ["x"], [])
    assert decode(encode(good)) == good
    for rank in (MAX_RANK, -MAX_RANK):
        text = encode(good).replace(str(MAX_RANK - 1).encode(), str(rank).encode())
        assert isinstance(decode(text), Bad)
    assert isinstance(decode(encode(good).replace(str(MAX_RANK - 1).encode(), b"9" * 5000)), Bad)


def test_everybody_knows_who_leads_a_role_that_it_would_not_lead_itself() -> None:
    world = World()
    world.start("a", 0, roles=("x",), **FAST)
    world.start("b", 1, roles=("x", "y"), **FAST)
    other = world.start("c", 2, roles=("z",), **FAST)
    world.run(4.0)
    now = world.now + other.stopwatch
    assert {role: other.core.leader(role, now) for role in "xyz"} == {"x": "a~1", "y": "b~1", "z": "c~1"}
    assert sorted(other.core.led(now)) == ["x", "y", "z"]
    assert other.core.leader("nobody's", now) is None
    assert "c" not in world.leaders("x"), "it does not lead them for that"
    world.kill("b")
    world.run(4.0)
    assert other.core.leader("y", world.now + other.stopwatch) is None, "as far as it knows, nobody leads it any more"
    assert other.core.leader("x", world.now + other.stopwatch) == "a~1"


def test_roles_of_others_are_kept_in_mind_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    node = world.start("a", 0, **FAST)
    for batch in range(MAX_WATCHED // 100 + 20):
        claims = [Claim(f"r{batch}-{n}", "b~1", 1, 5, 1, 100, 1) for n in range(100)]
        call = Call(VERSION, "ping", "g", "b~1", batch + 1, world.wall_us(node) // 1000, 1, "ping", [], claims)
        world.tell("a", Received(encode(call), world.wall_us(node)))
    assert len(node.core.led(world.now + node.stopwatch)) == MAX_WATCHED
    looks, best = [0], Election.best

    def counted(election: Election, now: int) -> Known | None:
        looks[0] += 1
        return best(election, now)

    with monkeypatch.context() as patch:
        patch.setattr(Election, "best", counted)
        claims = [Claim(f"more-{n}", "b~1", 1, 5, 1, 100, 1) for n in range(100)]
        call = Call(VERSION, "ping", "g", "b~1", 10**5, world.wall_us(node) // 1000, 1, "ping", [], claims)
        world.tell("a", Received(encode(call), world.wall_us(node)))
    assert looks[0] < 3 * MAX_WATCHED, "it looks for room once a beat, not for each role that it has no room for"
    world.run(2.0)
    call = Call(
        VERSION,
        "ping",
        "g",
        "b~1",
        10**6,
        world.wall_us(node) // 1000,
        1,
        "ping",
        [],
        [Claim("new", "b~1", 1, 5, 1, 100, 1)],
    )
    world.tell("a", Received(encode(call), world.wall_us(node)))
    assert node.core.led(world.now + node.stopwatch) == ["x", "new"], "what has ended gives its place to what is new"
