"""What was given out and done, held against what each way promises.

| way | lost | repeated | in order |
|---|---|---|---|
| at-least-once | none | only what was unmarked when a term began, and nothing that was done before a flush | yes |
| at-most-once | the end of what a dead worker had taken | none | in each term |
| fenced | none | none | yes, and terms too |
| ranges, keys | none | as at-least-once | in each slot |
| ranges-once | as at-most-once | none | in each term |
| plain group | counted | counted | counted |

*Lost* is a record of the topic without an effect; *repeated* counts effects of a record but the first. *Out of order* counts
records whose first effect came after that of a later record of their partition. What is *unmarked* when a term begins is what
was given out in earlier terms, and is not below the position, nor among what is done above it, as the group's log has them
there: marks that the log did not have by then came too late, whenever they were sent. In each pares way an effect belongs to a
term in which its record was given out, once; so each repetition is that of a record which was unmarked when its term began.

Where several workers work on one partition, each term is one of a slot, which has a position of its own and goes from worker to
worker as a partition does. There all that is said of terms and of order is said of slots (`_by_slots`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.delivery.journal import Line
from chaos.delivery.plan import DIVIDED, ONCE, PLAIN, Way
from pares.core.consume.names import WHOLE

Place = tuple[int, int]
"""Partition and offset."""
Term = tuple[int, int]
"""Partition and token."""
Effect = tuple[int, int, int]
"""Partition, offset, and the token of the term that it was done in."""
MANY = 1000
"""More than a partition has slots."""
SHOWN = 5
"""Of each kind of what is wrong."""


@dataclass
class Begin:
    """Where the group's log lets a term begin: all below `position` is marked or taken, and so are these runs above it.
    `took`: what was taken in this term, from an offset up to another one. `name`: of its worker. `slot`: of the partition, if
    it is one of a slot."""

    position: int
    done: tuple[tuple[int, int], ...] = ()
    took: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    name: str = ""
    slot: int = WHOLE

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
    rows: Sequence[Effect] | None = None,
    *,
    died: Collection[str] = (),
) -> Verdict:
    """`topic`: what stands in it; `lines`: of all workers, by time; `begins`: of each term, by the group's log; `rows`: of the
    sink in the order of their commits, where effects are rows; `died`: names of workers of which a process has ended before
    the end."""
    there = set(topic)
    effects = [(line.partition, line.offsets[0], line.token) for line in lines if line.kind == "did"]
    effects = effects if rows is None else [*rows]
    found = Verdict(way, len(there), effects=len(effects))
    counts = Counter((partition, offset) for partition, offset, _ in effects)
    slots = _by_slots(effects, lines, begins) if way in DIVIDED else (effects, lines, begins)
    late = _late((partition, offset) for partition, offset, _ in slots[0])
    lost, twice = sorted(there - counts.keys()), sorted(place for place, count in counts.items() if count > 1)
    found.given = sum(len(line.offsets) for line in lines if line.kind == "given")
    found.lost, found.out_of_order = len(lost), len(late)
    found.repeated = sum(count - 1 for count in counts.values())
    found.says("effects of records that are not in the topic", sorted(counts.keys() - there))
    if way == PLAIN:
        return found
    found.terms = len({(line.partition, line.token) for line in lines})
    _terms(found, *slots[1:])
    _effects(found, *slots[:2])
    if way not in ONCE:
        found.says("records lost", lost)
        found.says("records done out of order", late)
    if way in ONCE or way == "fenced":
        found.says("records done more than once", twice)
    elif found.repeated > found.allowed:
        found.broken.append(f"{found.repeated} repeated, and {found.allowed} were unmarked when a term began")
    if way in ONCE:
        _given_once(found, lines)
        _taken(found, lines, begins, set(lost), died)
    if way == "fenced":
        found.says("rows written in a term that another had followed", sorted(_overtaken(effects)))
    return found


def _by_slots(
    effects: Sequence[Effect], lines: Sequence[Line], begins: Mapping[Term, Begin]
) -> tuple[list[Effect], list[Line], dict[Term, Begin]]:
    """The same, as if each slot were a partition of its own: `PARTITION * MANY + SLOT`. A term that the log never gave is one
    of no slot."""

    def lane(partition: int, token: int) -> int:
        begin = begins.get((partition, token))
        return partition * MANY + (MANY - 1 if begin is None else begin.slot)

    return (
        [(lane(partition, token), offset, token) for partition, offset, token in effects],
        [line._replace(partition=lane(line.partition, line.token)) for line in lines],
        {(lane(*term), term[1]): begin for term, begin in begins.items()},
    )


def _late(effects: Iterable[Place]) -> list[Place]:
    """Those whose first effect came after that of a later one."""
    seen: set[Place] = set()
    highest: dict[int, int] = {}
    late: list[Place] = []
    for partition, offset in effects:
        if (partition, offset) not in seen:
            seen.add((partition, offset))
            if offset < highest.get(partition, -1):
                late.append((partition, offset))
            highest[partition] = max(offset, highest.get(partition, -1))
    return late


def _overtaken(effects: Iterable[Effect]) -> Iterator[Place]:
    newest: dict[int, int] = {}
    for partition, offset, token in effects:
        if token < newest.get(partition, 0):
            yield partition, offset
        newest[partition] = max(token, newest.get(partition, 0))


def _effects(found: Verdict, effects: Sequence[Effect], lines: Sequence[Line]) -> None:
    """Each belongs to a term in which its record was given out, is the only one there, and comes in order there."""
    given = {(line.partition, at, line.token) for line in lines if line.kind == "given" for at in line.offsets}
    counts = Counter(effects)
    last: dict[Term, int] = {}
    backwards: list[Place] = []
    for partition, offset, token in effects:
        if offset < last.get((partition, token), -1):
            backwards.append((partition, offset))
        last[partition, token] = offset
    found.says("records done that were not given out in that term", sorted(_places(counts.keys() - given)))
    found.says("records done more than once in a term", sorted(_places(e for e, n in counts.items() if n > 1)))
    found.says("records done backwards in a term", backwards)


def _places(effects: Iterable[Effect]) -> list[Place]:
    return [(partition, offset) for partition, offset, _ in effects]


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
                place = (line.partition, offset)
                flushed[place] = min(line.token, flushed.get(place, line.token))
        elif line.kind == "given":
            given[line.partition][line.token].update(line.offsets)
            for offset in line.offsets:
                if offset <= last.get(mine, -1):
                    backwards.append(f"{line.partition}:{offset} to {line.worker}")
                last[mine] = offset
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
    found.says("terms (partition, token) that began before where an earlier one had", _rewound(begins))
    found.says("terms that two workers were given records in", _shared(lines))
    found.says("records given out though they were marked", marked)
    found.says("records given out backwards in a term", backwards)
    found.says("records given out again though a flush had written them down", again)


def _rewound(begins: Mapping[Term, Begin]) -> list[Term]:
    """Nobody rewinds anything in a run: so positions only rise."""
    highest: dict[int, int] = {}
    found: list[Term] = []
    for (partition, token), begin in sorted(begins.items(), key=lambda each: each[0]):
        if begin.position < highest.get(partition, 0):
            found.append((partition, token))
        highest[partition] = max(begin.position, highest.get(partition, 0))
    return found


def _shared(lines: Sequence[Line]) -> list[Term]:
    workers: dict[Term, set[str]] = defaultdict(set)
    for line in lines:
        workers[line.partition, line.token].add(line.worker)
    return sorted(term for term, names in workers.items() if len(names) > 1)


def _given_once(found: Verdict, lines: Sequence[Line]) -> None:
    counts: dict[Place, int] = defaultdict(int)
    for line in lines:
        for offset in line.offsets if line.kind == "given" else ():
            counts[line.partition, offset] += 1
    found.says("records given out more than once", sorted(place for place, count in counts.items() if count > 1))


def _taken(
    found: Verdict, lines: Sequence[Line], begins: Mapping[Term, Begin], lost: set[Place], died: Collection[str]
) -> None:
    """What is given out was taken in that term; and what is lost is the end of what a worker that has died had taken. A worker
    that leaves something out, and goes on, has broken a promise."""
    taken = {
        (partition, offset, token)
        for (partition, token), begin in begins.items()
        for first, upto in begin.took
        for offset in range(first, upto)
    }
    given = {(line.partition, at, line.token) for line in lines if line.kind == "given" for at in line.offsets}
    found.says("records given out that were not taken in that term", sorted(_places(given - taken)))
    furthest: dict[Term, int] = {}
    for partition, offset, token in taken:
        if (partition, offset) not in lost:
            furthest[partition, token] = max(offset, furthest.get((partition, token), -1))
    amid = [(p, at) for p, at, token in taken if (p, at) in lost and at < furthest.get((p, token), -1)]
    found.says("records lost in the midst of what a term had taken", sorted(amid))
    alive = [(p, at) for p, at, token in taken if (p, at) in lost and begins[p, token].name not in died]
    found.says("records lost that a worker had taken which lived", sorted(alive))
    found.says("records lost that nobody had taken", sorted(lost - set(_places(taken))))
