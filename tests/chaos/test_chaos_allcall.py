"""ALLCALL on real NATS servers in networks of their own: components that heal, and links that carry one direction only.

Cuts drop packets without a word, as when a cable is pulled: what was sent into one is sent again by TCP when it is over, late.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from allcall_players import Player, Players, until
from bench.allcall.faults import network, servers
from chaos.net import Net

from chaos import net as chaos_net
from pares.core.errors import CapabilityError
from pares.dev import Nats

pytestmark = [pytest.mark.brokers, pytest.mark.processes]
TIMES: dict[str, Any] = {"heartbeat": 0.3, "lease": 3.0, "skew": 0.1}
COMPONENTS = (("s1", "m1"), ("s2", "m2"), ("s3", "m3"))


@pytest.fixture
def net() -> Iterator[Net]:
    try:
        chaos_net.require_rights()
    except CapabilityError as error:
        pytest.skip(str(error))
    with network(*itertools.chain(*COMPONENTS)) as net:
        yield net


def start(players: Players, net: Net, nats: Nats, node: int, name: str, rank: int, **more: Any) -> Player:
    """A member at `node`, in the network of its own of the component with that number."""
    url = f"nats://{nats.nodes[min(node, len(nats.nodes)) - 1].place.address}"
    return players.start(url, name, rank, TIMES | more, net.prefix(f"m{node}"))


def apart(*sides: tuple[str, ...]) -> list[tuple[str, str]]:
    """Cuts between each two of these, both ways."""
    return [(one, other) for a, b in itertools.permutations(sides, 2) for one in a for other in b]


@pytest.mark.parametrize("order", ["lease", "rank"])
def test_three_components_that_heal(net: Net, order: str) -> None:
    with servers(net, "s1", "s2", "s3") as nats, Players() as players:
        for node, name in enumerate("abc", start=1):
            start(players, net, nats, node, name, node, order=order)
        players.come_to("a")
        with net.cut(apart(*COMPONENTS)):
            players.come_to("a", "b", "c")
        until(lambda: len(players.leading()) == 1, "one remains")
        players.come_to("a")


def test_components_that_heal_one_after_the_other(net: Net) -> None:
    with servers(net, "s1", "s2", "s3") as nats, Players() as players:
        for node, name in enumerate("abc", start=1):
            start(players, net, nats, node, name, node)
        players.come_to("a")
        with net.cut(apart(("s1", "m1"), ("s2", "m2", "s3", "m3"))):
            with net.cut(apart(("s2", "m2"), ("s3", "m3"))):
                players.come_to("a", "b", "c")
            players.come_to("a", "b")
        players.come_to("a")


@pytest.mark.parametrize("cut", [("m1", "s1"), ("s1", "m1")], ids=["not heard", "hears nothing"])
def test_a_one_way_cut_of_the_leader_that_steps_down(net: Net, cut: tuple[str, str]) -> None:
    """It does not hear itself any more: whichever direction is gone, it stops before anybody else may begin."""
    with servers(net, "s1") as nats, Players() as players:
        a, b = (
            start(players, net, nats, node, name, node, when_isolated="step_down")
            for node, name in ((1, "a"), (2, "b"))
        )
        players.come_to("a")
        first = a.token
        with net.cut([cut]):
            players.come_to("b")
            second = b.token
            assert second > first
        players.come_to("a")
        assert a.token > second
        assert max(a.by(first)) < min(b.by(second))


@pytest.mark.parametrize("cut", [("m1", "s1"), ("s1", "m1")], ids=["not heard", "hears nothing"])
def test_a_one_way_cut_of_a_leader_that_is_to_go_on(net: Net, cut: tuple[str, str]) -> None:
    """The others can't hear it, so both lead; and one does when the cut is over."""
    with servers(net, "s1") as nats, Players() as players:
        a, b = (start(players, net, nats, node, name, node) for node, name in ((1, "a"), (2, "b")))
        players.come_to("a")
        first = a.token
        with net.cut([cut]):
            players.come_to("a", "b")
            assert b.token > first
        until(lambda: len(players.leading()) == 1, "one remains")
        players.come_to("a")


@pytest.mark.parametrize("cut", [("m2", "s1"), ("s1", "m2")], ids=["not heard", "hears nothing"])
def test_a_one_way_cut_of_a_follower_disturbs_nobody(net: Net, cut: tuple[str, str]) -> None:
    """It steps down before it leads: the leader's term goes on."""
    with servers(net, "s1") as nats, Players() as players:
        a, b = (
            start(players, net, nats, node, name, node, when_isolated="step_down")
            for node, name in ((1, "a"), (2, "b"))
        )
        players.come_to("a")
        first = a.token
        with net.cut([cut]):
            seen = len(a.acts)
            until(lambda: len(a.acts) > seen + 500, "a goes on for five seconds, which is more than lease and skew")
            assert b.acts == []
        players.come_to("a")
        assert a.token == first
