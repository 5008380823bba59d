"""One seat, as far as it is kept: its terms that are open, those that ended within the window, and one led term before them.

Why one before them: a change of hands is judged by both of its terms, a gap begins where a belief ended, and the next token is
held against the last one. What was before that is judged, and no rule asks for it again but by a word that comes later than the
window is long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from pares.spark.facts.base import Fact
from pares.spark.plain import spans
from pares.spark.plain import terms as plain
from pares.spark.rules import beliefs, waiting
from pares.spark.rules.base import Allowed, Row, greatest, least
from pares.spark.rules.registry import BY_SEAT

ENDED: Final = 64
"""Terms of one seat that have ended and are kept, at the most: a seat that changes hands faster has a shorter window."""
WORDS: Final = 16
"""Facts of one term; of more those are kept that say how far its beliefs reach."""
LAG_MS: Final = 500
"""For so long a gap that goes on may last longer than is allowed before it is told: its next leader's word may be under way."""
COLUMNS: Final = (
    *("kind", "offset", "at_ms", "role", "seat", "token", "member", "other", "clock_ms", "cause", "why", "name"),
    *("until_ms", "sign_ms"),
)
"""What rules ask of a fact about a seat."""
Term: TypeAlias = tuple[int | None, str | None]


class Around(NamedTuple):
    """What is known of a seat's group."""

    group: Row
    members: Mapping[str, Row]
    pauses: Sequence[Row]
    limits: Mapping[str, int]
    allowed: Allowed


class Found(NamedTuple):
    """What was found on a seat."""

    tables: dict[str, list[Row]]
    waits: list[Row]
    """Stretches without a leader that were longer than allowed, without who could have led."""

    def unled_ms(self) -> int | None:
        """Since when there has been no leader, in a stretch that goes on or was longer than allowed."""
        last_ms = self.tables["groups"][0]["last_ms"]
        begins = [row["from_ms"] for row in self.waits]
        begins += [row["from_ms"] for row in self.tables["gaps"] if row["to_ms"] >= last_ms]
        led = max(
            (row for row in self.tables["believed"] if row["given"] and row["a"] is not None), key=_token, default=None
        )
        if led is not None and led["b"] is not None and (led["to_offset"] is not None or led["b"] < last_ms):
            begins.append(led["b"])  # nobody has led it since but members to which the log did not give it
        return min(begins, default=None)


class Seat(Struct):
    """See the module."""

    role: str
    index: int
    terms: dict[Term, list[Row]] = field(default_factory=dict[Term, list[Row]])
    windows: list[Row] = field(default_factory=list[Row])
    """That it came to be, and that it is no more, in order."""
    floor: int = 0
    """Of terms with lower tokens nothing is known any more."""
    forgotten: int = 0
    """Words about such terms that have come since."""
    at_end: dict[int, list[Row]] = field(default_factory=dict[int, list[Row]])
    """What the end of each partition says of it at present."""
    told: dict[tuple[Any, ...], str] = field(default_factory=dict[tuple[Any, ...], str])
    """Violations that were told, with their verdicts."""
    unled_ms: int | None = None
    """Since when it has had no leader, or had had none in a stretch that is kept and was longer than allowed."""

    def take(self, group: str, fact: Fact) -> None:
        """A fact about the seat, in order."""
        row = slim(group, fact)
        if fact.kind in ("opened", "shut"):
            self.windows.append(row)
            return
        term = (fact.token, fact.member)
        if term not in self.terms and (fact.token or 0) < self.floor:
            self.forgotten += 1
            return
        rows = self.terms.setdefault(term, [])
        rows.append(row)
        if len(rows) > WORDS:
            self.terms[term] = shortened(rows)

    def facts(self) -> list[Row]:
        """All that is kept."""
        return [*self.windows, *self._of_terms()]

    def named(self) -> set[str]:
        """The members that its facts name."""
        return {row[name] for row in self._of_terms() for name in ("member", "name") if row[name] is not None}

    def _of_terms(self) -> list[Row]:
        ends = [row for rows in self.at_end.values() for row in rows]
        known = [
            row for row in ends if (row["token"], row["member"]) in self.terms or (row["token"] or 0) >= self.floor
        ]
        return [*(row for rows in self.terms.values() for row in rows), *known]

    def believed(self, around: Around) -> list[Row]:
        """Its terms as intervals of belief."""
        return plain.believed(self._terms(self.facts(), around))

    def _terms(self, facts: Sequence[Row], around: Around) -> list[Row]:
        members = [around.members[name] for name in self.named() if name in around.members]
        return plain.terms(facts, [around.group], members, ())

    def look(self, around: Around, *, last: bool) -> Found:
        """The tables that the rules by seat stand on. `last`: the log ends here, so that no word is under way."""
        facts, group = self.facts(), around.group
        terms = self._terms(facts, around)
        believed = plain.believed(terms)
        segments = spans.segments(believed, spans.windows(facts, [group]))
        tables: dict[str, list[Row]] = {
            "groups": [group],
            "terms": terms,
            "believed": believed,
            "moves": spans.moves(facts),
            "gaps": spans.gaps(segments, believed),
            "takeovers": spans.takeovers(believed),
            "pauses": list(around.pauses),
        }
        tables["overlaps"] = beliefs.overlapping(tables, around.allowed)
        waits = waiting.stretches(tables, around.limits, around.allowed)
        if not last:
            lag = LAG_MS
            waits = [
                row
                for row in waits
                if row["to_ms"] < group["last_ms"]
                or row["to_ms"] - row["from_ms"] > waiting.short(row, around.allowed) + lag
            ]
        return Found(tables, waits)

    def violations(self, found: Found, waits: list[Row], allowed: Allowed) -> list[Row]:
        """What the rules by seat say; `waits`: those of `found`, with who could have led."""
        tables = {**found.tables, "waits": waits}
        return [{**row, "rule": rule.name} for rule in BY_SEAT for row in rule.oracle(tables, allowed)]

    # Whether it has to be looked at again, and what it need not keep ---------------------------------------------------------

    def settled(self, found: Found) -> bool:
        """Whether nothing but a new fact about it can change what is found."""
        tables = found.tables
        open_ = [row for row in tables["terms"] if row["to_offset"] is None and row["stop_ms"] is None]
        led = any(row["from_offset"] is not None or row["truncated"] for row in open_)
        there = sum(1 if row["kind"] == "opened" else -1 for row in self.windows) > 0
        if (there and not led) or len(open_) > 1 or found.waits or "possible" in self.told.values():
            return False
        under_pause = any(row["role"] in (None, self.role) for row in tables["pauses"])
        if open_ and (under_pause or not led or open_[0]["from_ms"] is None):
            return False
        tokens = {row["token"] for row in open_}
        return not any(row["token_a"] in tokens or row["token_b"] in tokens for row in tables["overlaps"])

    def forget(self, found: Found, cut_ms: int) -> bool:
        """Lets go of what ended before `cut_ms`, and of the oldest of too many; says whether there was any."""
        ends = {(row["token"], row["member"]): row for row in found.tables["terms"]}
        believed = found.tables["believed"]
        given = sorted((row for row in believed if row["given"]), key=_token)
        closed = sum(row["to_offset"] is not None for row in given)
        old: list[Row] = []
        anchor: Row | None = None
        for place in range(1, len(given)):
            row = given[place - 1]
            aged = self._aged(row, cut_ms) or closed - len(old) > ENDED
            if not aged or row["to_offset"] is None or not _over(ends[row["token"], row["member"]], found):
                break
            old.append(row)
            after = given[place]
            if _apart(old, given[place:], after):
                anchor = after
        if anchor is None:
            # What the log did not give, and lies within the first belief that is kept, can go by itself.
            inner = [] if not given or given[0]["a"] is None else self._strays(found, cut_ms, given[0], inside=True)
            for term in inner:
                del self.terms[term]
            return bool(inner)
        old = [row for row in given if (row["token"] or 0) < (anchor["token"] or 0)]
        for term in [
            *((row["token"], row["member"]) for row in old),
            *self._strays(found, cut_ms, anchor, inside=False),
        ]:
            self.terms.pop(term, None)
        self.floor = max(self.floor, *(row["token"] + 1 for row in old))
        self._begin_at(anchor["a"])
        return True

    def _strays(self, found: Found, cut_ms: int, anchor: Row, *, inside: bool) -> list[Term]:
        """Beliefs that the log did not give, that are over, and that fill no gap which `anchor` leaves: those that ended before
        `cut_ms`, and the oldest of more than `ENDED`."""
        stopped = {(row["token"], row["member"]) for row in found.tables["terms"] if row["stop_ms"] is not None}
        over = [
            row
            for row in found.tables["believed"]
            if not row["given"]
            and (row["token"], row["member"]) in stopped
            and (row["token"], row["member"]) in self.terms
            and _before(row, anchor)
            and (not inside or (row["a"] is not None and row["a"] >= anchor["a"]))
        ]
        over.sort(key=lambda row: row["b_late"] or 0)
        many = len(over) - ENDED
        return [
            (row["token"], row["member"]) for place, row in enumerate(over) if place < many or self._aged(row, cut_ms)
        ]

    def old(self, cut_ms: int) -> bool:
        """Whether there may be anything to let go of."""
        if len(self.terms) > ENDED:
            return True
        if len(self.terms) == 1 and len(self.windows) == 1:
            return False
        times = [row["at_ms"] for row in [*self.windows, *(rows[-1] for rows in self.terms.values())]]
        return any(at_ms is None or at_ms < cut_ms for at_ms in times)

    def over(self, found: Found, cut_ms: int) -> bool:
        """Whether the seat is no more, and nothing of it is recent."""
        there = sum(1 if row["kind"] == "opened" else -1 for row in self.windows) > 0
        recent = [row["at_ms"] for row in self.facts() if row["at_ms"] is not None and row["at_ms"] >= cut_ms]
        return not there and not recent and all(row["to_ms"] is not None for row in found.tables["terms"])

    def _aged(self, row: Row, cut_ms: int) -> bool:
        times = [
            fact["at_ms"] for fact in self.terms.get((row["token"], row["member"]), []) if fact["at_ms"] is not None
        ]
        latest = greatest(row["b_late"], *times)
        return latest is not None and latest < cut_ms

    def _begin_at(self, from_ms: int) -> None:
        """What was before `from_ms` is no longer asked for."""
        opened = sorted((row for row in self.windows if row["kind"] == "opened"), key=_offset)
        shut = sorted((row for row in self.windows if row["kind"] == "shut"), key=_offset)
        while opened and shut and shut[0]["at_ms"] is not None and shut[0]["at_ms"] <= from_ms:
            del opened[0], shut[0]
        if opened and (opened[0]["at_ms"] is None or opened[0]["at_ms"] < from_ms):
            opened[0] = {**opened[0], "at_ms": from_ms}
        self.windows = sorted([*opened, *shut], key=_offset)


def slim(group: str, fact: Fact) -> Row:
    """A fact about a seat as a row."""
    return {"g": group, **{name: getattr(fact, name) for name in COLUMNS}}


def shortened(rows: list[Row]) -> list[Row]:
    """Of what was said of one term again and again: when it began first, and what was said first and last."""
    kept = [row for row in rows if row["kind"] not in ("lead", "stop")]
    for kind in ("lead", "stop"):
        said = [row for row in rows if row["kind"] == kind]
        if said:
            timed = [row for row in said if row["clock_ms"] is not None] or said
            ends = (min(said, key=_offset), max(said, key=_offset), min(timed, key=lambda row: row["clock_ms"] or 0))
            kept += [row for row in said if any(row is one for one in ends)]
    return kept


def _offset(row: Row) -> tuple[bool, int]:
    return row["offset"] is not None, row["offset"] or 0


def _token(row: Row) -> tuple[int, int]:
    return row["token"] or 0, row["from_offset"] or -1


def _over(term: Row, found: Found) -> bool:
    """Whether nothing but a late word can make it longer."""
    last_ms = found.tables["groups"][0]["last_ms"]
    return term["b_late"] is None or term["b_late"] < last_ms


def _before(row: Row, anchor: Row) -> bool:
    """Whether it fills no gap that the anchor leaves, whenever that turns out to have ended. [a silent holder's belief that
    goes on ends earlier once the seat is claimed over it]"""
    sure = least(anchor["b"], anchor["b_early"])
    return row["b"] is None or row["b"] <= anchor["a"] or (sure is not None and row["b"] < sure)


def _apart(old: Sequence[Row], kept: Sequence[Row], anchor: Row) -> bool:
    """Whether those that are kept begin with a led term, and come after all that are not, whatever they are put in order by."""
    if anchor["a"] is None or anchor["from_offset"] is None:
        return False
    tokens, offsets = [row["token"] or 0 for row in kept], [row["from_offset"] for row in kept]
    if any(offset is None for offset in offsets):
        return False
    low = min(tokens), min(offsets)
    return all(
        (row["token"] or 0) < low[0] and (row["from_offset"] or -1) < low[1] and _before(row, anchor) for row in old
    )
