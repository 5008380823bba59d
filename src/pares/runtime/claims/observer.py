"""Reading along with a group of the claims protocol, for `Observer`: its fold, and nothing else."""

from __future__ import annotations

from typing import Final

from pares.core.errors import CapabilityError
from pares.core.wire.changes import Change
from pares.core.wire.reader import Reader, State
from pares.core.wire.world import World
from pares.ledger import Ledger
from pares.runtime.detect import newest
from pares.runtime.driver.logs import Attention
from pares.runtime.host import Host

CHUNK: Final = 1000


class ClaimsFollower:
    """See `driver.kit.Follows`."""

    def __init__(self, ledger: Ledger, group: str, partition: int, host: Host) -> None:
        self._ledger, self._group, self._partition = ledger, group, partition
        self._attention = Attention(ledger, partition)
        self._reader = Reader(group)
        self._reader.attach(ledger.start(partition), ledger.end(partition))

    @property
    def adrift(self) -> bool:
        return self._reader.state is State.ADRIFT

    @property
    def world(self) -> World:
        return self._reader.world

    def read(self, into: list[Change], timeout: float) -> bool:
        reader = self._reader
        while True:
            entries = self._ledger.read(reader.position, self._partition, CHUNK, timeout)
            before = reader.position
            into += reader.feed(entries)
            if reader.too_new:
                raise CapabilityError(reader.upgrade)
            self._attention.pays(len(reader.world.members))
            timeout = 0.0
            if not reader.world.base and newest(entries, self._group):
                return True
            if not entries and reader.position == before:
                return False
