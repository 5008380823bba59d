"""The members of one group, as far as rules ask for them: what they said when they joined, and when they were silent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pares.spark.facts.base import ADMINISTRATOR, Fact
from pares.spark.facts.raw import UNREADY
from pares.spark.rules.base import Row, greatest, least
from pares.spark.rules.waiting import FOR_EVER, Able, Span

SPANS: Final = 64
"""So many silences of a member are kept apart; of more, the two oldest become one, which makes it less able and never more."""
GONE: Final = 10_000
"""So many members that are gone are kept at the most."""
UNFIT: Final = 10_000
_LARGEST: Final = ("name", "host", "drift", "overlap_ms", "eligible")


class Known(Struct):
    """One member."""

    base: Row
    """What was said of it once and for all."""
    now: dict[int, list[Fact]] = field(default_factory=dict[int, list[Fact]])
    """What the end of each partition says of it at present."""
    last: tuple[int, int] | None = None
    """The stamp of its last record that counted, and by when the next was due."""
    silences: list[Span] = field(default_factory=list[Span])
    unready: list[Span] = field(default_factory=list[Span])


class Members(Struct):
    """All members that are there, and those that have gone lately."""

    group: str
    known: dict[str, Known] = field(default_factory=dict[str, Known])
    unfit: dict[str, None] = field(default_factory=dict[str, None])
    """Those that were asked to drain."""
    limit_ms: int = 0
    """How long a seat may be without a leader, by the longest session of any member so far; 0: none is known."""

    def take(self, fact: Fact) -> None:
        """A `member`, `gone` or `seen` that stands in the log's order."""
        if fact.member is not None:
            _merge(self._of(fact.member).base, fact)
            self._limit(fact)

    def at_end(self, partition: int, facts: Iterable[Fact]) -> None:
        """What the fold of a partition says at its end; it replaces what it said before."""
        said: dict[str, list[Fact]] = {}
        for fact in facts:
            if fact.kind in ("member", "seen") and fact.member is not None:
                said.setdefault(fact.member, []).append(fact)
                self._limit(fact)
        for member, own in said.items():
            self._of(member).now[partition] = own

    def record(self, fact: Fact) -> None:
        """A record, in order."""
        if fact.cause == "ask" and fact.other:
            self.unfit[fact.other] = None
            if len(self.unfit) > UNFIT:
                del self.unfit[next(iter(self.unfit))]
        if not fact.counted or fact.member is None or fact.at_ms is None:
            return
        known = self._of(fact.member)
        session = known.base["session_ms"]
        if known.last is not None and session is not None and fact.at_ms - known.last[0] > known.last[1] + session:
            known.silences.append((known.last[0], fact.at_ms))
            if len(known.silences) > SPANS:
                (a, _), (_, b) = known.silences[:2]
                known.silences[:2] = [(a, b)]
        known.last = (fact.at_ms, fact.due_ms or 0)
        if fact.why == UNREADY and not any(b == FOR_EVER for _, b in known.unready):
            known.unready.append((fact.at_ms, FOR_EVER))
        elif fact.cause == "ready" and fact.why is None:
            known.unready = [(a, min(b, fact.at_ms)) for a, b in known.unready]

    def row(self, member: str | None) -> Row | None:
        """As the table of members has it."""
        known = self.known.get(member or "")
        if known is None:
            return None
        row = dict(known.base)
        for facts in known.now.values():
            for fact in facts:
                _merge(row, fact)
        return row

    def rows(self) -> list[Row]:
        """All of them."""
        return [row for member in self.known if (row := self.row(member)) is not None]

    def able(self, rows: Sequence[Row], believed: Mapping[Any, Sequence[Row]]) -> Able:
        """Of which members it is asked who could have led; `believed` by group, role and member."""
        silences = {
            (self.group, member): [*known.unready, *known.silences]
            for member, known in self.known.items()
            if known.unready or known.silences
        }
        return Able({(self.group,): rows}, believed, {(self.group, member) for member in self.unfit}, silences)

    def forget(self, before_ms: int, needed: frozenset[str]) -> None:
        """What is over since before that time, but for members that are `needed`."""
        left: list[str] = []
        for member, known in list(self.known.items()):
            known.silences = [span for span in known.silences if span[1] > before_ms]
            known.unready = [span for span in known.unready if span[1] > before_ms]
            gone_ms = known.base["gone_ms"]
            if gone_ms is None or member in needed:
                continue
            if gone_ms <= before_ms:
                del self.known[member]
            else:
                left.append(member)
        for member in left[: max(0, len(left) - GONE)]:
            del self.known[member]

    def _of(self, member: str) -> Known:
        known = self.known.get(member)
        if known is None:
            names = ("joined", "name", "host", "session_ms", "drift", "overlap_ms", "joined_ms", "gone_ms")
            base: Row = {"g": self.group, "member": member, **dict.fromkeys(names)}
            base |= {"administrator": False, "seen_offset": None, "seen_ms": None, "eligible": None}
            known = self.known[member] = Known(base)
        return known

    def _limit(self, fact: Fact) -> None:
        if fact.kind == "member" and fact.session_ms is not None and fact.drift is not None:
            self.limit_ms = max(self.limit_ms, math.ceil(fact.session_ms / (1 - fact.drift)))


def _merge(row: Row, fact: Fact) -> None:
    for name in _LARGEST:
        said = getattr(fact, name)
        if said is not None:
            row[name] = said if row[name] is None else max(row[name], said)
    if fact.kind == "member":
        row["joined"], row["joined_ms"] = least(row["joined"], fact.offset), least(row["joined_ms"], fact.at_ms)
        row["session_ms"] = greatest(row["session_ms"], fact.session_ms)
        row["administrator"] |= fact.cause == ADMINISTRATOR
    elif fact.kind == "gone":
        row["gone_ms"] = greatest(row["gone_ms"], fact.at_ms)
    elif fact.kind == "seen":
        row["seen_offset"] = greatest(row["seen_offset"], fact.offset)
        row["seen_ms"] = greatest(row["seen_ms"], fact.clock_ms)
