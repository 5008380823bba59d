"""What was given out and done, held against what each way promises.

| way | lost | repeated | in order |
|---|---|---|---|
| at-least-once | none | only what was unmarked when a term began, and nothing that was done before a flush | yes |
| at-most-once | what a dead worker had taken | none | in each term |
| fenced | none | none | yes |
| plain group | counted | counted | counted |

*Lost* is a record of the topic without an effect; *repeated* counts effects of a record but the first. *Out of order* counts
records whose first effect came after that of a later record of their partition. What is *unmarked* when a term begins is what
was given out before, and is not below the position, nor among what is done above it, as the group's log has them there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.delivery.journal import Line
from chaos.delivery.plan import PLAIN, Way

Place = tuple[int, int]
"""Partition and offset."""
Term = tuple[int, int]
"""Partition and token."""
SHOWN = 5
"""Of each kind of what is wrong."""


@dataclass(frozen=True)
class Begin:
    """Where the group's log lets a term begin: all below `position` is marked or taken, and so are these runs above it."""

    position: int
    done: tuple[tuple[int, int], ...] = ()

    def marked(self, offset: int) -> bool:
        return offset < self.position or any(first <= offset < upto for first, upto in self.done)


@dataclass
class Verdict:
    """Of one way."""

    way: Way
    records: int
    given: int = 0
    """Records handed to workers, each time counted."""
    effects: int = 0
    lost: int = 0
    repeated: int = 0
    allowed: int = 0
    """What could be repeated: records that were given out before a term began, and unmarked then."""
    out_of_order: int = 0
    terms: int = 0
    faults: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def says(self, what: str, found: Sequence[object]) -> None:
        """Something was broken, so often; with some examples."""
        if found:
            more = ", ..." if len(found) > SHOWN else ""
            self.broken.append(f"{len(found)} {what}: {', '.join(map(str, found[:SHOWN]))}{more}")


def judge(
    way: Way,
    topic: Iterable[Place],
    lines: Sequence[Line],
    begins: Mapping[Term, Begin],
    rows: Sequence[Place] | None = None,
) -> Verdict:
    """`topic`: what stands in it; `lines`: of all workers, by time; `begins`: of each term, by the group's log; `rows`: of the
    sink in the order of their commits, where effects are rows."""
    there = set(topic)
    effects = [(line.partition, line.offsets[0]) for line in lines if line.kind == "did"] if rows is None else [*rows]
    found = Verdict(way, len(there), effects=len(effects))
    counts: dict[Place, int] = defaultdict(int)
    highest: dict[int, int] = {}
    late: list[Place] = []
    for partition, offset in effects:
        counts[partition, offset] += 1
        if counts[partition, offset] == 1:
            if offset < highest.get(partition, -1):
                late.append((partition, offset))
            highest[partition] = max(offset, highest.get(partition, -1))
    lost, twice = sorted(there - counts.keys()), sorted(place for place, count in counts.items() if count > 1)
    found.given = sum(len(line.offsets) for line in lines if line.kind == "given")
    found.lost, found.out_of_order = len(lost), len(late)
    found.repeated = sum(count - 1 for count in counts.values())
    found.says("effects of records that are not in the topic", sorted(counts.keys() - there))
    if way == PLAIN:
        return found
    found.terms = len({(line.partition, line.token) for line in lines})
    _terms(found, lines, begins)
    if way != "at-most-once":
        found.says("records lost", lost)
        found.says("records done out of order", late)
    if way != "at-least-once":
        found.says("records done more than once", twice)
    elif found.repeated > found.allowed:
        found.broken.append(f"{found.repeated} repeated, and {found.allowed} were unmarked when a term began")
    if way == "at-most-once":
        _given_once(found, lines)
    return found


def _terms(found: Verdict, lines: Sequence[Line], begins: Mapping[Term, Begin]) -> None:
    """In each term, in order; nothing that was marked before; nothing that stood in the log by a flush.

    A process that is frozen writes a line down when it goes on, and that may be long after its term: so terms are told by their
    tokens, which only grow, and not by when a line was written."""
    last: dict[tuple[str, int, int], int] = {}
    said: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    flushed: dict[Place, int] = {}
    given: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    """By partition and token."""
    backwards: list[str] = []
    for line in lines:
        mine = (line.worker, line.partition, line.token)
        if line.kind == "said":
            said[mine] += line.offsets
        elif line.kind == "kept":
            for offset in said.pop(mine, []):
                flushed.setdefault((line.partition, offset), line.token)
        elif line.kind == "given":
            given[line.partition][line.token].update(line.offsets)
            if line.offsets[0] <= last.get(mine, -1):
                backwards.append(f"{line.partition}:{line.offsets[0]} to {line.worker}")
            last[mine] = line.offsets[-1]
    unlogged: list[Term] = []
    marked: list[str] = []
    again: list[str] = []
    for partition, terms in given.items():
        before: set[int] = set()
        for token, offsets in sorted(terms.items()):
            begin = begins.get((partition, token))
            if begin is None:
                unlogged.append((partition, token))
            else:
                marked += [f"{partition}:{offset}" for offset in sorted(offsets) if begin.marked(offset)]
                found.allowed += sum(not begin.marked(offset) for offset in before)
            again += [f"{partition}:{at}" for at in sorted(offsets) if flushed.get((partition, at), token) < token]
            before |= offsets
    found.says("terms (partition, token) that the log never gave", sorted(unlogged))
    found.says("records given out though they were marked", marked)
    found.says("records given out backwards in a term", backwards)
    found.says("records given out again though a flush had written them down", again)


def _given_once(found: Verdict, lines: Sequence[Line]) -> None:
    counts: dict[Place, int] = defaultdict(int)
    for line in lines:
        for offset in line.offsets if line.kind == "given" else ():
            counts[line.partition, offset] += 1
    found.says("records given out more than once", sorted(place for place, count in counts.items() if count > 1))
