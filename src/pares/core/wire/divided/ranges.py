"""Ranges of a partition's offsets (C11): which slot of the partition owns which, as the log's order says.

A partition that several consumers work on has *slots*: roles of one seat each, `ROLE+0`, `ROLE+1` and so on, where `ROLE` is
the partition's own, which nobody holds then. A slot is claimed, renewed, handed over and lost as any seat. Its ranges are the
slot's and not the holder's: so they go with it to the next holder, with the position and with what is done above that.

A range is not asked for by its bounds. `range` says how many offsets, and the fold says which: those from where all ranges of
the partition end so far. Two records of two slots, however they race, are given different ranges by their places in the log,
and neither has to be written again. [with bounds, of n that ask at once n - 1 ask again]

Every range begins where no range has been before, and a partition begins anew only when none of its slots is held. So no offset
is in the ranges of two slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pares.core.wire.divided.keys import parts, settled, uneven
from pares.core.wire.divided.siblings import MAX_SLOTS, part_of
from pares.core.wire.records import MAX_INT, Range
from pares.core.wire.states import Run, SeatState
from pares.core.wire.world import World

MAX_OPEN: Final = 16
"""Ranges of one slot that are not done."""


def slots(world: World, role: str) -> Iterator[SeatState]:
    """The slots of ranges that a partition has, by its role."""
    for number in range(MAX_SLOTS):
        seat = world.seats.get((f"{role}+{number}", 0))
        if seat is not None:
            yield seat


def frontier(world: World, whole: SeatState) -> int:
    """Where all ranges of a partition end so far, and the next one begins. `whole`: the partition's own seat."""
    ends = (runs[-1][1] for slot in slots(world, whole.role) if (runs := world.ranges.get(slot.seat)))
    return max((settled(world, whole.role), *ends))


def allot(world: World, slot: SeatState, record: Range) -> None:
    """The effect of `range` by the slot's holder. None, if its slot has got a range that its sender did not know of [one of
    unknown outcome, written again, is given a second one], while a consumer of the whole partition holds that, and while slots
    of its keys stand at different offsets (C12)."""
    part, runs = part_of(slot.role), world.ranges.get(slot.seat, ())
    whole = None if part is None or part.slots else world.seats.get((part.whole, 0))
    if whole is None or whole.holder is not None or uneven(world, whole.role):
        return
    if record.after != (runs[-1][1] if runs else 0) or len(runs) >= MAX_OPEN:
        return
    first = frontier(world, whole)
    if first == record.over:
        first = max(first, record.to)
    upto = first + record.count
    if upto < MAX_INT:
        whole.mark = upto
        world.marked(whole.seat)
        world.own(slot.seat, (*runs, (first, upto)))
        world.marked(slot.seat)


def may_rewind(world: World, seat: SeatState) -> bool:
    """Whether the position of a seat that nobody holds may be moved (R15): of a partition with all its slots, which nobody may
    hold either, and never of a slot alone. [a slot that begins anew, beside others that go on]"""
    if part_of(seat.role) is not None:
        return False
    every = (seat, *parts(world, seat.role))
    return all(each.holder is None and world.paused(each.role) for each in every)


def rewind(world: World, seat: SeatState, position: int) -> None:
    """What was owned, done and given out before is so no more (C5)."""
    for each in (seat, *parts(world, seat.role)):
        world.rewound(each, position)


def undone(world: World, slot: SeatState) -> list[Run]:
    """What is not done of a slot's ranges, in order; as far as is written down."""
    position = max(slot.mark, slot.taken)
    known = world.ahead.get(slot.seat)
    found: list[Run] = []
    for first, upto in world.ranges.get(slot.seat, ()):
        at = max(first, position)
        for begin, end in known.done if known is not None else ():
            if begin <= at < end:
                at = end
        if at < upto:
            found.append((at, upto))
    return found


def position(world: World, whole: SeatState) -> int:
    """What stands before it in a partition is done, or taken: in its slots' ranges, and before they began; and of whatever
    keys (C12)."""
    waiting = (left[0][0] for slot in slots(world, whole.role) if (left := undone(world, slot)))
    return min(waiting, default=frontier(world, whole))
