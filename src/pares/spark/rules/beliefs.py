"""Oracles of the rules about beliefs: what members said, and what bounds what they did not say."""

from __future__ import annotations

import math
from itertools import pairwise

from pares.spark.rules.base import Allowed, Row, Tables, by, greatest, least, violation

SEAT = ("g", "role", "seat")


def overlapping(tables: Tables, allowed: Allowed) -> list[Row]:
    """Every pair of every seat: may they have overlapped, and must they? The rows of `overlaps`, out of `believed`."""
    found: list[Row] = []
    whole = [row for row in tables["believed"] if None not in (row["a_early"], row["b_late"], row["member"])]
    for rows in by((row for row in whole if row["b_late"] > row["a_early"]), *SEAT).values():
        rows = sorted(rows, key=lambda row: row["a_early"])
        for place, x in enumerate(rows):
            for after in range(place + 1, len(rows)):
                y = rows[after]
                if y["a_early"] >= x["b_late"]:
                    break  # nor does any after it
                a, b = sorted((x, y), key=lambda row: (row["token"], row["member"]))
                if a["member"] != b["member"]:
                    found.append(_pair(a, b, allowed))
    return found


def _pair(x: Row, y: Row, allowed: Allowed) -> Row:
    begin, end = max(x["a_early"], y["a_early"]), min(x["b_late"], y["b_late"])
    inner = [x["a_late"], y["a_late"], x["b_early"], y["b_early"]]
    sure = None if None in inner else min(inner[2:]) - max(inner[:2])
    error = 2 * allowed.error_ms
    return {
        **{name: x[name] for name in SEAT},
        "token_a": x["token"],
        "token_b": y["token"],
        "member_a": x["member"],
        "member_b": y["member"],
        "from_ms": begin,
        "to_ms": end,
        "offsets": [x["from_offset"], y["from_offset"]],
        "certain": sure is not None and sure > error + allowed.resolution_ms,
        "expected": x["overlap_ms"] > 0 and sure is not None and sure <= x["overlap_ms"] + allowed.slack_ms + error,
    }


def _split(tables: Tables) -> dict[str, bool]:
    """Of each group, whether two of its members may lead while they don't hear each other."""
    return {row["g"]: row["split"] for row in tables["groups"]}


def overlap(tables: Tables, allowed: Allowed) -> list[Row]:
    split = _split(tables)
    return [
        violation(
            row,
            row["certain"] and not split[row["g"]],
            tokens=(row["token_a"], row["token_b"]),
            members=(row["member_a"], row["member_b"]),
            span=(row["from_ms"], row["to_ms"]),
            offsets=row["offsets"],
            evidence=f"{row['member_a']} and {row['member_b']} may both have believed for {row['to_ms'] - row['from_ms']} ms",
        )
        for row in tables["overlaps"]
        if not row["expected"]
    ]


def two_holders(tables: Tables, allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    given = [row for row in tables["terms"] if row["from_offset"] is not None and not row["split"]]
    for rows in by(given, *SEAT).values():
        for a, b in pairwise(sorted(rows, key=lambda row: (row["from_offset"], row["token"]))):
            if a["to_offset"] is None or b["from_offset"] < a["to_offset"]:
                text = f"the seat was given to {b['member']} at {b['from_offset']} while {a['member']} held it "
                text += f"since {a['from_offset']}"
                found.append(_of_two(a, b, "member", "gained_ms", "from_offset", text))
    return found


def token_fell(tables: Tables, allowed: Allowed) -> list[Row]:
    split = _split(tables)
    found: list[Row] = []
    for rows in by(tables["moves"], *SEAT).values():
        for a, b in pairwise(sorted(rows, key=lambda row: row["offset"])):
            if b["token"] <= a["token"]:
                text = f"token {b['token']} at {b['offset']} came after token {a['token']} at {a['offset']}"
                row = _of_two(a, b, "to_member", "at_ms", "offset", text)
                found.append({**row, "verdict": "possible" if split[b["g"]] else "certain"})
    return found


def _of_two(a: Row, b: Row, member: str, ms: str, offset: str, evidence: str) -> Row:
    return violation(
        b,
        True,
        tokens=(a["token"], b["token"]),
        members=(a[member], b[member]),
        span=(a[ms], b[ms]),
        offsets=(a[offset], b[offset]),
        evidence=evidence,
    )


def _of_term(
    row: Row, verdict: bool, span: tuple[int | None, int | None], offsets: list[int | None], evidence: str
) -> Row:
    return violation(
        row,
        verdict,
        tokens=(row["token"], None),
        members=(row["member"], None),
        span=span,
        offsets=offsets,
        evidence=f"{row['member']} {evidence}",
    )


def _lasted(row: Row) -> tuple[int | None, int | None]:
    return row["from_ms"], row["alive_ms"] if row["to_ms"] is None else row["to_ms"]


def no_such_term(tables: Tables, allowed: Allowed) -> list[Row]:
    floors = {row["g"]: row["floor"] for row in tables["groups"]}
    text = "says that it led by token {token}, which the log did not give to it for this seat"
    return [
        _of_term(row, True, _lasted(row), [], text.format(**row))
        for row in tables["terms"]
        if row["from_offset"] is None and row["from_ms"] is not None and row["token"] >= floors[row["g"]]
    ]


def before_the_log(tables: Tables, allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    for row in tables["terms"]:
        if row["from_ms"] is None or row["gained_ms"] is None:
            continue
        early = row["gained_ms"] - row["from_ms"] - 2 * allowed.error_ms - allowed.resolution_ms
        if early > 0:
            span = (row["from_ms"], row["gained_ms"])
            text = f"says that it led {row['gained_ms'] - row['from_ms']} ms before the log gave it the seat"
            found.append(_of_term(row, early > row["step_ms"], span, [row["from_offset"]], text))
    return found


def believed_again(tables: Tables, allowed: Allowed) -> list[Row]:
    text = "says that it led by token {token} again, after it had said that it no longer did"
    return [
        _of_term(row, True, _lasted(row), [row["from_offset"]], text.format(**row))
        for row in tables["terms"]
        if row["revived"]
    ]


def _lease(row: Row, allowed: Allowed) -> int:
    """By a stopwatch as slow as its member's drift allows, and with what clocks may be off."""
    slowest = math.ceil(row["session_ms"] / (1 + row["drift"]))
    return slowest + row["overlap_ms"] + 2 * allowed.error_ms + allowed.resolution_ms


def past_lease(tables: Tables, allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    for row in tables["terms"]:
        if row["rest_ms"] is None or row["stop_ms"] is None or row["session_ms"] is None:
            continue
        over = row["stop_ms"] - row["rest_ms"] - _lease(row, allowed)
        if over > 0:
            span = (row["rest_ms"], row["stop_ms"])
            text = (
                f"says that it led up to {row['stop_ms'] - row['rest_ms']} ms after its last record before that, "
                f"with a session of {row['session_ms']} ms"
            )
            found.append(_of_term(row, over > row["step_ms"], span, [row["from_offset"]], text))
    return found


def pauses(tables: Tables) -> list[Row]:
    """From when to when a role (None: all of them) was under a pause."""
    counted = [row for row in tables["records"] if row["counted"] and row["cause"] in ("pause", "resume")]
    resumes = by((row for row in counted if row["cause"] == "resume"), "g", "ref")
    found: list[Row] = []
    for row in counted:
        if row["cause"] != "pause":
            continue
        ends = [
            other["at_ms"] for other in resumes.get((row["g"], row["offset"]), []) if other["offset"] > row["offset"]
        ]
        pause = {name: row[name] for name in ("g", "role", "offset")}
        found.append({**pause, "since_ms": row["at_ms"], "until_ms": min(ends, default=None)})
    return found


def through_pause(tables: Tables, allowed: Allowed) -> list[Row]:
    found: list[Row] = []
    for term in tables["terms"]:
        if term["from_ms"] is None or term["session_ms"] is None:
            continue
        alive = None if term["alive_ms"] is None else term["alive_ms"] - term["step_ms"]
        sure = alive if term["stop_ms"] is None else term["stop_ms"]
        for pause in tables["pauses"]:
            if pause["g"] != term["g"] or pause["role"] not in (None, term["role"]):
                continue
            if term["to_offset"] is not None and term["to_offset"] <= pause["offset"]:
                continue
            begin, end = greatest(pause["since_ms"], term["from_ms"]), least(sure, pause["until_ms"])
            if begin is None or end is None or end <= begin + _lease(term, allowed):
                continue
            certain = end > begin + _lease(term, allowed) + term["step_ms"]
            text = f"led on through the pause at {pause['offset']} for {end - begin} ms"
            found.append(_of_term(term, certain, (begin, end), [pause["offset"], term["from_offset"]], text))
    return found
