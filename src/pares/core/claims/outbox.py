"""What this member writes, and what it knows of it afterwards (R2, R4).

Number, content and time of a record are fixed here, right before it is handed over for its first append, and never change.
One append is under way at a time. Its outcome is one of three: acknowledged and read back; acknowledged and not read yet
(`unread`); or failed, which says nothing about the log: the records may stand there, or come to stand there at any later time.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from pares.core.events import Append
from pares.core.lease import MS, Sent
from pares.core.wire import records
from pares.core.wire.world import World

MAX_BATCH: Final = 500
"""Records in one append."""
MAX_BYTES: Final = 2 * 1024 * 1024


class Outbox:
    """Collects the records of one tick into one append."""

    def __init__(self, group: str, me: str, session_ms: int, lease_ns: int, writes: int = records.VERSION) -> None:
        self.group = group
        self.me = me
        self.writes = writes
        """The newest format version that this release writes."""
        self.sent = Sent()
        self.in_flight: int | None = None
        self.retry_at = 0
        """After a failure: when to try again."""
        self.last_at = 0
        """When the last record was handed over."""
        self.said_at = 0
        """The same of the last one that stands, or may stand yet: the next beat is due some time after."""
        self.due_ms = 0
        """What the next record says about when its successor is due (R16)."""
        self.promised_ms = 0
        """What the record of `said_at` has said: the next one comes no later (R16)."""
        self._said = 0, 0
        """Both, before the append that is under way."""
        self._first_pause = self._pause = max(5, session_ms // 20) * MS
        self._before = 0
        self._lease = lease_ns
        self._session = session_ms * MS
        self._ticket = 0
        self._batch: list[bytes] = []
        self._bytes = 0
        self.urgent = False
        """Whether a record of this tick is: by its kind, or as the beat by which a member first shows that it could lead."""
        self._unread: deque[tuple[int, int]] = deque()
        self._doubt_at: int | None = None
        """When the first append of unknown outcome was handed over, since the last time that an own record was read back."""

    def room(self) -> bool:
        """Whether this append takes more records; the rest must wait for the next one."""
        return len(self._batch) < MAX_BATCH and self._bytes < MAX_BYTES

    def write(self, world: World, kind: type[records.Record], now: int, /, **fields: Any) -> None:
        """Adds a record. `now` was read right before this tick, and is what beliefs will be counted from.

        Its format version is the newest that this release writes and all members of `world` read (R11). Should one that reads
        less come in before it lands, it does not count, and the next one is written so that it does. A snapshot says by its
        version what its world holds, also by a writer that holds back (`writes`).
        """
        fields.setdefault("b", world.base)
        fields.setdefault("v", 2 if kind is records.Snapshot and world.in_force else min(self.writes, world.reads))
        n = self.sent.next_number()
        record: Any = kind(g=self.group, m=self.me, n=n, s=self.due_ms, **fields)
        payload = records.encode(record)
        self.sent.hand_over(n, payload, now)
        self._batch.append(payload)
        self._bytes += len(payload)
        self.urgent |= kind.urgent

    @property
    def next_ticket(self) -> int:
        """The ticket that the records written in this tick will go under."""
        return self._ticket + 1

    @property
    def idle(self) -> bool:
        """Nothing was written in this tick."""
        return not self._batch

    def flush(self, now: int) -> Append | None:
        """The append of this tick, if anything was written."""
        if not self._batch:
            return None
        self._ticket += 1
        self._said = self.said_at, self.promised_ms
        self.in_flight, self.last_at, self.said_at, self.promised_ms = self._ticket, now, now, self.due_ms
        append = Append(self._ticket, tuple(self._batch), urgent=self.urgent)
        self._batch, self._bytes, self.urgent = [], 0, False
        return append

    def acked(self, ticket: int, offset: int, position: int) -> bool:
        """False for an answer to an append that nobody waits for any more."""
        if ticket != self.in_flight:
            return False
        self.in_flight, self._before, self._pause = None, self.sent.n, self._first_pause
        if offset >= position:
            self._unread.append((offset, self.last_at))
        return True

    def failed(self, ticket: int, now: int, unknown: bool) -> bool:
        if ticket != self.in_flight:
            return False
        self.in_flight = None
        self.said_at, self.promised_ms = self._said
        if unknown and self._doubt_at is None:
            self._doubt_at = self.last_at
        if unknown:
            self._before = self.sent.n
        else:
            self.sent.forget_after(self._before)
        self.retry_at = now + self._pause
        self._pause = min(2 * self._pause, self._session // 4)
        return True

    def read_up_to(self, position: int, *, own: bool) -> None:
        """The log has been read up to `position`; `own`: there were counted records of this member among it."""
        if own:
            self._doubt_at = None
        while self._unread and self._unread[0][0] < position:
            self._unread.popleft()

    @property
    def quiet(self) -> bool:
        """Whether everything acknowledged has been read back: else this member decides nothing new."""
        return not self._unread

    def deaf(self, now: int, until: int) -> bool:
        """Whether this member may write nothing but releases (R2): its lease, up to `until`, has run out, or could have
        been renewed by an append that stands in the log for a whole lease; and it has not read what it wrote."""
        return bool(self._unread) and (now >= until or now >= self._unread[0][1] + self._lease)

    def doubtful(self, now: int) -> bool:
        """Whether appends have been failing for a whole lease, with outcomes that nobody knows, and nothing of this member's
        own was read since. They may all have landed: then its beats would keep seats for it that it does not know of."""
        return self._doubt_at is not None and now >= self._doubt_at + self._lease

    def beat_at(self, due_ms: int) -> int:
        """When the next beat is due, `due_ms` after a record that stands. What has failed is written again after a quarter of a
        session, as often as a holder writes. [one beat of a standby is lost, and it is silent for twice as long as it said]"""
        promised = self.promised_ms
        at = self.said_at + min(due_ms if promised <= records.AT_ONCE else promised, due_ms) * MS
        return at if self.said_at == self.last_at else max(at, self.last_at + self._session // 4)

    def probe_at(self) -> int:
        """When a doubtful member may write a beat, to see whether it comes back: later than a session after the one before,
        so that a member that waits for its silence gets it."""
        return self.last_at + self._session * 3 // 2
