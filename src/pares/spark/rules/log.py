"""Oracles of the rules about the log itself: what counts and what the fold made of it, deaths, worlds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pares.spark.rules.base import Allowed, Row, Tables, by, greatest, violation


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


def false_death(tables: Tables, allowed: Allowed) -> list[Row]:
    steps = {row["g"]: row["step_ms"] for row in tables["groups"]}
    deaths: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in sorted(tables["records"], key=lambda row: row["offset"]):
        if row["cause"] == "obituary" and row["counted"]:
            offset, at_ms = deaths.get((row["g"], row["other"], row["member"]), (row["offset"], row["at_ms"]))
            deaths[row["g"], row["other"], row["member"]] = (offset, min(at_ms, row["at_ms"]))
    records = by(tables["records"], "g", "member")
    found: list[Row] = []
    for (g, dead, author), (offset, at_ms) in deaths.items():
        words: list[Row] = []
        for row in records.get((g, dead), []):
            told = row["cause"] == "did"
            margin = 2 * allowed.error_ms + allowed.resolution_ms if told else allowed.append_ms
            said = row["clock_ms"] if told else row["at_ms"]
            if row["offset"] > offset and said > at_ms + margin + steps[g]:
                words.append(row)
        if words:
            said_ms = max(row["at_ms"] if row["clock_ms"] is None else row["clock_ms"] for row in words)
            certain = any(row["cause"] == "did" for row in words)
            offsets = (offset, max(row["offset"] for row in words))
            text = f"{author} declared {dead} dead at {offset}, and {dead} wrote {len(words)} records after that"
            span = (at_ms, said_ms)
            found.append(
                violation(
                    {"g": g}, certain, members=(dead, author), span=span, offsets=offsets, evidence=text, seat=False
                )
            )
    return found


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
                text = f"{row['member']} says claim {row['ref']} of {row['other']} at {row['offset']}, "
                text += f"which had said {least} of this term"
                found.append(
                    violation(
                        row,
                        True,
                        tokens=(row["token"], None),
                        members=(row["other"], row["member"]),
                        span=(row["at_ms"], row["at_ms"]),
                        offsets=(row["offset"],),
                        evidence=text,
                    )
                )
    return found


def counting(tables: Tables) -> list[Row]:
    """What counts (R2), by walking through the records of each group: see `views/counting.sql`."""
    found: list[Row] = []
    for rows in by(tables["records"], "g").values():
        found += _counting(sorted(rows, key=lambda row: row["offset"]))
    return found


def _counting(rows: list[Row]) -> list[Row]:
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
                if key in last:
                    last[key]["next"] = row["offset"]
                last[key] = counts
                found.append(counts)
            numbers[key] = max(row["n"], numbers.get(key, -1))
        if row["cause"] == "leave" and key in joined and row["offset"] > joined[key]:
            gone.add(key)
        elif row["cause"] in ("obituary", "forget") and row["counted"] and base is not None:
            gone.add((row["other"], base))
    return found


def second_opinion(tables: Tables, allowed: Allowed) -> list[Row]:
    counts = by(tables["counting"], "g")
    facts = by((row for row in tables["facts"] if row["kind"] in ("gained", "lost")), "g")
    found: list[Row] = []
    for key, rows in facts.items():
        if key in counts:
            found += _Opinion(counts[key], rows).wrong
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
            if row["cause"] != "genesis" and not self._ends(row):
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
        if record is None or record["cause"] != "claim" or record["member"] != row["member"]:
            return "no claim of its new holder that counts stands there"
        if held is None:
            return "" if record["other"] is None else "the claim names a holder of a free seat"
        if record["other"] != held:
            return "the claim does not name the holder"
        named = self._at.get(record["ref"])
        if named is None or named["member"] != held:
            return "the record that the claim names is none of the holder that counts"
        if named["next"] is not None and named["next"] < row["offset"]:
            return "the holder has written since"
        return ""

    def _ends(self, row: Row) -> bool:
        record = self._at.get(row["offset"])
        if record is None or record["cause"] != row["cause"] or row["member"] is None:
            return False  # what nobody held nobody loses (R3a)
        here = (record["role"], record["seat"]) == (row["role"], row["seat"])
        match row["cause"]:
            case "release" | "transfer":
                return here and record["member"] == row["member"] and record["token"] == row["token"]
            case "claim":
                return here and record["other"] == row["member"]
            case "obituary":
                return record["other"] == row["member"]
            case "leave":
                return record["member"] == row["member"]
            case _:
                return False

    def _kept(self) -> None:
        """Terms that go on past a record that ends them."""
        ends: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self._at.values(), key=lambda row: row["offset"]):
            if row["cause"] in ("release", "transfer", "leave"):
                ends[row["member"]].append(row)
            elif row["cause"] == "obituary":
                ends[row["other"]].append(row)
        for row in self._gained:
            place = (row["role"], row["seat"], row["token"])
            until = self._until.get(place)
            for end in ends[row["member"]]:
                ours = end["cause"] in ("leave", "obituary") or (end["role"], end["seat"], end["token"]) == place
                if ours and end["offset"] > row["offset"] and (until is None or until > end["offset"]):
                    self._say(row, f"its {end['cause']} should have ended its term", at=end)
                    break
