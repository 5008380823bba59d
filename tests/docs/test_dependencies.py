"""What `pip install pares` brings along, by the metadata of what is installed."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from requirements.lowest import here, untrue

DIRECT = {"msgspec", "platformdirs", "rich", "typer"}


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """The names that `name` needs on this Python, and what those need, and so on."""
    found, ahead = set[str](), [(name, extras)]
    while ahead:
        asked, with_extras = ahead.pop()
        try:
            lines = requires(asked) or []
        except PackageNotFoundError:  # for another platform
            continue
        for requirement in map(Requirement, lines):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in with_extras or {""}):
                below = re.sub(r"[-_.]+", "-", requirement.name).lower()
                if below not in found:
                    found.add(below)
                    ahead.append((below, frozenset(requirement.extras)))
    return found


def test_four_packages_and_what_they_need() -> None:
    without = {
        requirement.name
        for requirement in map(Requirement, requires("pares") or [])
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    assert without == DIRECT


def test_no_pydantic() -> None:
    """It is 8 MB of compiled code, as much as all the rest, for options of a command line. typer needs it from 0.29 on."""
    found = needed("pares")
    assert found >= DIRECT
    assert not [name for name in found if name.startswith("pydantic")], sorted(found)


def test_the_walk_sees_what_is_needed_further_down() -> None:
    assert "mdurl" in needed("rich")
    assert "pydantic-core" in needed("fastapi")


def test_a_lower_bound_that_can_not_be_installed_is_named() -> None:
    """As `make lowest` does, of what it has installed."""
    needed = ["a>=13.7", "b>=2,<3", "c==1.0", "d>=1; extra == 'x'", "e", "absent>=1"]
    installed = {"a": "13.8.0", "b": "2.0.0", "c": "1.0", "d": "1", "e": "5"}
    assert [line.partition(":")[0] for line in untrue(needed, installed)] == ["a>=13.7", "e"]


def test_a_bound_for_another_python_is_not_looked_at() -> None:
    assert here(["a>=1", "b>=1; python_version < '3.11'", "c>=1; extra == 'dev'", "d>=1; extra == 'nobody'"]) == [
        "a>=1",
        "c>=1; extra == 'dev'",
    ]
