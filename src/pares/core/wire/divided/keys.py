"""Slots of a partition's keys (C12): what the log says of them, and how it leads from one division of a partition to another.

A partition can be divided among consumers in several ways: not at all, into ranges (C11), or by its keys, into 2, 16 or any
number of slots. A *division* by keys into n slots is the n roles `ROLE#0ofN` to `ROLE#(n-1)ofN` of one seat each. A record
belongs to one of them, by its key. The partition's own seat is a division of one, to which all records belong.

A slot's position passes the records of others: so it says of the slot's own records alone that they are done. Each seat of each
division keeps what it says, also when the partition is divided anew. Therefore a record is done as soon as one seat, of
whatever division, to which it belongs says so; and a division of which each slot stands at some offset or above it has nothing
left below. A term begins there (`settled`), and leaves out what other divisions have done above (`elsewhere`). So a
group goes from one division to another without loss and repetition, wherever each slot stands.

That is so as long as seats of one division alone are held at a time (`divisions.barred`): then nothing of what other divisions
say changes during a term, and all records of a key have one holder.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pares.core.wire.divided.siblings import part_of
from pares.core.wire.records import Seat
from pares.core.wire.states import Run, SeatState
from pares.core.wire.world import World


class Elsewhere(Struct, frozen=True, gc=False):
    """What a seat of another division says is done, of the records that belong to slot `slot` of `slots`: those before
    `position`, and those in `runs`."""

    slot: int
    slots: int
    position: int
    runs: tuple[Run, ...]

    @property
    def upto(self) -> int:
        """It says nothing of what stands there and above."""
        return max(self.position, self.runs[-1][1] if self.runs else 0)


def parts(world: World, role: str) -> Iterator[SeatState]:
    """All slots that a partition has, of ranges and of keys, by its role."""
    for seat in world.siblings.of(role):
        yield world.seats[seat]


def _of_keys(world: World, role: str) -> dict[int, list[tuple[int, SeatState]]]:
    """The divisions by keys, by how many slots they have: (slot, its seat)."""
    found: dict[int, list[tuple[int, SeatState]]] = {}
    for seat, part in world.siblings.of(role).items():
        if part.slots:
            found.setdefault(part.slots, []).append((part.slot, world.seats[seat]))
    return found


def reached(seat: SeatState) -> int:
    """What stands before it is done, or taken, of what belongs to the seat."""
    return max(seat.mark, seat.taken)


def settled(world: World, role: str) -> int:
    """Nothing is left to do before it in a partition, whatever belongs to whom. `role`: the partition's own, which may be
    removed while slots of it are there."""
    whole = world.seats.get((role, 0))
    ends = [0 if whole is None else reached(whole)]
    for slots, seats in _of_keys(world, role).items():
        if len(seats) == slots:
            ends.append(min(reached(seat) for _, seat in seats))
    return max(ends)


def elsewhere(world: World, role: str, slots: int, position: int) -> list[Elsewhere]:
    """What other divisions say is done at and above a position; for a term of the division into `slots` slots, 0 for the
    partition's own seat."""
    found: list[Elsewhere] = []
    whole = world.seats.get((role, 0))
    divisions = _of_keys(world, role) if whole is None else {0: [(0, whole)], **_of_keys(world, role)}
    for others, seats in divisions.items():
        for slot, seat in seats if others != slots else ():
            ahead = world.ahead.get(seat.seat)
            done = Elsewhere(slot, max(others, 1), reached(seat), () if ahead is None else ahead.done)
            if done.upto > position:
                found.append(done)
    return found


def begins(world: World, seat: Seat) -> tuple[int, tuple[Elsewhere, ...]]:
    """Where a term of a seat begins (C2), and what is known to be done above that, though not by the seat."""
    state, part = world.seats[seat], part_of(seat[0])
    whole, slots = (seat[0], 0) if part is None else (part.whole, part.slots)
    if part is not None and not slots:
        return reached(state), ()  # a slot of ranges
    position = max(reached(state), settled(world, whole))
    return position, tuple(elsewhere(world, whole, slots, position))


def uneven(world: World, role: str) -> bool:
    """Whether some slot of keys has done what other slots that stand beside it have not: no one position says what is done."""
    even = settled(world, role)
    for seats in _of_keys(world, role).values():
        for _, seat in seats:
            ahead = world.ahead.get(seat.seat)
            if reached(seat) > even or (ahead is not None and ahead.done and ahead.done[-1][1] > even):
                return True
    return False
