"""What is done above a position (C9), and how often records were given out (C10): as a record has it, and as the world does.

A record counts from its position: so it stays small, however large offsets are. Whatever a record says, the world gets runs in
order that do not touch; a run of no offsets, one beyond what an offset can be, and a last number without its partner say
nothing.
"""

from __future__ import annotations

from typing import Any

from pares.core.wire.records import MAX_INT, MAX_RUNS, MAX_TRIES, Ahead
from pares.core.wire.states import NOTHING_AHEAD, AheadState


def state_of(record: Ahead) -> AheadState:
    """What a record says, by offsets."""
    runs: list[tuple[int, int]] = []
    at = record.mark
    for number in range(0, len(record.done) - 1, 2):
        first = at + record.done[number]
        at = first + record.done[number + 1]
        if at >= MAX_INT:
            break
        if at > first:
            joins = bool(runs) and runs[-1][1] == first
            runs[-1:] = [(runs[-1][0], at)] if joins else [*runs[-1:], (first, at)]
    tries = {record.mark + above: times for above, times in record.tries if times and record.mark + above < MAX_INT}
    return above(AheadState(tuple(runs), tuple(sorted(tries.items()))), record.mark)


def fields_of(state: AheadState, mark: int) -> dict[str, Any]:
    """The fields of a record that says this, above that position."""
    known, done, at = above(state, mark), list[int](), mark
    for first, upto in known.done:
        done += (first - at, upto - first)
        at = upto
    return {"mark": mark, "done": tuple(done), "tries": tuple((offset - mark, times) for offset, times in known.tries)}


def clipped(state: AheadState) -> AheadState:
    """As much of it as one record has room for. Left out are the runs that are farthest away, and records that were given out
    most seldom."""
    if len(state.done) <= MAX_RUNS and len(state.tries) <= MAX_TRIES:
        return state
    often = sorted(state.tries, key=lambda each: (-each[1], each[0]))[:MAX_TRIES]
    return AheadState(state.done[:MAX_RUNS], tuple(sorted(often)))


def above(state: AheadState, position: int) -> AheadState:
    """What it says of offsets from there on."""
    if not (state.done or state.tries):
        return NOTHING_AHEAD
    done = tuple((max(first, position), upto) for first, upto in state.done if upto > position)
    return AheadState(done, tuple(each for each in state.tries if each[0] >= position))


def resumed(state: AheadState, position: int) -> tuple[int, AheadState]:
    """Where a term begins (C2), with what is done above that: a run that begins at the position is behind it."""
    known = above(state, position)
    if known.done and known.done[0][0] <= position:
        position = known.done[0][1]
        known = above(known, position)
    return position, known
