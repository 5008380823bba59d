"""One group: which of its seats have to be looked at, and what is found there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from pares.spark.facts.allcall import ALLCALL
from pares.spark.facts.base import Fact
from pares.spark.facts.neli import INDUCED
from pares.spark.follow.members import Members
from pares.spark.follow.records import Records
from pares.spark.follow.seats import Around, Found, Seat, slim
from pares.spark.rules import waiting
from pares.spark.rules.base import Allowed, Row, by, greatest, least
from pares.spark.rules.log import worlds_differ

Place: TypeAlias = tuple[str, int]
_SEAT: Final = frozenset({"gained", "lost", "lead", "stop", "opened", "shut", "held"})
_MEMBER: Final = frozenset({"member", "gone", "seen"})
PACE_S: Final = 0.1
"""How soon a seat of which time alone may tell more is looked at again; each time that it tells nothing, twice as late."""
SLOWEST_S: Final = 2.0
AT_ONCE: Final = 1000
"""So many such seats are looked at in one round at the most, those that wait longest first."""
SWEEP_MS: Final = 5000
"""By the log's time: how often what is old is let go of."""
PAUSES: Final = 1000
"""Pauses that are kept, at the most."""
_KEY: Final = ("rule", "token_a", "token_b", "member_a", "member_b")
THROUGH_PAUSE: Final = "through_pause"
NONE: Final = "none"
"""The verdict on what was told, and is explained by what the log has said since."""


class Change(NamedTuple):
    """What is new of a violation: it was not told yet (`before` None), or its verdict is another one now (`none`: the log
    explains it by what it has said since)."""

    row: Row
    verdict: str
    before: str | None
    key: tuple[Any, ...]


class Due(Struct):
    """A seat that is to be looked at again."""

    at_s: float
    pace_s: float


class Group(Struct):
    """See the module. Feed it facts in their order, tell it what the end of each partition says, then ask for the changes."""

    name: str
    members: Members
    records: Records
    seats: dict[Place, Seat] = field(default_factory=dict[Place, Seat])
    pauses: list[Row] = field(default_factory=list[Row])
    bounds: dict[int, list[Fact]] = field(default_factory=dict[int, list[Fact]])
    """What each partition says of where its records begin and end."""
    held: dict[int, dict[Place, None]] = field(default_factory=dict[int, dict[Place, None]])
    """The seats of which the end of each partition says something."""
    defects: dict[Any, None] = field(default_factory=dict[Any, None])
    new_defects: list[Fact] = field(default_factory=list[Fact])
    touched: dict[Place, None] = field(default_factory=dict[Place, None])
    restless: dict[Place, Due] = field(default_factory=dict[Place, Due])
    told: dict[tuple[Any, ...], str] = field(default_factory=dict[tuple[Any, ...], str])
    floor: int = 0
    """Seats that are no more had no higher tokens."""
    forgotten: int = 0
    swept_ms: int = 0
    step_ms: int = 0

    @classmethod
    def of(cls, name: str) -> Group:
        return cls(name, Members(name), Records(name))

    # What is fed --------------------------------------------------------------------------------------------------------

    def feed(self, facts: Iterable[Fact]) -> None:
        """What follows from the next records."""
        for fact in facts:
            if fact.kind == "record":
                self.records.record(fact)
                self.members.record(fact)
                if fact.cause in ("pause", "resume") and fact.counted:
                    self._pause(fact)
            elif fact.kind in _SEAT:
                if fact.kind in ("gained", "lost"):
                    self.records.seat(fact)
                self._seat(fact)
            elif fact.kind in _MEMBER:
                self.members.take(fact)

    def at_end(self, partition: int, facts: Iterable[Fact]) -> None:
        """What the end of a partition says now, in place of what it said before."""
        facts = list(facts)
        self.members.at_end(partition, facts)
        self.bounds[partition] = [fact for fact in facts if fact.kind in ("first", "last")]
        said: dict[Place, list[Row]] = {}
        for fact in facts:
            if fact.kind in ("held", "lost") and fact.role is not None and fact.seat is not None:
                place = (fact.role, fact.seat)
                if place in self.seats or (fact.token or 0) >= self.floor:
                    said.setdefault(place, []).append(slim(self.name, fact))
            elif fact.kind == "defect" and (fact.offset, fact.other) not in self.defects:
                self.defects[fact.offset, fact.other] = None
                self.new_defects.append(fact)
        for place in [place for place in self.held.get(partition, {}) if place not in said]:
            if place in self.seats and self.seats[place].at_end.pop(partition, None):
                self.touched[place] = None
        for place, rows in said.items():
            seat = self._at(place)
            if _ended(seat.at_end.get(partition, [])) != _ended(rows):
                self.touched[place] = None
            seat.at_end[partition] = rows
        self.held[partition] = dict.fromkeys(said)

    def _seat(self, fact: Fact) -> None:
        if fact.role is None or fact.seat is None:
            return
        place = (fact.role, fact.seat)
        if place not in self.seats and fact.kind in ("lead", "stop", "lost") and (fact.token or 0) < self.floor:
            self.forgotten += 1
            return
        self._at(place).take(self.name, fact)
        self.touched[place] = None

    def _at(self, place: Place) -> Seat:
        seat = self.seats.get(place)
        if seat is None:
            seat = self.seats[place] = Seat(*place)
        return seat

    def _pause(self, fact: Fact) -> None:
        if fact.cause == "pause":
            row = {"g": self.name, "role": fact.role, "offset": fact.offset, "since_ms": fact.at_ms, "until_ms": None}
            self.pauses.append(row)
        else:
            for row in self.pauses:
                if row["offset"] == fact.ref:
                    row["until_ms"] = least(row["until_ms"], fact.at_ms)
        for place, seat in self.seats.items():
            if seat.terms or seat.at_end:
                self.touched[place] = None

    # What is found ------------------------------------------------------------------------------------------------------

    def changes(self, allowed: Allowed, window_ms: int, at_s: float, *, last: bool = False) -> Iterator[Change]:
        """What is new since this was asked last, at `at_s` of a stopwatch. `last`: the log ends here, and all is looked at."""
        group = self.head()
        if group is None:
            return
        if group["step_ms"] > self.step_ms:
            # Stamps have gone back further than ever: what rests on them is known less well.
            self.step_ms = group["step_ms"]
            self.touched |= {place: None for place, seat in self.seats.items() if seat.told or place in self.restless}
        for row in self._decided(group, allowed):
            yield Change(row, row["verdict"], None, identity(row))
        if self.records.deaths:
            yield from changed(self.records.false_deaths(allowed, group["step_ms"]), self.told, {})
        due, sweeps = self._due(at_s, last=last), group["last_ms"] - self.swept_ms >= SWEEP_MS
        if not due and not sweeps:
            return
        around = self._around(group, allowed)
        for place in due:
            seat = self.seats.get(place)
            if seat is not None:
                yield from self._looked(place, seat, around, at_s, last=last)
        if sweeps:
            self.swept_ms = group["last_ms"]
            yield from self._sweep(around, group["last_ms"] - window_ms, window_ms)

    def head(self) -> Row | None:
        """The group as the table of groups has it, as far as rules ask; None as long as the log says nothing of it."""
        facts = [fact for bounds in self.bounds.values() for fact in bounds]
        first = [fact for fact in facts if fact.kind == "first"]
        ends = [fact for fact in facts if fact.kind == "last"]
        if not first or not ends:
            return None
        return {
            "g": self.name,
            "first_ms": least(*(fact.at_ms for fact in first)),
            "last_ms": greatest(*(fact.at_ms for fact in ends)),
            "first_offset": least(*(fact.offset for fact in first)),
            "last_offset": greatest(*(fact.offset for fact in ends)),
            "floor": greatest(*(fact.token for fact in first)) or 0,
            "step_ms": greatest(*(fact.sign_ms for fact in ends)) or 0,
            "induced": any(fact.cause in (INDUCED, ALLCALL) for fact in ends),
            "split": any(fact.cause == ALLCALL for fact in ends),
        }

    def kept(self) -> tuple[int, int]:
        """How many terms are kept, and how many members."""
        return sum(len(seat.terms) for seat in self.seats.values()), len(self.members.known)

    def unjudged(self) -> int:
        """Words that came about terms of which nothing was known any more."""
        return self.forgotten + sum(seat.forgotten for seat in self.seats.values())

    def _forget_pauses(self, before_ms: int) -> None:
        kept = [row for row in self.pauses if row["until_ms"] is None or row["until_ms"] >= before_ms][-PAUSES:]
        gone = {row["offset"] for row in self.pauses} - {row["offset"] for row in kept}
        self.pauses = kept
        if gone:
            # What was told of them stands; it is not found any more.
            for seat in self.seats.values():
                seat.told = {
                    key: verdict
                    for key, verdict in seat.told.items()
                    if not (key[0] == THROUGH_PAUSE and key[len(_KEY)] in gone)
                }

    def _around(self, group: Row, allowed: Allowed) -> Around:
        limits = {self.name: self.members.limit_ms} if self.members.limit_ms else {}
        members = {row["member"]: row for row in self.members.rows()}
        return Around(group, members, self.pauses, limits, allowed)

    def _decided(self, group: Row, allowed: Allowed) -> Iterator[Row]:
        """What is decided by a record or by the end."""
        yield from self.records.settle()
        if group["split"]:
            yield from self.records.prolonged(group["first_offset"])
        for fact in self.new_defects:
            tables = {"facts": [{"g": self.name, **fact._asdict()}]}
            yield from ({**row, "rule": "worlds_differ"} for row in worlds_differ(tables, allowed))
        self.new_defects = []

    def _due(self, at_s: float, *, last: bool) -> list[Place]:
        if last:
            return list(self.seats)
        waiting = [(due.at_s, place) for place, due in self.restless.items() if due.at_s <= at_s]
        waiting.sort(key=lambda one: one[0])
        found = {**self.touched, **dict.fromkeys(place for _, place in waiting[:AT_ONCE])}
        return list(found)

    def _looked(self, place: Place, seat: Seat, around: Around, at_s: float, *, last: bool) -> Iterator[Change]:
        found, rows = self._rows(seat, around, last=last)
        changes = list(changed(rows, seat.told, _where(seat)))
        was_touched = self.touched.pop(place, 0) is None
        before = self.restless.pop(place, None)
        if not seat.settled(found):
            pace = PACE_S if before is None or was_touched or changes else min(2 * before.pace_s, SLOWEST_S)
            self.restless[place] = Due(at_s + pace, pace)
        yield from changes

    def _rows(self, seat: Seat, around: Around, *, last: bool) -> tuple[Found, list[Row]]:
        found = seat.look(around, last=last)
        seat.unled_ms = found.unled_ms()
        waits: list[Row] = []
        if found.waits:
            role = [
                row
                for other in self.seats.values()
                if other.role == seat.role and other is not seat
                for row in other.believed(around)
            ]
            able = self.members.able(list(around.members.values()), by(role, "g", "role", "member"))
            waits = waiting.fitted(found.waits, able, found.tables["believed"], around.allowed)
        return found, seat.violations(found, waits, around.allowed)

    def _sweep(self, around: Around, cut_ms: int, window_ms: int) -> Iterator[Change]:
        """Lets go of what is old. What is found before it is told; of what is left of that, nothing new may come."""
        for place, seat in list(self.seats.items()):
            if not seat.old(cut_ms):
                continue
            found, rows = self._rows(seat, around, last=False)
            yield from changed(rows, seat.told, _where(seat))
            if seat.over(found, cut_ms):
                self.floor = max([self.floor, seat.floor, *(token + 1 for token, _ in seat.terms if token is not None)])
                self.forgotten += seat.forgotten
                del self.seats[place]
                self.restless.pop(place, None)
            elif seat.forget(found, cut_ms):
                _, left = self._rows(seat, around, last=False)
                kept = {key for key, _ in numbered(left)}
                seat.told = {key: verdict for key, verdict in seat.told.items() if key in kept}
        waits = [seat.unled_ms for seat in self.seats.values() if seat.unled_ms is not None]
        # A holder that has been silent for long turns out to have ended long ago.
        low = min([cut_ms - window_ms, *waits])
        self._forget_pauses(low)
        needed = {name for seat in self.seats.values() for name in seat.named()}
        self.members.forget(low, frozenset(needed))


def identity(row: Row) -> tuple[Any, ...]:
    """By what a violation is known while its evidence grows. A gap gets its next leader later."""
    if row["rule"] == "late":
        if row["token_a"] is None:
            return (row["rule"], None, None, row["from_ms"])  # there may be several before which nobody led
        return (row["rule"], row["token_a"], row["member_a"])
    if row["rule"] == "false_death":
        return (row["rule"], row["member_a"], row["member_b"])
    if row["rule"] == "second_opinion":
        return (*(row[name] for name in _KEY), *row["offsets"], row["evidence"])  # a claim may be wrong in several ways
    return (*(row[name] for name in _KEY), *row["offsets"])


def numbered(rows: Iterable[Row]) -> Iterator[tuple[tuple[Any, ...], Row]]:
    """The rows by their identities; of several with one, each gets a number."""
    count: dict[tuple[Any, ...], int] = {}
    for row in sorted(rows, key=lambda row: (row["from_ms"] or 0, row["to_ms"] or 0)):
        key = identity(row)
        count[key] = count.get(key, 0) + 1
        yield (*key, count[key]), row


def changed(rows: Iterable[Row], told: dict[tuple[Any, ...], str], where: Row) -> Iterator[Change]:
    """What is new against what was told, which is then what these rows say."""
    now = dict(numbered(rows))
    for key, row in now.items():
        if told.get(key) != row["verdict"]:
            yield Change(row, row["verdict"], told.get(key), key)
            told[key] = row["verdict"]
    for key in [key for key in told if key not in now]:
        before = told.pop(key)
        yield Change({**where, **_names(key)}, NONE, before, key)


def _names(key: tuple[Any, ...]) -> Row:
    """What the identity of a violation says of it."""
    names = {"late": ("rule", "token_a", "member_a"), "false_death": ("rule", "member_a", "member_b")}
    return dict(zip(names.get(key[0], _KEY), key, strict=False))


def _where(seat: Seat) -> Row:
    return {"role": seat.role, "seat": seat.index}


def _ended(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == "lost"]
