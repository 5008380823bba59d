"""Whether the entry that a reader has read last is still there (R12): what is asked before what follows it is taken for its
continuation. [a log loses its tail, and grows past the position of a reader that is stopped meanwhile]
"""

from __future__ import annotations

from typing import Protocol

from pares.core.errors import LedgerGap, LedgerRewound
from pares.ledger.base import Log


class Anchored(Log, Protocol):
    """A log that is asked for one of its entries without a round trip. `Capabilities.anchors` says so."""

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        """Whether the log itself, and not what this process remembers of it, has this payload at this offset, byte for byte.
        True also if it begins behind that offset: what retention has taken says nothing. Raises `LedgerUnavailable`."""
        ...


def still_there(log: Log, offset: int, payload: bytes, partition: int) -> bool:
    """`Anchored.has` of a log whose every `read` looks at what is stored."""
    try:
        found = log.read(offset, partition, 1)
    except LedgerGap:
        return True
    except LedgerRewound:
        return False
    return bool(found) and (found[0].offset, found[0].payload) == (offset, payload)
