"""What `pip install pares` brings along, by the metadata of what is installed; and whether the lock is true."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from requirements.lowest import here, untrue

ROOT = Path(__file__).resolve().parents[2]
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


# ---------------------------------------------------------------- the lock


def pins(lines: Iterable[str]) -> dict[str, Version]:
    """Of a lock, by canonical name. An entry of another kind than NAME==VERSION[; MARKER] is an error."""
    found: dict[str, Version] = {}
    for line in lines:
        entry = Requirement(line)
        (exact,) = entry.specifier
        assert exact.operator == "==", line
        found[canonicalize_name(entry.name)] = Version(exact.version)
    return found


def against(lock: dict[str, Version], needed: Iterable[str]) -> list[str]:
    """Those of `needed` that the lock has no version for, or one outside their range."""
    wrong: list[str] = []
    for text in needed:
        requirement = Requirement(text)
        locked = lock.get(canonicalize_name(requirement.name))
        if locked is None or locked not in requirement.specifier:
            wrong.append(f"{text}: locked is {locked}")
    return wrong


def direct() -> list[str]:
    """All that pyproject.toml asks for, in every extra and on every Python and platform."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups: list[list[str]] = [project["dependencies"], *project["optional-dependencies"].values()]
    return [text for group in groups for text in group if Requirement(text).name != "pares"]


LOCK = pins((ROOT / "requirements/test.lock").read_text().splitlines())


def test_the_lock_has_what_pyproject_asks_for() -> None:
    """`make lock` writes it anew."""
    asked = direct()
    assert len(asked) > 30
    assert against(LOCK, asked) == []


def test_the_lock_has_what_that_needs_in_turn() -> None:
    """Looked at where the locked version is the one installed: only that says what it needs. `make lowest` installs others."""
    wrong: dict[str, list[str]] = {}
    for name, locked in LOCK.items():
        try:
            if Version(version(name)) != locked:
                continue
        except PackageNotFoundError:  # for another platform or Python
            continue
        plain = [
            text
            for text in requires(name) or []
            if (marker := Requirement(text).marker) is None or marker.evaluate({"extra": ""})
        ]
        if bad := against(LOCK, plain):
            wrong[name] = bad
    assert wrong == {}


def test_the_check_of_the_lock_sees_what_is_wrong() -> None:
    lock = pins(["a==1.5", "b-c==2 ; python_version < '3.13'"])
    assert against(lock, ["a>=1,<2", "B_c==2"]) == []
    assert against(lock, ["a>=2", "d", "b-c<2; extra == 'x'"]) == [
        "a>=2: locked is 1.5",
        "d: locked is None",
        "b-c<2; extra == 'x': locked is 2",
    ]
