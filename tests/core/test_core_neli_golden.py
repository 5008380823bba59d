"""NELI's golden scenarios: scripts of what happens, and the readable trace that comes out; see `test_core_golden`."""

from __future__ import annotations

from pathlib import Path

import pytest
from neli_script import NeliScenario, NeliShow

from pares.sim.members.neli.mutants import MUTANTS
from pares.sim.mutant import applied

GOLDEN = Path(__file__).parent / "golden_neli"
FILES = sorted(GOLDEN.glob("*.txt"))
BROKEN_RULES = {name: mutant for made in MUTANTS.values() for name, mutant in made.items()}
BROKEN = [(path, mutant) for path in FILES for mutant in NeliScenario.read(path).mutants]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_comes_out_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    played = NeliScenario.read(path).played().text()
    if request.config.getoption("--rewrite"):
        path.write_text(played)
    assert path.read_text() == played


@pytest.mark.parametrize(("path", "mutant"), BROKEN, ids=[f"{path.stem}: {mutant}" for path, mutant in BROKEN])
def test_the_scenario_comes_out_otherwise_when_the_rule_is_broken(path: Path, mutant: str) -> None:
    with applied(BROKEN_RULES[mutant]):
        played = NeliScenario.read(path).played().text()
    assert played != path.read_text()


def test_a_step_that_nobody_understands_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such step"):
        NeliShow().perform("do something")
