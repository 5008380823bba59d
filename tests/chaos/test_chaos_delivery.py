"""`make delivery` in short: workers that are killed and frozen keep each promise, and a rule that is broken is found out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from chaos.delivery.plan import MUTANTS, Mutant

from chaos import net
from pares.core.errors import CapabilityError

ROOT = Path(__file__).resolve().parents[2]
SHORT = ["--workers", "2", "--partitions", "3", "--session", "0.5", "--trip", "0.1"]
pytestmark = pytest.mark.processes


def run(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and what came of each way."""
    command = [sys.executable, "-m", "chaos.delivery", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["aborted"] is None, done.stderr
    return done.returncode, {way["way"]: way for way in told["ways"]}


@pytest.mark.timeout(600)
def test_on_files_no_promise_is_broken() -> None:
    code, ways = run("--ledger", "file", *SHORT, "--rate", "200", "--seconds", "2.5", "--faults", "2", "--seed", "1")
    assert [way["broken"] for way in ways.values()] == [[]] * 7
    assert code == 0
    assert [way["faults"] for way in ways.values()] == [{"worker-kill": 1, "worker-freeze": 1}] * 7
    assert all(way["records"] > 100 for way in ways.values())
    assert ways["at-least-once"]["lost"] == ways["fenced"]["lost"] == 0
    assert ways["at-least-once"]["repeated"] <= ways["at-least-once"]["unmarked"]
    assert ways["at-most-once"]["repeated"] == ways["fenced"]["repeated"] == 0
    assert ways["ranges"]["lost"] == ways["keys"]["lost"] == 0
    assert ways["taken-ahead"]["repeated"] == ways["ranges-once"]["repeated"] == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", get_args(Mutant))
def test_on_files_a_broken_rule_is_found_out(mutant: str) -> None:
    """Workers have more to do than they can: so a kill finds them at work."""
    kill = ["--kind", "worker-kill", "--faults", "5", "--seconds", "3", "--rate", "500"]
    code, ways = run("--ledger", "file", *SHORT, *kill, "--mutant", mutant)
    [way] = ways.values()
    assert code == 3
    shown = {"marks-first": way["lost"], "ignores-fence": way["repeated"], "takes-nothing": way["given"]}
    assert shown[mutant] > 0
    assert not [words for words in way["broken"] if "worked off" in words], "found by what was done"
    if mutant == "takes-nothing":
        assert any("not taken in that term" in words for words in way["broken"])


def network() -> None:
    try:
        net.require_rights()
    except CapabilityError as error:
        pytest.skip(str(error))


@pytest.mark.brokers
@pytest.mark.timeout(600)
def test_on_three_brokers_no_promise_is_broken() -> None:
    network()
    faults = [word for kind in ("worker-kill", "member-cut", "broker-kill") for word in ("--kind", kind)]
    code, ways = run("--workers", "4", "--partitions", "6", "--seconds", "10", "--faults", "3", *faults)
    assert [way["broken"] for way in ways.values()] == [[]] * 8
    assert code == 0
    assert ways["at-most-once"]["repeated"] == ways["fenced"]["repeated"] == 0
    assert ways["plain group"]["effects"] > 0


@pytest.mark.brokers
@pytest.mark.timeout(600)
def test_on_three_brokers_a_broken_rule_is_found_out() -> None:
    network()
    faults = ["--kind", "worker-kill", "--faults", "3", "--seconds", "10", "--rate", "800", "--trip", "0.2"]
    code, ways = run("--workers", "4", "--partitions", "6", *faults, "--mutant", "ignores-fence")
    assert code == 3
    assert ways["fenced"]["repeated"] > 0


def test_each_mutant_is_one_of_a_way() -> None:
    assert {way for way, _ in MUTANTS.values()} == {"at-least-once", "at-most-once", "fenced"}
