"""How figures get into a document: between two marks, with the machine they come from."""

from __future__ import annotations

import os
import platform
from pathlib import Path

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, {python}"


def put(file: Path, figures: str, begin: str = BEGIN, end: str = END) -> None:
    """Puts them in the place of those between the marks. Raises `ValueError` if the file has not both marks, once each."""
    before, _, rest = _parts(file, begin, end)
    file.write_text(f"{before}{begin}\n{figures}\n{end}{rest}")


def between(file: Path, begin: str = BEGIN, end: str = END) -> str:
    """What stands between the marks. Raises what `put` raises."""
    return _parts(file, begin, end)[1]


def _parts(file: Path, begin: str, end: str) -> tuple[str, str, str]:
    text = file.read_text()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"{file} must have the lines {begin} and {end}, once each, and in this order")
    before, rest = text.split(begin)
    inside, after = rest.split(end)
    return before, inside.strip("\n"), after


def tables(text: str) -> list[list[dict[str, str]]]:
    """The tables of a Markdown text: each row's cells by the heads of their columns."""
    found: list[list[dict[str, str]]] = []
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            heads = []
        elif not heads:
            heads = cells
            found.append([])
        elif any(cell.strip("-") for cell in cells):
            found[-1].append(dict(zip(heads, cells, strict=False)))
    return found
