"""The contracts of imports name all that there is: what a contract does not name, it does not hold."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from .imports import ROOT, SOURCE

CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def named(contract: dict[str, Any]) -> set[str]:
    """The modules that a contract names."""
    rows = [*contract.get("layers", ()), *contract.get("source_modules", ()), *contract.get("forbidden_modules", ())]
    return {name.strip() for row in rows for name in row.split("|")}


def there(package: str, *, files: bool) -> set[str]:
    """The folders directly below a package, and with `files` its files too."""
    folder = SOURCE.joinpath(*package.split("."))
    found = {path.parent.name for path in folder.glob("*/__init__.py")}
    if files:
        found |= {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return {f"{package}.{name}" for name in found}


def missing(contract: dict[str, Any], package: str, *, files: bool) -> set[str]:
    """What the contract names neither whole nor in parts."""
    names = named(contract)
    return {
        each for each in there(package, files=files) if not any(f"{name}.".startswith(f"{each}.") for name in names)
    }


@pytest.mark.parametrize(
    ("contract", "package", "files"),
    [
        ("the core knows nothing of the rest", "pares", False),
        ("arrows point one way", "pares", False),
        ("in the core, protocols stand on events, lease and records", "pares.core", True),
        ("ledgers stand on what they share", "pares.ledger", True),
        ("what proves a death", "pares.runtime", False),
        ("terms, events and views are values", "pares.runtime", False),
    ],
)
def test_a_contract_names_all_that_is_there(contract: str, package: str, files: bool) -> None:
    """[a ledger that no contract named could import another one]"""
    (found,) = [each for each in CONTRACTS if each["name"].startswith(contract)]
    assert missing(found, package, files=files) == set()


def test_what_a_contract_does_not_name_is_found() -> None:
    assert missing({"layers": ["pares.core.claims | pares.core.neli.part"]}, "pares.core", files=False) == {
        "pares.core.allcall",
        "pares.core.consume",
        "pares.core.wire",
    }
