"""Ranges that are folded by themselves, and joined: the facts are those of one fold over the whole log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from histories import ACTS, _Play
from scribe import Entries, Scribe

from pares.core.wire import records as r
from pares.spark.facts.base import Fact
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import freeze, thaw
from pares.spark.facts.joined import Joined, Range

Rows = Counter[tuple[str | None, Fact]]


class Folds:
    """The entries of a log, folded at once, and in ranges."""

    def __init__(self, entries: Entries, origin: int = 0, group: str | None = None) -> None:
        self.entries, self.origin, self.group = entries, origin, group
        self.again = 0
        self.defects: list[Fact] = []
        self.alone = 0

    def whole(self) -> Rows:
        fold = Partition(self.group, 0, self.origin, claims=True)
        return rows([*fold.feed(self.between(self.origin, None)), *fold.finish()])

    def ranges(self, cuts: Sequence[tuple[int, int]]) -> Rows:
        """`cuts`: where the lead-in of each range but the first begins, and where the range does."""
        ends = [cut for _, cut in cuts[1:]] + [None]
        first = Partition(self.group, 0, self.origin, claims=True)
        found = rows(first.feed(self.between(self.origin, cuts[0][1] if cuts else None)))
        joined = Joined(thaw(freeze(first)))
        for (since, cut), end in zip(cuts, ends, strict=bool(cuts)):
            part = Range(self.group, 0, since, origin=self.origin, claims=True)
            part.lead_in(self.between(since, cut))
            part.cut()
            told = list(part.feed(self.between(cut, end)))
            again = joined.join(thaw(freeze(part)))
            groups = {group for group, _ in again}
            self.again += len(groups)
            self.alone += sum(fold is not None for fold in part.folds.values()) - len(groups)
            self.defects += [defect for _, defect in again if defect is not None]
            found += rows((group, facts) for group, facts in told if group is None or group not in groups)
            if groups:
                anew = thaw(freeze(joined.of(groups)))
                found += rows((g, facts) for g, facts in anew.feed(self.between(cut, end)) if g is not None)
                joined.again(anew)
        return found + rows(joined.finish())

    def between(self, low: int, high: int | None) -> Entries:
        return [e for e in self.entries if e[0] >= low and (high is None or e[0] < high)]


def rows(told: object) -> Rows:
    return Counter((group, fact) for group, facts in told for fact in facts)  # type: ignore[attr-defined]


class Play(_Play):
    """The random history of one group in a log, with snapshots in whole, in parts, late, incomplete and false."""

    def __init__(self, group: str, dice: random.Random, entries: Entries) -> None:
        roles = [f"r{i}" for i in range(dice.choice([1, 2, 3]))]
        super().__init__(Scribe(group, entries=entries), dice, roles)
        self.log.role(*roles, seats=dice.choice([1, 1, 2]))
        self.members += [self.log.join(f"m{self.number()}") for _ in range(3)]
        self._late: list[tuple[int, str]] = []

    def act(self, act: str) -> None:
        log, dice = self.log, self.dice
        if act != "snapshot":
            return super().act(act)
        member, taken = dice.choice(self.members), log._newest_place()
        if taken is None:
            return log.beat(member)
        upto, text = taken.upto, taken.text
        self._late.append((upto, text))
        if dice.random() < 0.15:
            upto, text = dice.choice(self._late)
        if dice.random() < 0.1:
            text = text.replace('"mark":0', '"mark":7', 1)
        parts = dice.choice([1, 1, 2])
        for part in range(parts if dice.random() < 0.9 else parts - 1):
            half = [text, text[: len(text) // 2], text[len(text) // 2 :]][part + parts - 1]
            log.put(r.Snapshot, member, upto=upto, id=f"s{len(log.entries) - part}", part=part, parts=parts, world=half)
        return None


def random_log(seed: int, acts: int = 80) -> Entries:
    dice, entries = random.Random(seed), Entries()
    plays = [Play(name, dice, entries) for name in ("g", "h")[: dice.choice([1, 1, 2])]]
    some = [*dice.sample(ACTS, 14), "beat", "beat", "take", "take"]
    for _ in range(acts):
        play = dice.choice(plays)
        play.log.now = max(one.log.now for one in plays) + dice.choice([1, 5, 40, 150, 400])
        play.act("snapshot" if dice.random() < 0.12 else dice.choice(some))
        for _ in range(dice.choice([0, 0, 0, 8])):
            play.log.beat(dice.choice(play.members))
    return entries


def random_cuts(entries: Entries, dice: random.Random) -> list[tuple[int, int]]:
    offsets = range(entries[0][0] + 1, entries[-1][0])
    cuts = sorted(dice.sample(offsets, dice.choice([1, 2, 3, 6])))
    return [(max(entries[0][0], cut - dice.choice([10, 60, 150, 300])), cut) for cut in cuts]


@pytest.mark.parametrize("seed", range(60))
def test_ranges_come_to_the_facts_of_one_fold(seed: int) -> None:
    entries, dice = random_log(seed), random.Random(seed)
    folds = Folds(entries[dice.choice([0, 0, len(entries) // 3]) :], group=dice.choice([None, None, "g"]))
    folds.origin = folds.entries[0][0]
    whole = folds.whole()
    for _ in range(4):
        folds.defects = []
        found = folds.ranges(random_cuts(folds.entries, dice))
        assert without(found, folds.defects) == without(whole, folds.defects)


def without(rows: Rows, defects: Sequence[Fact]) -> Rows:
    """But for defects that the ranges alone have come upon."""
    return Counter({row: count for row, count in rows.items() if row[1] not in defects})
