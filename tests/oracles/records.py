"""The records, each with what makes it anew."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .commands import command_line
from .surface import surface, surface_with_spark
from .wire import wire

HERE: Final = Path(__file__).parent
RECORDS: Final[dict[str, Callable[[], str]]] = {
    "surface.txt": surface,
    "surface_spark.txt": surface_with_spark,
    "wire.txt": wire,
    "commands.txt": command_line,
}
NEED_SPARK: Final = frozenset({"surface_spark.txt"})
"""Compared by tests/spark: the others need nothing but what tests of the core need."""


def difference(name: str) -> str:
    """How what is found now differs from the record; "" if it does not."""
    file = HERE / name
    before = file.read_text() if file.exists() else ""
    lines = difflib.unified_diff(
        before.splitlines(), RECORDS[name]().splitlines(), f"recorded in {name}", "found now", lineterm="", n=4
    )
    return "\n".join(lines)


def record(name: str) -> bool:
    """Writes it anew. Whether that changed it."""
    file, found = HERE / name, RECORDS[name]()
    if file.exists() and file.read_text() == found:
        return False
    file.write_text(found)
    return True
