"""One pass over the log of a topic: the entries of each partition, in order, to the facts of each group that is asked for.

A task has a log partition, or a range of one (`joined`). All groups in it are folded side by side in that task, so a log is
read once, however many groups share it. A group of NELI's family has records in all partitions, one that runs claims in the one
that the ledger's URL names; which of them a group is, its first record says. ALLCALL's calls stand in a topic of their own, the
bus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

from pares.core.wire.neli_records import KINDS
from pares.core.wire.records import AnyRecord, Unknown
from pares.core.wire.said import Illegible, Said, said
from pares.spark.facts.allcall import CallHistory
from pares.spark.facts.base import Fact
from pares.spark.facts.claims import KEPT_PAYLOAD, EntryLike, History
from pares.spark.facts.neli import TenureHistory
from pares.spark.facts.rows import Beats

STRAY: Final = -1
"""What stands for an offset where facts are of no group: they come before all others."""
HOLES: Final = 1000
"""As many holes in the offsets are told of one by one."""


class Fold(Protocol):
    """The facts of one group."""

    def feed(self, entries: Iterable[EntryLike]) -> list[Fact]:
        """The facts that follow from `entries`, which come right after those fed before."""
        ...

    def finish(self) -> list[Fact]:
        """What can be said only at the end."""
        ...


class Share(NamedTuple):
    """What some entries say of one group."""

    group: str | None
    """None: what can't be said to be of any."""
    first: int
    """The offset of the group's first entry among them."""
    facts: list[Fact]


_Shares: TypeAlias = "Mapping[str, tuple[list[EntryLike], Sequence[AnyRecord | Unknown]]]"


class Partition:
    """The facts of the groups in one partition: of one, of several, or of all (None). A function of the entries alone.

    `claims`: whether groups that run claims are looked for here. `error_ms`: see `History`. `bus`: the entries are messages of
    a bus, each behind its subject.
    """

    def __init__(
        self,
        group: str | frozenset[str] | None,
        number: int,
        start: int,
        *,
        claims: bool,
        error_ms: int = 0,
        bus: bool = False,
    ) -> None:
        self._groups = frozenset((group,)) if isinstance(group, str) else group
        self._number, self._start = number, start
        self._claims, self._error_ms, self._bus = claims, error_ms, bus
        self._folds: dict[str, Fold | None] = {}
        self._next: int | None = None
        self._holes = 0

    def feed(self, entries: Iterable[EntryLike], beats: Beats | None = None) -> Iterator[tuple[str | None, list[Fact]]]:
        """The facts that follow from `entries`, by group. `beats`: see `History.take`."""
        return ((group, facts) for group, _, facts in self.shares(entries, beats))

    def shares(self, entries: Iterable[EntryLike], beats: Beats | None = None) -> Iterator[Share]:
        """The same, each with where the group begins in `entries`, in that order."""
        strays: list[Fact] = []
        entries = [*entries]
        known = None if self._bus else said(entries)
        shares = self._of_one(entries, known) or self._by_group(entries, known, strays)
        if strays:
            yield Share(None, STRAY, strays)
        for group, (share, records) in shares.items():
            fold = self._folds[group]
            if isinstance(fold, History):
                yield Share(group, share[0][0], fold.take(share, records, beats))
            elif fold is not None:
                yield Share(group, share[0][0], fold.feed(share))

    def _of_one(self, entries: list[EntryLike], known: Sequence[Said] | None) -> _Shares | None:
        """What there is to fold if all entries are of one group, legible, and follow one another with no hole: as nearly always
        in a log of one group. [a look at each was a tenth of the fold]"""
        if not entries or not known or Illegible in set(map(type, known)):
            return None
        first, last = entries[0][0], entries[-1][0]
        if self._next not in (None, first) or last - first != len(entries) - 1:
            return None
        records = cast("Sequence[AnyRecord | Unknown]", known)
        groups = {record.g for record in records}
        if len(groups) > 1 or not self._meets(records[0].g, records[0]):
            return None
        self._next = last + 1
        return {records[0].g: (entries, records)}

    def _by_group(self, entries: list[EntryLike], known: Sequence[Said] | None, strays: list[Fact]) -> _Shares:
        """The same of any entries; what is of no group that is known goes to `strays`."""
        shares: dict[str, tuple[list[EntryLike], list[AnyRecord | Unknown]]] = {}
        last = self._next
        for entry, record in zip(entries, repeat(None) if known is None else known, strict=False):
            offset = entry[0]
            if offset != last and last is not None and offset > last and self._holes < HOLES:
                # Lawful in some ledgers, and good to know where records are missed.
                self._holes += 1
                strays.append(Fact("hole", last, entry[1], ref=offset))
            last = offset + 1
            if type(record) is Illegible:
                payload = bytes(entry[2][:KEPT_PAYLOAD])
                strays.append(Fact("bad", offset, entry[1], cause=record.reason, payload=payload))
                continue
            group = record.g if record is not None else entry[2].partition(b"\n")[0].decode("utf-8", "backslashreplace")
            share = shares.get(group)
            if share is None:
                if not self._meets(group, record):
                    continue
                share = shares[group] = ([], [])
            share[0].append(entry)
            if record is not None:
                share[1].append(record)
        self._next = last
        return cast(_Shares, shares)

    def _meets(self, group: str, record: AnyRecord | Unknown | None) -> bool:
        """Whether the group is asked for; then it has a fold, or runs claims in another partition. `record`: one of its."""
        if self._groups is not None and group not in self._groups:
            return False
        if group not in self._folds:
            induced = type(record) is Unknown and record.k in KINDS
            self._folds[group] = self._fold(group, induced=induced)
        return True

    def finish(self) -> Iterator[tuple[str | None, list[Fact]]]:
        """What can be said only at the end."""
        for group, fold in self._folds.items():
            if fold is not None:
                yield group, fold.finish()

    def ends(self) -> Iterator[tuple[str | None, list[Fact]]]:
        """What can be said of the log's end as it is now, of groups that stand on sound ground; feeding may go on."""
        for group, fold in self._folds.items():
            if fold is not None and (not isinstance(fold, History) or fold.settled):
                yield group, fold.finish()

    @property
    def folds(self) -> dict[str, Fold | None]:
        """The groups that it has met, and the fold of each; None: it runs claims in another partition."""
        return self._folds

    @property
    def origin(self) -> int:
        """Where the log partition begins."""
        return self._start

    @property
    def holes(self) -> int:
        """Of how many holes it has told."""
        return self._holes

    def tidy(self) -> None:
        """Brings its state to one form, whether all was folded in one go or in ranges (`joined`)."""
        for fold in self._folds.values():
            if isinstance(fold, History):
                fold.tidy()

    def of(self, groups: Iterable[str]) -> Partition:
        """The fold of some of its groups, to go on with by itself."""
        some = frozenset(groups)
        part = Partition(some, self._number, self._start, claims=self._claims, error_ms=self._error_ms, bus=self._bus)
        part._folds = {group: fold for group, fold in self._folds.items() if group in some}
        return part

    def went_on(self, part: Partition) -> int:
        """Goes on over the range that `part` has folded, as to holes. Returns how many were told of."""
        many = self._holes + part._holes
        self._next, self._holes = part._next, min(HOLES, many)
        return many

    def _fold(self, group: str, *, induced: bool) -> Fold | None:
        if self._bus:
            return CallHistory(group, self._start)
        if induced:
            return TenureHistory(group, self._number, self._start)
        return self._history(group) if self._claims else None

    def _history(self, group: str) -> History:
        return History(group, self._start, self._error_ms)
