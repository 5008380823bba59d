"""R11, its first true use: release 0.1, as it was, and this one in one group, replaced one by one, forward and back.

Release 0.1 comes from this repository's own history, and is installed into an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_rolling import longest_gap, no_promise_is_broken, replace, roll, said, told, versions
from process_troupe import Troupe, Worker

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
COMMIT = "566bb0d"
"""Release 0.1."""
PARTS = ("src", "pyproject.toml", "README.md", "LICENSE")
"""What it is built from."""
SESSION = 20.0
"""Seconds: no lease runs out by itself on however busy a machine, so each change of hands must have been a planned one."""
GAP = 8.0
"""Seconds without a leader at most, at each change of hands: far less than the session that an unplanned one takes."""


def run(*command: str, what: str, cwd: Path | None = None) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=cwd)
    assert ran.returncode == 0, f"{what}: {ran.stderr[-2000:]}"
    return ran.stdout


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which release 0.1 is installed, with what it needs at least."""
    folder = tmp_path_factory.mktemp("release")
    known = subprocess.run(["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"], cwd=ROOT, capture_output=True)
    if known.returncode:
        pytest.fail(
            f"commit {COMMIT} (release 0.1) is not in this clone: it is shallow, or no clone at all. "
            "Fetch the whole history (git fetch --unshallow) to run this test"
        )
    archive, tree = folder / "release.zip", folder / "tree"
    run("git", "archive", "--output", str(archive), COMMIT, *PARTS, what="git archive", cwd=ROOT)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tree)
    run(sys.executable, "-m", "venv", str(folder / "venv"), what="python -m venv")
    python = folder / "venv" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", str(tree), what="pip install of release 0.1")
    tell = "import pares, pares.core.records as r; print(pares.__file__, r.VERSION)"
    place, version = run(str(python), "-c", tell, what="release 0.1", cwd=folder).split()
    assert Path(place).is_relative_to(folder)
    assert version == "1"
    return python


@pytest.fixture
def troupe(tmp_path: Path) -> Iterator[Troupe]:
    troupe = Troupe(tmp_path, f"sqlite:///{tmp_path}/group.db", SESSION, ("A", "B", "C"), settle=0.25)
    yield troupe
    troupe.end()


def test_forward_to_a_mixed_group_back_and_forward_to_the_end(troupe: Troupe, first_release: Path) -> None:
    troupe.begin(release=first_release)
    for worker in troupe.workers[:2]:
        replace(troupe, worker, None)
    newer = troupe.workers[1:]
    mixed = told(troupe, first_release)
    assert (mixed["highest"], set(versions(mixed))) == (1, {1}), "0.1 is there: nothing is written that it can't read"
    assert told(troupe, None)["moves"] == mixed["moves"], "both releases read the same moves in it"

    # The last of 0.1 stays until others of 0.1 are there: without any, version 2 would be in force for good.
    for worker in newer:
        replace(troupe, worker, first_release)
    back = told(troupe, first_release)
    assert (back["highest"], set(versions(back))) == (1, {1})

    roll(troupe, None)
    troupe.until(lambda: told(troupe, None)["highest"] == 2, "version 2 is in force when the last 0.1 is gone")

    before = told(troupe, None)
    late = Worker(troupe, "late", first_release)
    try:
        text = troupe.until(lambda: said(troupe, "late", "upgrade pares here first"), "0.1 is told what to do")
        assert "writes format 2 and this version of pares reads up to 1" in text
        assert late.beliefs() == []
    finally:
        late.process.kill()
        late.process.wait()
    log = told(troupe, None)
    assert log["moves"] == before["moves"], "and it disturbs nobody"
    no_promise_is_broken(troupe, log)
    assert longest_gap(troupe) < GAP


def test_a_fleet_that_is_held_back_writes_what_0_1_reads_and_can_go_back(
    troupe: Troupe, first_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARES_FORMAT", "1")
    troupe.begin()
    held = told(troupe, first_release)
    assert (held["highest"], set(versions(held))) == (1, {1})
    roll(troupe, first_release)
    log = told(troupe, first_release)
    assert (log["highest"], set(versions(log))) == (1, {1})
    no_promise_is_broken(troupe, log)
    assert longest_gap(troupe) < GAP
