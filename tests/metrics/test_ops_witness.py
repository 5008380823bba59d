"""The unit and the sidecar in `ops/` start the command as it is: with options that it has, and groups that it is given."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
from typer.main import get_command

from pares.cli.app import app

OPS = Path(__file__).parents[2] / "ops"
UNIT, SIDECAR = OPS / "systemd" / "pares-witness.service", OPS / "kubernetes" / "pares-witness.yaml"


def options() -> set[str]:
    """Of `pares witness`."""
    commands = get_command(app).commands  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return {option for parameter in commands["witness"].params for option in parameter.opts}


@pytest.mark.parametrize("path", [UNIT, SIDECAR])
def test_its_options_are_the_commands(path: Path) -> None:
    started = re.findall(r"pares,? witness[^\n\]]*", path.read_text())
    assert started
    asked = {word for line in started for word in re.findall(r"--[a-z-]+", line)}
    assert "--group" in asked
    assert asked <= options()


@pytest.mark.parametrize("path", [UNIT, SIDECAR])
def test_its_variables_are_those_that_members_read(path: Path) -> None:
    found = set(re.findall(r"PARES_[A-Z_]+", path.read_text()))
    assert {"PARES_LEDGER", "PARES_LOCK_FOLDER"} <= found


def test_the_unit_outlives_what_it_watches() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text())
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["Restart"] == "always"
    assert not {"PartOf", "BindsTo", "Requires"} & set(unit["Unit"])


def test_the_sidecar_shares_a_folder_of_the_node_and_the_user() -> None:
    text = SIDECAR.read_text()
    assert "emptyDir" in text
    assert "&locks" in text
    assert "*locks" in text
    assert text.count("runAsUser") == 1, "of the pod, not of one of its containers"
