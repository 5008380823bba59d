"""How far each worker had come at what time, and what rates and standstills follow from that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise

Line = list[tuple[int, int]]
"""(nanoseconds, records so far) of one worker, both rising."""


def count_at(line: Line, at: int) -> float:
    """Records that a worker had done by then: between two points in proportion."""
    index = bisect_right(line, at, key=lambda point: point[0])
    if not index:
        return 0.0
    before, count = line[index - 1]
    if index == len(line):
        return float(count)
    after, more = line[index]
    return count + (more - count) * (at - before) / (after - before)


def rate(lines: Iterable[Line], since: int, until: int) -> float:
    """Records a second of all of them, in that time. Raises `ValueError` if there is none."""
    if until <= since:
        raise ValueError("there is no time between the two")
    return sum(count_at(line, until) - count_at(line, since) for line in lines) / ((until - since) / 1e9)


def steady(lines: Mapping[str, Line]) -> float:
    """Records a second from when the last of the workers that had any to do had begun, until all were done.

    The time in which some wait for their first records is a start's, which is measured elsewhere. Raises `ValueError` if
    nothing was done after that.
    """
    working = [line for line in lines.values() if line]
    if not working:
        raise ValueError("no worker has done anything")
    return rate(working, max(line[0][0] for line in working), max(line[-1][0] for line in working))


def standstill(line: Line, since: int, until: int) -> float:
    """The longest time in seconds between two points of a worker's line, in that time."""
    inside = [at for at, _ in line if since < at < until]
    points = [since, *inside, until]
    return max(after - before for before, after in pairwise(points)) / 1e9


def slope(points: list[tuple[float, float]]) -> float:
    """By how much the second grows for each unit of the first: the line with the least squares."""
    if len(points) < 2:
        return 0.0
    x0, y0 = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - x0) ** 2 for x, _ in points)
    return sum((x - x0) * (y - y0) for x, y in points) / spread if spread else 0.0
