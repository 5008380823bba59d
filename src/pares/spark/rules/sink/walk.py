"""Oracles of the rules of the sink: its rows, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

from pares.spark.rules.base import Allowed, Row, by, greatest, least

Oracle = Callable[[list[Row], Allowed], list[Row]]


def _finding(row: Row, **other: Any) -> Row:
    names = ("role", "token", "key", "seq", "at_ms", "position")
    given = {name: row[name] for name in names}
    return {**given, "seat": row["held"], "seen": None, "member": row["member"] or row["holder"], "count": 1, **other}


def _order(row: Row) -> tuple[Any, ...]:
    """As Spark orders structs: what is not known first."""
    return tuple((value is not None, value) for value in row["ord"].values())


def stale(rows: list[Row], allowed: Allowed) -> list[Row]:
    highest: dict[tuple[Any, ...], int] = {}
    found: list[Row] = []
    for row in sorted(rows, key=_order):
        seat = next((seat for seat in (row["seat"], row["held"]) if seat is not None), 0)
        seen = highest.get((row["role"], seat))
        if row["token"] is None:
            continue
        if seen is not None and row["token"] < seen:
            found.append(_finding(row, seat=seat, seen=seen))
        if not row["unknown"]:
            highest[row["role"], seat] = max(row["token"], seen or 0)
    return found


def late(rows: list[Row], allowed: Allowed) -> list[Row]:
    margin = 2 * allowed.error_ms + allowed.resolution_ms
    known = (row for row in rows if row["at_ms"] is not None and row["b_late"] is not None)
    return [_finding(row) for row in known if row["at_ms"] > row["b_late"] + margin]


def early(rows: list[Row], allowed: Allowed) -> list[Row]:
    margin = 2 * allowed.error_ms + allowed.resolution_ms
    known = (row for row in rows if row["at_ms"] is not None and row["a_early"] is not None)
    return [_finding(row) for row in known if row["at_ms"] + margin < row["a_early"]]


def unknown(rows: list[Row], allowed: Allowed) -> list[Row]:
    return [_finding(row, seat=row["seat"], member=row["member"]) for row in rows if row["unknown"]]


def wrong_member(rows: list[Row], allowed: Allowed) -> list[Row]:
    given = (row for row in rows if row["member"] is not None and row["holder"] is not None)
    return [_finding(row) for row in given if row["member"] not in (row["holder"], row["holder_name"])]


def wrong_seat(rows: list[Row], allowed: Allowed) -> list[Row]:
    given = (row for row in rows if row["seat"] is not None and row["held"] is not None)
    return [_finding(row, seat=row["seat"]) for row in given if row["seat"] != row["held"]]


def _all(rows: Iterable[Row], name: str) -> list[int | None]:
    return [row[name] for row in rows]


def duplicate(rows: list[Row], allowed: Allowed) -> list[Row]:
    numbered = [row for row in rows if row["seq"] is not None or row["key"] is not None]
    found: list[Row] = []
    for (role, key, seq), same in by(numbered, "role", "key", "seq").items():
        if len(same) > 1:
            found.append(
                {
                    "role": role,
                    "key": key,
                    "seq": seq,
                    "member": None,
                    "count": len(same) - 1,
                    "seat": least(*_all(same, "held")),
                    "token": least(*_all(same, "token")),
                    "seen": greatest(*_all(same, "token")),
                    "at_ms": least(*_all(same, "at_ms")),
                    "position": greatest(*_all(same, "position")),
                }
            )
    return found


def missing(rows: list[Row], allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    for (role, key), same in by((row for row in rows if row["seq"] is not None), "role", "key").items():
        numbers = by(same, "seq")
        for (a,), (b,) in pairwise(sorted(numbers)):
            if b > a + 1:
                nothing = dict.fromkeys(("seat", "token", "seen", "member", "position"))
                first = least(*_all(numbers[(a,)], "at_ms"))
                found.append({**nothing, "role": role, "key": key, "seq": a, "at_ms": first, "count": b - a - 1})
    return found


def unreadable(rows: list[Row], allowed: Allowed) -> list[Row]:
    return [
        _finding(row, seat=row["seat"], member=row["member"])
        for row in rows
        if row["role"] is None or row["token"] is None or row["at_ms"] is None
    ]


ORACLES: Final[dict[str, Oracle]] = {
    oracle.__name__: oracle
    for oracle in (stale, late, early, unknown, wrong_member, wrong_seat, duplicate, missing, unreadable)
}
"""By the rule's name."""
