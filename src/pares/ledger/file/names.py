"""What a partition's folder says by the names in it: which segments there are, and where the log starts.

00000000000000005120-9f3c21ab.log   the segment with base 5120, made in that boot
00000000000000005120-9f3c21ab.made  the newest segment that records were written to: outlives it if somebody deletes it
00000000000000005000.start          what stood before offset 5000 was trimmed; the greatest counts
"""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from typing import Final

from pares.ledger.file.folder import RECENT
from pares.ledger.file.segment import base_of, name_of, unavailable

_Seen = tuple[int, int, int]
_MADE: Final = re.compile(r"(\d{20})-([0-9a-f]{8})\.made")
_START: Final = re.compile(r"(\d{20})\.start")


class Names:
    """Not for several threads at once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.segments: dict[int, str] = {}
        """Their names, by base."""
        self.first = 0
        """The base of the first segment; 0 if there is none."""
        self.start = 0
        """What stood before this offset was trimmed."""
        self._made = (-1, "")
        """Base and boot of the newest segment that is said to have been made."""
        self.looks = 0
        """How often they were read. As long as it is the same, so is what they name."""
        self._seen: _Seen | None = None

    def look(self, *, anew: bool = False) -> None:
        """Read them, if the folder has changed since. Raises `LedgerUnavailable`."""
        try:
            found = os.stat(self.folder)
            # By the time of the last change of any sort, which nobody can set.
            folder = found.st_dev, found.st_ino, found.st_ctime_ns
            if folder == self._seen and not anew:
                return
            names = os.listdir(self.folder)
        except FileNotFoundError:
            names, folder = [], None
        except OSError as error:
            raise unavailable(error, self.folder, "look for segments") from error
        self.looks += 1
        self._seen = folder if folder is not None and abs(time.time_ns() - folder[2]) > RECENT else None
        # Of two with one base, made in two boots, which a power cut between two calls may leave, the first by name counts.
        self.segments = {named[0]: name for name in sorted(names, reverse=True) if (named := base_of(name)) is not None}
        self.first = min(self.segments, default=0)
        starts = [int(found[1]) for name in names if (found := _START.fullmatch(name)) is not None]
        self.start = max([self.start, *starts])
        made = [(int(found[1]), found[2]) for name in names if (found := _MADE.fullmatch(name)) is not None]
        self._made = max(made, default=(-1, ""))

    def say_made(self, name: str, mode: int) -> None:
        """Say that this segment is there, before anything is written to it. Raises `OSError`."""
        stem = name.removesuffix(".log")
        try:
            descriptor = os.open(
                f"{self.folder}/{stem}.made", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode
            )
        except FileExistsError:
            return
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
        for other in os.listdir(self.folder):
            if _MADE.fullmatch(other) is not None and other < stem:
                _unlink(f"{self.folder}/{other}")

    def gone(self) -> int | None:
        """The base of the newest segment, if it was deleted."""
        if self._made[0] <= max(self.segments, default=-1):
            return None
        self.look(anew=True)
        base, boot = self._made
        # It was made before its mark, but a folder that changes while it is listed may show the mark alone.
        there = base <= max(self.segments, default=-1) or os.path.exists(f"{self.folder}/{name_of(base, boot)}")
        return None if there else base

    def behind(self, base: int) -> int | None:
        """The base of the segment that follows the one with this base; None if it isn't there."""
        return min((other for other in self.segments if other > base), default=None)

    def before(self, offset: int) -> int:
        """The base of the segment in which this offset stands, or would. There is one."""
        return max(base for base in self.segments if base <= offset)

    def begin_at(self, before: int, mode: int) -> None:
        """Say that the log starts there. Raises `OSError`, and then it does not."""
        new = f"{self.folder}/.{os.urandom(8).hex()}"
        descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
        try:
            os.fchmod(descriptor, mode)
            os.write(descriptor, b"what stood before was trimmed\n")
        except OSError:
            os.unlink(new)
            raise
        finally:
            os.close(descriptor)
        os.rename(new, f"{self.folder}/{before:020d}.start")
        self.start = max(self.start, before)
        for name in os.listdir(self.folder):
            found = _START.fullmatch(name)
            if found is not None and int(found[1]) < before:
                _unlink(f"{self.folder}/{name}")

    def unlink_below(self, before: int) -> None:
        """Remove the segments that hold nothing from `before` on; the last one stays. Raises `OSError`."""
        for base, follows in pairwise(sorted(self.segments)):
            if follows > before:
                break
            _unlink(f"{self.folder}/{self.segments[base]}")
        self._seen = None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another one trims, too
