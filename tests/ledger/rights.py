"""The rights that docs/security.md says are needed, as tests read them there: what is written is what was tried."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
WHO = ("member", "observer", "administrator")


class Right(NamedTuple):
    """One line of a table: what it is on, the right, and how much each sort of user needs it."""

    what: str
    right: str
    need: dict[str, str]
    otherwise: str


def rights_of(heading: str) -> list[Right]:
    """The first table under that heading."""
    text = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found: list[Right] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            if found:
                break
            continue
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and {*cells[2:5]} <= {"needed", "better", ""}:
            found.append(Right(cells[0], cells[1], dict(zip(WHO, cells[2:5], strict=True)), cells[5]))
    assert found, f"no table of rights under {heading}"
    return found


def needed_by(heading: str, who: str) -> list[Right]:
    return [right for right in rights_of(heading) if right.need[who] == "needed"]


def helpful_to(heading: str, who: str) -> list[Right]:
    return [right for right in rights_of(heading) if right.need[who]]
