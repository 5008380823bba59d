"""Seats of one division of a partition alone are held at a time (C12): which seats take no holder because of that.

A record of a key belongs to one slot of each division by keys, and to the partition's own seat. Were seats of two divisions
held at once, two consumers would work on one key, and each would pass by what the other has done meanwhile. So a claim of a
slot of keys does not stand while the partition's own seat, or a slot of another division, is held; nor does a claim of any of
those while a slot of keys is held. A seat that is held already goes on changing hands: by a transfer, or a claim behind a
silent holder.

Ranges know nothing of keys. So a slot of keys takes no holder while offsets of some range are not done, and a slot of ranges
none while slots of keys have come to different offsets. An administrator's rewind of the partition ends both.

All this is in force with version 2 of the format (R11). Before, claims stand as they do for readers of version 1, and
consumers that know of keys claim none.
"""

from __future__ import annotations

from pares.core.wire.divided.keys import uneven
from pares.core.wire.divided.ranges import undone
from pares.core.wire.divided.siblings import part_of
from pares.core.wire.states import SeatState
from pares.core.wire.world import World


def barred(world: World, role: str) -> bool:
    """Whether a seat that nobody holds takes no holder now."""
    return world.in_force and bool(world.siblings) and "@" in role and bar(world, role) != ""


def bar(world: World, role: str) -> str:
    """Why the role of a partition, or of a slot, takes no holder; "" if it may."""
    part = part_of(role)
    name, mine = (role, -1) if part is None else (part.whole, part.slots)
    whole = world.seats.get((name, 0))
    if mine > 0 and whole is not None and whole.holder is not None:
        return f"{whole.holder} holds it as a whole"
    for seat, other in world.siblings.of(name).items():
        why = "" if other.slots == mine else _bars(world, mine, world.seats[seat], other.slots)
        if why:
            return why
    if mine == 0 and uneven(world, name):
        return "its slots of keys stand at different offsets: let them be worked off, or rewind it to one position"
    return ""


def _bars(world: World, mine: int, seat: SeatState, slots: int) -> str:
    """Whether a slot bars seats of another division: of so many slots of keys, 0 for slots of ranges, -1 for the partition as
    a whole. `slots`: its own."""
    if slots == 0 and mine == -1:
        return ""
    if seat.holder is not None:
        return f"{seat.holder} holds a slot of " + (f"its keys in {slots} slots" if slots else "ranges")
    if slots == 0 and undone(world, seat):
        return "it has ranges that are not done: let a consumer of ranges work them off, or rewind it to its position"
    return ""
