"""The tail of one partition: a thread that reads it at the stream's pace, for all readers and writers of this ledger.

The service has nothing to wait for: it is asked again and again, and a shard answers five times a second, to all its readers
together. So one thread reads for all of a ledger, and a caller that must know something now waits for its next reading.

**A reading** goes on until the service says that nothing is ahead. Where to go on is kept by the service as an iterator, for
five minutes; after that, and after whatever went wrong, reading goes on at the last record that was read, which must be there
still. If it isn't, the stream is looked at anew.

**Where it begins.** Not at the beginning, which may be a day of records away, but a few seconds before the end, and further
back until offsets are known (see `fold`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pares.core.errors import CapabilityError, LedgerUnavailable, ParesError
from pares.ledger.base import Entry
from pares.ledger.counted.places import Place, Places
from pares.ledger.counted.records import Start
from pares.ledger.kinesis.client import Client, Pace, Page, behind
from pares.ledger.kinesis.errors import EXPIRED, GONE, INVALID, Broken, Refused, unavailable
from pares.ledger.kinesis.fold import Fold, Raw, Taken
from pares.ledger.kinesis.settings import Settings, log
from pares.ledger.kinesis.streams import Stream, Streams, raised, resharded
from pares.ledger.window import Window

UNUSED: Final = 60.0
"""Seconds after which a partition is no longer read that nobody asks for and that has no bell."""
NEAR: Final = 10.0
"""Seconds before the end of a stream from which it is read first."""
_FARTHER: Final = 8.0
_IDLE: Final = 0.1
"""Seconds between two readings for bells, where the service has no limits."""
_AGAIN: Final = 0.1
"""Seconds after trouble, at the least."""


class Seen(NamedTuple):
    """How far the tail has read."""

    stream: Stream
    after: str
    """The sequence number of the last record of this log."""
    next: int | None
    """The offset behind it; None: nobody can tell (see `fold`)."""
    start: Start
    last_ms: int
    """When it arrived."""
    read: int
    """The last sequence number in the stream, whoever's record it is; -1: none."""


class Again(Exception):
    """The reading begins anew."""


class Tail:
    """For any thread, but what stands below "The thread"."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        streams: Streams,
        name: str,
        window: Window,
        took: Callable[[Taken], None],
    ) -> None:
        """`took` hears of each append that was read, on the thread, after the window has it."""
        self.name = name
        self.window = window
        self.places = Places()
        self.pace = Pace(settings.poll)
        self.ending = threading.Event()
        self.changed = threading.Condition()
        """Guards all that follows; notified after each reading."""
        self.waiting = 0
        self._settings = settings
        self._client = client
        self._streams = streams
        self._took = took
        self._seen: Seen | None = None
        self._thread: threading.Thread | None = None
        self._begun = self._wanted = self._done = self._failed = 0
        self._lives = 0
        """Counts how often it was told to look at the stream anew."""
        self._why: Exception = LedgerUnavailable("")
        self._slow = ""
        self._final: CapabilityError | None = None
        """Why nothing will ever come of it."""
        # The thread's own.
        self._fold: Fold | None = None
        self._stream: Stream | None = None
        self._iterator: str | None = None
        self._last = ""
        self._life = 0

    @property
    def seen(self) -> Seen | None:
        """None before the first reading, and when the stream is gone."""
        return self._seen

    @property
    def foreign(self) -> int:
        """Records in it that are none of this log's, as far as it was read."""
        return self._fold.foreign if self._fold is not None else 0

    def patience(self) -> float:
        """Seconds for a request, and for the turn that it has to wait for."""
        return self._settings.timeout + 4 * (self._settings.poll or 0.25)

    def look(self) -> Seen:
        """How far it has come by a reading that began after this was called. Raises what went wrong."""
        deadline = time.monotonic() + self.patience()
        with self.changed:
            wanted = self.want()
            while self._done < wanted or self._seen is None:
                if self._failed >= wanted:
                    raise self._why
                self.wait("read", deadline)
                if self._done >= wanted and self._seen is None:
                    wanted = self.want()
            return self._seen

    def want(self) -> int:
        """Have it read again; the number of that reading. `changed` is held."""
        self._wanted = max(self._wanted, self._begun + 1)
        if self._thread is None and not self.ending.is_set():
            name = f"pares {self._settings.where} {self.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self.changed.notify_all()
        return self._wanted

    def wait(self, doing: str, deadline: float, *, unknown: bool = False) -> None:
        """For news. `changed` is held. Raises `LedgerUnavailable` at the deadline, and when the ledger is closed."""
        if self._final is not None:
            raise self._final
        left = deadline - time.monotonic()
        if left <= 0 or self.ending.is_set():
            slow = f" ({self._slow})" if self._slow else ""
            why = "the ledger was closed" if self.ending.is_set() else f"the stream was not read in time{slow}"
            raise unavailable(self._settings.where, doing, why, unknown=unknown)
        self.waiting += 1
        try:
            self.changed.wait(left)
        finally:
            self.waiting -= 1

    def follow(self) -> None:
        """Have it read from now on; does not wait."""
        with self.changed:
            if self._thread is None:
                self.want()

    def forget(self) -> None:
        """Have it look at the stream anew: it may be another one."""
        with self.changed:
            self._seen = None
            self._lives += 1
        self.window.shut()

    def end(self) -> None:
        self.ending.set()
        with self.changed:
            thread = self._thread
            self.changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._settings.timeout + 1)

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._due():
            try:
                self._reading()
            except Exception as error:
                self._trouble(error)
        self.window.shut()

    def _due(self) -> bool:
        """Wait for the next reading; False if nobody wants one any more."""
        with self.changed:
            if self._wanted <= self._begun and not self.ending.is_set():
                pause = self._settings.poll or _IDLE
                self.changed.wait(max(pause, _AGAIN) if self._failed == self._begun else pause)
            cared = self._wanted > self._begun or self.waiting or self.window.bells
            if self.ending.is_set() or not (cared or time.monotonic() < self.window.used + UNUSED):
                self._thread = None
                self._seen, self._fold, self._iterator = None, None, None
                return False
            self._begun += 1
            return True

    def _reading(self) -> None:
        """To the end of the stream."""
        number = self._begun
        if self._seen is None:
            self._iterator = None  # somebody has it forgotten
        if self._iterator is None:
            self._attach()
        while True:
            page = self.page(self._iterator or "")
            if self._put_in(page):
                break
        with self.changed:
            self._done, self._slow, self._final = max(self._done, number), "", None
            self.changed.notify_all()

    def page(self, iterator: str) -> Page:
        if not self.pace.turn(self.ending):
            raise Broken("the ledger was closed", sent=False)
        try:
            page = self._client.page(iterator)
        except Refused as error:
            if error.throttled:
                self.pace.too_often()
            raise
        self.pace.went_well()
        if page.next is None:
            raise resharded(self._settings.where, self.name)
        return page

    def _trouble(self, error: Exception) -> None:
        """Tell callers that wait, unless the next reading may serve them."""
        where, code = self._settings.where, error.code if isinstance(error, Refused) else ""
        throttled = isinstance(error, Refused) and error.throttled
        if not throttled:
            self._iterator = None
            self._streams.forget(self.name)
            self.window.doubt()
        if code == GONE:
            self.forget()
        with self.changed:
            if throttled or code == EXPIRED or code in INVALID or isinstance(error, Again):
                self._slow = behind(error) if isinstance(error, (Refused, Broken)) else str(error)
                if self.waiting:
                    self.want()
                return
            self._failed = self._begun
            if isinstance(error, (Refused, Broken)):
                self._why = raised(where, "read", self.name, error)
            elif isinstance(error, ParesError):
                self._why = error
                self._final = error if isinstance(error, CapabilityError) else None
            else:
                log.error("%s: reading %s failed: %r", where, self.name, error)
                self._why = unavailable(where, "read", repr(error))
            self.changed.notify_all()

    def _attach(self) -> None:
        """Find where to read on."""
        with self.changed:
            self._life, seen = self._lives, self._seen
        stream = self._streams.look(self.name)
        if not stream.active:
            raise Broken("the stream is still being made", sent=False)
        if seen is None or seen.stream.id != stream.id or self._fold is None:
            self.window.shut()
            self.places.clear()
            self._stream = stream
            self._begin(stream)
        elif self._last:
            found = self.page_at(stream, self._last)
            if found is None:
                self.forget()
                raise Again("the last record that was read is no longer there")
            self._put_in(found[1])
        else:
            self._iterator = self._client.iterator(self.name, stream.shard, "TRIM_HORIZON")

    def page_at(self, stream: Stream, sequence: str) -> tuple[Raw, Page] | None:
        """The record with this sequence number, and what follows it; None if that is not there. For any thread."""
        try:
            iterator = self._client.iterator(
                self.name, stream.shard, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=sequence
            )
        except Refused as error:
            if error.code in INVALID:
                return None
            raise
        while True:
            page = self.page(iterator)
            if page.records:
                found = page.records[0]
                if int(found.sequence) != int(sequence):
                    return None
                return found, page._replace(records=page.records[1:])
            if page.behind_ms == 0 or page.next is None:
                return None
            iterator = page.next

    def _begin(self, stream: Stream) -> None:
        """Learn the offsets near the end, by as little as is needed; then what is in the stream is in no window yet."""
        now = self._client.now()
        age, span = now - stream.born_ms / 1000, NEAR
        known = stream.has_its_beginning(now)
        fold = Fold(stream.id, stream.born_ms, self._settings.where)
        while span < min(age, stream.hours * 3600):
            self._run_to_end(fold, stream, "AT_TIMESTAMP", Timestamp=now - span)
            if fold.next is not None:
                break
            span *= _FARTHER
            fold = Fold(stream.id, stream.born_ms, self._settings.where)
        if fold.next is None:
            fold = Fold(stream.id, stream.born_ms, self._settings.where, next=0 if known else None)
            fold.whole = known
            self._run_to_end(fold, stream, "TRIM_HORIZON")
            fold.whole = True
            known = known and fold.begins is None and fold.next is not None
        if known:
            self.places.add(Place(0, ""))
        if fold.begins is not None:
            self.places.add(Place(*fold.begins))
        self._fold = fold
        self._tell()
        if fold.next is not None:
            self.window.begin(fold.next)

    def _run_to_end(self, fold: Fold, stream: Stream, kind: str, **place: object) -> None:
        self._iterator, self._last = self._client.iterator(self.name, stream.shard, kind, **place), ""
        while True:
            page = self.page(self._iterator or "")
            self._iterator = page.next
            for raw in page.records:
                taken = fold.take(raw)
                self._passed(fold, raw)
                if taken is not None and taken.head.kind == "entries":
                    self._took(taken)
            if page.behind_ms == 0:
                return

    def _passed(self, fold: Fold, raw: Raw) -> None:
        self._last = raw.sequence
        if fold.next is not None and fold.between and fold.last == raw.sequence:
            self.places.passed(fold.next, raw.sequence)

    def _put_in(self, page: Page) -> bool:
        """Give it to the window; whether that is all."""
        fold = self._fold
        assert fold is not None
        self._iterator = page.next
        at_end = page.behind_ms == 0
        entries: list[Entry] = []
        quiet: set[int] = set()
        taken: list[Taken] = []
        before, start = fold.next, fold.start.offset
        for raw in page.records:
            found = fold.take(raw)
            self._passed(fold, raw)
            if found is None or found.head.kind != "entries":
                continue
            taken.append(found)
            if found.entries is None:
                # It began before this tail: it is read from an earlier place.
                entries, quiet, before = [], set[int](), None
                self.window.shut()
            else:
                entries += found.entries
                if not found.head.urgent:
                    quiet.update(entry.offset for entry in found.entries)
        if before is None and fold.next is not None:
            self.window.begin(fold.next - len(entries))
        if fold.next is not None:
            self.window.put(entries, fold.next, quiet, at_end=at_end)
            if fold.start.offset > start:
                self.window.trimmed(min(fold.start.offset, fold.next))
        for each in taken:
            self._took(each)
        self._tell()
        return at_end

    def _tell(self) -> None:
        """How far it has come. Raises `Again` if that is of no use any more."""
        fold, stream = self._fold, self._stream
        assert fold is not None
        assert stream is not None
        if fold.start.sequence:
            self.places.add(Place(fold.start.place, fold.start.sequence))
        read = int(self._last) if self._last else -1
        with self.changed:
            if self._life != self._lives:
                raise Again("it may be another stream now")
            self._seen = Seen(stream, fold.last, fold.next, fold.start, fold.last_ms, read)
