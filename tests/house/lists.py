"""The list of what is still allowed: read, compared, and written anew where that makes it shorter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parent / "allowed.txt"
HEAD: Final = "# What the house still does against its order: see the package. No list may become longer.\n"
Lists = dict[str, list[str]]
_TIMES: Final = re.compile(r"(\d+) (?:times|files)\)?$")


def read(text: str) -> Lists:
    found: Lists = {}
    for line in text.splitlines():
        if line.startswith("## "):
            found[line[3:].rpartition(": ")[0]] = []
        elif line and not line.startswith("#"):
            found[next(reversed(found))].append(line)
    return found


def written(lists: Mapping[str, list[str]]) -> str:
    parts = [
        f"\n## {check}: {weight(check, lines)}\n" + "".join(f"{line}\n" for line in lines)
        for check, lines in lists.items()
    ]
    return HEAD + "".join(parts)


def weight(check: str, lines: list[str]) -> int:
    """How much of it there is: files in circles and full folders, places elsewhere."""
    if check.startswith("circles"):
        return sum(len(line.split()) for line in lines)
    return sum(int(times[1]) if (times := _TIMES.search(line)) else 1 for line in lines)


def grown(before: Lists, now: Lists) -> list[str]:
    """What may not be recorded: the lists that would become longer. A file that moves changes lines, and makes none longer."""
    said: list[str] = []
    for check, lines in now.items():
        was, is_now = weight(check, before.get(check, [])), weight(check, lines)
        if is_now > was:
            new = "".join(f"\n  {line}" for line in lines if line not in before.get(check, []))
            said.append(f"{check}: {was} before, {is_now} now:{new}")
    return said
