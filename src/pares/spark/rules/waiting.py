"""Oracles of promise 2: how long seats were without a leader, and how many members could have led them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from pares.spark.rules.base import Allowed, Row, Tables, by, least, violation

SEAT = ("g", "role", "seat")


def waits(tables: Tables, allowed: Allowed) -> list[Row]:
    """The stretches that were longer than promised and allowed, with `fit` and `fit_long`: see `views/waits.sql` and
    `able.sql`."""
    groups = {row["g"]: row for row in tables["groups"]}
    able = _Able(tables)
    found: list[Row] = []
    for wait in [*_takeovers(tables), *_unled(tables)]:
        group = groups[wait["g"]]
        begin = _after_pauses(wait, tables["pauses"])
        if begin is None:
            continue
        wait = {**wait, "from_ms": begin, "induced": group["induced"], "step_ms": group["step_ms"]}
        short = wait["limit_ms"] + allowed.append_ms + 2 * allowed.error_ms
        if wait["to_ms"] - begin > short:
            fit = able.of(wait, short)
            if wait["passed"] is None:
                wait["passed"] = sum(_silent(row, wait) for row in tables["believed"])
            found.append({**wait, "fit": sum(one for one, _ in fit), "fit_long": sum(long for _, long in fit)})
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


def _unled(tables: Tables) -> Iterable[Row]:
    limits: dict[str, int] = {}
    for row in tables["members"]:
        if row["session_ms"] is not None:
            limit = math.ceil(row["session_ms"] / (1 - row["drift"]))
            limits[row["g"]] = max(limit, limits.get(row["g"], 0))
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


class _Able:
    """The members that could have led, and from when to when."""

    def __init__(self, tables: Tables) -> None:
        self._members = by(tables["members"], "g")
        self._believed = by(tables["believed"], "g", "role", "member")
        sessions = {(row["g"], row["member"]): row["session_ms"] for row in tables["members"]}
        self._unfit = {(r["g"], r["other"]) for r in tables["records"] if r["cause"] == "ask" and r["other"]}
        self._silences: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        counted = by((row for row in tables["records"] if row["counted"]), "g", "member")
        for key, rows in counted.items():
            session, rows = sessions.get(key), sorted(rows, key=lambda row: row["offset"])
            self._silences[key] += _unready(rows)
            for a, b in pairwise(rows):
                if session is not None and b["at_ms"] - a["at_ms"] > a["due_ms"] + session:
                    self._silences[key].append((a["at_ms"], b["at_ms"]))

    def of(self, wait: Row, short: int) -> list[tuple[bool, bool]]:
        """Of each that could: for as long as is promised, and for a session more."""
        found: list[tuple[bool, bool]] = []
        for member in self._members.get((wait["g"],), []):
            since = self._since(wait, member)
            if since is None:
                continue
            silences = self._silences[wait["g"], member["member"]]
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


def _unready(rows: list[Row]) -> Iterable[tuple[int, int]]:
    """From when to when a member was not ready (R19), by its records that count, in order."""
    for place, row in enumerate(rows):
        if row["why"] == "unready":
            after = [other["at_ms"] for other in rows[place:] if other["cause"] == "ready" and other["why"] is None]
            yield row["at_ms"], min(after, default=2**63 - 1)


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
