"""Terms and beliefs out of facts, in plain Python: what the queries of `intervals` answer, row by row.

It is written from what the tables promise, and held against the queries on every history that tests play.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pares.core import reasons
from pares.spark.facts.allcall import ALLCALL
from pares.spark.facts.base import ADMINISTRATOR
from pares.spark.facts.neli import INDUCED
from pares.spark.intervals import CAUSES, UNDER_WAY_MS
from pares.spark.rules.base import Row, by, greatest, least

TERM: Final = ("g", "role", "seat", "token", "member")
STRIKES: Final = ("crash", "freeze", "cut")
_LAPSED: Final = (reasons.FENCED, reasons.LEASE_RAN_OUT, reasons.LOST)
_TAKEN: Final = ("claim", "obituary", "superseded")


def first(*values: Any) -> Any:
    """The first of them that is known."""
    return next((value for value in values if value is not None), None)


def _all(rows: Iterable[Row], name: str, *kinds: str) -> list[Any]:
    """What rows of these kinds say, as far as they say anything."""
    return [row[name] for row in rows if row["kind"] in kinds and row[name] is not None]


def groups(facts: Sequence[Row]) -> list[Row]:
    """One row a group: from when to when the log tells of it, and what it is made of."""
    told = [row for row in facts if row["g"] is not None and row["kind"] not in ("record", "bad")]
    return [_group(g, rows) for (g,), rows in by(told, "g").items()]


def _group(g: str, rows: list[Row]) -> Row:
    ends = [row["cause"] for row in rows if row["kind"] == "last"]
    joins = [row for row in rows if row["kind"] == "member"]
    opened = [row for row in rows if row["kind"] == "opened"]
    administrators = {row["member"] for row in joins if row["cause"] == ADMINISTRATOR}
    return {
        "g": g,
        "first_ms": least(*_all(rows, "at_ms", "first")),
        "last_ms": greatest(*_all(rows, "at_ms", "last")),
        "first_offset": least(*_all(rows, "offset", "first")),
        "last_offset": greatest(*_all(rows, "offset", "last")),
        "floor": greatest(*_all(rows, "token", "first")) or 0,
        "defects": sum(row["kind"] == "defect" for row in rows),
        "step_ms": greatest(*_all(rows, "sign_ms", "last")) or 0,
        "induced": any(cause in (INDUCED, ALLCALL) for cause in ends),
        "split": ALLCALL in ends,
        "newer": max(_all(rows, "cause", "newer"), default=None),
        "overlap_ms": greatest(*(row["overlap_ms"] for row in rows)),
        "members": len({row["member"] for row in joins if row["cause"] != ADMINISTRATOR}),
        "administrators": len(administrators),
        "roles": len({row["role"] for row in opened}),
        "seats": len({(row["role"], row["seat"]) for row in opened}),
    }


def members(facts: Sequence[Row]) -> list[Row]:
    """One row a member: what its join said, when it came and went, its last sign of life."""
    told = by((row for row in facts if row["kind"] in ("member", "gone", "seen")), "g", "member")
    return [_member(g, member, rows) for (g, member), rows in told.items()]


def _member(g: str, member: str, rows: list[Row]) -> Row:
    every = ("member", "gone", "seen")
    return {
        "g": g,
        "member": member,
        "joined": least(*_all(rows, "offset", "member")),
        "name": max(_all(rows, "name", *every), default=None),
        "host": max(_all(rows, "host", *every), default=None),
        "session_ms": greatest(*_all(rows, "session_ms", "member")),
        "drift": max(_all(rows, "drift", *every), default=None),
        "overlap_ms": greatest(*_all(rows, "overlap_ms", *every)),
        "administrator": ADMINISTRATOR in _all(rows, "cause", "member"),
        "joined_ms": least(*_all(rows, "at_ms", "member")),
        "gone_ms": greatest(*_all(rows, "at_ms", "gone")),
        "seen_offset": greatest(*_all(rows, "offset", "seen")),
        "seen_ms": greatest(*_all(rows, "clock_ms", "seen")),
        "eligible": max(_all(rows, "eligible", *every), default=None),
    }


def terms(facts: Sequence[Row], groups: Sequence[Row], members: Sequence[Row], faults: Sequence[Row]) -> list[Row]:
    """One row a term, with what is known and what bounds the rest. A belief in a seat that the log did not give to that member
    is a row as well, without `from_offset`."""
    of_group = {row["g"]: row for row in groups}
    of_member = {(row["g"], row["member"]): row for row in members}
    told = by((row for row in facts if row["kind"] in ("gained", "lost", "lead", "stop", "held")), *TERM)
    found: list[Row] = []
    for key, rows in told.items():
        if key[0] in of_group:
            found.append(_term(dict(zip(TERM, key, strict=True)), rows, of_group[key[0]], of_member, faults))
    return found


def _term(key: Row, rows: list[Row], group: Row, members: dict[tuple[str, str], Row], faults: Sequence[Row]) -> Row:
    member = members.get((key["g"], key["member"]), {})
    t = {**key, **_said(rows), **{name: group[name] for name in ("first_ms", "last_ms", "step_ms", "split")}}
    heir = members.get((key["g"], t["heir"]), {})
    names = ("name", "host", "session_ms", "drift", "seen_offset", "seen_ms")
    t |= {name: member.get(name) for name in names}
    t |= {"overlap_ms": member.get("overlap_ms") or 0, "heir_joined": heir.get("joined")}
    t["limit_ms"], lease = _lengths(t, member)
    ended = t["last_stop"] is not None and not (t["revived"] and t["last_stop"] < t["last_lead"])
    t["stop_ms"] = t["said_ms"] if ended else None
    t["alive_ms"] = first(t["sign_ms"], t["seen_ms"])
    t["bound_ms"] = first(t["until_ms"], None if None in (t["alive_ms"], lease) else t["alive_ms"] + lease)
    t["b_late"] = _latest(t)
    t["fault"], t["fault_ms"] = _struck(t, faults)
    death = least(t["fault_ms"], t["b_late"]) if t["stop_ms"] is None and t["fault"] == "crash" else None
    beyond = t["b_late"] is None or t["last_ms"] is None or t["b_late"] >= t["last_ms"]
    goes_on = t["to_offset"] is None and t["stop_ms"] is None and death is None and beyond
    t["to_ms"] = None if goes_on else first(t["stop_ms"], death, t["b_late"])
    own = t["ended_by"] == t["member"]
    t |= {
        "from_ms": t["lead_ms"],
        "why": first(t["said_why"] or None, t["ended_why"] or None, t["ended"]),
        "cause": _cause(t),
        "measured": t["to_ms"] is None or t["stop_ms"] is not None,
        "truncated": t["began"] == "snapshot",
        "since_ms": first(t["fault_ms"], t["stop_ms"], t["lost_ms"] if own else None, t["alive_ms"], t["lost_ms"]),
        "since_measured": t["fault_ms"] is not None or t["stop_ms"] is not None or own,
    }
    return {name: t[name] for name in _COLUMNS}


_COLUMNS: Final = (
    *(*TERM, "name", "host", "from_offset", "to_offset", "from_ms", "to_ms", "why", "began", "cause", "measured"),
    *("truncated", "overlap_ms", "session_ms", "drift", "step_ms", "split", "rest_ms", "ended", "ended_by"),
    *("gained_ms", "lost_ms", "alive_ms", "stop_ms", "b_late", "fault", "fault_ms", "since_ms", "since_measured"),
    *("revived", "limit_ms", "first_ms", "last_ms"),
)


def _said(rows: list[Row]) -> Row:
    """What the log says of a term."""
    stop = max((row for row in rows if row["kind"] == "stop"), key=lambda row: row["offset"], default=None) or {}
    return {
        "from_offset": least(*_all(rows, "offset", "gained")),
        "gained_ms": least(*_all(rows, "at_ms", "gained")),
        "began": min(_all(rows, "cause", "gained"), default=None),
        "to_offset": least(*_all(rows, "offset", "lost")),
        "lost_ms": least(*_all(rows, "at_ms", "lost")),
        "sign_ms": least(*_all(rows, "clock_ms", "lost", "held")),
        "until_ms": least(*_all(rows, "until_ms", "lost", "held")),
        "ended": min(_all(rows, "cause", "lost"), default=None),
        "ended_by": min(_all(rows, "other", "lost"), default=None),
        "ended_why": min(_all(rows, "why", "lost"), default=None),
        "heir": min(_all(rows, "name", "lost"), default=None),
        "lead_ms": least(*_all(rows, "clock_ms", "lead")),
        "said_ms": stop.get("clock_ms"),
        "said_why": stop.get("why"),
        "rest_ms": stop.get("sign_ms"),
        "first_stop": least(*_all(rows, "offset", "stop")),
        "last_stop": greatest(*_all(rows, "offset", "stop")),
        "last_lead": greatest(*_all(rows, "offset", "lead")),
        "revived": _revived(rows),
    }


def _revived(rows: list[Row]) -> bool | None:
    """Whether a belief began again after its end. A member says a word again, or late, if it never heard whether it was
    appended: that word names the same beginning, or one before the end."""
    leads = sorted((row for row in rows if row["kind"] == "lead"), key=lambda row: row["offset"])
    stops = [row for row in rows if row["kind"] == "stop"]
    if not leads or not stops:
        return None
    stop, first, last = min(stops, key=lambda row: row["offset"]), leads[0]["clock_ms"], leads[-1]["clock_ms"]
    later = None in (last, stop["clock_ms"]) or last > stop["clock_ms"]
    return stop["offset"] < leads[-1]["offset"] and (first != last or later)


def _lengths(t: Row, member: Row) -> tuple[int | None, int | None]:
    """How long a takeover may take by the holder's session, and a belief outlast its last sign of life."""
    session, drift = t["session_ms"], t["drift"]
    if session is None or drift is None:
        return None, None
    limit = math.ceil(session * (1 if t["until_ms"] is None else 1 + drift) / (1 - drift))
    overlap = member.get("overlap_ms")
    return limit, None if overlap is None else math.floor(session * (1 - drift) / (1 + drift)) + overlap


def _latest(t: Row) -> int | None:
    """The last moment at which it can have been believed in."""
    if t["stop_ms"] is not None:
        return t["stop_ms"]
    if t["to_offset"] is None:
        return t["bound_ms"]
    if t["ended_by"] == t["member"]:
        return least(t["lost_ms"], t["until_ms"])
    if t["ended"] == "obituary":
        return least(t["bound_ms"], t["lost_ms"])
    return first(t["bound_ms"], t["lost_ms"])


def _struck(t: Row, faults: Sequence[Row]) -> tuple[str | None, int | None]:
    """What was done to the holder that explains the end of its term, and when."""
    low, high = (
        first(t["lead_ms"], t["gained_ms"], t["first_ms"]),
        first(greatest(t["b_late"], t["lost_ms"]), t["last_ms"]),
    )
    lapsed = t["ended_why"] in _LAPSED or t["said_why"] in _LAPSED
    sudden = t["to_offset"] is None or t["ended"] in _TAKEN or lapsed
    replaced = t["ended"] == "transfer" and (t["ended_why"] or "").startswith(reasons.SUPERSEDED)
    found: list[tuple[int, str]] = []
    for fault in faults:
        at_ms, who = fault["at_ms"], fault["member"]
        if fault["fault"] not in STRIKES or who is None or who not in (t["member"], t["name"]):
            continue
        if None in (low, high, at_ms) or not low <= at_ms <= high:
            continue
        silent = replaced and t["sign_ms"] is not None and t["sign_ms"] <= at_ms + UNDER_WAY_MS
        if sudden or silent:
            found.append((at_ms, fault["fault"]))
    at_ms, what = max(found, key=lambda one: one[0], default=(None, None))
    return what, at_ms


def _cause(t: Row) -> str | None:
    """How a term ended, in one word; see `intervals.CAUSES`."""
    if t["to_offset"] is None and t["to_ms"] is None:
        return None
    if t["fault"] is not None:
        return t["fault"]
    match t["ended"]:
        case "obituary":
            return "crash"
        case "claim":
            pairs = ((t["seen_offset"], t["to_offset"]), (t["seen_ms"], t["lost_ms"]))
            seen = next((a > b for a, b in pairs if a is not None and b is not None), False)
            return "freeze" if seen else "crash"
        case "leave":
            return "leave"
        case "genesis":
            return "reset"
        case None if t["stop_ms"] is None:
            return "crash"
        case "transfer" if (t["ended_why"] or "").startswith(reasons.SUPERSEDED):
            return "balance"
        case _:
            why = first(t["ended_why"] or None, t["said_why"])
    if why in CAUSES:
        came = t["heir_joined"] is not None and t["from_offset"] is not None and t["heir_joined"] > t["from_offset"]
        return "join" if why == reasons.BALANCE and came else CAUSES[why]
    return {"transfer": "handover", "release": "release"}.get(t["ended"] or "", "lapse")


def believed(terms: Sequence[Row]) -> list[Row]:
    """The terms as intervals of belief: (a, b) as best known, and (a_early, a_late, b_early, b_late) as bounds."""
    return [_belief(row) for row in terms if row["role"] is not None]


def _belief(t: Row) -> Row:
    a_late = first(t["from_ms"], t["first_ms"] if t["truncated"] else None)
    if t["stop_ms"] is not None:
        b_early = t["stop_ms"]
    elif t["fault"] == "crash":
        b_early = least(t["fault_ms"], t["b_late"])
    else:
        b_early = None if t["alive_ms"] is None else least(t["alive_ms"] - t["step_ms"], t["b_late"])
    own = t["ended_by"] == t["member"]
    names = (*TERM, "cause", "since_ms", "since_measured", "overlap_ms", "limit_ms", "from_offset", "to_offset")
    return {
        **{name: t[name] for name in names},
        "given": t["from_offset"] is not None or t["truncated"],
        "free_ms": greatest(t["since_ms"], t["lost_ms"]) if own else t["since_ms"],
        "a": a_late,
        "b": first(t["to_ms"], t["last_ms"]),
        "a_early": first(t["from_ms"], t["gained_ms"], t["first_ms"]),
        "a_late": a_late,
        "b_early": b_early,
        "b_late": first(t["b_late"], t["last_ms"]),
    }
