"""Tokens after a split: the leader that remains can go on writing behind a fence that has seen the other one's."""

from __future__ import annotations

from typing import Any

import pytest
from allcall_world import World

from pares.core.allcall.election import Election

FAST: dict[str, Any] = {"heartbeat_ms": 100, "lease_ms": 1000, "skew_ms": 50}


def healed(order: str, seed: int, *sides: str) -> World:
    world = World(seed)
    for rank, name in enumerate("abcdef"):
        world.start(name, rank, start_offset_ms=rank * 7, order=order, **FAST)
    world.until(lambda: world.leaders() == ["a"], 3)
    world.split(*(set(side) for side in sides))
    world.until(lambda: len(world.leaders()) == len(sides), 3)
    world.run(1 + seed * 0.13)
    world.heal()
    world.until(lambda: len(world.leaders()) == 1, 0.5)
    world.run(0.1)
    return world


@pytest.mark.parametrize("order", ["lease", "rank"])
@pytest.mark.parametrize("sides", [("ab", "cdef"), ("ab", "cd", "ef")])
@pytest.mark.parametrize("seed", range(4))
def test_the_leader_that_remains_has_the_highest_token(order: str, sides: tuple[str, ...], seed: int) -> None:
    world = healed(order, seed, *sides)
    (leader,) = world.leaders()
    tokens = {name: [token for _, token in node.terms] for name, node in world.nodes.items()}
    others = [token for name in tokens if name != leader for token in tokens[name]]
    assert tokens[leader][-1] > max(others)
    for used in tokens.values():
        assert used == sorted(set(used)), "each member's own tokens grow"
    before = len(tokens[leader])
    world.run(3)
    if world.leaders() == [leader]:
        assert len(world.nodes[leader].terms) == before, "once is enough"


def test_without_the_rule_a_fence_may_refuse_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Election, "outbid", lambda self: None)
    world = healed("rank", 0, "ab", "cdef")
    assert world.leaders() == ["a"]
    assert world.nodes["a"].terms[-1][1] < world.nodes["c"].terms[-1][1]


def test_a_new_token_makes_no_lease_longer() -> None:
    world = healed("rank", 0, "ab", "cdef")
    (mine,) = [claim for claim in [world.nodes["a"].core.claim("x", world.now + world.nodes["a"].stopwatch)] if claim]
    assert mine.deadline - world.now - world.nodes["a"].stopwatch <= 1_000_000_000


def test_who_only_hears_does_not_go_on_for_ever() -> None:
    """A leader that hears another one, which can't hear it: one new term for each of the other's, and no more."""
    world = World(3)
    for rank, name in enumerate("ab"):
        world.start(name, rank, start_offset_ms=rank * 7, order="rank", **FAST)
    world.until(lambda: world.leaders() == ["a"], 3)
    world.cut = lambda source, target: (source, target) == ("a", "b")
    world.until(lambda: world.leaders() == ["a", "b"], 3)
    world.run(5)
    assert world.leaders() == ["a", "b"]
    assert len(world.nodes["a"].terms) == 2
    assert len(world.nodes["b"].terms) == 1
