"""`python -m tests.sim.coverage`: what seeds go through is measured in the processes that play them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim.coverage import main, pieces

pytest.importorskip("coverage")


def test_branches_of_the_protocol_that_is_played_are_gone_through_and_others_are_not() -> None:
    command = [sys.executable, "-m", "tests.sim.coverage", "--protocol", "allcall", "--seeds", "1", "--jobs", "1"]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    shares = {name: float(share) for share, name in re.findall(r"^ *([0-9.]+) %  (\S+)$", run.stdout, re.MULTILINE)}
    assert shares["core/allcall"] > 60 > shares["core/claims"]
    assert shares["runtime/driver"] > 40
    assert re.search(r"^src/pares/core/wire/fold\.py .*\d+-\d+", run.stdout, re.MULTILINE), (
        "lines that nobody went through"
    )
    assert run.stdout.splitlines()[-1].endswith("by 1 seeds of allcall")


def test_each_protocol_has_its_seeds_and_no_more() -> None:
    found = [*pieces(("claims", "nele"), 6)]
    assert found == [("claims", 0, 4), ("nele", 0, 4), ("claims", 4, 2), ("nele", 4, 2)]


def test_a_protocol_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--protocol", "paxos"])
