"""What lies between one process and everything that it opens: nothing may pass, or all of it late."""

from __future__ import annotations

import msgspec

from pares.sim.engine import SECOND
from pares.sim.world.bus import SimBus
from pares.sim.world.group import BrokerLedger
from pares.sim.world.ledger import SimLedger
from pares.sim.world.link import Weather


class Network:
    """Of one process, also after it was started again. `latency`, `timeout`: seconds."""

    def __init__(self, latency: float, timeout: float) -> None:
        self._latency = int(latency * SECOND)
        self._timeout = int(timeout * SECOND)
        self._later = 0
        self._cut: tuple[str, ...] = ()
        self._ledgers: list[SimLedger] = []
        self._buses: list[SimBus] = []

    def begin(self) -> None:
        """A new process has opened nothing yet."""
        self._ledgers.clear()
        self._buses.clear()

    def adopt(self, handle: SimLedger | SimBus) -> None:
        """The process has opened this."""
        (self._ledgers if isinstance(handle, SimLedger) else self._buses).append(handle)  # type: ignore[arg-type]
        self._apply()

    def cut(self, *what: str) -> None:
        """From now on these don't pass: "reads", "writes", "acks", "group"."""
        self._cut = what
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
            ledger.cut(**{way: way in self._cut for way in ("reads", "writes", "acks")})
            if isinstance(ledger, BrokerLedger):
                ledger.group_cut = "group" in self._cut
        for bus in self._buses:
            bus.cut = "reads" in self._cut or "writes" in self._cut
            bus.air = msgspec.structs.replace(bus.air, delay=(each, each))
