"""What lies between one process and everything that it opens: nothing may pass, or all of it late."""

from __future__ import annotations

import msgspec

from pares.sim.engine import SECOND
from pares.sim.world.bus import SimBus
from pares.sim.world.ledger import SimLedger
from pares.sim.world.link import Weather


class Network:
    """Of one process, also after it was started again. `latency`, `timeout`: seconds."""

    def __init__(self, latency: float, timeout: float) -> None:
        self._latency = int(latency * SECOND)
        self._timeout = int(timeout * SECOND)
        self._later = 0
        self.reads_cut = self.writes_cut = self.acks_cut = False
        self._ledgers: list[SimLedger] = []
        self._buses: list[SimBus] = []

    @property
    def is_cut(self) -> bool:
        return self.reads_cut or self.writes_cut or self.acks_cut

    def begin(self) -> None:
        """A new process has opened nothing yet."""
        self._ledgers.clear()
        self._buses.clear()

    def adopt(self, handle: SimLedger | SimBus) -> None:
        """The process has opened this."""
        (self._ledgers if isinstance(handle, SimLedger) else self._buses).append(handle)  # type: ignore[arg-type]
        self._apply()

    def cut(self, *, reads: bool, writes: bool, acks: bool) -> None:
        self.reads_cut, self.writes_cut, self.acks_cut = reads, writes, acks
        self._apply()

    def slow(self, seconds: float) -> None:
        self._later = int(seconds * SECOND)
        self._apply()

    def _apply(self) -> None:
        each = self._latency + self._later // 2
        for ledger in self._ledgers:
            both = (2 * each, 2 * each)
            ledger.weather = Weather(send=(each, each), ack=(each, each), read=both, timeout=self._timeout)
            ledger.heal()
            ledger.cut(reads=self.reads_cut, writes=self.writes_cut, acks=self.acks_cut)
        for bus in self._buses:
            bus.cut = self.reads_cut or self.writes_cut
            bus.air = msgspec.structs.replace(bus.air, delay=(each, each))
