"""Oracles of promise 2: how long seats were without a leader, and how many members could have led them."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from pares.spark.rules.base import Allowed, Row, Tables, by, least, violation

SEAT = ("g", "role", "seat")


def waits(tables: Tables, allowed: Allowed) -> list[Row]:
    """The stretches that were longer than promised and allowed, with `fit` and `fit_long`: see `views/waits.sql` and
    `able.sql`."""
    long = stretches(tables, limits(tables["members"]), allowed)
    return fitted(long, Able.of_tables(tables), tables["believed"], allowed)


def limits(members: Iterable[Row]) -> dict[str, int]:
    """Of each group, how long a seat may be without a leader by the longest session of any member, in milliseconds."""
    found: dict[str, int] = {}
    for row in members:
        if row["session_ms"] is not None:
            limit = math.ceil(row["session_ms"] / (1 - row["drift"]))
            found[row["g"]] = max(limit, found.get(row["g"], 0))
    return found


def stretches(tables: Tables, limits: Mapping[str, int], allowed: Allowed) -> list[Row]:
    """Those that were longer than promised and allowed, pauses aside: see `views/waits.sql`."""
    groups = {row["g"]: row for row in tables["groups"]}
    found: list[Row] = []
    for wait in [*_takeovers(tables), *_unled(tables, limits)]:
        group = groups[wait["g"]]
        begin = _after_pauses(wait, tables["pauses"])
        if begin is not None and wait["to_ms"] - begin > short(wait, allowed):
            found.append({**wait, "from_ms": begin, "induced": group["induced"], "step_ms": group["step_ms"]})
    return found


def short(wait: Row, allowed: Allowed) -> int:
    """How long it may be."""
    limit: int = wait["limit_ms"]
    return limit + allowed.append_ms + 2 * allowed.error_ms


def fitted(stretches: Iterable[Row], able: Able, believed: Sequence[Row], allowed: Allowed) -> list[Row]:
    """The same with how many could have led meanwhile: see `views/able.sql`."""
    found: list[Row] = []
    for wait in stretches:
        fit = able.of(wait, short(wait, allowed))
        passed = sum(_silent(row, wait) for row in believed) if wait["passed"] is None else wait["passed"]
        many = {"fit": sum(one for one, _ in fit), "fit_long": sum(long for _, long in fit)}
        found.append({**wait, "passed": passed, **many})
    return found


def _takeovers(tables: Tables) -> Iterable[Row]:
    for row in tables["takeovers"]:
        if row["limit_ms"] is not None:
            yield {
                **{name: row[name] for name in (*SEAT, "limit_ms", "passed")},
                "token_a": row["from_token"],
                "token_b": row["token"],
                "member_a": row["from_member"],
                "member_b": row["to_member"],
                "from_ms": row["free_ms"],
                "to_ms": row["at_ms"],
                "offsets": [row["to_offset"], row["from_offset"]],
            }


def _unled(tables: Tables, limits: Mapping[str, int]) -> Iterable[Row]:
    for gap in tables["gaps"]:
        if gap["g"] in limits and (gap["token_a"] is None or gap["token_b"] is None):
            yield {
                **{name: gap[name] for name in (*SEAT, "token_a", "token_b", "member_a", "member_b", "to_ms")},
                "from_ms": gap["free_ms"],
                "limit_ms": limits[gap["g"]],
                "passed": None,
                "offsets": [gap["lost_at"], gap["gained_at"]],
            }


def _silent(row: Row, wait: Row) -> bool:
    """Whether the term's holder held the seat meanwhile, and never said that it believed."""
    same = row["given"] and row["a"] is None and all(row[name] == wait[name] for name in SEAT)
    return same and row["a_early"] < wait["to_ms"] and row["b_late"] > wait["from_ms"]


def _after_pauses(wait: Row, pauses: Iterable[Row]) -> int | None:
    """From when on it was open; None if a pause lasts."""
    begin = wait["from_ms"]
    for pause in pauses:
        until = pause["until_ms"]
        if pause["g"] != wait["g"] or pause["role"] not in (None, wait["role"]) or pause["since_ms"] >= wait["to_ms"]:
            continue
        if until is None and wait["to_ms"] > wait["from_ms"]:
            return None
        if until is not None and until > wait["from_ms"]:
            begin = max(begin, until)
    return begin


Span: TypeAlias = tuple[int, int]
FOR_EVER: Final = 2**63 - 1


class Able:
    """The members that could have led, and from when to when.

    `members` by group, `believed` by group, role and member; `unfit`: those that were ever asked to drain; `silences`: from
    when to when a member (group, id) was silent for longer than it had announced and a session, or not ready.
    """

    def __init__(
        self,
        members: Mapping[Any, Sequence[Row]],
        believed: Mapping[Any, Sequence[Row]],
        unfit: Container[tuple[str, str]],
        silences: Mapping[tuple[str, str], Sequence[Span]],
    ) -> None:
        self._members, self._believed, self._unfit, self._silences = members, believed, unfit, silences

    @classmethod
    def of_tables(cls, tables: Tables) -> Able:
        sessions = {(row["g"], row["member"]): row["session_ms"] for row in tables["members"]}
        silences: dict[tuple[str, str], list[Span]] = {}
        for key, rows in by((row for row in tables["records"] if row["counted"]), "g", "member").items():
            rows = sorted(rows, key=lambda row: row["offset"])
            silences[key] = [*_unready(rows), *_silent_spans(rows, sessions.get(key))]
        unfit = {(r["g"], r["other"]) for r in tables["records"] if r["cause"] == "ask" and r["other"]}
        return cls(by(tables["members"], "g"), by(tables["believed"], "g", "role", "member"), unfit, silences)

    def of(self, wait: Row, short: int) -> list[tuple[bool, bool]]:
        """Of each that could: for as long as is promised, and for a session more."""
        found: list[tuple[bool, bool]] = []
        for member in self._members.get((wait["g"],), []):
            since = self._since(wait, member)
            if since is None:
                continue
            silences = self._silences.get((wait["g"], member["member"]), ())
            ends = [begin for begin, end in silences if end > since]
            until = least(wait["to_ms"], member["gone_ms"], member["seen_ms"], *ends)
            assert until is not None
            found.append((until >= since + short, until >= since + short + wait["limit_ms"] + wait["step_ms"]))
        return found

    def _since(self, wait: Row, member: Row) -> int | None:
        eligible = member["eligible"] is None or wait["role"] in json.loads(member["eligible"])
        if (
            member["administrator"]
            or member["member"] == wait["member_a"]
            or member["joined_ms"] is None
            or not eligible
        ):
            return None
        if (wait["g"], member["member"]) in self._unfit:
            return None
        for row in self._believed.get((wait["g"], wait["role"], member["member"]), []):
            if row["seat"] != wait["seat"] and row["a_early"] < wait["to_ms"] and row["b_late"] > wait["from_ms"]:
                return None
        return max(wait["from_ms"], member["joined_ms"])


def _unready(rows: list[Row]) -> Iterable[Span]:
    """From when to when a member was not ready (R19), by its records that count, in order."""
    for place, row in enumerate(rows):
        if row["why"] == "unready":
            after = [other["at_ms"] for other in rows[place:] if other["cause"] == "ready" and other["why"] is None]
            yield row["at_ms"], min(after, default=FOR_EVER)


def _silent_spans(rows: list[Row], session_ms: int | None) -> Iterable[Span]:
    for a, b in pairwise(rows):
        if session_ms is not None and b["at_ms"] - a["at_ms"] > a["due_ms"] + session_ms:
            yield a["at_ms"], b["at_ms"]


def late(tables: Tables, allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    for row in tables["waits"]:
        if not (row["induced"] or row["fit"] > 0):
            continue
        if row["to_ms"] - row["from_ms"] <= row["limit_ms"] + allowed.append_ms + 2 * allowed.error_ms:
            continue
        who = "who could lead is not known" if row["induced"] else f"{row['fit']} others could lead"
        found.append(
            violation(
                row,
                row["fit_long"] > 0 and not row["induced"] and row["passed"] == 0,
                tokens=(row["token_a"], row["token_b"]),
                members=(row["member_a"], row["member_b"]),
                span=(row["from_ms"], row["to_ms"]),
                offsets=row["offsets"],
                evidence=f"{row['to_ms'] - row['from_ms']} ms without a leader, {row['limit_ms']} ms promised and "
                f"{allowed.append_ms} ms allowed for an append; {who}",
            )
        )
    return found
