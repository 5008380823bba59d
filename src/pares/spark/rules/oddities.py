"""The oracle of the anomalies: what is no broken promise by itself. See `views/anomalies.sql`."""

from __future__ import annotations

from itertools import pairwise

from pares.spark.rules.base import KNOWN_FAULTS, Row, Tables, by


def anomalies(tables: Tables) -> list[Row]:
    """All of them."""
    return [*_told(tables), *_numbers(tables), *_uncounted(tables), *_faults(tables)]


def _row(
    g: str | None, kind: str, member: str | None, low: int | None, high: int | None, count: int, detail: str
) -> Row:
    place = {"from_offset": low, "to_offset": high}
    return {"g": g, "kind": kind, "member": member, **place, "count": count, "detail": detail}


def _told(tables: Tables) -> list[Row]:
    found: list[Row] = []
    for row in tables["facts"]:
        at = row["offset"]
        if row["kind"] == "hole":
            detail = "no entries at these offsets"
            found.append(_row(row["g"], "offset_hole", None, at, row["ref"] - 1, row["ref"] - at, detail))
        elif row["kind"] == "step":
            detail = f"stamped {row['clock_ms'] - row['at_ms']} ms before a record that stands before it"
            found.append(_row(row["g"], "clock_step", None, at, at, 1, detail))
        elif row["kind"] == "defect":
            detail = "a snapshot unlike what its place in the log decides"
            found.append(_row(row["g"], "defect", row["other"], at, at, 1, detail))
    return found


def _numbers(tables: Tables) -> list[Row]:
    found: list[Row] = []
    counted = by((row for row in tables["records"] if row["counted"]), "g", "member", "base")
    for (g, member, _), rows in counted.items():
        for a, b in pairwise(sorted(rows, key=lambda row: row["offset"])):
            if b["n"] > a["n"] + 1:
                detail = f"numbers {a['n'] + 1} to {b['n'] - 1} are nowhere"
                found.append(_row(g, "lost_numbers", member, a["offset"], b["offset"], b["n"] - a["n"] - 1, detail))
    for (g, member, _, n), rows in by(tables["records"], "g", "member", "base", "n").items():
        different = {row["hash"] for row in rows}
        if len(different) > 1:
            places = [row["offset"] for row in rows]
            detail = f"number {n} was given to different records"
            found.append(_row(g, "twin", member, min(places), max(places), len(different), detail))
    return found


def _uncounted(tables: Tables) -> list[Row]:
    found: list[Row] = []
    uncounted = [row for row in tables["records"] if row["counted"] is False]
    for (g, member), rows in by(uncounted, "g", "member").items():
        places, kinds = [row["offset"] for row in rows], sorted({row["cause"] for row in rows})
        detail = f"records that did not count: {', '.join(kinds)}"
        found.append(_row(g, "uncounted_evidence", member, min(places), max(places), len(rows), detail))
    worlds = {(r["g"], r["token"]) for r in tables["records"] if r["cause"] == "genesis" and r["counted"]}
    known = {g for g, _ in worlds}
    for (g, base), rows in by(uncounted, "g", "base").items():
        if g in known and (g, base) not in worlds:
            places = [row["offset"] for row in rows]
            detail = f"records under base {base}, which was never in force"
            found.append(_row(g, "stranger_world", None, min(places), max(places), len(rows), detail))
    return found


def _faults(tables: Tables) -> list[Row]:
    found: list[Row] = []
    members = by(tables["members"], "g")
    struck = by(tables["faults"], "member", "fault")
    for group in tables["groups"]:
        names = {name for row in members.get((group["g"],), []) for name in (row["member"], row["name"])}
        for (member, fault), rows in struck.items():
            first = min((row["at_ms"] for row in rows if row["at_ms"] is not None), default=None)
            if member not in names:
                detail = f"{fault} at {first}: no member has that id or name"
                found.append(_row(group["g"], "unmatched_fault", member, None, None, len(rows), detail))
            if fault is not None and fault not in KNOWN_FAULTS:
                detail = f"{fault} is no fault that is known: {', '.join(KNOWN_FAULTS)}"
                found.append(_row(group["g"], "unmatched_fault", member, None, None, len(rows), detail))
    return found
