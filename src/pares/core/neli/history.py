"""What one partition's log tells of a group that runs NELI or Fast NELI: who led what there, when, and why it ended.

Members judge by `partition_log`; this module uses it too, and adds terms that are over. Such a log has times by two clocks, and
each is used only for what it proves. The broker's stamp says by when a record stood in the log; from that follows by when a
belief that rests on the record was *over*. A member's own times (`at` of a record that says `lead`, `began` and `ended` of a
yield) say when it believed. What a member could not write any more is bounded, never guessed:

- a belief begins when its owner says so, and never before the announcement stood in the log;
- it lasts at least until the last record in which the owner says that it leads;
- it is over, at the latest, `within` after the stamp of the last record that it can rest on. In exclusive mode no record behind
  another member's announcement is one. A non-exclusive belief rests on any member's beacon: its end is bounded as if the owner
  had been cut off at the time when the record after its last one was due.

A role's term begins and ends with the tenure of its partition, or when the role itself comes and goes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from pares.core.neli.partition_log import Track
from pares.core.neli.protocols import is_exclusive
from pares.core.neli.role_mapping import partition_of_number, seat_of_partition
from pares.core.reasons import LEASE_RAN_OUT, SUPERSEDED
from pares.core.wire import neli_records as records
from pares.core.wire.neli_records import NUMBERED
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import MAX_DUE_MS, Seat

BEACONS: Final = 4
"""Beacons that a threshold has room for: in non-exclusive mode T follows when the budget makes them seldom (`classic`)."""


class Sender(Struct):
    """A member, as far as this partition's log tells."""

    id: str
    name: str
    host: str = ""
    protocol: str = ""
    session_ms: int = 0
    drift: float = 0.0
    overlap_ms: int = 0
    """How long its belief may go on after the group has given its partition away: T less the session; 0 in exclusive mode."""
    first: int = 0
    first_ms: int = 0
    last: int = 0
    last_ms: int = 0
    due_ms: int = 0


class Tenancy(Struct):
    """A tenure that came to lead."""

    member: str
    token: int
    offset: int
    """Of its announcement; where that is no longer in the log, of the log's beginning (and `whole` is False)."""
    announced_ms: int
    whole: bool
    exclusive: bool
    roles: dict[str, bool]
    """Its roles, and whether a record has said that it leads since they came."""
    began_ms: int | None = None
    """By its owner's clock; None where its beginning is no longer in the log."""
    led_ms: int = 0
    """The stamp of the first record that says that it leads."""
    said_ms: int = 0
    """By its owner's clock: when it last said that it leads."""
    until_ms: int = 0
    """By the broker's clock: when its belief is over at the latest."""
    fixed: bool = False
    """Whether no later record can prolong it."""
    heir: int = 0
    """The offset of the announcement by which another member came to lead; 0: none has."""
    heir_ms: int = 0
    heir_member: str = ""
    over: bool = False


class Known(Struct, frozen=True):
    """A member was heard of, or has told more of itself."""

    sender: Sender


class Came(Struct, frozen=True):
    """A role has come to this partition."""

    seat: Seat
    offset: int
    at_ms: int


class Went(Struct, frozen=True):
    """It has gone."""

    seat: Seat
    offset: int
    at_ms: int


class Led(Struct, frozen=True):
    """`tenancy` leads this seat: said at `at_ms` by its owner's clock (None: before the log begins), from `offset` on."""

    seat: Seat
    tenancy: Tenancy
    offset: int
    stamp_ms: int
    at_ms: int | None


class Over(Struct, frozen=True):
    """A term of this seat has ended. `ended_ms`: by its owner's clock, if it has said so."""

    seat: Seat
    tenancy: Tenancy
    offset: int
    stamp_ms: int
    by: str
    cause: str
    """yield, handover (non-exclusive: it stopped because another member leads), superseded, anew (its owner has begun anew),
    silent (another member leads, and the owner wrote nothing about its end) or removed (the role)."""
    why: str
    ended_ms: int | None = None


Happening: TypeAlias = Known | Came | Went | Led | Over


class Chronicle:
    """Follows one group in one partition. Feed it entry by entry, in order; a function of the entries alone."""

    def __init__(self, group: str, partition: int, start: int = 0) -> None:
        self.partition = partition
        self.track = Track(group)
        self.track.enter(start, start, 0)
        self.senders: dict[str, Sender] = {}
        self.sender: Sender | None = None
        """The sender of the group's last record."""
        self.first: tuple[int, int] | None = None
        """(offset, stamp) of the group's first record."""
        self.last: tuple[int, int] | None = None
        self._width = 0
        self._seats = 1
        self._announced: dict[int, tuple[int, int]] = {}
        self._led: dict[int, Tenancy] = {}
        """By token: those that led, and whose end is not written yet."""
        self._current: Tenancy | None = None
        self._roles: dict[str, None] = {}

    @property
    def current(self) -> Tenancy | None:
        """The last tenure that came to lead, unless its end is written."""
        return self._current

    @property
    def seats_of_a_role(self) -> int:
        return self._seats

    @property
    def floor(self) -> int:
        """Tokens below it were given out before the log begins; 0 for a log that is whole."""
        return 0 if self.track.start == 0 else self.track.base + self.track.start

    def seats(self) -> list[Seat]:
        """The group's roles that belong here, each with its seat."""
        return [(role, self._index) for role in self._roles]

    def feed(self, entry: EntryLike) -> list[Happening]:
        """What the next entry has to tell."""
        record = self.track.feed(entry, 0)
        if record is None:
            return []
        offset, stamp_ms = entry[0], entry[1]
        self.first = self.first or (offset, stamp_ms)
        self.last = (offset, stamp_ms)
        found: list[Happening] = []
        self._know(record, offset, stamp_ms, found)
        if isinstance(
            record, records.PartitionCount | records.RolesChanged | records.Announce | records.Share | records.Place
        ):
            self._reshape(record, offset, stamp_ms, found)
        if isinstance(record, records.Announce):
            self._announce(record, offset, stamp_ms, found)
        elif isinstance(record, records.Yield):
            self._yield(record, offset, stamp_ms, found)
        elif isinstance(record, records.Pulse | records.Beacon) and record.term:
            self._beat(record, offset, stamp_ms, found)
        return found

    def open(self) -> list[tuple[Seat, Tenancy]]:
        """The terms whose end is not known."""
        return [((role, self._index), t) for t in self._led.values() if not t.heir for role in t.roles]

    def finish(self) -> list[Happening]:
        """What the log's end adds as it is now: terms that a successor ended without a record of their own. Changes nothing,
        so that feeding may go on."""
        found: list[Happening] = []
        for tenancy in [t for t in self._led.values() if t.heir]:
            at = (tenancy.heir, tenancy.heir_ms, tenancy.heir_member)
            for role in [role for role, told in tenancy.roles.items() if told]:
                found.append(Over((role, self._index), tenancy, *at, "silent", ""))
        return found

    # Members -------------------------------------------------------------------------------------------------------------

    def _know(self, record: records.InductionRecord, offset: int, stamp_ms: int, found: list[Happening]) -> None:
        sender = self.senders.get(record.m)
        if sender is None:
            sender = self.senders[record.m] = Sender(record.m, record.m.rpartition("~")[0] or record.m)
            sender.first, sender.first_ms = offset, stamp_ms
            found.append(Known(sender))
        self.sender = sender
        sender.last, sender.last_ms, sender.due_ms = offset, stamp_ms, min(record.s, MAX_DUE_MS)
        if isinstance(record, records.Announce):
            sender.name, sender.host = record.name, record.host
            sender.protocol = record.protocol.removesuffix(NUMBERED)
            sender.session_ms, sender.drift = record.session or record.within, record.drift
            self._more_overlap(sender, record.within)
            found.append(Known(sender))

    def _more_overlap(self, sender: Sender, threshold_ms: int) -> bool:
        more = threshold_ms - sender.session_ms
        if is_exclusive(sender.protocol) or more <= sender.overlap_ms:
            return False
        sender.overlap_ms = more
        return True

    # Roles ---------------------------------------------------------------------------------------------------------------

    @property
    def _index(self) -> int:
        return seat_of_partition(self.partition, self._width, self._seats) if self._width else 0

    def _reshape(self, record: records.InductionRecord, offset: int, stamp_ms: int, found: list[Happening]) -> None:
        """The roles that belong here by the number of partitions now in force, against those that did."""
        before = self._index
        if (
            isinstance(record, records.PartitionCount | records.Share | records.Announce)
            and record.seats <= record.of
            and record.of >= self._width
        ):
            self._width, self._seats = record.of, record.seats
        moved = before != self._index
        now = {role: None for role in self.track.roles if self._belongs(role)}
        for role in [role for role in self._roles if moved or role not in now]:
            found.append(Went((role, before), offset, stamp_ms))
            for tenancy in self._led.values():
                if tenancy.roles.pop(role, False):
                    at = (offset, stamp_ms, tenancy.member)
                    found.append(Over((role, before), tenancy, *at, "removed", ""))
        for role in [role for role in now if moved or role not in self._roles]:
            found.append(Came((role, self._index), offset, stamp_ms))
            if self._current is not None:
                self._current.roles[role] = False
        self._roles = now

    def _belongs(self, role: str) -> bool:
        """Whether a role belongs to this partition. Before any record says how many partitions there are, each role that this
        log names does."""
        if not self._width:
            return True
        index = self._index
        of = (self._width, self._seats)
        return index < self._seats and partition_of_number(self.track.roles[role], *of, index) == self.partition

    # Tenures -------------------------------------------------------------------------------------------------------------

    def _announce(self, record: records.Announce, offset: int, stamp_ms: int, found: list[Happening]) -> None:
        self._announced[record.b + offset] = (offset, stamp_ms)
        for tenancy in list(self._led.values()):
            if tenancy.member == record.m:
                at = (tenancy.heir, tenancy.heir_ms) if tenancy.heir else (offset, stamp_ms)
                self._over(tenancy, *at, record.m, "anew", LEASE_RAN_OUT, None, found)
            elif tenancy.exclusive:
                tenancy.fixed = True

    def _beat(self, record: records.Pulse | records.Beacon, offset: int, stamp_ms: int, found: list[Happening]) -> None:
        tenancy = self._led.get(record.term)
        if tenancy is not None and tenancy.member != record.m:
            return
        if tenancy is None:
            if not record.lead or (self._current is not None and record.term < self._current.token):
                return
            tenancy = self._leads(record.m, record.term, record.b, offset, stamp_ms, found)
            tenancy.began_ms = record.at if tenancy.whole else None
        sender = self.senders[record.m]
        threshold = record.within if tenancy.exclusive else max(record.within, BEACONS * record.s)
        if self._more_overlap(sender, threshold):
            found.append(Known(sender))
        if not tenancy.fixed:
            late = 0 if tenancy.exclusive else record.s
            tenancy.until_ms = max(tenancy.until_ms, stamp_ms + late + threshold)
        if record.lead:
            tenancy.said_ms = max(tenancy.said_ms, record.at)
            self._tell(tenancy, offset, stamp_ms, record.at, found)

    def _tell(self, tenancy: Tenancy, offset: int, stamp_ms: int, at_ms: int, found: list[Happening]) -> None:
        """Its owner says that it leads: this holds for each role that came to the partition before."""
        for role in [role for role, told in tenancy.roles.items() if not told]:
            tenancy.roles[role] = True
            found.append(Led((role, self._index), tenancy, offset, stamp_ms, at_ms if tenancy.whole else None))

    def _leads(self, member: str, token: int, base: int, offset: int, stamp_ms: int, found: list[Happening]) -> Tenancy:
        """A tenure comes to lead: the one that led before is no longer current."""
        announced = self._announced.pop(token, None)
        for older in [t for t in self._announced if t < token]:
            del self._announced[older]
        place, at_ms = announced or (self.track.start, stamp_ms)
        protocol, roles = self.senders[member].protocol, dict.fromkeys(self._roles, False)
        tenancy = Tenancy(member, token, place, at_ms, announced is not None, is_exclusive(protocol), roles)
        tenancy.led_ms = stamp_ms
        before = self._current
        if before is not None and not before.over:
            before.heir, before.heir_ms, before.heir_member = place, at_ms, member
            if not before.exclusive:
                before.until_ms, before.fixed = max(before.until_ms, stamp_ms), True
        self._current = self._led[token] = tenancy
        return tenancy

    def _yield(self, record: records.Yield, offset: int, stamp_ms: int, found: list[Happening]) -> None:
        self._announced.pop(record.term, None) if not record.led else None
        tenancy = self._led.get(record.term)
        if tenancy is None:
            newer = self._current is not None and record.term < self._current.token
            if not record.led or not record.began or newer or record.term not in self._announced:
                return
            # It led, but stopped before it had written so.
            tenancy = self._leads(record.m, record.term, record.b, offset, stamp_ms, found)
            tenancy.began_ms = tenancy.said_ms = record.began
            self._tell(tenancy, offset, stamp_ms, record.began, found)
        if tenancy.member != record.m:
            return
        cause = "yield"
        if record.why.startswith(SUPERSEDED):
            cause = "superseded" if tenancy.exclusive else "handover"
        at = (tenancy.heir, tenancy.heir_ms) if tenancy.heir else (offset, stamp_ms)
        if tenancy.exclusive and not tenancy.heir:
            # An announcement ends the terms before it, even if its own term shows in the log only after this record.
            at = min([at, *(place for token, place in self._announced.items() if token > record.term)])
        self._over(tenancy, *at, record.m, cause, record.why, record.ended or None, found)

    def _over(
        self,
        tenancy: Tenancy,
        offset: int,
        stamp_ms: int,
        by: str,
        cause: str,
        why: str,
        ended_ms: int | None,
        found: list[Happening],
    ) -> None:
        for role in list(tenancy.roles):
            self._over_role(tenancy, role, offset, stamp_ms, by, cause, why, ended_ms, found)
        tenancy.over = True
        self._led.pop(tenancy.token, None)
        if self._current is tenancy:
            self._current = None

    def _over_role(
        self,
        tenancy: Tenancy,
        role: str,
        offset: int,
        stamp_ms: int,
        by: str,
        cause: str,
        why: str,
        ended_ms: int | None,
        found: list[Happening],
    ) -> None:
        if tenancy.roles.pop(role):
            found.append(Over((role, self._index), tenancy, offset, stamp_ms, by, cause, why, ended_ms))
