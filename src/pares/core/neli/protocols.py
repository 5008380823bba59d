"""The protocols of the family, by the name that members write into their records, and what each is like. Other code asks for
these properties and never compares names."""

from __future__ import annotations

from typing import Final, NamedTuple


class Mode(NamedTuple):
    """One protocol of the family."""

    name: str
    exclusive: bool = True
    """At most one leader. Otherwise there are rather two than none for a while when a partition moves."""
    by_clocks: bool = False
    """Beliefs rest on the log's times and on wall clocks that are close to them."""
    by_own_beats: bool = False
    """Only the owner of a partition beats, and it leads while its own beats come back. Otherwise every member beacons on every
    partition."""


MODES: Final = {
    mode.name: mode
    for mode in (Mode("fast-neli", by_own_beats=True), Mode("neli", by_clocks=True), Mode("nele", exclusive=False))
}
USUAL: Final = MODES["neli"]
LOOSE: Final = MODES["nele"]
"""What a group runs when it asks for an overlap."""


def is_exclusive(name: str) -> bool:
    """Whether the protocol promises at most one leader. A name that is not known (of a later release) is taken to do so."""
    return name not in MODES or MODES[name].exclusive
