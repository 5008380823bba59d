"""The rights that docs/security.md says are needed, as tests read them there: what is written is what was tried. And what
somebody who has them, or lacks one, does with a ledger."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pares
from pares.core.errors import ParesError

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
PATIENCE = 60.0
SESSION = 1.0
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
        cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if len(cells) == 6 and {*cells[2:5]} <= {"needed", "better", ""}:
            found.append(Right(cells[0], cells[1], dict(zip(WHO, cells[2:5], strict=True)), cells[5]))
    assert found, f"no table of rights under {heading}"
    return found


def needed_by(heading: str, who: str) -> list[Right]:
    return [right for right in rights_of(heading) if right.need[who] == "needed"]


def helpful_to(heading: str, who: str) -> list[Right]:
    return [right for right in rights_of(heading) if right.need[who]]


def does_its_work(who: str, url: str, login: dict[str, str]) -> None:
    """What such a user is for."""
    options: dict[str, Any] = {"options": login}
    if who == "member":
        with pares.Member(url, group="g", roles=["A"], session=SESSION, options=options, name="m") as me:
            assert me.wait("A", PATIENCE), me.health()
            assert me.leader("A") is not None
    elif who == "observer":
        with pares.Observer(url, group="g", options={**options, "readonly": True}) as observer:
            assert "A" in observer.world.roles
    else:
        with pares.Admin(url, group="g", options=options) as admin:
            admin.add_role("B")
            assert "B" in admin.roles()


def complaint(who: str, url: str, login: dict[str, str]) -> str:
    """What it says when it can't."""
    options: dict[str, Any] = {"options": login}
    if who == "observer":
        with (
            pytest.raises(ParesError) as caught,
            pares.Observer(url, group="g", options={**options, "readonly": True}) as o,
        ):
            o.read()
        return str(caught.value)
    try:
        # An administrator is a member without roles: what it lacks, it lacks in the same way.
        with pares.Member(url, group="g", roles=["A"], eligible=[], session=SESSION, options=options) as me:
            end = time.monotonic() + PATIENCE
            while me.health().unreachable is None:
                assert time.monotonic() < end, me.health()
                assert me.state == "joining"
                time.sleep(0.01)
            return str(me.health().unreachable)
    except ParesError as error:
        return str(error)
