"""What a record tells of itself in its headers, so that readers of large groups need not wake for each (R21).

A broker answers a fetch when there are `fetch.min.bytes`, or when `fetch.wait.max.ms` are over. A lazy reader asks for
`LAZY_BYTES`, far more than a beat has, so few beats wake its client, and none wakes its member. An urgent record is made that
large by a header that nobody reads: then it is answered at once, with everything before it. The padding stands in the topic
until retention takes it, so it is left out where no reader is lazy (`window.Quiet`), and few records of a large group are
urgent.

A record that is not urgent has a header `quiet`. What has none is urgent, as all records of release 0.1 are; a lazy reader
finds those when it reads next, or when `fetch.wait.max.ms` are over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from confluent_kafka import Message

LAZY_BYTES: Final = 16 << 10
"""Bytes for which a lazy reader waits: about 80 beats. [twice as much: a hundred that start receive 140 MB a second, nearly all
of it padding; less, and beats wake the clients of a large group more often]"""
_FILL: Final = os.urandom(LAZY_BYTES)
"""Random, as clients and brokers may have been told to compress."""

Headers: TypeAlias = "list[tuple[str, bytes]] | None"

_QUIET: Final[Headers] = [("quiet", b"")]


def headers(payloads: Sequence[bytes], *, urgent: bool, padded: bool, limit: int) -> Sequence[Headers]:
    """The headers of each record of a batch. `limit`: bytes that a batch may have; one that is made larger for its readers
    stays well below that."""
    if not urgent:
        return [_QUIET] * len(payloads)
    missing = LAZY_BYTES - sum(map(len, payloads))
    if not padded or missing <= 0 or limit < 2 * LAZY_BYTES:
        return [None] * len(payloads)
    return [*[None] * (len(payloads) - 1), [("padding", _FILL[:missing])]]


def is_quiet(message: Message) -> bool:
    """Whether the record says that it is not urgent."""
    found: Any = message.headers()
    return found is not None and found[0][0] == "quiet"
