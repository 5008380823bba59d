"""The ranges of a log partition, one after the other: where each may begin, and the fold that they come to.

    range 1      |-----------------|
    range 2              ~~~~~~~~~~|-----------------|        ~ the lead-in: read by both, told by the first
    range 3                                  ~~~~~~~~|----------------|

All groups are folded in one pass over a range. A group that can't be begun in the middle (`ranged`), or whose end does not fit
the next beginning, is folded again in that range alone, in sequence; the rest of the range stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pares.spark.facts.base import Fact
from pares.spark.facts.claims import STEPS, EntryLike, History
from pares.spark.facts.folding import HOLES, Fold, Partition
from pares.spark.facts.frozen import freeze, thaw
from pares.spark.facts.ranged import RangeHistory


class Skipped:
    """A group that can't be begun at the cut."""

    def __init__(self) -> None:
        self.used = False

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        self.used = True
        return []

    def finish(self) -> list[Fact]:
        return []


class Range(Partition):
    """The facts of a partition from the cut on. `start`: where the lead-in begins, `origin`: where the log does."""

    def __init__(
        self,
        group: str | frozenset[str] | None,
        number: int,
        start: int,
        *,
        origin: int,
        claims: bool,
        error_ms: int = 0,
    ) -> None:
        super().__init__(group, number, start, claims=claims, error_ms=error_ms)
        self._origin = origin

    def lead_in(self, entries: Iterable[EntryLike]) -> None:
        """What stands before the cut. Once all of it was fed: `cut`."""
        for _ in self.feed(entries):
            pass

    def cut(self) -> None:
        for group, fold in self._folds.items():
            if isinstance(fold, RangeHistory) and fold.settled:
                fold.cut()
            elif fold is not None:
                self._folds[group] = Skipped()
        self._holes, self._start = 0, self._origin

    def _history(self, group: str) -> History:
        return RangeHistory(group, self._start, self._error_ms)


class Again(NamedTuple):
    """A group that is to be folded again over a range."""

    group: str
    defect: Fact | None
    """What its false beginning says."""


class Joined:
    """The fold of a partition up to where the ranges that were joined to it end."""

    def __init__(self, first: Partition) -> None:
        self.fold = first
        self.over: set[tuple[str, str | None]] = set()
        """(kind, group): the ranges have told of more of these, one by one, than a fold of all would have."""
        self._defects: dict[str, list[Fact]] = {}

    def join(self, part: Range) -> list[Again]:
        """Goes on over the next range. Returns the groups whose facts of that range are not to be used: their folds stand
        where they stood, until `again` says where they stand."""
        found: list[Again] = []
        for group, fold in part.folds.items():
            before = self.fold.folds.get(group)
            if _idle(fold) or self._take(group, before, fold):
                continue
            found.append(Again(group, self._defect(group, before, fold)))
        if self.fold.went_on(part) > HOLES:
            self.over.add(("hole", None))
        return found

    def _take(self, group: str, before: Fold | None, fold: Fold | None) -> bool:
        if before is not None:
            if not (isinstance(before, History) and isinstance(fold, RangeHistory)):
                return False
            many = before.steps + fold.steps
            if not fold.behind(before):
                return False
            if many > STEPS:
                self.over.add(("step", group))
            return True
        if isinstance(fold, Skipped) or (isinstance(fold, RangeHistory) and fold.mark is not None):
            return False
        self.fold.folds[group] = fold.alone(self.fold.origin) if isinstance(fold, RangeHistory) else fold
        return True

    def of(self, groups: Iterable[str]) -> Partition:
        """The fold of some groups alone, to go on with over the range that was joined last."""
        return self.fold.of(groups)

    def again(self, part: Partition) -> None:
        """Where the fold of some groups stands at the end of the range that was joined last."""
        self.fold.folds.update(part.folds)

    def finish(self) -> Iterator[tuple[str | None, list[Fact]]]:
        """What can be said only at the end of the log; and of defects what the fold itself has not come upon."""
        for group, facts in self.fold.finish():
            yield group, [*facts, *self.unseen(group, facts)]

    def unseen(self, group: str | None, ends: Iterable[Fact]) -> list[Fact]:
        """The defects of a group that the fold, whose last facts are `ends`, has not come upon."""
        told = {(fact.offset, fact.other) for fact in ends if fact.kind == "defect"}
        return [fact for fact in self._defects.get(group or "", ()) if (fact.offset, fact.other) not in told]

    def _defect(self, group: str, before: Fold | None, fold: Fold | None) -> Fact | None:
        if not (isinstance(before, History) and isinstance(fold, RangeHistory) and fold.differs(before)):
            return None
        offset, author = fold.begun_with or (None, None)
        fact = Fact("defect", offset, other=author)
        known = self._defects.setdefault(group, [])
        if fact not in known:
            known.append(fact)
        return fact


def join(
    parts: Sequence[int], state_of: Callable[[int], bytes], fold_again: Callable[[int, list[str], bytes], bytes]
) -> Joined:
    """Joins the ranges of a log partition, which are in order.

    `state_of`   the state that a range came to
    `fold_again` is given a range, the groups whose facts of it are not to be used, and the state of their folds before it; it
                 folds these groups again over that range, and returns their state behind it
    """
    joined = Joined(thaw(state_of(parts[0])))
    for part in parts[1:]:
        groups = [again.group for again in joined.join(thaw(state_of(part)))]
        if groups:
            joined.again(thaw(fold_again(part, groups, freeze(joined.of(groups)))))
    return joined


def _idle(fold: Fold | None) -> bool:
    """Whether nothing of the group stands in the range."""
    if isinstance(fold, RangeHistory):
        return fold.mark is not None and not fold.used
    return fold is None or (isinstance(fold, Skipped) and not fold.used)
