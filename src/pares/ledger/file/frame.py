"""How a record stands in a segment: one line of text, so that `tail -f` shows it and a newline always ends it.

    CHECKSUM KIND LENGTH PLACE NUMBER WALL STOPWATCH CLOCK BODY

    CHECKSUM   CRC-32 of all that follows, eight hexadecimal digits
    KIND       `r` a record, `b` a batch, `s` a seal, `h` a heading; then `e` if the body is escaped, `!` if it is urgent
    LENGTH     bytes of the body
    PLACE, NUMBER   what the writer had read of the segment: so many bytes, and so many records in them
    WALL       wall clock in microseconds, for people and for ageing
    STOPWATCH  nanoseconds on the sender's stopwatch, taken when it was asked to append
    CLOCK      which stopwatch that is: of which boot, and how a time namespace shifts it (`stamp`)
    BODY       the payload; of a batch `LENGTHS PAYLOADS`

A frame is that line with a newline before it and one behind. A body never has a newline in it (one that would is escaped), so
a newline ends a line whatever came before: what was torn off by a full disk becomes a line of its own, which fails its check,
and the record behind it is whole. A line without its newline is not there yet. `LENGTH` makes it certain, and not
only likely, that a piece of a line is never taken for a line.

`PLACE` and `NUMBER` let a reader compare its own count with each writer's. Where they differ the segment was altered after
that writer had read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from msgspec import Struct

from pares.ledger.local.stamp import same

RECORD, BATCH, SEAL, HEADING = b"r", b"b", b"s", b"h"
ESCAPED: Final = b"e"
URGENT: Final = b"!"
_CHECKED: Final = 9
"""Where what the checksum covers begins."""


class Frame(Struct, frozen=True, gc=False):
    """One line that has passed its check."""

    kind: bytes
    place: int
    number: int
    wall_us: int
    stopwatch_ns: int
    clock: bytes
    body: bytes
    """As it stands in the line, escaped or not."""

    @property
    def urgent(self) -> bool:
        return self.kind.endswith(URGENT)

    def stamp(self, clock: bytes) -> int | None:
        """When its append began, by the stopwatch of this name; None if its writer had another."""
        return self.stopwatch_ns if same(self.clock, clock) else None

    def adds_up(self) -> bool:
        """Whether a batch has what its lengths say. Raises `ValueError` if these are none."""
        lengths, _, rest = (unescaped(self.body) if ESCAPED in self.kind else self.body).partition(b" ")
        return sum(map(int, lengths.split(b","))) == len(rest)

    def records(self) -> int:
        """How many it holds."""
        kind = self.kind[:1]
        return 1 if kind == RECORD else self.body.partition(b" ")[0].count(b",") + 1 if kind == BATCH else 0

    def payloads(self) -> list[bytes]:
        """The payloads of a record or a batch; of anything else, none."""
        kind = self.kind[:1]
        if kind == RECORD:
            return [unescaped(self.body) if ESCAPED in self.kind else self.body]
        if kind != BATCH:
            return []
        lengths, _, rest = (unescaped(self.body) if ESCAPED in self.kind else self.body).partition(b" ")
        payloads: list[bytes] = []
        at = 0
        for length in lengths.split(b","):
            end = at + int(length)
            payloads.append(rest[at:end])
            at = end
        return payloads

    def encoded(self) -> bytes:
        """The bytes of the line, newlines included."""
        kind, body = self.kind, self.body
        what = kind, len(body), self.place, self.number, self.wall_us, self.stopwatch_ns, self.clock, body
        checked = b"%b %d %d %d %d %d %b %b" % what
        return b"\n%08x %b\n" % (crc32(checked), checked)


def frame(
    kind: bytes,
    payloads: Sequence[bytes],
    known: tuple[int, int],
    wall_us: int,
    stopwatch_ns: int,
    clock: bytes,
    urgent: bool,
) -> Frame:
    """What one append writes. `known`: place and number, what the writer has read of the segment."""
    if kind == BATCH:
        body = b"%b %b" % (b",".join([b"%d" % len(payload) for payload in payloads]), b"".join(payloads))
    else:
        (body,) = payloads
    if b"\n" in body:
        kind += ESCAPED
        body = body.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    if urgent:
        kind += URGENT
    place, number = known
    return Frame(kind, place, number, wall_us, stopwatch_ns, clock, body)


def unescaped(body: bytes) -> bytes:
    """What stood there before newlines were taken out of it."""
    return b"\\".join([piece.replace(b"\\n", b"\n") for piece in body.split(b"\\\\")])


def parsed(line: bytes) -> Frame | None:
    """The frame in a line; None for what is no whole line, or not one that `frame` makes."""
    try:
        check, kind, length, place, number, wall, at, clock, body = line.split(b" ", 8)
        if b"%08x" % crc32(line[_CHECKED:]) != check or int(length) != len(body):
            return None
        found = Frame(kind, int(place), int(number), int(wall), int(at), clock, body)
        return found if kind[:1] != BATCH or found.adds_up() else None
    except ValueError:
        return None
