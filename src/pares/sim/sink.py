"""A sink behind a fence, and users who write to it in the name of their terms: also too late, as a thawed process does.

The fence remembers the highest token that it has seen for a seat and refuses lower ones. What is checked is that this is
enough: whoever rightly believes is never refused, and whoever comes too late always is.
"""

from __future__ import annotations

from pares.core.wire.records import Seat


class Sink:
    """One fence for each seat."""

    def __init__(self) -> None:
        self.seen: dict[Seat, int] = {}
        self.accepted = 0
        self.refused = 0

    def write(self, seat: Seat, token: int) -> bool:
        """Whether the write was accepted."""
        if token < self.seen.get(seat, 0):
            self.refused += 1
            return False
        self.seen[seat] = token
        self.accepted += 1
        return True
