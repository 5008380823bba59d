"""One partition as it is read: its segments in order, up to the end of the last one.

The last segment is followed as it grows. A segment that is over (sealed, or found altered) leads to the next one, whose base
follows from the seal. If the names of the files say otherwise, segments were cut, altered or deleted. Then nothing before that
place is read any more, because its offsets can't be known: a log that has lost a part is a log that starts later (R12).
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from pares.core.errors import LedgerUnavailable
from pares.ledger.base import MAX_READ_BYTES, Entry, gap, rewound
from pares.ledger.file.folder import Home
from pares.ledger.file.names import Names
from pares.ledger.file.segment import JUMP, Altered, Segment, unavailable
from pares.ledger.handle_state import Lifetime
from pares.ledger.local.stamp import clock

log = logging.getLogger("pares.ledger")

_KEPT: Final = 4
"""Segments before the last one that stay open for readers."""


class Chain:
    """For one thread at a time: callers hold `lock`. `flags`: how segments are opened."""

    def __init__(self, home: Home, partition: int, url: str, flags: int) -> None:
        self.lock = threading.Lock()
        self.home = home
        self.clock = clock()
        """Which stopwatch this process reads."""
        self.names = Names(f"{home.folder}/{partition}")
        self.alterations = 0
        """How often it was seen that the log is not what it was."""
        self.least = 0
        """No offset below this one may be given out: something is gone that this process had read."""
        self.settled = False
        """The last segment was found to be one that this process may append to."""
        self._number = partition
        self._url = url
        self._flags = flags
        self._which = ""
        self.tail: Segment | None = None
        """The last segment, as it was when it was last looked at."""
        self._in_place = -1
        """The number of the look at the names at which the last segment was last seen to be the file that its name says."""
        self._older: dict[int, Segment] = {}
        self._floor = 0
        """The base of the first segment behind all that were found damaged."""
        self._closed = False

    # The last segment --------------------------------------------------------------------------------------------------

    def catch_up(self) -> Segment | None:
        """The last segment, read up to its end; None if there is none."""
        if self._closed:
            raise Lifetime.closed_error(self._url)
        if self.tail is None:
            self._attach()
        while (segment := self.tail) is not None:
            try:
                self.names.look()
                if self._in_place != self.names.looks:
                    found = os.stat(segment.path)
                    if (found.st_dev, found.st_ino) != segment.inode:
                        raise FileNotFoundError
                    self._in_place = self.names.looks
                size = segment.length()
                if size != segment.size:
                    segment.scan(size)
                if not segment.over:
                    break
                self.settled = False
                self.names.look(anew=True)
                behind = self.names.behind(segment.base)
                if behind is None:
                    break
                if behind != segment.leads_to and self.names.start < behind:
                    self._damaged(segment, behind)
                self._go_to(behind)
            except FileNotFoundError:
                self._missing(segment)
            except Altered:
                self.altered(segment, "it is shorter than it was, or its last record is another one")
            except OSError as error:
                raise unavailable(error, segment.path, "read") from error
        return self.tail

    def _attach(self) -> None:
        """Find the last segment."""
        self._which = self.home.look()[1]
        self.names.look(anew=True)
        if self.names.segments:
            self._go_to(max(self.names.segments))

    def _go_to(self, base: int) -> None:
        """The segment with this base is the last one from now on."""
        segment = Segment(self.names.folder, self.names.segments[base], self._flags, self.clock)
        if self.tail is not None:
            self._keep(self.tail)
        self.tail, self.settled = segment, False
        self._in_place = -1

    def _missing(self, segment: Segment) -> None:
        """The last segment is not where it was: it was trimmed, or deleted, or the whole log is another one."""
        self.forget()
        known = self._which
        if self.home.look()[1] != known:
            self.names = Names(self.names.folder)
            self._floor = self.least = 0
        self._attach()
        if self._which == known and self._end() < segment.end:
            self._note(segment, "it was deleted or replaced")

    def altered(self, segment: Segment, what: str) -> None:
        """What had been read of this segment is no longer there: read it anew."""
        self.forget()
        self._note(segment, what)
        self._attach()

    def _note(self, segment: Segment, what: str) -> None:
        self.alterations += 1
        self.least = max(self.least, segment.base + JUMP)
        log.error(
            "%s: %s, though it is only ever appended to; members that have read it begin anew: find out who did it",
            segment.path,
            what,
        )

    def look_around(self) -> None:
        """See whether the log goes on elsewhere than at the end that is known, which only an alteration can bring about."""
        with self.lock:
            if self.tail is None or self._closed:
                return
            self.names.look()
            if self.names.behind(self.tail.base) is None:
                return
            segment = self.catch_up()
            if segment is not None and not segment.over and self.names.behind(segment.base) is not None:
                self.altered(segment, "another one follows it, and it has no seal")

    # Reading -----------------------------------------------------------------------------------------------------------

    def read(self, offset: int, most: int, size: int = MAX_READ_BYTES) -> tuple[list[Entry], list[int | None]]:
        """Entries from that offset on, of `size` bytes or the first alone, see `Log.read`; and their stamps as they stand
        there, see `Stamped`."""
        with self.lock:
            segment = tail = self.catch_up()
            end = self._end()
            if segment is None or offset >= end:
                if offset > end:
                    raise rewound(self._url, self._number, offset, end)
                if offset < end:
                    raise gap(self._url, self._number, offset, end)
                return [], []
            try:
                while True:
                    first = self._first()
                    if offset < first:
                        raise gap(self._url, self._number, offset, first)
                    if offset < segment.base or segment is not tail:
                        segment = self._find(offset)
                    if offset < segment.end:
                        return segment.read(offset - segment.base, most, size)
                    behind = self.names.behind(segment.base)
                    if behind is None:
                        return [], []
                    offset = behind
            except Altered:
                self.altered(segment, "it is not what it was when it was read")
                raise LedgerUnavailable(
                    f"{segment.path} is not what it was when it was read: look at the log again"
                ) from None
            except OSError as error:
                raise unavailable(error, self.names.folder, "read") from error

    def known(self, offset: int) -> bytes | None:
        """The payload that stands at this offset of the last segment, if it was read lately and nothing has come since."""
        with self.lock:
            tail = self.tail
            try:
                if tail is None or not max(tail.base, self._first()) <= offset < tail.end or tail.length() != tail.size:
                    return None
            except (OSError, Altered):
                return None
            return tail.known(offset - tail.base)

    def bounds(self) -> tuple[int, int]:
        """The first offset, and that behind the last record."""
        with self.lock:
            if self.catch_up() is None:
                self.names.look()
            return self._first(), self._end()

    @property
    def seen_end(self) -> int:
        """The offset behind the last record, as it was at the last look."""
        with self.lock:
            return self._end()

    def _end(self) -> int:
        tail = self.tail
        if tail is None:
            return self.names.start
        return max(tail.end if tail.next is None else tail.next, self.names.start)

    def _first(self) -> int:
        return max(self.names.start, self._floor, self.names.first)

    def _find(self, offset: int) -> Segment:
        """The segment in which this offset stands, or would."""
        base = self.names.before(offset)
        if self.tail is not None and base == self.tail.base:
            return self.tail
        segment = self._older.pop(base, None)
        if segment is None:
            segment = Segment(self.names.folder, self.names.segments[base], os.O_RDONLY, self.clock)
            segment.scan(os.fstat(segment.descriptor()).st_size)
            behind = self.names.behind(base)
            if behind is not None and behind != segment.leads_to:
                segment.rest()
                self._damaged(segment, behind)
                raise gap(self._url, self._number, offset, self._first())
        self._keep(segment)
        return segment

    def _damaged(self, segment: Segment, behind: int) -> None:
        """Nothing before the segment with the base `behind` can be read any more: nobody can know which offsets it has."""
        self._floor = max(self._floor, behind)
        log.error(
            "%s does not lead to the segment that follows it (%s): it was cut or altered, or one between them is gone; nothing "
            "below offset %d can be read any more",
            segment.path,
            segment.broken or f"its records end at {segment.end}, with{'out' if segment.next is None else ''} a seal",
            behind,
        )

    def _keep(self, segment: Segment) -> None:
        self._older[segment.base] = segment
        while len(self._older) > _KEPT:
            self._older.pop(next(iter(self._older))).rest()

    def trim(self, before: int) -> None:
        """See `Log.trim`. Segments that are all below go; of the one that `before` is in the rest stays, and is not read."""
        with self.lock:
            if self.catch_up() is None:
                self.names.look()
            if before > self._end():
                raise rewound(self._url, self._number, before, self._end())
            if before <= self._first():
                return
            try:
                try:
                    self.names.begin_at(before, self.home.mode)
                finally:
                    self.names.unlink_below(before)  # in any case: on a full disk it makes room
            except OSError as error:
                raise unavailable(error, self.names.folder, "trim") from error

    # Giving back -------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Know nothing of any segment any more."""
        self._rest()
        self._older.clear()
        self.tail, self.settled = None, False

    def _rest(self) -> None:
        for segment in [*self._older.values(), *([] if self.tail is None else [self.tail])]:
            segment.rest()

    def rest(self) -> None:
        """Give descriptors back until they are needed again; nothing happens while somebody is at work here."""
        if self.lock.acquire(blocking=False):
            try:
                self._rest()
            finally:
                self.lock.release()

    def close(self) -> None:
        """Give everything back, once nobody is at work here."""
        with self.lock:
            self._closed = True
            self.forget()
