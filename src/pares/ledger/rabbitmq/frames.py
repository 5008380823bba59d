"""What an append looks like in a stream, and how a chunk is taken apart.

A record is an AMQP 1.0 message of one data section, so that other tools can show it. In it stand, before the payload, whose
append it is, the number of that append and whether it is urgent. So a writer finds its own append when it reads it back, which
is the only way to learn its offset; and a reader knows the last entry that it has seen for that very one.

An append of several payloads is one entry (a sub-batch), which the server takes whole.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

_DATA: Final = b"\x00\x53\x75\xb0"
_HEAD: Final = struct.Struct(">4sI2sBQQ")
_MAGIC: Final = b"p\x01"
_QUIET: Final = 1
OVERHEAD: Final = _HEAD.size + 4
"""Bytes that a record has besides its payload."""
FRAME: Final = 64
"""More than the bytes that a publish has besides its records."""
_SUB_BATCH: Final = 0x80


class Record(NamedTuple):
    """One record, and where it stands in its stream. `writer` is 0 where somebody else has written it."""

    place: int
    writer: int
    number: int
    quiet: bool
    payload: bytes


def record(writer: int, number: int, payload: bytes, *, urgent: bool) -> bytes:
    size = _HEAD.size - 8 + len(payload)
    return _HEAD.pack(_DATA, size, _MAGIC, 0 if urgent else _QUIET, writer, number) + payload


def publish(publisher: int, writer: int, number: int, payloads: Sequence[bytes], *, urgent: bool) -> bytes:
    """The frame that appends these payloads, whole."""
    from rstream.encoding import encode_frame, encode_publish
    from rstream.schema import Message, Publish, PublishSubBatching

    records = [record(writer, number, payload, urgent=urgent) for payload in payloads]
    if len(records) == 1:
        return encode_publish(Publish(publisher, [Message(number, None, records[0])]))
    body = b"".join(len(each).to_bytes(4, "big") + each for each in records)
    return encode_frame(PublishSubBatching(publisher, 1, number, _SUB_BATCH, len(records), len(body), len(body), body))


def records(chunk: Any, begin: int = 0, most: int | None = None) -> list[Record]:
    """What a delivered chunk has in it, from the place `begin` on, at most so many."""
    skip = max(0, begin - chunk.chunk_first_offset)
    messages: list[bytes] = chunk.get_messages()
    return [
        _record(place, message)
        for place, message in enumerate(islice(messages, skip, most and skip + most), chunk.chunk_first_offset + skip)
    ]


def last_record(chunk: Any) -> Record:
    """The last one of a chunk, which is never empty."""
    return _record(chunk.chunk_first_offset + chunk.num_records - 1, chunk.get_messages()[-1])


def _record(place: int, data: bytes) -> Record:
    if len(data) >= _HEAD.size:
        sign, size, magic, flags, writer, number = _HEAD.unpack_from(data)
        if sign == _DATA and magic == _MAGIC and size == len(data) - 8:
            return Record(place, writer, number, bool(flags & _QUIET), bytes(data[_HEAD.size :]))
    return Record(place, 0, 0, False, bytes(data))
