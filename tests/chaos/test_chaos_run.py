"""The short form of `make chaos`: a fault of each sort on three real brokers, and no promise is broken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
pytestmark = pytest.mark.processes


def missing() -> str:
    try:
        net.require_rights()
    except CapabilityError as error:
        return str(error)
    return ""


def chaos(*words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "chaos", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_a_fault_of_each_sort(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    only = [word for kind in KINDS for word in ("--only", kind)]
    out = tmp_path / "out"
    done = chaos("--faults", str(len(KINDS)), "--seed", "1", *only, "--no-audit", "--json", "--out", str(out))
    told = json.loads(done.stdout)
    assert told["aborted"] is None, done.stderr
    assert told["broken"] == []
    assert told["misses"] == []
    assert told["members_ended"] == []
    assert done.returncode == 0
    assert sorted(fault["kind"] for fault in told["faults"]) == sorted(KINDS)
    assert told["terms"] >= len(KINDS), "there was something to believe"
    assert told["writes"] > 100
    assert json.loads((out / "report.json").read_text())["seed"] == 1
    assert "pares-chaos" not in Path("/proc/mounts").read_text()
    assert not list(Path("/run/netns").glob("pares-chaos-*"))


def test_without_the_rights_it_says_what_is_missing() -> None:
    if not missing() and shutil.which("setpriv") is None:
        pytest.skip("this process has all rights, and there is no setpriv to give one up")
    prefix = () if missing() else ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    done = chaos("--faults", "1", prefix=prefix)
    assert done.returncode == 1
    assert "missing the right CAP_NET_ADMIN" in done.stdout
    assert "--cap-add NET_ADMIN" in done.stdout
