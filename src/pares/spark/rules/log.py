"""Oracles of the rules about the log itself: what counts and what the fold made of it, deaths, worlds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct, field

from pares.spark.rules.base import Allowed, Row, Tables, by, greatest, violation

_offset: Final = itemgetter("offset")


def worlds_differ(tables: Tables, allowed: Allowed) -> list[Row]:
    return [
        violation(
            row,
            True,
            members=(row["other"], None),
            span=(None, None),
            offsets=(row["offset"],),
            evidence=f"the snapshot of {row['other']} at {row['offset']} is unlike what its place in the log decides",
            seat=False,
        )
        for row in tables["facts"]
        if row["kind"] == "defect"
    ]


class Death(Struct):
    """A member was declared dead by another."""

    dead: str
    author: str
    offset: int
    at_ms: int
    words: list[tuple[int, int, int | None, bool]] = field(default_factory=list[tuple[int, int, int | None, bool]])
    """What the dead wrote after that: its offset, its stamp, a time that it names, and whether it speaks of its belief."""


def false_death(tables: Tables, allowed: Allowed) -> list[Row]:
    steps = {row["g"]: row["step_ms"] for row in tables["groups"]}
    deaths: dict[tuple[Any, ...], Death] = {}
    for row in sorted(tables["records"], key=lambda row: row["offset"]):
        if row["cause"] == "obituary" and row["counted"]:
            key = (row["g"], row["other"], row["member"])
            death = deaths.setdefault(key, Death(row["other"], row["member"], row["offset"], row["at_ms"]))
            death.at_ms = min(death.at_ms, row["at_ms"])
    records = by(tables["records"], "g", "member")
    found: list[Row | None] = []
    for (g, dead, _), death in deaths.items():
        for row in records.get((g, dead), []):
            if row["offset"] > death.offset:
                death.words.append((row["offset"], row["at_ms"], row["clock_ms"], row["cause"] == "did"))
        found.append(declared_wrongly(g, death, allowed, steps[g]))
    return [row for row in found if row is not None]


def declared_wrongly(g: str, death: Death, allowed: Allowed, step_ms: int) -> Row | None:
    """The violation, if the dead has written later than clocks, stamps and appends under way explain."""
    lately = 2 * allowed.error_ms + allowed.resolution_ms
    words: list[tuple[int, int, int | None, bool]] = []
    for offset, at_ms, clock_ms, told in death.words:
        said = clock_ms if told else at_ms
        if said is not None and said > death.at_ms + (lately if told else allowed.append_ms) + step_ms:
            words.append((offset, at_ms, clock_ms, told))
    if not words:
        return None
    said_ms = max(at_ms if clock_ms is None else clock_ms for _, at_ms, clock_ms, _ in words)
    text = f"{death.author} declared {death.dead} dead at {death.offset}, "
    return violation(
        {"g": g},
        any(told for *_, told in words),
        members=(death.dead, death.author),
        span=(death.at_ms, said_ms),
        offsets=(death.offset, max(offset for offset, *_ in words)),
        evidence=text + f"and {death.dead} wrote {len(words)} records after that",
        seat=False,
    )


def prolonged(tables: Tables, allowed: Allowed) -> list[Row]:
    groups = {row["g"]: row for row in tables["groups"]}
    words = [row for row in tables["records"] if row["cause"] in ("claim", "release", "relay")]
    found: list[Row] = []
    for (g, *_), rows in by((row for row in words if groups[row["g"]]["split"]), "g", "role", "token", "other").items():
        said: int | None = None
        for row in sorted(rows, key=lambda row: row["offset"]):
            if row["cause"] != "relay":
                said = greatest(said, row["ref"])
                continue
            least = 0 if groups[g]["first_offset"] == 0 and said is None else said
            if least is not None and row["ref"] > least:
                found.append(unsaid(row, least))
    return found


def unsaid(row: Row, least: int) -> Row:
    """The violation of a member that passes on what a claim's holder had not said by then: no more than `least`."""
    text = f"{row['member']} says claim {row['ref']} of {row['other']} at {row['offset']}, "
    return violation(
        row,
        True,
        tokens=(row["token"], None),
        members=(row["other"], row["member"]),
        span=(row["at_ms"], row["at_ms"]),
        offsets=(row["offset"],),
        evidence=text + f"which had said {least} of this term",
    )


def counting(tables: Tables) -> list[Row]:
    """What counts (R2), by walking through the records of each group; of beats the first of a member alone, and those that a
    claim names or a term begins by: see `views/counting`. `next`, of what a claim names: the place
    of the next record of its member that counts."""
    found: list[Row] = []
    gained = by((row for row in tables["facts"] if row["kind"] == "gained"), "g")
    for key, rows in by(tables["records"], "g").items():
        claimed = {row["ref"] for row in rows if row["cause"] == "claim"}
        named = claimed | {row["offset"] for row in gained.get(key, ())}
        found += _counting(sorted(rows, key=lambda row: row["offset"]), claimed, named)
    return found


def _counting(rows: list[Row], claimed: Container[Any], named: Container[Any]) -> list[Row]:
    base: int | None = None
    joined: dict[tuple[str, int], int] = {}
    gone: set[tuple[str, int]] = set()
    numbers: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], Row] = {}
    found: list[Row] = []
    for row in rows:
        if row["cause"] == "genesis" and row["counted"]:
            base = row["token"]
        key = (row["member"], row["base"])
        if row["cause"] == "join":
            joined.setdefault(key, row["offset"])
        if base is not None and row["base"] == base and key in joined and key not in gone:
            if row["n"] > numbers.get(key, -1):
                counts = {**row, "in_force": base, "next": None}
                if key in last and last[key]["offset"] in claimed:
                    last[key]["next"] = row["offset"]
                last[key] = counts
                if row["cause"] != "beat" or key not in numbers or row["offset"] in named:
                    found.append(counts)
            numbers[key] = max(row["n"], numbers.get(key, -1))
        if row["cause"] == "leave" and key in joined and row["offset"] > joined[key]:
            gone.add(key)
        elif row["cause"] in ("obituary", "forget") and row["counted"] and base is not None:
            gone |= {(row["other"], base)} & joined.keys()  # of a member that has not joined yet it means nothing
    return found


def second_opinion(tables: Tables, allowed: Allowed) -> list[Row]:
    counts = by(tables["counting"], "g")
    facts = by((row for row in tables["facts"] if row["kind"] in ("gained", "lost")), "g")
    found: list[Row] = []
    for key, rows in facts.items():
        if key in counts:
            # Of what stands before the first record that counts there is no opinion: the log's beginning is gone.
            low = min(row["offset"] for row in counts[key])
            found += _Opinion(counts[key], [row for row in rows if row["offset"] >= low]).wrong
    return found


class _Opinion:
    """The claims, transfers and ends of terms of one group, against its records."""

    def __init__(self, counting: list[Row], facts: list[Row]) -> None:
        self.wrong: list[Row] = []
        self._at = {row["offset"]: row for row in counting}
        self._gained = [row for row in facts if row["kind"] == "gained" and row["cause"] in ("claim", "transfer")]
        self._lost = [row for row in facts if row["kind"] == "lost"]
        ended = by(self._lost, "role", "seat", "token")
        self._until = {key: min(row["offset"] for row in rows) for key, rows in ended.items()}
        before = by(self._lost, "role", "seat", "offset")
        for row in self._gained:
            record = self._at.get(row["offset"])
            place = (row["role"], row["seat"])
            if record is not None and row["token"] != (right := record["in_force"] + row["offset"]):
                self._say(row, f"its token should be {right}")
            if record is not None and (record["role"], record["seat"]) != place:
                record = None
            if row["cause"] == "claim":
                for held in [lost["member"] for lost in before.get((*place, row["offset"]), [])] or [None]:
                    if wrong := self._unfounded(row, record, held):
                        self._say(row, wrong, other=held)
            elif record is None or record["cause"] != "transfer" or record["other"] != row["member"]:
                self._say(row, "no transfer to its new holder that counts stands there")
        for row in self._lost:
            if row["cause"] != "genesis" and not ends_term(row, self._at.get(row["offset"])):
                self._say(row, f"no {row['cause']} that could end its term stands there")
        self._kept()

    def _say(self, row: Row, wrong: str, other: str | None = None, at: Row | None = None) -> None:
        at = row if at is None else at
        self.wrong.append(
            violation(
                row,
                True,
                tokens=(row["token"], None),
                members=(row["member"], other),
                span=(at["at_ms"], at["at_ms"]),
                offsets=(at["offset"],),
                evidence=f"at {at['offset']}: {wrong}",
            )
        )

    def _unfounded(self, row: Row, record: Row | None, held: str | None) -> str:
        named = None if record is None else self._at.get(record["ref"])
        known = named is not None and named["member"] == held
        since = named is not None and named["next"] is not None and named["next"] < row["offset"]
        return unfounded(row["member"], record, held, known=known, since=since)

    def _kept(self) -> None:
        """Terms that go on past a record that ends them."""
        named, gone = dict[tuple[Any, ...], list[Row]](), dict[str, list[Row]]()
        for row in sorted(self._at.values(), key=_offset):
            if row["cause"] in ("release", "transfer"):
                named.setdefault((row["member"], row["role"], row["seat"], row["token"]), []).append(row)
            elif row["cause"] in ("leave", "obituary"):
                gone.setdefault(row["member" if row["cause"] == "leave" else "other"], []).append(row)
        for row in self._gained:
            place = (row["role"], row["seat"], row["token"])
            ends = (named.get((row["member"], *place), ()), gone.get(row["member"], ()))
            later = [of[at] for of in ends if (at := bisect_right(of, row["offset"], key=_offset)) < len(of)]
            end, until = min(later, key=_offset, default=None), self._until.get(place)
            if end is not None and (until is None or until > end["offset"]):
                self._say(row, f"its {end['cause']} should have ended its term", at=end)


def unfounded(member: str | None, record: Row | None, held: str | None, *, known: bool, since: bool) -> str:
    """What is wrong with the claim by which `member` got a seat from `held` (R3), if anything. `record`: what counts there, if
    it is about that seat; `known`: the record that it names is one of the holder's that counts; `since`: and not its last."""
    if record is None or record["cause"] != "claim" or record["member"] != member:
        return "no claim of its new holder that counts stands there"
    if held is None:
        return "" if record["other"] is None else "the claim names a holder of a free seat"
    if record["other"] != held:
        return "the claim does not name the holder"
    if not known:
        return "the record that the claim names is none of the holder that counts"
    return "the holder has written since" if since else ""


def ends_term(lost: Row, record: Row | None) -> bool:
    """Whether that record, which counts, ends the term as the fold says."""
    if record is None or record["cause"] != lost["cause"] or lost["member"] is None:
        return False  # what nobody held nobody loses (R3a)
    here = (record["role"], record["seat"]) == (lost["role"], lost["seat"])
    match lost["cause"]:
        case "release" | "transfer":
            return here and record["member"] == lost["member"] and record["token"] == lost["token"]
        case "claim":
            return here and record["other"] == lost["member"]
        case "obituary":
            return record["other"] == lost["member"]
        case "leave":
            return record["member"] == lost["member"]
        case _:
            return False
