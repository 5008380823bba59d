"""One segment: what stands in it, as far as this process has read.

A segment is named by its base, the offset of its first record, and by the boot in which it was made. A record's offset is the
base and the number of records before it. All that read as far agree on it, because nothing in the file ever changes; where
something did, the frames' own `place` and `number` say so (`broken`), and nothing from there on counts.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from pares.core.errors import LedgerUnavailable
from pares.ledger.base import MAX_READ_BYTES, Entry
from pares.ledger.file.frame import BATCH, HEADING, RECORD, SEAL, Frame, parsed
from pares.ledger.file.fresh import Fresh
from pares.ledger.local.stamp import NO_CLOCK

JUMP: Final = 1 << 32
"""Offsets left out where it can't be known how many were given out: more than one segment ever holds."""
SYNCED: Final = b"synced"
BROKEN: Final = b"broken"
"""A seal says so, and how many records had counted, if its writer found the segment altered behind them."""
_SEAL: Final = re.compile(rb"(?:broken (?P<had>\d{1,12})|\w+)(?: (?P<jump>\d{1,12}))?")
_CHUNK: Final = 1 << 20
_APART: Final = 1 << 14
"""Bytes between the places that a segment knows by heart. From one on it reads again up to the next."""
_NAME: Final = re.compile(r"(\d{20})-([0-9a-f]{8})\.log")


class Altered(Exception):
    """What was read of the segment is no longer there."""


Line = tuple[int, int, Frame]
"""A frame with records: where it stands, how many records stand before it, and itself."""


def name_of(base: int, boot: str) -> str:
    return f"{base:020d}-{boot}.log"


def base_of(name: str) -> tuple[int, str] | None:
    """The base and the boot in a segment's name; None if it is none."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


class Segment:
    """Reads one file, from where it stopped before. Not for several threads at once.

    `flags`: how it is opened, `os.O_RDONLY` for those that only look. `clock`: the name of the stopwatch whose stamps are told.
    Raises `OSError`."""

    def __init__(self, folder: str, name: str, flags: int, clock: bytes = NO_CLOCK) -> None:
        named = base_of(name)
        assert named is not None
        self.base, self.boot = named
        self.path = f"{folder}/{name}"
        self.count = 0
        """Records that have been read, and that count."""
        self.place = 0
        """Bytes that have been read: up to the end of the last line that is whole."""
        self.size = 0
        """The file's size when it was last looked at."""
        self.next: int | None = None
        """The base of the segment behind it, once a seal was read."""
        self.broken = ""
        """What shows that it was altered; then the records up to there count, and no others."""
        self.heading: bytes | None = None
        self.torn = 0
        """Lines that count for nothing."""
        self._flags = flags | os.O_CLOEXEC | os.O_NOFOLLOW
        self._places, self._firsts = array("Q"), array("Q")
        """Of a frame with records in so many bytes: where it stands, and how many records stand before it."""
        self._last, self._last_at = b"", 0
        self._clock = clock
        self._fresh = Fresh(self.base, clock)
        self._descriptor = os.open(self.path, self._flags)
        found = os.fstat(self._descriptor)
        self.inode = (found.st_dev, found.st_ino)

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.base + self.count

    @property
    def over(self) -> bool:
        """Nothing that is appended from now on counts."""
        return self.next is not None or self.broken != ""

    @property
    def leads_to(self) -> int | None:
        """The base of the segment that has to follow; None if none has to yet."""
        return self.base + JUMP if self.broken else self.next

    def descriptor(self) -> int:
        """The open file, opened anew after `rest`."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, self._flags)
            found = os.fstat(self._descriptor)
            # The number of a file that is gone is given to another: what was read last has to be there, too.
            last = os.pread(self._descriptor, len(self._last), self._last_at)
            if (found.st_dev, found.st_ino) != self.inode or last != self._last:
                self.rest()
                raise Altered
        return self._descriptor

    def rest(self) -> None:
        """Give the descriptor back until it is needed again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def scan(self, size: int) -> None:
        """Read on, up to the last whole line. `size`: the file's, as just seen. Raises `Altered`."""
        if size < self.size or size < self.place:
            raise Altered
        self.size = size
        had = self.count
        while not self.over:
            data = self._lines()
            if not data:
                return
            at = self.place
            for line in data.split(b"\n"):
                if line and self._take(at, line, had):
                    return
                at += len(line) + 1
                self.place = at

    def length(self) -> int:
        """The file's size. Raises `OSError` and `Altered`."""
        return os.lseek(self.descriptor(), 0, os.SEEK_END)

    def _lines(self) -> bytes:
        """The whole lines behind those that were read, without the last newline. What was read last is looked at once more."""
        descriptor, at = self.descriptor(), self._last_at
        before = self.place - at
        wanted = min(self.size - at, before + _CHUNK)
        while True:
            data = os.pread(descriptor, wanted, at)
            if not data.startswith(self._last):
                raise Altered
            cut = data.rfind(b"\n")
            if cut > before:
                return data[before:cut]
            if len(data) < wanted or at + wanted >= self.size:
                return b""
            wanted *= 4

    def _take(self, at: int, line: bytes, had: int) -> bool:
        """Note what the line at this place is; whether nothing behind it counts. `had`: records that were read before."""
        frame = parsed(line)
        if frame is None:
            self.torn += 1
            return False
        place = frame.place
        if place >= at or (place == at - 1 and frame.number != self.count):
            had_read = f"{frame.number} records in {place} bytes"
            self.broken = f"a writer had read {had_read}, and before byte {at} there are {self.count}"
            return True
        self._last, self._last_at = line + b"\n", at
        kind = frame.kind[:1]
        if kind in (RECORD, BATCH):
            self._add(frame, at)
        elif kind == HEADING:
            self.heading = frame.body if self.heading != SYNCED else SYNCED
        elif kind == SEAL:
            found = _SEAL.fullmatch(frame.body)
            if found is None:
                self.torn += 1
                return False
            if found["had"] is not None and int(found["had"]) < had:
                raise Altered  # a writer that read it anew found fewer
            self.next = self.end if found["jump"] is None else self.base + int(found["jump"])
            self.place = at + len(line) + 1
            return True
        return False

    def _add(self, frame: Frame, at: int) -> None:
        if not self._places or at - self._places[-1] >= _APART:
            self._places.append(at)
            self._firsts.append(self.count)
        self.count += self._fresh.add(frame, at, self.count)

    def took(self, frame: Frame, data: bytes) -> int:
        """Note a frame of this process' own, as it stands right behind what was read. The number of its first record."""
        first, at = self.count, self.place + 1
        self._last, self._last_at = data[1:], at
        self._add(frame, at)
        self.place += len(data)
        if self.place > self.size:
            self.size = self.place
        return first

    def number_at(self, at: int) -> int | None:
        """The number of the first record of the line at this place; None if no line there counts. Raises `Altered`."""
        if self._fresh.reaches(at):
            return self._fresh.number_at(at)
        index = bisect_right(self._places, at) - 1
        return None if index < 0 else next((first for place, first, _ in self._again(index) if place == at), None)

    def read(self, number: int, most: int, size: int = MAX_READ_BYTES) -> tuple[list[Entry], list[int | None]]:
        """Records from that number on, at most so many and at most `size` bytes, but at least one; and of each when its append
        began by the stopwatch whose stamps are told, None if its writer had another. `number` < `count`. Raises `Altered`."""
        if self._fresh.has(number):
            return self._fresh.read(number, most, size)
        found: list[Entry] = []
        stamps: list[int | None] = []
        total = 0
        for _, first, frame in self._again(bisect_right(self._firsts, number) - 1):
            stamp, wall_ms = frame.stamp(self._clock), frame.wall_us // 1000
            for at, payload in enumerate(frame.payloads(), first):
                if at >= number:
                    total += len(payload)
                    if len(found) == most or (found and total > size):
                        return found, stamps
                    found.append(Entry(self.base + at, wall_ms, payload))
                    stamps.append(stamp)
        return found, stamps

    def known(self, number: int) -> bytes | None:
        """The payload of that record, if it is one of the newest. `number` < `count`."""
        return self._fresh.payload(number) if self._fresh.has(number) else None

    def _again(self, index: int) -> Iterator[Line]:
        """The frames from the known place of this index on, as they stand in the file. Raises `Altered`."""
        for place, first in zip(self._places[index:], self._firsts[index:], strict=True):
            index += 1
            last = index == len(self._places)
            found = list(self._stretch(place, first, self.place if last else self._places[index]))
            behind = self.count if last else self._firsts[index]
            if not found or found[-1][1] + found[-1][2].records() != behind:
                raise Altered
            yield from found

    def _stretch(self, at: int, first: int, end: int) -> Iterator[Line]:
        for line in self._exactly(at, end).split(b"\n"):
            frame = parsed(line)
            if frame is not None and (records := frame.records()):
                yield at, first, frame
                first += records
            at += len(line) + 1

    def _exactly(self, begin: int, end: int) -> bytes:
        """The bytes that were there before, less the last newline."""
        data = b""
        while len(data) < end - begin:
            more = os.pread(self.descriptor(), end - begin - len(data), begin + len(data))
            if not more:
                raise Altered
            data += more
        return data[:-1]


def unavailable(error: OSError, path: str, doing: str, *, unknown: bool = False) -> LedgerUnavailable:
    """The ledger's error for the system's."""
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(
        f"{path}: could not {doing}{outcome}: {_ADVICE.get(error.errno or 0, 'the system refused')} ({error})",
        unknown=unknown,
    )


def _advice() -> dict[int, str]:
    import errno

    full = "the disk, or the quota, is full; it goes on once there is room"
    rights = "this process may not; check the permissions of the folder and its files, and the mount"
    many = "too many files are open; raise the limit"
    return {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), full),
        errno.EFBIG: "the process' limit on the size of a file is reached; raise it",
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), rights),
        **dict.fromkeys((errno.EMFILE, errno.ENFILE), many),
        errno.EIO: "reading or writing failed; check the disk",
    }


_ADVICE: Final = _advice()
