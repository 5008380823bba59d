"""A handle that does in one call what otherwise takes one for each partition: `pares.ledger.ManyAtOnce` in virtual time.

It stands for a ledger that is one file, whose appends are transactions: what one call brings lands in all partitions in one
instant, or in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from pares.ledger.base import check_payloads
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import Flight, Link, Weather
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process
from pares.sim.world.seam import Ground

WHOLE: Final = dict.fromkeys(("copied", "split", "torn"), 0.0)
"""What a transaction is spared."""


class Together(Link):
    """The way of one call: the ways to its partitions, each with what is to land there. It is cut where one of them is."""

    def __init__(self, world: Ground, ways: Sequence[tuple[Link, bytes]], rng: Random, weather: Weather) -> None:
        super().__init__(world, ways[0][0].log, rng, msgspec.structs.replace(weather, **WHOLE))
        self._ways = ways

    def _look(self) -> None:
        self.writes_cut = any(link.writes_cut for link, _ in self._ways)
        self.acks_cut = any(link.acks_cut for link, _ in self._ways)

    def _asked(self, payload: bytes) -> str:
        """What a scenario wants to befall one of its records befalls the call."""
        self._look()
        return next((fate for fate in (link._asked(record) for link, record in self._ways) if fate), "")

    def _put(self, flight: Flight, payloads: tuple[bytes, ...], hole: int = 0) -> Sequence[int]:
        found: list[int] = []
        for link, payload in self._ways:
            found += link._put(flight, (payload,), hole)
        self._look()
        return found

    def _acknowledge(self, flight: Flight) -> None:
        self._look()
        super()._acknowledge(flight)


class ManySimLedger(SimLedger):
    """See above."""

    def __init__(self, process: Process, log: SharedLog, weather: Weather, *, has_bell: bool = True) -> None:
        super().__init__(process, log, weather, has_bell=has_bell)
        self._rng = process.world.random(f"{log.name}/many/{process.name}/{process.pid}")

    def append_each(self, payloads: Sequence[tuple[int, bytes]], *, urgent: bool = True) -> list[int]:
        process = self._process
        process.cross("append")
        check_payloads([payload for _, payload in payloads])
        ways = [(self._open(partition), payload) for partition, payload in payloads]
        if not ways:
            return []
        for partition, payload in payloads:
            process.world.sent(process, self, partition, [payload])
        way = Together(process.world, ways, self._rng, self._weather)
        return self._deliver(way, tuple(payload for _, payload in payloads), urgent=urgent)

    def changed(self, offsets: Sequence[int]) -> list[int]:
        """Of a partition that it can't reach it says that there is something: the read that follows finds out."""
        process = self._process
        process.cross("read")
        links = [self._open(partition) for partition in range(len(offsets))]
        way = next((link for link in links if not link.reads_cut), links[0])
        self._reach(way)
        horizon = process.world.now - self._weather.lag
        found = [n for n, link in enumerate(links) if link.reads_cut or _news(link, offsets[n], horizon)]
        self._back(way)
        process.cross("read:fetched")
        return found


def _news(link: Link, offset: int, horizon: int) -> bool:
    log = link.log
    return not log.start <= offset <= log.end or bool(log.read(offset, horizon, 1))
