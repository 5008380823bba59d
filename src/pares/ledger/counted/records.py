"""What stands in a stream: records of the service, each with a head of JSON, a line feed, and a body.

An append is one body: the lengths of its payloads, then the payloads. A service takes records up to a certain size, so a large
body is cut into parts, each a record of its own, that are sent one after the other as each is acknowledged. Its entries are in
the log where its **last part** stands, or not at all.

| head | |
|---|---|
| `pares` | the layout, 1 |
| `log` | which log it was written to: a record for another one does not count |
| `kind` | `entries`, `trim` (its `start` is the new one), `birth` (the log goes on at a new offset: see `kinesis.fold`) |
| `by`, `n` | the writer, and the number of its append |
| `part`, `parts`, `holds` | which part this is, of how many, and how many entries the append has |
| `after`, `next` | the last record that the writer had read, by its sequence number, and the offset after it |
| `start` | the first offset that is to be read, as far as the writer knows, and a place at or before it |
| `urgent` | whether readers are woken |

Anything else in the stream is somebody else's, and is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from pares.core.errors import CapabilityError
from pares.ledger.base import MAX_BATCH

LAYOUT: Final = 1
LIMIT: Final = 1 << 53
"""No offset is as high."""
_MOST_HEAD: Final = 4096
_SEQUENCE: Final = frozenset("0123456789")


class Start(NamedTuple):
    """Where a log begins: `offset` is the first that is to be read; the entry after the record with this sequence number has
    offset `place`, which is not above `offset`. An empty sequence number: the beginning of the stream."""

    offset: int = 0
    place: int = 0
    sequence: str = ""


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """See above."""

    pares: int
    log: str
    kind: Literal["entries", "trim", "birth"]
    by: str
    n: int
    part: int
    parts: int
    holds: int
    after: str
    next: int
    start: Start
    urgent: bool = True

    def fits(self) -> bool:
        """Whether its numbers are possible."""
        return (
            0 <= self.part < self.parts <= 64
            and 0 <= self.holds <= MAX_BATCH
            and 0 <= self.n < LIMIT
            and 0 <= self.next < LIMIT
            and 0 <= self.start.place <= self.start.offset < LIMIT
            and {*self.after, *self.start.sequence} <= _SEQUENCE
            and len(self.by) <= 64
            and (self.kind == "entries") == (self.holds > 0)
        )


class _Layout(msgspec.Struct, frozen=True):
    """What any layout's head has."""

    pares: int
    log: str


_DECODER: Final = msgspec.json.Decoder(Head)
_LAYOUT: Final = msgspec.json.Decoder(_Layout)


def encode(head: Head, body: bytes = b"") -> bytes:
    return msgspec.json.encode(head) + b"\n" + body


def decode(data: bytes, log: str, where: str) -> tuple[Head, bytes] | None:
    """A record of this log; None for anything else. Raises `CapabilityError` for one that a newer pares has written."""
    end = data.find(b"\n", 0, _MOST_HEAD)
    if end < 0 or not data.startswith(b'{"pares":'):
        return None
    try:
        head = _DECODER.decode(data[:end])
    except (msgspec.DecodeError, UnicodeDecodeError):
        head = None
    if head is None or head.pares != LAYOUT:
        _refuse_newer(data[:end], log, where)
        return None
    if head.log != log or not head.fits():
        return None
    return head, data[end + 1 :]


def _refuse_newer(head: bytes, log: str, where: str) -> None:
    try:
        found = _LAYOUT.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if found.log == log and found.pares > LAYOUT:
        raise CapabilityError(
            f"{where}: the log has records of layout {found.pares}, by a newer pares; this one knows layouts up to {LAYOUT}: "
            "upgrade pares in this process"
        )


def pack(payloads: Sequence[bytes]) -> bytes:
    return struct.pack(f">{len(payloads)}I", *map(len, payloads)) + b"".join(payloads)


def unpack(body: bytes, count: int) -> list[bytes] | None:
    """The payloads; None if the body is damaged."""
    if len(body) < 4 * count:
        return None
    sizes = struct.unpack_from(f">{count}I", body)
    if 4 * count + sum(sizes) != len(body):
        return None
    found: list[bytes] = []
    at = 4 * count
    for size in sizes:
        found.append(body[at : at + size])
        at += size
    return found


def parts(body: bytes, most: int) -> Iterator[bytes]:
    """At least one, each of at most so many bytes."""
    for at in range(0, max(1, len(body)), most):
        yield body[at : at + most]
