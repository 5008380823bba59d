"""Real members of NELI, Fast NELI and NELE, and a log that turns out to be another one, or has lost its tail."""

from __future__ import annotations

from typing import Any

import pytest

import pares
from pares.core.neli.protocols import MODES
from pares.sim.engine import MS, SECOND
from pares.sim.world.process import Process
from pares.sim.world.simulation import World


class Pair:
    """Two members that lead the role "A" if they can."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.world = World(1)
        self.members: list[pares.Member] = []
        self.terms: list[int] = []

    def main(self, process: Process) -> None:
        ledger: Any = self.world.ledger(process, self.world.log())
        settings: dict[str, Any] = {"group": "g", "roles": "A", "name": process.name, "protocol": self.protocol}
        member = pares.Member(ledger, session=1.0, settle=0.05, **settings)
        self.members.append(member)
        for term in member.terms("A"):
            self.terms.append(term.token)
            term.wait_lost()

    def begin(self) -> None:
        for name in ("m0", "m1"):
            self.world.start(name, self.main)

    def check(self, before: int) -> None:
        assert [member._life.state for member in self.members] == ["live", "live"]
        assert len(self.terms) > before, "nobody leads any more"


@pytest.mark.parametrize("protocol", MODES)
@pytest.mark.parametrize("after_ms", [0, 130, 260, 390])
def test_a_log_that_was_replaced_is_begun_anew_once(protocol: str, after_ms: int) -> None:
    """Whenever that falls between two looks at its identity: a reader may find its place gone before it looks."""
    pair = Pair(protocol)
    with pair.world.playing() as world:
        pair.begin()
        world.run(8 * SECOND + after_ms * MS)
        before = len(pair.terms)
        world.log().replace()
        world.run(16 * SECOND)
        pair.check(before)
        assert len(pair.terms) == before + 1


@pytest.mark.parametrize("protocol", MODES)
def test_a_log_that_lost_its_tail_is_gone_on_with(protocol: str) -> None:
    pair = Pair(protocol)
    with pair.world.playing() as world:
        pair.begin()
        world.run(8 * SECOND)
        before = len(pair.terms)
        world.log().lose_tail(4)
        world.run(20 * SECOND)
        pair.check(before)
