"""Reading along with a group of NELI's family, for `Observer`: see `world`."""

from __future__ import annotations

from pares.core.wire.changes import Change
from pares.core.wire.world import World
from pares.ledger import Ledger
from pares.runtime.host import Host
from pares.runtime.neli.world import Tenures


class NeliFollower:
    """See `driver.kit.Follows`. The group has all partitions of the log."""

    adrift = False

    def __init__(self, ledger: Ledger, group: str, partition: int, host: Host) -> None:
        self._tenures = Tenures(ledger, group, host)

    @property
    def world(self) -> World:
        return self._tenures.world

    def read(self, into: list[Change], timeout: float) -> bool:
        into += [change for change, _ in self._tenures.read(timeout)]
        return False
