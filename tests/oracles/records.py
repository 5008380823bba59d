"""The records, each with what makes it anew."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .commands import command_line
from .goldens import goldens
from .mutants import completed, mutants, played
from .surface import surface, surface_with_spark
from .wire import wire

HERE: Final = Path(__file__).parent
RECORDS: Final[dict[str, Callable[[], str]]] = {
    "surface.txt": surface,
    "surface_spark.txt": surface_with_spark,
    "wire.txt": wire,
    "commands.txt": command_line,
    "mutants.txt": mutants,
    "goldens.txt": goldens,
}
PLAYED: Final[dict[str, Callable[[], str]]] = {"mutants.txt": played}
"""With `--play`: what takes minutes to be found from scratch."""
COMPLETED: Final[dict[str, Callable[[], str]]] = {"mutants.txt": completed}
"""For recording without it: only what is new takes its time."""
NEED_SPARK: Final = frozenset({"surface_spark.txt"})
"""Compared by tests/spark: the others need nothing but what tests of the core need."""


def difference(name: str, *, play: bool = False) -> str:
    """How what is found now differs from the record; "" if it does not. `play`: from scratch, which may take minutes."""
    file = HERE / name
    before = file.read_text() if file.exists() else ""
    found = (PLAYED[name] if play and name in PLAYED else RECORDS[name])()
    lines = difflib.unified_diff(
        before.splitlines(), found.splitlines(), f"recorded in {name}", "found now", lineterm="", n=4
    )
    return "\n".join(lines)


def record(name: str, *, play: bool = False) -> bool:
    """Writes it anew. Whether that changed it."""
    file, found = HERE / name, {**RECORDS, **(PLAYED if play else COMPLETED)}[name]()
    if file.exists() and file.read_text() == found:
        return False
    file.write_text(found)
    return True
