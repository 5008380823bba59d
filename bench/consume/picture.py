"""What ranges, keys and at most once cost by the size of batches, as a picture: a line for each way, both axes logarithmic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.cases import Row
from bench.consume.plan import NAMES, Way
from bench.consume.throughput import BY_BATCH

LEFT, PLOT, RIGHT, TOP, HEIGHT, BOTTOM = 70, 430, 270, 50, 300, 60
GREY, INK = "#cbd5e1", "#1f2937"
COLOURS: Final = ("#2563eb", "#b91c1c", "#d97706", "#ca8a04", "#15803d", "#7c3aed")
TITLE: Final = "Records a second by the size of batches, two workers, eight partitions"
Point = tuple[int, float]
"""Records of a batch, thousands of records a second."""
_ROW = re.compile(r"batches of (\d+), 2 workers: (.+)")
_MEDIAN = re.compile(r"[\d.]+ / ([\d.]+) / ")


def points(rows: Iterable[Row]) -> dict[Way, list[Point]]:
    """The medians of rows that say what a way does with batches of a size."""
    ways: dict[str, Way] = {NAMES[way]: way for way in BY_BATCH}
    found: dict[Way, list[Point]] = {}
    for row in rows:
        what, figures = _ROW.fullmatch(row.what), _MEDIAN.match(row.figures)
        if what is not None and figures is not None and what[2] in ways:
            found.setdefault(ways[what[2]], []).append((int(what[1]), float(figures[1])))
    return {way: sorted(several) for way, several in found.items()}


def picture(lines: dict[Way, list[Point]], title: str = TITLE) -> str:
    """An SVG."""
    several = [point for line in lines.values() for point in line]
    xs, ys = _axis([x for x, _ in several]), _axis([y for _, y in several])
    width, height, bottom = LEFT + PLOT + RIGHT, TOP + HEIGHT + BOTTOM, TOP + HEIGHT

    def at(point: Point) -> tuple[float, float]:
        return LEFT + PLOT * _share(point[0], xs), bottom - HEIGHT * _share(point[1], ys)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, title, weight="bold"),
        _text(12, 42, "thousands of records a second: higher is better", size=11),
        _text(LEFT + PLOT / 2, bottom + 42, "records of a batch at most", anchor="middle"),
    ]
    for decade in range(ys[0], ys[1] + 1):
        y = bottom - HEIGHT * (decade - ys[0]) / (ys[1] - ys[0])
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + PLOT}" y2="{y:.1f}" stroke="{GREY}"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{10.0**decade:g}", anchor="end"))
    for batch in sorted({x for x, _ in several}):
        x = at((batch, 10.0 ** ys[0]))[0]
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{GREY}"/>')
        parts.append(_text(x, bottom + 18, f"{batch:,}", anchor="middle"))
    for number, (way, line) in enumerate(lines.items()):
        parts += _line([at(point) for point in line], _colour(number))
        parts.append(f'<circle cx="{LEFT + PLOT + 20}" cy="{TOP + 22 * number + 8}" r="4.5" fill="{_colour(number)}"/>')
        parts.append(_text(LEFT + PLOT + 32, TOP + 22 * number + 12, NAMES[way].removeprefix("pares, ")))
    return "\n".join([*parts, "</svg>", ""])


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _line(places: Sequence[tuple[float, float]], colour: str) -> list[str]:
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{through}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _axis(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around them."""
    above = [value for value in values if value > 0]
    if not above:
        return 0, 1
    first = math.floor(math.log10(min(above)))
    return first, max(math.ceil(math.log10(max(above))), first + 1)


def _share(value: float, axis: tuple[int, int]) -> float:
    return (math.log10(max(value, 10.0 ** axis[0])) - axis[0]) / (axis[1] - axis[0])


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", size: int = 13) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{INK}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
