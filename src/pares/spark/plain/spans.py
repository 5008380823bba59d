"""Time on a seat out of beliefs, in plain Python: what the queries of `intervals` answer, instant by instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from pares.spark.plain.terms import first
from pares.spark.rules.base import Row, by, greatest

SEAT: Final = ("g", "role", "seat")


def moves(facts: Sequence[Row]) -> list[Row]:
    """Every change of a holder as the log decided it, in its order."""
    found: list[Row] = []
    for rows in by((row for row in facts if row["kind"] == "gained"), *SEAT).values():
        before: str | None = None
        for row in sorted(rows, key=_offset):
            names = ("g", "offset", "at_ms", "role", "seat", "token", "cause", "why")
            found.append({**{name: row[name] for name in names}, "from_member": before, "to_member": row["member"]})
            before = row["member"]
    return found


def _offset(row: Row) -> tuple[bool, int]:
    """In order; what has no offset comes first."""
    return row["offset"] is not None, row["offset"] or 0


def windows(facts: Sequence[Row], groups: Sequence[Row]) -> list[Row]:
    """From when to when each seat was there to be held."""
    ends = {row["g"]: (row["first_ms"], row["last_ms"]) for row in groups}
    opened = by((row for row in facts if row["kind"] == "opened"), *SEAT)
    shut = by((row for row in facts if row["kind"] == "shut"), *SEAT)
    found: list[Row] = []
    for key, rows in opened.items():
        begin, end = ends[key[0]]
        closed = sorted(shut.get(key, []), key=_offset)
        for place, row in enumerate(sorted(rows, key=_offset)):
            until = closed[place]["at_ms"] if place < len(closed) else None
            found.append({**dict(zip(SEAT, key, strict=True)), "a": first(row["at_ms"], begin), "b": first(until, end)})
    return found


def segments(believed: Sequence[Row], windows: Sequence[Row]) -> list[Row]:
    """Stretches with nobody (`none`, inside the windows) or several (`double`)."""
    beliefs, open_ = by(_whole(believed), *SEAT), by(_whole(windows), *SEAT)
    touched = by((row for row in believed if row["a"] is not None and row["a"] == row["b"]), *SEAT)
    found: list[Row] = []
    for key in {**beliefs, **open_}:
        deep, inside = _depths(beliefs.get(key, [])), _depths(open_.get(key, []))
        instants = {row["a"] for row in touched.get(key, [])}
        times = sorted({*deep, *inside, *instants})
        depths = zip(
            accumulate(deep.get(at, 0) for at in times), accumulate(inside.get(at, 0) for at in times), strict=True
        )
        last: Row = {}
        for (a, b), (depth, there) in zip(pairwise(times), depths, strict=False):
            what = "double" if depth > 1 else "none" if depth == 0 and there > 0 else None
            goes_on = what is not None and last.get("what") == what and last["b"] == a
            if goes_on and (what == "double" or a not in instants):
                last["b"] = b
            elif what is not None:
                last = {**dict(zip(SEAT, key, strict=True)), "what": what, "a": a, "b": b}
                found.append(last)
    return found


def _whole(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["a"] is not None and row["b"] is not None and row["b"] > row["a"]]


def _depths(rows: Iterable[Row]) -> Counter[int]:
    """By how many more there are from each instant on."""
    found = Counter[int]()
    for row in rows:
        found[row["a"]] += 1
        found[row["b"]] -= 1
    return found


def takeovers(believed: Sequence[Row]) -> list[Row]:
    """From the end of one belief, or the death of its holder, to the next belief."""
    found: list[Row] = []
    for rows in by((row for row in believed if row["given"]), *SEAT).values():
        rows = sorted(rows, key=lambda row: row["token"])
        led = [(place, row) for place, row in enumerate(rows) if row["a"] is not None]
        for (place, before), (next_, row) in pairwise(led):
            since, free, limit = before["since_ms"], before["free_ms"], before["limit_ms"]
            found.append(
                {
                    **{name: row[name] for name in SEAT},
                    "from_member": before["member"],
                    "to_member": row["member"],
                    "cause": before["cause"] or "unknown",
                    "ms": 0 if since is None else max(row["a"] - since, 0),
                    "token": row["token"],
                    "at_ms": row["a"],
                    "measured": before["since_measured"],
                    "limit_ms": limit,
                    "late_ms": 0 if None in (free, limit) else max(row["a"] - free - limit, 0),
                    "free_ms": free,
                    "from_token": before["token"],
                    "from_offset": row["from_offset"],
                    "to_offset": before["to_offset"],
                    "passed": next_ - place - 1,
                }
            )
    return found


def gaps(segments: Sequence[Row], believed: Sequence[Row]) -> list[Row]:
    """Stretches in which nobody believed, with how the belief before ended; `start`: there was none before."""
    led = [row for row in believed if row["a"] is not None]
    ended, began = by(led, *SEAT, "b"), by(led, *SEAT, "a")
    found: list[Row] = []
    for gap in segments:
        if gap["what"] != "none":
            continue
        place = tuple(gap[name] for name in SEAT)
        before, after = ended.get((*place, gap["a"]), []), began.get((*place, gap["b"]), [])
        given = [row for row in before if row["given"]]
        prior, heir = _newest(given), _newest([row for row in after if row["given"]])
        found.append(
            {
                **{name: gap[name] for name in SEAT},
                "from_ms": gap["a"],
                "to_ms": gap["b"],
                "cause": _newest(before).get("cause") or "start",
                "token_a": prior.get("token"),
                "token_b": heir.get("token"),
                "member_a": prior.get("member"),
                "member_b": heir.get("member"),
                "lost_at": prior.get("to_offset"),
                "gained_at": heir.get("from_offset"),
                "free_ms": greatest(gap["a"], *(row["free_ms"] for row in given)),
            }
        )
    return found


def _newest(rows: Iterable[Row]) -> dict[str, Any]:
    return max(rows, key=lambda row: row["token"], default={})


def balance(members: Sequence[Row], believed: Sequence[Row]) -> list[Row]:
    """How much each member led: terms, time, most seats at once, share of all time led."""
    led = by((row for row in believed if row["a"] is not None), "g", "member")
    spent = {key: sum(max(row["b"] - row["a"], 0) for row in rows if row["b"] is not None) for key, rows in led.items()}
    wholes = Counter[str]()
    for row in members:
        wholes[row["g"]] += spent.get((row["g"], row["member"]), 0)
    found: list[Row] = []
    for member in members:
        key = (member["g"], member["member"])
        depths = sorted(_depths(_whole(led.get(key, []))).items())
        ms, whole = spent.get(key, 0), wholes[member["g"]]
        found.append(
            {
                **{name: member[name] for name in ("g", "member", "name", "host", "administrator")},
                "from_ms": member["joined_ms"],
                "to_ms": member["gone_ms"],
                "terms": len(led.get(key, [])),
                "led_ms": ms,
                "most_seats": max(accumulate(depth for _, depth in depths), default=0),
                "share": ms / whole if whole else 0.0,
            }
        )
    return found
