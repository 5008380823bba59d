"""How a record gets into a partition, and how the next segment begins.

No lock keeps writers apart. Each append is one `write` to a descriptor opened with O_APPEND, and the kernel puts it whole
behind all others. The order of the file is the order of the log, and writers agree on the rest by what they write into it:

- A record counts if it stands before the first seal. A writer that finds a segment long enough appends a seal. What lands
  behind one does not count; its writer sees that, and writes it anew in the next segment.
- The next segment's base follows from the seal, and with it its name. A process that needs that segment makes it, if it isn't
  there.
- A segment is synced before the next one is made, and the folder before a heading is written into the new one; no process
  writes a record where there is no heading. So what is synced in a segment is found again after a power cut.
- After a power cut what was not synced is gone, though readers may have acted on it. So a process of a later boot first seals
  the last segment and leaves `JUMP` offsets out: no offset is given out twice. It does the same where a segment was altered.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Final, Literal

from pares.core.errors import LedgerUnavailable
from pares.ledger.file.chain import Chain
from pares.ledger.file.folder import sync_folder
from pares.ledger.file.frame import BATCH, HEADING, RECORD, SEAL, Frame, frame
from pares.ledger.file.segment import BROKEN, JUMP, SYNCED, Altered, Segment, name_of, unavailable
from pares.ledger.local.stamp import boot, stopwatch

log = logging.getLogger("pares.ledger")

Sync = Literal["urgent", "always", "never"]
TRIES: Final = 1000
"""Segments that an append may find sealed before it gives up; each means that others have filled one meanwhile."""
_sync_file: Final = getattr(os, "fdatasync", os.fsync)


class Appender:
    """Appends to one chain; may be used by several threads at once. `limit`: bytes after which a segment is sealed."""

    def __init__(self, chain: Chain, sync: Sync, limit: int) -> None:
        self._chain = chain
        self._sync: Sync = sync
        self._limit = limit

    def append(self, payloads: Sequence[bytes], *, urgent: bool) -> int:
        """Append these, all or none; the offset of the first."""
        at, wall = stopwatch(), time.time_ns() // 1000
        kind = RECORD if len(payloads) == 1 else BATCH
        chain = self._chain
        with chain.lock:
            for _ in range(TRIES):
                segment = chain.tail if chain.settled else None
                if segment is None:
                    segment = self._settle()
                known = segment.place, segment.count
                number = self._put(segment, frame(kind, payloads, known, wall, at, chain.clock, urgent))
                if number is not None:
                    if self._sync == "always" or (urgent and self._sync == "urgent"):
                        self._to_disk(segment, unknown=True)
                    if segment.place >= self._limit:
                        self._fill(segment)
                    return segment.base + number
                chain.settled = False
        raise LedgerUnavailable(
            f"{chain.names.folder}: others fill segments faster than this process can append: make them longer"
        )

    def _put(self, segment: Segment, new: Frame) -> int | None:
        """Append a frame; the number of its first record, None if it stands behind a seal."""
        data = new.encoded()
        length = len(data)
        try:
            descriptor = segment.descriptor()
            written = os.write(descriptor, data)
        except Altered:
            return None  # another file has this name now: look again
        except OSError as error:
            raise unavailable(error, segment.path, "append") from error
        if written == length and self._size(segment) == segment.place + length:
            return segment.took(new, data)  # nobody else has written
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        if written < length:
            self._torn(segment, data, written)
            end += length - written
            self._size(segment)
        begin = end - length
        if begin == segment.place:
            return segment.took(new, data)
        try:
            segment.scan(max(end, segment.size))
            number = segment.number_at(begin + 1)
        except Altered:
            raise self._unsure(segment) from None
        except OSError as error:
            raise unavailable(error, segment.path, "read back what was appended", unknown=True) from error
        if number is None and not segment.over:
            raise self._unsure(segment)
        return number

    def _torn(self, segment: Segment, data: bytes, written: int) -> None:
        """Only a part of the frame was written, and fails everybody's check, unless nothing but the last newline is missing."""
        if written == len(data) - 1:
            try:
                if os.write(segment.descriptor(), b"\n") == 1:
                    return
            except OSError as error:
                raise unavailable(error, segment.path, "append", unknown=True) from error
        raise LedgerUnavailable(
            f"{segment.path}: only {written} of {len(data)} bytes were written, so the record does not count: the disk, the "
            "quota or the limit on a file's size is reached; it goes on once there is room"
        )

    def _unsure(self, segment: Segment) -> LedgerUnavailable:
        self._chain.settled = False
        return LedgerUnavailable(
            f"{segment.path} was deleted, replaced or altered while this process appended to it: whether anybody will read "
            "what was written is unknown",
            unknown=True,
        )

    def _size(self, segment: Segment) -> int:
        """The size of what was appended to. Raises if it is no longer what the path names."""
        try:
            found = os.stat(segment.path)
        except OSError:
            raise self._unsure(segment) from None
        if (found.st_dev, found.st_ino) != segment.inode:
            raise self._unsure(segment)
        return found.st_size

    def _to_disk(self, segment: Segment, *, unknown: bool = False) -> None:
        try:
            _sync_file(segment.descriptor())
        except OSError as error:
            raise unavailable(error, segment.path, "bring it to the disk", unknown=unknown) from error

    def _fill(self, segment: Segment) -> None:
        """The segment is long enough."""
        self._chain.settled = False
        if not segment.over:
            try:
                self._say(segment, SEAL, b"full")
            except OSError as error:  # it grows on, and the next append tries again
                log.info("%s could not be sealed: %s", segment.path, error)

    def _say(self, segment: Segment, kind: bytes, what: bytes) -> None:
        """Append a seal or a heading. Raises `OSError`."""
        known = segment.place, segment.count
        said = frame(kind, [what], known, time.time_ns() // 1000, stopwatch(), self._chain.clock, urgent=False)
        os.write(segment.descriptor(), said.encoded())

    def _settle(self) -> Segment:
        """The last segment, once it is one that this process may append to; what that takes is done here."""
        chain = self._chain
        for _ in range(TRIES):
            segment = chain.catch_up()
            gone = chain.names.gone()
            if gone is not None and chain.least <= gone:
                chain.least = gone + JUMP
                log.error(
                    "%s: the newest segment, from offset %d on, was deleted; the log goes on at %d",
                    chain.names.folder,
                    gone,
                    chain.least,
                )
            try:
                if segment is None:
                    start = (
                        chain.names.start
                    )  # of a log whose segments somebody has deleted: beyond all there may have been
                    self._make(start + JUMP if start else 0, None)
                elif segment.next is not None:
                    self._make(segment.next, segment)
                elif segment.broken:
                    self._say(segment, SEAL, b"%b %d %d" % (BROKEN, segment.count, JUMP))
                    self._make(segment.base + JUMP, segment)
                elif segment.base < chain.least:
                    self._say(segment, SEAL, b"altered %d" % JUMP)
                elif segment.boot != boot():
                    self._say(segment, SEAL, b"boot %d" % JUMP)
                elif segment.heading is None or (segment.heading != SYNCED and self._sync != "never"):
                    self._head(segment)
                else:
                    chain.settled = True
                    return segment
            except Altered:
                continue
            except OSError as error:
                raise unavailable(error, chain.names.folder, "append") from error
        raise LedgerUnavailable(
            f"{chain.names.folder}: no segment to append to could be made: find out who deletes or seals them"
        )

    def _make(self, base: int, before: Segment | None) -> None:
        """Make the segment with this base, if it isn't there."""
        chain = self._chain
        if before is not None and self._sync != "never":
            self._to_disk(before)
        chain.home.look()  # nobody makes a partition of a log that is gone
        chain.home.make_folder(chain.names.folder)
        try:
            descriptor = os.open(
                f"{chain.names.folder}/{name_of(max(base, chain.least), boot())}",
                os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW,
                chain.home.mode,
            )
        except FileExistsError:
            return
        try:
            os.fchmod(descriptor, chain.home.mode)
        finally:
            os.close(descriptor)

    def _head(self, segment: Segment) -> None:
        """Bring the segment's name to the disk, and say so in it."""
        names, root = self._chain.names, self._chain.home.root
        made = os.path.basename(segment.path)
        if self._sync == "never":
            names.say_made(made, self._chain.home.mode)
            self._say(segment, HEADING, b"unsynced")
            return
        sync_folder(names.folder)
        # After the segment's own name: of the two a power cut may leave the mark alone, and then the segment was deleted.
        names.say_made(made, self._chain.home.mode)
        sync_folder(names.folder)
        if segment.base == names.first:
            above = names.folder
            while above != os.path.dirname(root):
                above = os.path.dirname(above)
                sync_folder(above)
        self._say(segment, HEADING, SYNCED)
