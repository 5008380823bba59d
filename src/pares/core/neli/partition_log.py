"""What one partition's log says about its tenures: the same to every reader that has read as far (R1).

A tenure begins with an announcement, at the offset that makes its token. It is *open* as long as its owner may still believe in
it, judged by the log alone. It is closed by

- its own `yield`;
- a later announcement of the same member: a member that announces itself anew believes in nothing older;
- a record of a later tenure that says that it *leads*: its owner has waited until every earlier tenure was over, and an owner
  that reads a later announcement than its own stops for good.

So a successor waits for the open tenures that stand before its own announcement, and for no others; each protocol says for how
long. A record counts iff it decodes, its `n` is above every counted `n` of its sender, and it names no impossible token (an
announcement's must be above all before it). [late copies; a record whose huge token would keep every later tenure from
counting]
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from pares.core.coexistence import Others
from pares.core.lease import MS
from pares.core.neli.role_mapping import Numbering, role_number
from pares.core.wire import neli_records as records
from pares.core.wire.neli_records import NUMBERED
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import MAX_BASE, MAX_DUE_MS, MAX_ROLES, BadRecord

KEPT: Final = 10_000
"""How many senders' numbers are remembered. A late copy of a sender that was forgotten may count; it can end a belief, but
begin none. Also how many tenures are kept as open at a time: the newest ones."""


class Tenure(Struct):
    """One tenure of this partition, of any member."""

    member: str
    token: int
    within_ms: int
    drift: float
    read_at: int
    """When its last record was read, by the reader's own stopwatch."""
    stamp_ms: int
    """When its last record was appended, by the broker's clock."""
    name: str = ""
    host: str = ""
    leads: bool = False
    began_ms: int = 0
    of: int = 0
    """How many partitions its owner shares out; 0: not known."""
    protocol: str = ""
    """The protocol that its owner runs; empty: not known."""
    numbered: bool = False
    """Whether its owner goes by the numbers that the log gives to names."""
    session_ms: int = 0
    seats: int = 0
    """How many seats a role has for its owner; 0: not known."""


class Writer(Struct, gc=False):
    """A member of any group that writes here."""

    at: int
    """When its last record was read. For records that stood in the log before this reader came: when they were written,
    reckoned back by the broker's times. [members that went long ago would count as sharing the budget, for each newcomer]"""
    due_ms: int = 0
    """How long after that its next record was due, at the latest."""
    owns: bool = False
    """Whether it beats for a tenure of its own."""

    def there(self, since: int, now: int) -> bool:
        """Whether it was heard since then, or beats so seldom that no record was due yet."""
        return self.at >= since or now <= self.at + 2 * self.due_ms * MS


class Track:
    """Follows one group in one partition. Feed it entry by entry, in order."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.position = 0
        self.start = 0
        self.end = 0
        self.entered_at = 0
        """When the log was attached to, by the stopwatch."""
        self.anchor: tuple[int, bytes] | None = None
        """The last entry that was read: its offset and its bytes."""
        self.top = 0
        """The largest token that the log has shown."""
        self.base = 0
        self.open: dict[int, Tenure] = {}
        self.newest = 0
        """The token of the last announcement that counted."""
        self.around: dict[tuple[str, str], Writer] = {}
        """The members of all groups that write here, by (group, member), in the order in which they were last heard."""
        self.bad: Counter[str] = Counter()
        self.uncounted = 0
        self.width = 0
        """The largest number of partitions that a member of the group shares out."""
        self.roles: dict[str, int] = {}
        """The group's roles in this partition, as far as the log says, and the number of each."""
        self.hashed = ""
        """A member of the group that knows roles by the hashes of their names only; empty: there is none."""
        self.numbering = Numbering()
        """The numbers of names. Only partition 0 has any."""
        self.others = Others()
        """Members of the group that run the claims protocol."""
        self._closed = 0
        """Tenures with this token or a smaller one are over for good."""
        self._numbers: dict[str, int] = {}
        self._before: dict[tuple[str, str], Writer] | None = {}
        """While the records are read that stood in the log at the beginning: their writers, with times in ms by the broker's
        clock. None afterwards."""
        self._dry = False

    def enter(self, start: int, end: int, now: int) -> None:
        """Begins, on a log that now has the entries from `start` to before `end`."""
        self.position = self.start = start
        self.numbering.enter(whole=start == 0)
        self.end, self.entered_at, self._dry = end, now, False

    def nothing_more(self, now: int) -> None:
        """A read brought nothing: a log may end in a hole."""
        self._dry = True
        self._date(now)

    def writers(self, since: int, now: int) -> dict[tuple[str, str], Writer]:
        """The members of all groups that are there now: heard since then, or not due yet."""
        return {who: writer for who, writer in list(self.around.items()) if writer.there(since, now)}

    @property
    def entered(self) -> bool:
        """Whether everything that stood in the log when it was attached to has been read."""
        return self.position >= self.end or self._dry

    def blind(self, me: str) -> bool:
        """Whether an owner that this reader has not read of may still believe: the beginning of the log is gone, and the rest
        has no record of another member of the group."""
        return self.start > 0 and not self._numbers.keys() - {me}

    def leader(self) -> Tenure | None:
        """The tenure that leads here, as far as the log says."""
        return max((t for t in list(self.open.values()) if t.leads), key=lambda t: t.token, default=None)

    def feed(self, entry: EntryLike, now: int) -> records.InductionRecord | None:
        """Takes the next entry. Returns its record if that is the group's and counts."""
        record = self._take(entry, now)
        if self._before is not None and self.position >= self.end:
            self._date(now)
        return record

    def _take(self, entry: EntryLike, now: int) -> records.InductionRecord | None:
        offset, stamp_ms, payload = entry
        self.position, self.anchor, self._dry = offset + 1, (offset, bytes(payload)), False
        try:
            record = records.decode(payload)
        except BadRecord as bad:
            self.bad[bad.reason] += 1
            return None
        if isinstance(record, records.Foreign):
            if record.g == self.group:
                self.others.claims(record.record, now, new=offset >= self.end)
            return None
        who, seen = (record.g, record.m), self.around if self._before is None else self._before
        seen.pop(who, None)
        beats = isinstance(record, records.Announce | records.Pulse | records.Beacon)
        at, due_ms = now if self._before is None else stamp_ms, min(record.s, MAX_DUE_MS) if beats else 0
        seen[who] = Writer(at, due_ms, beats and (not isinstance(record, records.Beacon) or record.term > 0))
        if len(seen) > KEPT:
            del seen[next(iter(seen))]
        if record.g != self.group:
            return None
        if not self._counts(record, offset):
            self.uncounted += 1
            return None
        self._numbers.pop(record.m, None)
        self._numbers[record.m] = record.n
        if len(self._numbers) > KEPT:
            del self._numbers[next(iter(self._numbers))]
        self.base = max(self.base, record.b)
        self._fold(record, offset, stamp_ms, now)
        return record

    def _date(self, now: int) -> None:
        """All that stood in the log has been read: sets the times of its writers, and takes later records as new."""
        if self._before:
            last = max(writer.at for writer in self._before.values())
            by_age = sorted(self._before.items(), key=lambda written: written[1].at)
            for _, writer in by_age:
                writer.at = now - (last - writer.at) * MS
            self.around = dict(by_age)
        self._before = None

    def _counts(self, record: records.InductionRecord, offset: int) -> bool:
        if record.v != 1 or record.n <= self._numbers.get(record.m, -1):
            return False
        if isinstance(record, records.Announce):
            return record.b + offset > self.top
        if isinstance(
            record, records.PartitionCount | records.RolesChanged | records.Share | records.Number | records.Place
        ):
            return True
        # A token is a base and the offset of an announcement, which stands before this record.
        return record.term < MAX_BASE + offset

    def _fold(self, record: records.InductionRecord, offset: int, stamp_ms: int, now: int) -> None:
        if isinstance(record, records.PartitionCount | records.Share):
            self.width = max(self.width, record.of)
            if isinstance(record, records.PartitionCount):
                self.hashed = record.m
                self._add({role: role_number(role) for role in record.roles})
            return
        if isinstance(record, records.RolesChanged):
            for role in record.drop:
                self.roles.pop(role, None)
            self._add({role: role_number(role) for role in record.add})
            return
        if isinstance(record, records.Number):
            self.numbering.fold(record, now)
            return
        if isinstance(record, records.Place):
            numbers = zip(record.roles, record.numbers, strict=True)
            self._add({role: role_number(role) if number < 0 else number for role, number in numbers})
            return
        if isinstance(record, records.Announce):
            for older in [t.token for t in self.open.values() if t.member == record.m]:
                del self.open[older]
            token = record.b + offset
            self.top = self.newest = token
            tenure = Tenure(record.m, token, record.within, record.drift, now, stamp_ms, record.name, record.host)
            tenure.began_ms, tenure.of, tenure.numbered = stamp_ms, record.of, record.protocol.endswith(NUMBERED)
            tenure.protocol = record.protocol.removesuffix(NUMBERED)
            tenure.session_ms, tenure.seats = record.session, record.seats
            if tenure.protocol and not tenure.numbered:
                self.hashed = record.m
            self.open[token] = tenure
            return
        self.top = max(self.top, record.term)
        if isinstance(record, records.Yield):
            self.open.pop(record.term, None)
            if record.led:
                self._close_before(record.term + 1)
            return
        if record.term <= self._closed and record.term not in self.open:
            return  # nothing, or a belated beat of an owner that has not read of its successor yet
        tenure = self.open.get(record.term)
        if tenure is None:
            # Its announcement was trimmed, and with it the owner's drift: 0 makes the wait the longest.
            tenure = Tenure(record.m, record.term, record.within, 0.0, now, stamp_ms, record.m.rpartition("~")[0])
            self.open[record.term] = tenure
            if len(self.open) > KEPT:
                del self.open[min(self.open)]
        if tenure.member == record.m:
            tenure.read_at, tenure.stamp_ms, tenure.leads = now, stamp_ms, tenure.leads or record.lead
            if record.lead:
                self._close_before(record.term)

    def _add(self, roles: dict[str, int]) -> None:
        for role, number in roles.items():
            if role in self.roles or len(self.roles) < MAX_ROLES:
                self.roles[role] = number

    def _close_before(self, token: int) -> None:
        self._closed = max(self._closed, token - 1)
        for older in [t for t in self.open if t < token]:
            del self.open[older]
