"""The short form of `make chaos`: a fault of each sort on three real brokers, and no promise is broken; and one that has to be.

Where networks of one's own can't be made these tests are skipped, and say what is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.mutant import SHOWN

from chaos import net
from pares.core.errors import CapabilityError

ROOT = Path(__file__).resolve().parents[2]
KINDS = [
    "member-cut",
    "member-deaf",
    "leader-cut",
    "slow-link",
    "broker-kill",
    "broker-freeze",
    "topic-anew",
    "disk-full",
]
pytestmark = [pytest.mark.processes, pytest.mark.brokers]


def missing() -> str:
    try:
        net.require_rights()
    except CapabilityError as error:
        return str(error)
    return ""


class Chaos:
    """One run, from its beginning to its end."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "chaos", *words]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                self.stdout, self.stderr = process.communicate()
            except BaseException:
                process.kill()  # what it leaves, the next run removes
                raise
        self.returncode, self._pid = process.returncode, process.pid

    def networks(self) -> list[str]:
        """What is left of its networks; another run may go on beside it, and begin meanwhile."""
        return [path.name for path in Path("/run/netns").glob(f"pares-chaos-{self._pid}-*")]


@pytest.mark.timeout(600)
def test_a_fault_of_each_sort(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    only = [word for kind in KINDS for word in ("--only", kind)]
    out = tmp_path / "out"
    # Whether leadership comes back is judged here, and not how fast this machine is: that is `make chaos`'.
    few = ["--faults", str(len(KINDS)), "--seed", "1", *only, "--aftermath", "0.2", "--allowance", "25"]
    done = Chaos(*few, "--no-audit", "--json", "--out", str(out))
    told = json.loads(done.stdout)
    assert told["aborted"] is None, done.stderr
    assert told["broken"] == []
    assert told["misses"] == []
    assert told["members_ended"] == []
    assert told["unmade"] == []
    assert (out / "log-1.db").exists(), "what the log was before it was deleted"
    assert done.returncode == 0
    assert sorted(fault["kind"] for fault in told["faults"]) == sorted(KINDS)
    assert told["terms"] >= len(KINDS), "there was something to believe"
    assert told["writes"] > 100
    assert json.loads((out / "report.json").read_text())["seed"] == 1
    assert str(out) not in Path("/proc/mounts").read_text()
    assert done.networks() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", SHOWN)
def test_a_broken_rule_makes_it_fail(mutant: str) -> None:
    if why := missing():
        pytest.skip(why)
    # The longer the session, the longer is what a broken rule adds or takes away: longer than a takeover takes, on any machine.
    few = ["--faults", "2", "--seed", "1", "--only", "member-cut", "--session", "4", "--mutant", mutant]
    done = Chaos(*few, "--no-audit", "--json")
    told = json.loads(done.stdout)
    assert told["aborted"] is None, done.stderr
    assert any("both believed" in words for words in told["broken"])
    assert done.returncode == 3
