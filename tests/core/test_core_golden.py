"""Golden scenarios: scripts of what happens, and the readable trace that comes out.

`pytest tests/core/test_core_golden.py --rewrite` writes them anew; what is reviewed is the diff. A scenario that names mutants
must come out otherwise when such a rule is broken: a scenario that can't tell the difference shows nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from core_script import Play, Scenario

from pares.sim.members.mutants import MUTANTS
from pares.sim.members.mutants.beliefs import BELIEFS
from pares.sim.members.mutants.group import GROUP
from pares.sim.members.mutants.records import RECORDS
from pares.sim.mutant import applied

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.txt"))
BROKEN = [(path, mutant) for path in FILES for mutant in Scenario.read(path).mutants]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenario_comes_out_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    played = Scenario.read(path).played().text()
    if request.config.getoption("--rewrite"):
        path.write_text(played)
    assert path.read_text() == played


@pytest.mark.parametrize(("path", "mutant"), BROKEN, ids=[f"{path.stem}: {mutant}" for path, mutant in BROKEN])
def test_the_scenario_comes_out_otherwise_when_the_rule_is_broken(path: Path, mutant: str) -> None:
    scenario = Scenario.read(path)
    with applied(MUTANTS[mutant]):
        try:
            played = scenario.played().text()
        except Exception as error:  # Broken, mostly; or a step that such a world does not allow
            played = repr(error)
    assert played != path.read_text()


def test_there_is_a_scenario_for_every_mutant_of_the_design() -> None:
    assert {mutant for _, mutant in BROKEN} == {mutant.name for mutant in (*BELIEFS, *RECORDS, *GROUP)}
    assert len(FILES) >= 30


def test_a_step_that_nobody_understands_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such step"):
        Play().perform("do something")
