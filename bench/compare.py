"""A run beside the recorded one: the ratio of the medians, row by row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from bench.figures import BEGIN, END

NUMBER: Final = r"[\d,]*\.?\d+"
SPREAD: Final = re.compile(rf"^{NUMBER} / ({NUMBER}) / {NUMBER} (.+?)(?: \(n=\d+\))?$")
SINGLE: Final = re.compile(rf"^({NUMBER}) ?(\D*)$")


def recorded(page: Path, begin: str = BEGIN, end: str = END) -> dict[str, str]:
    """The figures of each row between these marks. Raises `ValueError` if the page has not both of them."""
    text = page.read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page} must have the lines {begin} and {end}, once each")
    table = text.split(begin)[1].split(end)[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[1].strip() for cells in rows[1:]}


def median(figures: str) -> tuple[float, str] | None:
    """The median in `min / p50 / max unit (n)`, or the only figure, with its unit; None where there is no such figure."""
    found = SPREAD.match(figures) or SINGLE.match(figures)
    return None if found is None else (float(found[1].replace(",", "")), found[2].strip())


def ratio(now: str, before: str | None) -> str:
    """How the median of a row stands to the recorded one, for people. Of figures that are no numbers: whether they differ."""
    if before is None:
        return "not recorded"
    new, old = median(now), median(before)
    if new is None or old is None or new[1] != old[1]:
        return "as recorded" if now == before else f"recorded: {before}"
    if old[0] == 0:
        return "as recorded" if new[0] == 0 else f"recorded: {before}"
    return f"{new[0] / old[0]:.2f} x the recorded {old[0]:g} {old[1]}".rstrip()
