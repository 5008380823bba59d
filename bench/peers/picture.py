"""Figures as a picture: one line for each contender, time to the right on a logarithmic scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.peers.measure import Result, Yes
from bench.peers.page import short

LEFT, PLOT, RIGHT, ROW, TOP, BOTTOM = 250, 520, 210, 34, 70, 60
BLUE, ORANGE, GREY, RED, GREEN, INK = "#2563eb", "#d97706", "#cbd5e1", "#b91c1c", "#15803d", "#1f2937"
_OURS: Final = "#eff6ff"


def picture(results: Sequence[Result], title: str) -> str:
    """An SVG. Contenders of which nothing was measured have a line without marks."""
    times = [ms for result in results for ms in (*result.crash, *result.handover)]
    first, last = _decades(times)
    width, height = LEFT + PLOT + RIGHT, TOP + ROW * len(results) + BOTTOM

    def x(ms: float) -> float:
        share = (math.log10(max(ms, 10.0**first)) - first) / (last - first)
        return LEFT + PLOT * min(share, 1.0)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, title, weight="bold"),
        *_legend(12, 44),
        _text(LEFT + PLOT + 14, 44, "thawed leader says yes", weight="bold"),
        _text(LEFT + PLOT + 14, 60, "though another leads"),
    ]
    bottom = TOP + ROW * len(results)
    parts += [
        f'<rect x="0" y="{TOP + ROW * at}" width="{width}" height="{ROW}" fill="{_OURS}"/>'
        for at, result in enumerate(results)
        if result.contender.ours
    ]
    for decade in range(first, last + 1):
        at = x(10.0**decade)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="{GREY}"/>')
        parts.append(_text(at, bottom + 18, _time(10.0**decade), anchor="middle"))
    middle = LEFT + PLOT / 2
    parts.append(
        _text(middle, bottom + 40, "time until the successor believes, logarithmic: left is better", anchor="middle")
    )
    for at, result in enumerate(results):
        y = TOP + ROW * at + ROW / 2
        name = result.contender.name.replace("*", "")
        parts.append(_text(LEFT - 12, y - 2, f"{name}, {result.contender.session:g} s", anchor="end", weight="bold"))
        parts.append(_text(LEFT - 12, y + 12, _shortly(result.contender.settings), anchor="end", size=10))
        parts += _spread(result.crash, y - 5, BLUE, x)
        parts += _spread(result.handover, y + 7, ORANGE, x)
        said, colour = verdict(next(iter(result.yes.values()), []))
        parts.append(_text(LEFT + PLOT + 14, y + 4, said, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def verdict(said: Sequence[Yes]) -> tuple[str, str]:
    """What is said of beliefs after a thaw, and in which colour."""
    wrong = [yes for yes in said if yes.count]
    if not said:
        return "not measured", INK
    if not wrong:
        return f"never ({len(said)} thaws)", GREEN
    times = [yes.ms for yes in wrong]
    known = [ms for ms in times if ms is not None]
    if len(known) < len(times):
        return "without end", RED
    return f"up to {short(max(known))} ms ({len(wrong)} of {len(said)})", RED


def _decades(times: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around them."""
    if not times:
        return 0, 4
    first = math.floor(math.log10(max(min(times), 0.1)))
    return first, max(math.ceil(math.log10(max(times))), first + 1)


def _spread(values: Sequence[float], y: float, colour: str, x: Callable[[float], float]) -> list[str]:
    if not values:
        return []
    low, middle, high = x(min(values)), x(statistics.median(values)), x(max(values))
    return [
        f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="4"'
        ' stroke-opacity="0.45" stroke-linecap="round"/>',
        f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>',
    ]


def _legend(x: float, y: float) -> list[str]:
    parts: list[str] = []
    for colour, words in ((BLUE, "crash (SIGKILL)"), (ORANGE, "planned handover")):
        parts.append(f'<circle cx="{x + 6:.1f}" cy="{y - 4:.1f}" r="4.5" fill="{colour}"/>')
        parts.append(_text(x + 16, y, words))
        x += 150
    parts.append(_text(x, y, "dot: median; line: least to most"))
    return parts


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", colour: str = INK, size: int = 13
) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def _time(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def _shortly(settings: str) -> str:
    return settings.split(";")[0]
