"""The slots that partitions have, by the roles of the partitions: derived from the seats that a world has, and never in a
snapshot.

A partition's role is `TOPIC@TAG/PARTITION` (C1). Those of its slots begin with it: `ROLE+SLOT`, whose ranges are offsets (C11),
and `ROLE#SLOTofSLOTS`, a slot of its keys where they are shared out over so many (C12).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pares.core.wire.records import Seat

MAX_SLOTS: Final = 100
"""Of one partition, of either kind."""
_SLOT: Final = re.compile(
    r"(.+@[0-9a-f]{8}/[0-9]+)(?:\+(0|[1-9][0-9]?)|#(0|[1-9][0-9]?)of([1-9][0-9]?|100))", re.DOTALL
)


class Part(NamedTuple):
    """Which slot of which partition a role stands for. `slots`: over how many the keys are shared out; 0: its slots have
    ranges."""

    whole: str
    slot: int
    slots: int


def part_of(role: str) -> Part | None:
    """None for a role that is no slot."""
    found = _SLOT.fullmatch(role) if "@" in role else None
    if found is None:
        return None
    if found[2] is not None:
        return Part(found[1], int(found[2]), 0)
    part = Part(found[1], int(found[3]), int(found[4]))
    return part if part.slot < part.slots else None


class Siblings:
    """Of one world."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        self._of: dict[str, dict[Seat, Part]] = {}
        for seat in seats:
            self.add(seat)

    def add(self, seat: Seat) -> None:
        part = part_of(seat[0])
        if part is not None:
            self._of.setdefault(part.whole, {})[seat] = part

    def drop(self, seat: Seat) -> None:
        part = part_of(seat[0])
        if part is not None:
            of = self._of[part.whole]
            del of[seat]
            if not of:
                del self._of[part.whole]

    def __bool__(self) -> bool:
        """Whether any partition has slots."""
        return bool(self._of)

    def of(self, whole: str) -> Mapping[Seat, Part]:
        """The slots of a partition, in no order that readers share."""
        return self._of.get(whole, _NONE)


_NONE: Final[Mapping[Seat, Part]] = {}
