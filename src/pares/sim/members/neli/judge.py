"""Reads every record of these protocols the moment it lands, in whichever partition, and tells promises and the trace of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pares.core.wire.neli_records import Announce, Foreign, InductionRecord, Number, RolesChanged, Yield, decode
from pares.core.wire.records import BadRecord, Unknown
from pares.sim.log import EntryTuple

if TYPE_CHECKING:
    from pares.sim.world.logs.shared import SharedLog
    from pares.sim.world.simulation import World


class Landed(Struct, frozen=True):
    """One record, of whatever group."""

    number: int
    """Of the partition."""
    offset: int
    record: InductionRecord


class InductionJudge:
    """Of one log."""

    def __init__(self, world: World, log: SharedLog) -> None:
        self.world = world
        self.log = log
        self.records = 0
        self.renewed_at = -1
        """The true time at which another log came, or this one lost something that it had acknowledged."""
        self.landed: list[Callable[[Landed], object]] = []
        self._listening = 0
        self.listen()
        log.renewed.append(self._renewed)

    def listen(self) -> None:
        """To all partitions, those that have just come included."""
        for number in range(self._listening, len(self.log.partitions)):
            self.log.partitions[number].listeners.insert(
                0, lambda entries, number=number: self._landed(number, entries)
            )
        self._listening = len(self.log.partitions)

    def _landed(self, number: int, entries: list[EntryTuple]) -> None:
        self.records += len(entries)
        for offset, _, payload in entries:
            record = decoded(payload)
            if record is None:
                self._tell_other(number, offset, payload)
                continue
            if self.world.trace.told:
                self._tell(number, offset, record)
            landed = Landed(number, offset, record)
            for call in self.landed:
                call(landed)

    def _tell(self, number: int, offset: int, record: InductionRecord) -> None:
        what = type(record).__name__.lower()
        if isinstance(record, Announce):
            what = f"announces token {record.b + offset}"
        elif isinstance(record, Yield):
            what = f"yields token {record.term} ({record.why}){'' if record.led else ', never led'}"
        elif isinstance(record, Number):
            what = f"names {', '.join(record.names)}"
        elif isinstance(record, RolesChanged):
            what = f"roles +{list(record.add)} -{list(record.drop)}"
        elif getattr(record, "term", 0):
            what += f" for token {record.term}{' (leads)' if record.lead else ''}"  # type: ignore[union-attr]
        self.world.trace.add(self.world.now, "log", f"{number}#{offset} {record.g} {record.m} {what}")

    def _tell_other(self, number: int, offset: int, payload: bytes) -> None:
        """Of the claims that share the partitions out, and whatever else stands there."""
        if self.world.trace.told:
            try:
                record = decode(payload)
            except BadRecord:
                self.world.trace.add(self.world.now, "log", f"{number}#{offset} garbage")
                return
            if isinstance(record, Foreign) and not isinstance(record.record, Unknown):
                told = type(record.record).__name__.lower()
                place = getattr(record.record, "seat", "")
                self.world.trace.add(
                    self.world.now, "log", f"{number}#{offset} {record.g} {record.m} {told} {place or ''}"
                )

    def _renewed(self) -> None:
        self.renewed_at = self.world.now

    def end(self) -> None:
        """Nothing is left to be looked at."""


def decoded(payload: bytes) -> InductionRecord | None:
    """What stands in a log; None for what is no record of these protocols."""
    try:
        record = decode(payload)
    except BadRecord:
        return None
    return None if isinstance(record, Foreign) else record
