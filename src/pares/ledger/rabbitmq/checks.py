"""What a server keeps, and what it may lose: said by `pares doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pares.ledger.base import MAX_PAYLOAD
from pares.ledger.rabbitmq.frames import FRAME, OVERHEAD

GOOD, NOTE, WARNING = "good", "note", "warning"
LOST: Final = (
    "two members may then believe in one role for up to a session, members begin anew, and tokens may come again, so that a "
    "fence may let an older term pass"
)


def kept() -> tuple[str, str]:
    """What any server loses."""
    return (
        WARNING,
        "RabbitMQ does not sync streams to the disk, and a log is kept by one node: a crash of the server loses nothing, a "
        f"crash of its machine or a loss of power loses what the system has not written yet; {LOST}",
    )


def checks(version: str, stream: str, entries: int, largest: int) -> Iterator[tuple[str, str]]:
    """`largest`: bytes that a frame may have, 0 for any number."""
    yield GOOD, f"RabbitMQ {version}, {entries} offsets in {stream}"
    yield kept()
    if largest and largest < MAX_PAYLOAD + OVERHEAD + FRAME:
        yield (
            NOTE,
            f"the server takes frames of at most {largest} bytes (stream.frame_max): larger appends of several payloads are "
            "taken in parts, and a larger payload not at all",
        )
