"""The protocols of the family by name, as members write it into their records: what each is, so that nobody compares names."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mode(NamedTuple):
    """One protocol of the family."""

    name: str
    exclusive: bool = True
    """One leader at most. Else there are two for a while when a partition moves, rather than none."""
    by_clocks: bool = False
    """Beliefs rest on the log's times and on wall clocks that are close to them."""
    by_own_beats: bool = False
    """Only the owner of a partition beats, and it leads while its own beats come back. Else all beacon on all partitions."""


MODES: Final = {
    mode.name: mode
    for mode in (Mode("fast-neli", by_own_beats=True), Mode("neli", by_clocks=True), Mode("nele", exclusive=False))
}
USUAL: Final = MODES["neli"]
LOOSE: Final = MODES["nele"]
"""What a group runs that asks for an overlap."""


def is_exclusive(name: str) -> bool:
    """Also of a protocol that a later release may have: one leader at most is what is promised unless it is known better."""
    return name not in MODES or MODES[name].exclusive
