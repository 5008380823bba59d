"""Histories in portions, as one who follows a log gets them; and what a whole audit says of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from pares.spark.facts.base import Fact, arrow_schema, batches
from pares.spark.facts.claims import History
from pares.spark.facts.folding import Partition
from pares.spark.follow.judge import Alarm, Judge, standing
from pares.spark.plain.tables import of_log
from pares.spark.rules.base import Allowed

Entries = list[tuple[int, int, bytes]]
Row = dict[str, Any]
ALLOWED: Final = Allowed(error_ms=2)
FOR_EVER: Final = 10**12
COLUMNS: Final = ("rule", "verdict", "role", "seat", "token_a", "token_b", "member_a", "member_b")
_LATER: Final = ("token_b", "member_b")


def whole(group: str, facts: Sequence[Fact], allowed: Allowed = ALLOWED) -> list[Row]:
    """The violations that a whole audit finds."""
    table = pa.Table.from_batches(list(batches(group, list(facts))), arrow_schema())
    found = {whole_row(row): row for row in of_log(table, [], allowed)["violations"]}
    return list(found.values())  # what the second opinion says twice in the same words is one alarm


def portions(
    facts: Sequence[Fact], entries: Entries, group: str, dice: random.Random
) -> Iterator[tuple[list[Fact], list[Fact]]]:
    """The facts in random portions, each with what the fold says of the end there. What a fold never says stands where it says
    that it does."""
    fold = History(group)
    fold.feed(entries)
    ends = Counter(fold.finish())
    body: list[Fact] = []
    for fact in facts:
        if ends[fact] > 0:
            ends[fact] -= 1
        else:
            body.append(fact)
    body.sort(key=lambda fact: (-1 if fact.offset is None else fact.offset, fact.kind == "record"))
    cuts = sorted({*(dice.randrange(len(entries)) for _ in range(dice.choice([0, 1, 3, 8, 20]))), len(entries)})
    fold, low = History(group), 0
    for high in cuts:
        fold.feed(entries[low:high])
        until = FOR_EVER if high == len(entries) else high
        share = [fact for fact in body if low <= max(0, fact.offset or 0) < until]
        low = high
        yield share, fold.finish()


def folded(
    entries: dict[int, Entries], group: str, *, bus: bool = False, dice: random.Random | None = None
) -> tuple[list[Fact], list[tuple[int, list[Fact], list[Fact]]]]:
    """The facts of a group in several partitions as a whole audit gets them; and in random portions, each with its partition
    and what the fold says of the end there."""
    whole_: list[Fact] = []
    parts: list[tuple[int, list[Fact], list[Fact]]] = []
    folds: dict[int, Partition] = {}
    for number, of in entries.items():
        start = of[0][0] if of else 0
        fold = Partition(group, number, start, claims=True, bus=bus)
        whole_ += [fact for _, facts in fold.feed(of) for fact in facts]
        whole_ += [fact for _, facts in fold.finish() for fact in facts]
        folds[number] = Partition(group, number, start, claims=True, bus=bus)
    at = dict.fromkeys(entries, 0)
    # By the time of their records, as a reader of several partitions gets them, more or less.
    order = sorted(((at_ms, number) for number, of in entries.items() for _, at_ms, _ in of), key=lambda one: one[0])
    dice = dice or random.Random(0)
    while order:
        many = dice.choice([1, 3, 10, 40])
        share, order = order[:many], order[many:]
        for number, count in Counter(number for _, number in share).items():
            own = entries[number][at[number] : at[number] + count]
            at[number] += count
            facts = [fact for _, found in folds[number].feed(own) for fact in found]
            parts.append((number, facts, [fact for _, found in folds[number].ends() for fact in found]))
    return whole_, parts


def follow_parts(
    parts: list[tuple[int, list[Fact], list[Fact]]], group: str, window_ms: int = FOR_EVER, allowed: Allowed = ALLOWED
) -> tuple[Judge, list[Alarm]]:
    """What was told of portions of several partitions, and who judged them."""
    judge, told_, at_s = Judge(allowed, window_ms), list[Alarm](), 0.0
    for number, facts, ends in parts:
        at_s += 0.2
        judge.feed([(group, facts)])
        judge.at_end(number, [(group, ends)])
        told_ += judge.alarms(at_s)
    return judge, told_ + judge.alarms(at_s + 1, last=True)


def follow(
    parts: Iterator[tuple[list[Fact], list[Fact]]], group: str, window_ms: int = FOR_EVER, allowed: Allowed = ALLOWED
) -> tuple[Judge, list[Alarm]]:
    """What was told of a history in portions, and who judged it."""
    judge, told, at_s = Judge(allowed, window_ms), list[Alarm](), 0.0
    for share, ends in parts:
        at_s += 0.5
        judge.feed([(group, share)])
        judge.at_end(0, [(group, ends)])
        told += judge.alarms(at_s)
    told += judge.alarms(at_s + 1, last=True)
    return judge, told


def again(judge: Judge) -> list[Alarm]:
    """All that is found on what is kept, as if nothing had been told."""
    for group in judge.groups.values():
        group.told.clear()
        for seat in group.seats.values():
            seat.told.clear()
    return judge.alarms(1e6, last=True)


def named(row: Row) -> tuple[Any, ...]:
    """A violation by what it is about. A gap's next leader is not known yet when the gap is told."""
    return tuple(None if row["rule"] == "late" and name in _LATER else row[name] for name in COLUMNS)


def whole_row(row: Row) -> tuple[Any, ...]:
    """A violation with its evidence."""
    return (*(row[name] for name in (*COLUMNS, "from_ms", "to_ms", "evidence")), *row["offsets"])


def told(alarms: Sequence[Alarm]) -> Counter[tuple[Any, ...]]:
    """What stands in the end, by what it is about."""
    return Counter(named(msgspec.to_builtins(alarm)) for alarm in standing(alarms).values())
