"""The rules of the file ledger, each broken on purpose, and the seed of `file_history.play` that notices it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final
from zlib import crc32

from msgspec import Struct

from pares.ledger.file import appending, segment
from pares.ledger.file.appending import Appender
from pares.ledger.file.frame import HEADING, Frame
from pares.ledger.file.names import Names
from pares.ledger.file.segment import SYNCED, Segment, base_of
from pares.sim.mutant import Patch

# pyright: reportPrivateUsage=false


class Broken(Struct, frozen=True):
    """One rule: what is done instead, the seed of the history that notices it, and the promise that breaks there."""

    what: str
    patches: Callable[[], list[Patch]]
    seed: int
    promise: str


def _read_past_the_seal() -> list[Patch]:
    """What was read in one piece with a seal, and stands behind it, counts."""
    take = Segment._take

    def goes_on(self: Segment, at: int, line: bytes, had: int) -> bool:
        return take(self, at, line, had) and self.broken != ""

    return [(Segment, "_take", goes_on)]


def _acknowledged_behind_the_seal() -> list[Patch]:
    """A writer does not look whether a seal stands before what it has appended."""
    put = Appender._put

    def counts(self: Appender, tail: Segment, new: Frame) -> int:
        number = put(self, tail, new)
        return tail.count if number is None else number

    return [(Appender, "_put", counts)]


def _torn_is_believed() -> list[Patch]:
    """A line whose check fails counts all the same."""

    def believes(line: bytes) -> Frame | None:
        try:
            _, kind, _, place, number, wall, at, clock, body = line.split(b" ", 8)
            return Frame(kind, int(place), int(number), int(wall), int(at), clock, body)
        except ValueError:
            return None

    return [(segment, "parsed", believes)]


def _any_length() -> list[Patch]:
    """A writer takes what was cut short for written."""

    def took(self: Appender, tail: Segment, data: bytes, written: int) -> None:
        """Nothing is said."""

    return [(Appender, "_torn", took)]


def _the_tail_is_a_record() -> list[Patch]:
    """What has no newline yet is a line."""
    lines = Segment._lines

    def also_the_last(self: Segment) -> bytes:
        whole = lines(self)
        if whole or self.size <= self.place:
            return whole
        return os.pread(self.descriptor(), self.size - self.place, self.place)

    return [(Segment, "_lines", also_the_last)]


def _counted_twice() -> list[Patch]:
    """The segment behind a seal begins one offset too early."""
    take = Segment._take

    def early(self: Segment, at: int, line: bytes, had: int) -> bool:
        over = take(self, at, line, had)
        if over and self.next is not None and self.next == self.end and self.count:
            self.next -= 1
        return over

    return [(Segment, "_take", early)]


def _trims_the_living() -> list[Patch]:
    """A trim removes the segment that `before` stands in."""
    unlink = Names.unlink_below

    def all_that_begin_below(self: Names, before: int) -> None:
        unlink(self, min((base for base in self.segments if base > before), default=before))

    return [(Names, "unlink_below", all_that_begin_below)]


def _acknowledged_before_the_sync() -> list[Patch]:
    """What is urgent is acknowledged before the disk has it."""
    to_disk = Appender._to_disk

    def later(self: Appender, tail: Segment, *, unknown: bool = False) -> None:
        if not unknown:
            to_disk(self, tail)

    return [(Appender, "_to_disk", later)]


def _next_before_the_sync() -> list[Patch]:
    """The next segment is made before the one that it follows is on the disk."""
    to_disk = Appender._to_disk

    def only_appends(self: Appender, tail: Segment, *, unknown: bool = False) -> None:
        if unknown:
            to_disk(self, tail, unknown=True)

    return [(Appender, "_to_disk", only_appends)]


def _name_not_synced() -> list[Patch]:
    """Records are written to a segment whose name may not survive."""

    def unsynced(self: Appender, tail: Segment) -> None:
        self._chain.names.say_made(os.path.basename(tail.path), self._chain.home.mode)
        self._say(tail, HEADING, SYNCED)

    return [(Appender, "_head", unsynced)]


def _marked_before_its_name() -> list[Patch]:
    """A segment is said to have been made before its name is on the disk."""
    head = Appender._head

    def mark_first(self: Appender, tail: Segment) -> None:
        self._chain.names.say_made(os.path.basename(tail.path), self._chain.home.mode)
        head(self, tail)

    return [(Appender, "_head", mark_first)]


def _gone_on_with_after_the_cut() -> list[Patch]:
    """A later boot appends to the last segment of the one before."""

    def of_now(name: str) -> tuple[int, str] | None:
        named = base_of(name)
        return None if named is None else (named[0], appending.boot())

    return [(segment, "base_of", of_now)]


def _tears_its_neighbour() -> list[Patch]:
    """No newline stands before a frame."""

    def bare(self: Frame) -> bytes:
        kind, body = self.kind, self.body
        what = kind, len(body), self.place, self.number, self.wall_us, self.stopwatch_ns, self.clock, body
        checked = b"%b %d %d %d %d %d %b %b" % what
        return b"%08x %b\n" % (crc32(checked), checked)

    return [(Frame, "encoded", bare)]


MUTANTS: Final[dict[str, Broken]] = {
    "read-past-the-seal": Broken(
        "a segment is read on behind its seal", _read_past_the_seal, 2, "the log does not shrink"
    ),
    "acknowledged-behind-the-seal": Broken(
        "a record that landed behind a seal is acknowledged, and not written anew",
        _acknowledged_behind_the_seal,
        0,
        "no offset is given out twice",
    ),
    "counted-twice": Broken(
        "the segment behind a seal begins one offset too early", _counted_twice, 0, "the log does not shrink"
    ),
    "torn-is-believed": Broken("a line whose check fails counts", _torn_is_believed, 0, "what has failed is not there"),
    "cut-short-is-written": Broken(
        "an append that was cut short is taken for written", _any_length, 3, "no offset is given out twice"
    ),
    "tail-is-a-record": Broken(
        "a tail without its newline is taken for a line",
        _the_tail_is_a_record,
        4,
        "nobody takes the log for an altered one",
    ),
    "no-newline-before": Broken(
        "no newline stands before a frame", _tears_its_neighbour, 2, "what was acknowledged is there, at its place"
    ),
    "trims-the-living": Broken(
        "a trim removes the segment in which the log is to start",
        _trims_the_living,
        1,
        "what was acknowledged is there, at its place",
    ),
    "acknowledged-before-the-sync": Broken(
        "what is urgent is acknowledged before it is synced",
        _acknowledged_before_the_sync,
        1,
        "what is urgent survives, and all before it",
    ),
    "next-before-the-sync": Broken(
        "the next segment is made before the full one is synced",
        _next_before_the_sync,
        0,
        "what stands from its start on can be read",
    ),
    "name-not-synced": Broken(
        "a segment is written to before its name is synced",
        _name_not_synced,
        0,
        "what stands from its start on can be read",
    ),
    "marked-before-its-name": Broken(
        "a segment is said to have been made before its name is synced",
        _marked_before_its_name,
        58,
        "what stands from its start on can be read",
    ),
    "gone-on-with-after-the-cut": Broken(
        "a later boot appends to a segment of an earlier one",
        _gone_on_with_after_the_cut,
        1,
        "no offset is given out twice",
    ),
}
