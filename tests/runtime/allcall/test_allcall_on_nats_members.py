"""Members that run ALLCALL over core NATS: real servers that are restarted, frozen and lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from allcall_tools import PATIENCE, TIMES, band, leading, member, settle
from runtime_tools import Crew, Recorder, until

import pares
from pares.core.errors import CapabilityError
from pares.dev import Nats
from pares.ledger import open_bus

pytestmark = pytest.mark.processes


@pytest.fixture
def own() -> Iterator[Nats]:
    with Nats(jetstream=False) as nats:
        yield nats


@pytest.fixture
def three() -> Iterator[Nats]:
    with Nats(nodes=3, jetstream=False) as nats:
        yield nats


def url_of(nats: Nats, *nodes: int) -> str:
    """Core NATS at these nodes; at all if none is named."""
    places = [node.place.address for node in nats.nodes if not nodes or node.id in nodes]
    return f"nats://{','.join(places)}"


def test_the_surface_on_core_nats(own: Nats) -> None:
    crew = Crew(url_of(own))
    barrier = Recorder()
    a = member(crew, "a", 0, ("x", "y"), barrier=barrier)
    b = member(crew, "b", 1, ("x", "y"))
    settle([a, b])
    with pares.Observer(url_of(own), group="g", protocol="allcall") as observer:
        until(lambda: (held := observer.leader("x")) is not None and held.name == "a", "it is heard")
    a.hand_over("x")
    assert b.wait("x", PATIENCE)
    assert a.holds("y")
    assert a.wait("x", PATIENCE)
    a.close()
    assert b.wait("x", PATIENCE)
    assert b.wait("y", PATIENCE)
    ends = barrier.kinds().count("Revoked") + barrier.kinds().count("Fenced")
    assert ends == barrier.kinds().count("Acquired"), barrier.events
    assert b.health().ok
    assert b.health().bad_records == b.health().uncounted_records == 0


@pytest.mark.parametrize("when", ["lead", "step_down"])
def test_without_a_server_each_does_as_it_was_told_and_then_one_leads(own: Nats, when: Any) -> None:
    crew = Crew(url_of(own))
    members = band(crew, "abc", when_isolated=when)
    own.kill(1)
    wanted = ["a", "b", "c"] if when == "lead" else []
    until(lambda: leading(members) == wanted, "each is alone")
    assert all(m.health().unreachable is not None for m in members)
    own.restart(1)
    until(lambda: len(leading(members)) == 1, "one leads")
    settle(members)
    assert all(m.health().uncounted_records == 0 for m in members), "nothing of what was said meanwhile comes later"


def test_a_server_that_stands_still(own: Nats) -> None:
    """Nothing passes, and no connection breaks: each is alone until it goes on."""
    crew = Crew(url_of(own))
    members = band(crew, "ab")
    own.freeze(1)
    until(lambda: leading(members) == ["a", "b"], "each is alone")
    own.thaw(1)
    settle(members)


def test_a_cluster_that_loses_the_node_of_its_leader(three: Nats) -> None:
    """Each member is at a node of its own, and knows all: who loses its own goes to another, and nobody else notices."""
    crew = Crew("")
    everywhere = [node.id for node in three.nodes]
    members = [
        member(crew, name, rank, ledger=url_of(three, *everywhere[rank:], *everywhere[:rank]))
        for rank, name in enumerate("abc")
    ]
    settle(members)
    for node in everywhere:
        three.kill(node)
        until(lambda: len(leading(members)) == 1, "one leads")
        settle(members)
        three.restart(node)
        settle(members)
    until(lambda: all(m.health().ok for m in members), "all are well")


def test_a_stream_is_a_bus_too(nats: Nats) -> None:
    crew = Crew(nats.stream_url("allcall-members"))
    settle(band(crew, "ab"))
    ledger = pares.open(str(crew.ledger))
    assert ledger.end() == 0, "nothing is written down"
    ledger.close()


def test_commands_listen_where_there_is_no_log(own: Nats) -> None:
    crew = Crew(url_of(own))
    a, _ = band(crew, "ab")
    for command, code in (("watch", 0), ("doctor", 0)):
        told = [sys.executable, "-m", "pares", command, "--ledger", url_of(own), "--group", "g", "--json"]
        done = subprocess.run(told, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        now = json.loads(done.stdout)
        assert [(role["role"], role["member"]) for role in now["roles"]] == [("x", a.id)]
        assert [member["name"] for member in now["members"]] == ["a", "b"]
    other = [*told[:-3], "--group", "nobody", "--listen", "0.5"]
    done = subprocess.run(other, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "nobody of a group 'nobody' was heard" in done.stderr


def test_core_nats_carries_nothing_else(own: Nats) -> None:
    with pytest.raises(CapabilityError, match="has no log"):
        pares.Member(url_of(own), group="g", roles=["x"])
    bus = open_bus(url_of(own))
    with pares.Member(bus, group="g", roles=["x"], protocol=pares.AllCall(**TIMES)) as me:
        assert me.wait("x", PATIENCE)
    bus.close()
