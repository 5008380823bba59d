"""What a document keeps of runs: a part for each case, so that a run of some of them leaves the others as they were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.figures import put

BEGIN, END = "<!-- figures of consumers -->", "<!-- end of figures of consumers -->"
_MARK = re.compile(r"<!-- case: ([\w-]+) -->\n")


def parts(text: str) -> dict[str, str]:
    """By case, what stands between the marks. What stands before the first case, as where nothing was measured yet, is left
    out."""
    between = text.partition(BEGIN)[2].partition(END)[0]
    _, *found = _MARK.split(between)
    return {name: part.strip("\n") for name, part in zip(found[::2], found[1::2], strict=True)}


def merge(file: Path, new: Mapping[str, str], order: Iterable[str]) -> None:
    """Puts the new parts in the places of those of the same cases. Raises `ValueError` if the file has not both marks."""
    found = {**parts(file.read_text()), **new}
    names = [*(name for name in order if name in found)]
    names += [name for name in found if name not in names]
    put(file, "\n\n".join(f"<!-- case: {name} -->\n{found[name]}" for name in names), BEGIN, END)
