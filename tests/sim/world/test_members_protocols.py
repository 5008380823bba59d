"""Members of every protocol run on the host in virtual time: one leads, it is killed, another takes over."""

from __future__ import annotations

from typing import Any

import pytest

import pares
from pares.sim.engine import SECOND
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

PROTOCOLS = ["claims", "neli", "nele", "fast-neli", "allcall"]


class Group:
    """Three processes, a second apart, each with a member that leads the role "A" if it can. `terms`: (time, name, token)."""

    def __init__(self, protocol: Any, *, told: bool = False) -> None:
        self.protocol = protocol
        self.terms: list[tuple[int, str, int]] = []
        self.world = World(1, told=told)
        self.names = ("m0", "m1", "m2")

    def main(self, process: Process) -> None:
        world = self.world
        more: dict[str, Any] = {"session": 1.0, "protocol": self.protocol}
        medium: Any = world.ledger(process, world.log())
        if self.protocol == "allcall":
            medium, more = world.on_bus(process, world.bus()), {"protocol": pares.AllCall(lease=1.0, heartbeat=0.25)}
        member = pares.Member(medium, group="g", roles="A", name=process.name, **more)
        for term in member.terms("A"):
            self.terms.append((world.now, process.name, term.token))
            while term:
                process.host.sleep(0.01)

    def begin(self) -> None:
        for place, name in enumerate(self.names):
            self.world.after(place * SECOND, self.world.start, name, self.main)

    def leader(self) -> str:
        return self.terms[-1][1]

    def kill_leader(self) -> None:
        self.world.kill(self.world.processes[self.leader()])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_takes_over_from_a_leader_that_was_killed(protocol: str) -> None:
    group = Group(protocol)
    with group.world.playing() as world:
        group.begin()
        world.run(20 * SECOND)
        first, before = group.leader(), len(group.terms)
        group.kill_leader()
        world.run(40 * SECOND)
    after = group.terms[before:]
    assert after, "nobody took over"
    at, second, token = after[0]
    assert second != first
    assert at - 20 * SECOND < 6 * SECOND
    assert token > max(token for _, _, token in group.terms[:before])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_history_of_each_protocol_is_one_history(protocol: str) -> None:
    def history() -> tuple[list[str], list[tuple[int, str, int]]]:
        group = Group(protocol, told=True)
        with group.world.playing() as world:
            group.begin()
            world.run(10 * SECOND)
            return list(world.trace.lines), group.terms

    assert history() == history()


def test_each_side_of_a_split_bus_has_a_leader_and_one_remains_when_it_is_healed() -> None:
    group = Group("allcall")
    with group.world.playing() as world:
        group.begin()
        world.run(10 * SECOND)
        first = group.leader()
        others = {name for name in group.names if name != first}
        world.bus().split({first}, others)
        world.run(20 * SECOND)
        led = {name for _, name, _ in group.terms}
        assert led & others, "the other side leads, too"
        world.bus().split()
        world.run(30 * SECOND)
        terms = len(group.terms)
        world.run(40 * SECOND)
        assert len(group.terms) == terms, "and then nothing moves any more"


@pytest.mark.parametrize("lease", [0.1, 10.0])
def test_a_check_is_asked_twice_a_lease(lease: float) -> None:
    """ALLCALL has no session: what a member's user is asked, it is asked as often as the lease wants it."""
    asked: list[int] = []

    def main(process: Process) -> None:
        protocol = pares.AllCall(lease=lease, heartbeat=lease / 4, skew=lease / 10)
        member = pares.Member(
            world.on_bus(process, world.bus()),
            group="g",
            roles="A",
            protocol=protocol,
            ready=lambda: not asked.append(world.now),
        )
        process.host.sleep(10 * lease)
        member.close()

    world = World(1)
    with world.playing():
        world.start("m", main)
        world.run(int(12 * lease * SECOND))
    assert 15 <= len(asked) <= 25
