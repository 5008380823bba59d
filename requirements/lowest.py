"""Says which lower bounds of pyproject.toml are untrue, for `make lowest`: nothing that low can be installed beside the rest,
so the tests did not play on it, but on a higher version.

    python requirements/lowest.py

Looks at what is installed in the environment that runs it. Exits with 1 if there is one, or if none was looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.version import Version

EXACT = ("==", "~=", ">=")


def here(needed: Iterable[str]) -> list[str]:
    """Those that this Python on this platform asks for, in whatever extra."""
    extras = [*(metadata("pares").get_all("Provides-Extra") or []), ""]
    found: list[str] = []
    for text in needed:
        marker = Requirement(text).marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            found.append(text)
    return found


def untrue(needed: Iterable[str], installed: dict[str, str]) -> Iterator[str]:
    """One line for each bound below what is installed. `installed`: version by name, of what `needed` names."""
    for text in needed:
        requirement = Requirement(text)
        found = installed.get(requirement.name)
        bounds = [Version(s.version.removesuffix(".*")) for s in requirement.specifier if s.operator in EXACT]
        if found is not None and (not bounds or Version(found) != max(bounds)):
            yield f"{text}: the lowest that installs is {found}; write >={found}"


def main() -> int:
    needed = [text for text in here(requires("pares") or []) if Requirement(text).name != "pares"]
    installed: dict[str, str] = {}
    for name in {Requirement(text).name for text in needed}:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            pass  # of an extra that was not asked for, or of another platform
    lines = [*untrue(needed, installed)]
    print(*lines, f"{len(installed)} lower bounds looked at, {len(lines)} untrue", sep="\n")
    return 1 if lines or not installed else 0


if __name__ == "__main__":
    sys.exit(main())
