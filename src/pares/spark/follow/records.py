"""The rules that a record and what stands before it decide: each is asked once, when the record comes.

What is remembered: which members have joined and not gone, the places of their last records that counted, the terms that
nothing has ended, the last number that each holder of ALLCALL has said, and the last declarations of death.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct, field

from pares.spark.facts.base import Fact
from pares.spark.rules.base import Allowed, Row, violation
from pares.spark.rules.log import Death, declared_wrongly, ends_term, unfounded, unsaid

MOST: Final = 20_000
"""Of each sort that is remembered: members that are gone, terms that ended, claims; of more the oldest are forgotten."""
PLACES: Final = 32
"""A member's last records, which the second opinion tells from those of others."""
DEATHS: Final = 1000
AUTHORS: Final = 16
"""Of so many that declare one death."""
WORDS: Final = 256
"""Of what a member says that was declared dead, so many records are evidence."""
Key: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[str | None, int | None, int | None]
T = TypeVar("T")


class Records(Struct):
    """Of one group."""

    group: str
    base: int | None = None
    counts: bool = False
    """Something has counted: before that there is no second opinion."""
    joined: dict[Key, int] = field(default_factory=dict[Key, int])
    gone: dict[Key, None] = field(default_factory=dict[Key, None])
    numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    places: dict[str, deque[int]] = field(default_factory=dict[str, deque[int]])
    open: dict[Place, list[Fact]] = field(default_factory=dict[Place, list[Fact]])
    """Terms that the log gave and that nothing has ended."""
    of_member: dict[str, dict[Place, None]] = field(default_factory=dict[str, dict[Place, None]])
    ended: dict[Place, None] = field(default_factory=dict[Place, None])
    waiting: list[Fact] = field(default_factory=list[Fact])
    """What began or ended at an offset of which the record comes next."""
    deaths: dict[str, list[Death]] = field(default_factory=dict[str, list[Death]])
    """By whom was declared dead."""
    claimed: dict[tuple[str | None, int | None, str | None], int] = field(
        default_factory=dict[tuple[str | None, int | None, str | None], int]
    )
    found: list[Row] = field(default_factory=list[Row])
    """What was found and not yet fetched."""
    unsaid: list[Fact] = field(default_factory=list[Fact])
    """What was passed on of claims; `n`: what their holder had said by then."""

    def seat(self, fact: Fact) -> None:
        """A `gained` or `lost`, which comes before the record at its offset."""
        self.waiting.append(fact)

    def record(self, fact: Fact) -> None:
        """A record, in order."""
        assert fact.offset is not None
        counts = self._count(fact)
        if self.waiting:
            late = [one for one in self.waiting if (one.offset or 0) < fact.offset]
            here = [one for one in self.waiting if one.offset == fact.offset]
            self.waiting = [one for one in self.waiting if (one.offset or 0) > fact.offset]
            for one in late:
                self._seats([one], None)
            self._seats(here, fact if counts else None)
        elif counts:
            self._kept(fact)
        if counts:
            self.places.setdefault(fact.member or "", deque(maxlen=PLACES)).append(fact.offset)
        if fact.cause in ("genesis", "leave", "obituary", "forget"):
            self._leaves(fact)
        if self.deaths or fact.cause == "obituary":
            self._mortal(fact)
        if fact.cause in ("claim", "release", "relay") and self.base is None:
            self._claim(fact)

    def settle(self) -> list[Row]:
        """What was found since, at the end of a portion: no record comes any more for what waits."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            self._seats([one], None)
        found, self.found = self.found, []
        # A term that was lost twice at one place makes one claim wrong twice.
        return [row for at, row in enumerate(found) if row not in found[:at]]

    def prolonged(self, first_offset: int | None) -> list[Row]:
        """The rule of that name, of what was passed on since; `first_offset`: where the group's records begin."""
        unsaid_, self.unsaid = self.unsaid, []
        rows: list[Row] = []
        for fact in unsaid_:
            least = 0 if first_offset == 0 and fact.n is None else fact.n
            if least is not None and (fact.ref or 0) > least:
                rows.append({**unsaid({"g": self.group, **fact._asdict()}, least), "rule": "prolonged"})
        return rows

    def false_deaths(self, allowed: Allowed, step_ms: int) -> list[Row]:
        """The rule `false_death`, of all declarations that are remembered."""
        deaths = [death for of in self.deaths.values() for death in of if death.words]
        found = [declared_wrongly(self.group, death, allowed, step_ms) for death in deaths]
        return [{**row, "rule": "false_death"} for row in found if row is not None]

    # What counts (R2): see `rules.log.counting` ---------------------------------------------------------------------------

    def _count(self, fact: Fact) -> bool:
        if fact.cause == "genesis" and fact.counted and fact.token is not None:
            self.base = fact.token
            for key in [key for key in self.joined if key[1] < fact.token]:
                del self.joined[key]
                self.numbers.pop(key, None)
        key = (fact.member or "", fact.base or 0)
        if fact.cause == "join" and key not in self.joined:
            _remember(self.joined, key, fact.offset or 0)
        if self.base is None or fact.base != self.base or key not in self.joined or key in self.gone:
            return False
        before, n = self.numbers.get(key, -1), fact.n or 0
        self.numbers[key] = max(before, n)
        self.counts |= n > before
        return n > before

    def _leaves(self, fact: Fact) -> None:
        key = (fact.member or "", fact.base or 0)
        if fact.cause == "leave" and key in self.joined and (fact.offset or 0) > self.joined[key]:
            self._gone(key)
        elif fact.cause in ("obituary", "forget") and fact.counted and self.base is not None:
            # Of a member that has not joined yet it means nothing.
            for key in {(fact.other or "", self.base)} & self.joined.keys():
                self._gone(key)

    def _gone(self, key: Key) -> None:
        _remember(self.gone, key, None)
        self.numbers.pop(key, None)
        self.places.pop(key[0], None)

    # The second opinion: see `rules.log.second_opinion` -------------------------------------------------------------------

    def _seats(self, here: Sequence[Fact], record: Fact | None) -> None:
        """What began and ended at one offset; `record`: what stands there, if it counts."""
        lost = [fact for fact in here if fact.kind == "lost"]
        for fact in lost:
            place = (fact.role, fact.seat, fact.token)
            _remember(self.ended, place, None)
            for term in self.open.pop(place, []):
                self._closed(term, place)
        if not self.counts:
            return
        row = None if record is None else record._asdict()
        for fact in here:
            if fact.kind == "gained" and fact.cause in ("claim", "transfer"):
                self._gained(fact, lost, row)
            elif fact.kind == "lost" and fact.cause != "genesis" and not ends_term(fact._asdict(), row):
                self._say(fact, f"no {fact.cause} that could end its term stands there")
        if record is not None:
            self._kept(record)
        for fact in here:
            place = (fact.role, fact.seat, fact.token)
            if fact.kind == "gained" and fact.cause in ("claim", "transfer") and place not in self.ended:
                self.open.setdefault(place, []).append(fact)
                self.of_member.setdefault(fact.member or "", {})[place] = None

    def _closed(self, term: Fact, place: Place) -> None:
        places = self.of_member.get(term.member or "", {})
        places.pop(place, None)
        if not places:
            self.of_member.pop(term.member or "", None)

    def _gained(self, fact: Fact, lost: Sequence[Fact], record: Row | None) -> None:
        if record is not None and self.base is not None:
            right = self.base + (fact.offset or 0)
            if fact.token != right:
                self._say(fact, f"its token should be {right}")
        place = (fact.role, fact.seat)
        if record is not None and (record["role"], record["seat"]) != place:
            record = None
        if fact.cause == "transfer":
            if record is None or record["cause"] != "transfer" or record["other"] != fact.member:
                self._say(fact, "no transfer to its new holder that counts stands there")
            return
        for held in [one.member for one in lost if (one.role, one.seat) == place] or [None]:
            places = self.places.get(held or "", ())
            named = None if record is None else record["ref"]
            known = named is not None and named in places
            since = named is not None and known and max(places) > named
            wrong = unfounded(fact.member, record, held, known=known, since=since)
            if wrong:
                self._say(fact, wrong, other=held)

    def _kept(self, record: Fact) -> None:
        """Terms that go on past a record that ends them. Each is said once."""
        if record.cause not in ("release", "transfer", "leave", "obituary"):
            return
        holder = (record.other if record.cause == "obituary" else record.member) or ""
        whole, at = record.cause in ("leave", "obituary"), (record.role, record.seat, record.token)
        for place in [place for place in self.of_member.get(holder, {}) if whole or place == at]:
            for term in [term for term in self.open[place] if (term.member or "") == holder]:
                self._say(term, f"its {record.cause} should have ended its term", at=record)
                self.open[place].remove(term)
                self._closed(term, place)

    def _say(self, fact: Fact, wrong: str, other: str | None = None, at: Fact | None = None) -> None:
        at = fact if at is None else at
        found = violation(
            {"g": self.group, "role": fact.role, "seat": fact.seat},
            True,
            tokens=(fact.token, None),
            members=(fact.member, other),
            span=(at.at_ms, at.at_ms),
            offsets=(at.offset,),
            evidence=f"at {at.offset}: {wrong}",
        )
        self.found.append({**found, "rule": "second_opinion"})

    # Deaths, and claims that are passed on -----------------------------------------------------------------------------------

    def _mortal(self, fact: Fact) -> None:
        offset, at_ms = fact.offset or 0, fact.at_ms or 0
        if fact.cause == "obituary" and fact.counted:
            dead, author = fact.other or "", fact.member or ""
            known = self.deaths.get(dead, [])
            for death in known:
                if death.author == author:
                    death.at_ms = min(death.at_ms, at_ms)
            if all(death.author != author for death in known) and len(known) < AUTHORS:
                _remember(self.deaths, dead, [*known, Death(dead, author, offset, at_ms)], DEATHS)
        for death in self.deaths.get(fact.member or "", ()):
            if offset > death.offset and len(death.words) < WORDS:
                death.words.append((offset, at_ms, fact.clock_ms, fact.cause == "did"))

    def _claim(self, fact: Fact) -> None:
        key = (fact.role, fact.token, fact.other)
        if fact.cause == "relay":
            self.unsaid.append(fact._replace(n=self.claimed.get(key)))
        else:
            _remember(self.claimed, key, max(fact.ref or 0, self.claimed.get(key, 0)))


def _remember(kept: dict[Any, T], key: Any, value: T, most: int = MOST) -> None:
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
