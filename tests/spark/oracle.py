"""What the audit's SQL should answer, worked out slowly and plainly, one millisecond or one pair at a time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

Key = tuple[str, int]


class Interval(NamedTuple):
    role: str
    seat: int
    token: int
    member: str
    a: int | None
    b: int | None


def by_seat(intervals: list[Interval]) -> dict[Key, list[Interval]]:
    found: dict[Key, list[Interval]] = defaultdict(list)
    for interval in intervals:
        found[interval.role, interval.seat].append(interval)
    return found


def stretches(
    intervals: list[Interval], windows: dict[Key, list[tuple[int, int]]]
) -> set[tuple[str, int, str, int, int]]:
    """Looks at every instant: how many believe, and is the seat there to be held. A belief of no length divides a gap."""
    found: set[tuple[str, int, str, int, int]] = set()
    seats = by_seat(intervals)
    for key in {*seats, *windows}:
        times = [t for i in seats.get(key, []) for t in (i.a, i.b) if t is not None]
        times += [t for window in windows.get(key, []) for t in window]
        if not times:
            continue
        low, high = min(times) - 1, max(times) + 1
        kinds: list[str] = []
        for t in range(low, high):
            depth = sum(i.a is not None and i.b is not None and i.a <= t < i.b for i in seats.get(key, []))
            inside = any(a <= t < b for a, b in windows.get(key, []))
            kinds.append("double" if depth > 1 else "none" if depth == 0 and inside else "")
        touched = {i.a for i in seats.get(key, []) if i.a is not None and i.a == i.b}
        begin = 0
        for at in range(1, len(kinds) + 1):
            divided = kinds[begin] == "none" and low + at in touched
            if at == len(kinds) or kinds[at] != kinds[begin] or divided:
                if kinds[begin]:
                    found.add((*key, kinds[begin], low + begin, low + at))
                begin = at
    return found


def overlapping(rows: list[dict[str, Any]], error: int, slack: int, resolution: int) -> set[tuple[Any, ...]]:
    """Every pair of every seat: may they have overlapped, and must they?"""
    found: set[tuple[Any, ...]] = set()
    for x in rows:
        for y in rows:
            if (x["role"], x["seat"]) != (y["role"], y["seat"]) or x["token"] >= y["token"]:
                continue
            begin, end = max(x["a_early"], y["a_early"]), min(x["b_late"], y["b_late"])
            empty = any(i["b_late"] <= i["a_early"] for i in (x, y))
            if x["member"] == y["member"] or begin >= end or empty:
                continue
            inner = [x["a_late"], y["a_late"], x["b_early"], y["b_early"]]
            sure = None if None in inner else min(inner[2:]) - max(inner[:2])
            certain = sure is not None and sure > 2 * error + resolution
            expected = x["overlap_ms"] > 0 and sure is not None and sure <= x["overlap_ms"] + slack + 2 * error
            found.add((x["role"], x["seat"], x["token"], y["token"], begin, end, certain, expected))
    return found


def successions(intervals: list[Interval], since: dict[int, int]) -> set[tuple[Any, ...]]:
    """(role, seat, from, to, ms): each belief after the one before it on its seat, by token."""
    found: set[tuple[Any, ...]] = set()
    for (role, seat), terms in by_seat([i for i in intervals if i.a is not None]).items():
        terms.sort(key=lambda i: i.token)
        for before, after in pairwise(terms):
            assert after.a is not None
            found.add((role, seat, before.member, after.member, max(after.a - since[before.token], 0)))
    return found
