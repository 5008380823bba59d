"""A listener knows the group as its members do: who is there, whose claims live, and who does not agree."""

from __future__ import annotations

from typing import Any

import pytest
from allcall_world import MS, SECOND, WALL, World

from pares.core.allcall.listener import Overheard
from pares.core.allcall.messages import token
from pares.core.events import Publish
from pares.core.wire.changes import Change, MemberJoined, MemberLeft, SeatChanged

FAST: dict[str, Any] = {"heartbeat_ms": 100, "lease_ms": 1000, "skew_ms": 50}


class Listening(World):
    """A world with somebody who hears what all say."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.overheard = Overheard("g")
        self.changes: list[Change] = []
        self.deaf_to: set[str] = set()

    def _do(self, node: Any, effect: Any) -> None:
        if isinstance(effect, Publish) and node.name not in self.deaf_to:
            self.changes += self.overheard.hear(effect.payload, self.now, (WALL + self.now) // MS)
        super()._do(node, effect)


def three(**options: Any) -> Listening:
    world = Listening()
    for rank, name in enumerate("abc"):
        world.start(name, rank, start_offset_ms=rank * 7, **(FAST | options))
    world.until(lambda: world.leaders() == ["a"], 3)
    world.run(0.3)
    return world


def test_it_knows_members_leaders_and_their_agreement() -> None:
    world = three(order="rank")
    heard = world.overheard
    assert [(m.name, m.rank, m.phase, m.roles, m.views) for m in heard.members()] == [
        ("a", 0, "ping", ("x",), {"x": "a~1"}),
        ("b", 1, "ping", ("x",), {"x": "a~1"}),
        ("c", 2, "ping", ("x",), {"x": "a~1"}),
    ]
    first = heard.members()[0]
    assert (first.heartbeat_ms, first.lease_ms, first.skew_ms, first.order) == (100, 1000, 50, "rank")
    (claim,) = heard.claims("x", world.now)
    assert token(claim.term, claim.holder) == world.nodes["a"].terms[-1][1]
    assert heard.roles() == ["x"]
    assert heard.disagreement(world.now) == {}
    joined = [change.member for change in world.changes if isinstance(change, MemberJoined)]
    assert sorted(joined) == ["a~1", "b~1", "c~1"]
    turns = [change for change in world.changes if isinstance(change, SeatChanged)]
    assert [(t.before, t.holder, t.token) for t in turns] == [(None, "a~1", world.nodes["a"].terms[-1][1])]


def test_who_is_gone_and_what_is_given_up() -> None:
    world = three()
    world.changes.clear()
    world.close("a")
    world.until(lambda: world.leaders() == ["b"], 0.5)
    world.kill("c")
    world.run(0.5)
    world.overheard.pass_time(world.now)
    left = [(change.member, change.cause) for change in world.changes if isinstance(change, MemberLeft)]
    assert ("a~1", "left") in left
    assert ("c~1", "not heard") in left
    assert [m.name for m in world.overheard.members()] == ["b"]
    holders = [change.holder for change in world.changes if isinstance(change, SeatChanged)]
    assert holders[-1] == "b~1"


def test_a_split_shows_while_it_lasts() -> None:
    world = three()
    world.split({"a"}, {"b", "c"})
    world.until(lambda: world.leaders() == ["a", "b"], 2)
    world.run(0.3)
    heard = world.overheard
    assert [claim.holder for claim in heard.claims("x", world.now)] in (["a~1", "b~1"], ["b~1", "a~1"])
    assert heard.disagreement(world.now) == {"x": {"a~1": ["a~1"], "b~1": ["b~1", "c~1"]}}
    world.heal()
    world.until(lambda: len(world.leaders()) == 1, 0.5)
    world.run(0.5)
    assert heard.disagreement(world.now) == {}
    assert len(heard.claims("x", world.now)) == 1


def test_a_claim_ends_by_the_listeners_own_stopwatch() -> None:
    world = three()
    for name in "abc":
        world.kill(name)
    end = world.now
    assert len(world.overheard.claims("x", end + SECOND // 10)) == 1
    assert world.overheard.claims("x", end + 3 * SECOND) == []
    changes = world.overheard.pass_time(end + 3 * SECOND)
    assert [change.cause for change in changes if isinstance(change, SeatChanged)] == ["release"]
    assert world.overheard.members() == []


@pytest.mark.parametrize("payload", [b"", b"{", b"null", b'{"v":9}', b"x" * 70_000])
def test_what_is_no_call_is_counted_and_stops_nobody(payload: bytes) -> None:
    world = three()
    before = world.overheard.messages
    assert world.overheard.hear(payload, world.now, 0) == []
    assert world.overheard.messages == before
    assert sum(world.overheard.bad.values()) == 1
    assert len(world.overheard.members()) == 3


def test_other_groups_and_late_copies_change_nothing() -> None:
    world = three()
    kept: list[bytes] = []
    other = Overheard("g2")
    before = Listening._do

    def keep(self: Listening, node: Any, effect: Any) -> None:
        if isinstance(effect, Publish):
            kept.append(effect.payload)
        before(self, node, effect)

    Listening._do = keep  # type: ignore[method-assign]
    try:
        world.run(0.3)
        late = kept[0]
        world.run(0.3)
    finally:
        Listening._do = before  # type: ignore[method-assign]
    heard = {member.id: member.heard for member in world.overheard.members()}
    world.overheard.hear(late, world.now, 0)
    assert {member.id: member.heard for member in world.overheard.members()} == heard
    other.hear(late, world.now, 0)
    assert other.others == {"g"}
    assert other.members() == []
