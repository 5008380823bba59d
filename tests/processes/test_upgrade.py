"""R11 with real processes: a group goes from one format version to the next and back, one process at a time, and is led
all along.

Three releases: this one (writes 2, reads 2), one that already reads the next version but does not write it, and one that
writes it, with a form that this release can't read.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_rolling import no_promise_is_broken, replace, roll, said, told, versions
from process_troupe import Troupe, Worker
from releases import make_release

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SESSION = 20.0
"""Seconds: so long that no lease runs out by itself, on however busy a machine. Nothing here waits for one."""
SETTLE = 0.25


class Releases:
    """What the processes run: `this` is the one under test."""

    def __init__(self, folder: Path) -> None:
        self.this = make_release(folder, "this", writes=2, reads=2)
        self.reads_next = make_release(folder, "reads-next", writes=2, reads=3)
        self.next = make_release(folder, "next", writes=3, reads=3)


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    return Releases(tmp_path)


@pytest.fixture(params=["sqlite", "kafka"])
def ledger(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def troupe(tmp_path: Path, ledger: str, request: pytest.FixtureRequest) -> Iterator[Troupe]:
    url = f"sqlite:///{tmp_path}/group.db"
    if ledger == "kafka":
        url = request.getfixturevalue("kafka").topic_url(f"t-{uuid.uuid4().hex}")
    troupe = Troupe(tmp_path, url, SESSION, ("A", "B", "C"), settle=SETTLE)
    yield troupe
    troupe.end()


def test_forward_and_back_one_by_one(troupe: Troupe, releases: Releases) -> None:
    """Over a release that reads both: each step can be taken back at any time."""
    troupe.begin(release=releases.this)
    roll(troupe, releases.reads_next)
    assert set(versions(told(troupe, releases.this))) == {1, 2}, "a log is begun, and first joined, in version 1"
    roll(troupe, releases.this)  # and back, though all could read the next version by then
    roll(troupe, releases.reads_next)

    first = troupe.workers[0]
    replace(troupe, first, releases.next)
    assert told(troupe, releases.next)["highest"] == 3, (
        "all read it, so it is written, while others write the one before"
    )
    # It may lead before its first beat: only beats have a mood.
    troupe.until(
        lambda: any(mood for _, _, _, mood in told(troupe, releases.next)["records"]), "a beat of the next version"
    )
    for worker in troupe.workers[:2]:
        replace(troupe, worker, releases.next)
    roll(troupe, releases.reads_next)

    log = told(troupe, releases.reads_next)
    assert {2, 3} <= set(versions(log))
    no_promise_is_broken(troupe, log)


def test_at_once_and_back_before_all_are_there(troupe: Troupe, releases: Releases) -> None:
    """Without that release: as long as one process is there that can't read the next version, nobody writes it, and the others
    may go back."""
    troupe.begin(release=releases.this)
    old = troupe.workers[2]
    for worker in troupe.workers[:2]:
        replace(troupe, worker, releases.next)
    log = told(troupe, releases.this)
    assert (log["highest"], set(versions(log))) == (2, {1, 2})
    for worker in [worker for worker in troupe.workers if worker is not old]:
        replace(troupe, worker, releases.this)
    log = told(troupe, releases.this)
    assert (log["highest"], set(versions(log))) == (2, {1, 2})
    no_promise_is_broken(troupe, log)


def test_who_cannot_read_it_stays_out_and_disturbs_nobody(troupe: Troupe, releases: Releases) -> None:
    """Once the next version is written there is no way back to a release that can't read it: it says so, and leads nothing."""
    troupe.begin(release=releases.next)
    before = told(troupe, releases.next)
    assert (before["highest"], 3 in versions(before)) == (3, True)
    late = Worker(troupe, "late", releases.this)
    try:
        text = troupe.until(lambda: said(troupe, "late", "upgrade pares here first"), "it says what to do")
        assert "writes format 3 and this version of pares reads up to 2" in text
        assert late.beliefs() == []
    finally:
        late.process.kill()
        late.process.wait()
    after = told(troupe, releases.next)
    assert after["moves"] == before["moves"]
    assert not any(member.startswith("late~") for member, _, _, _ in after["records"])
    command = [sys.executable, "-m", "pares", "watch", "--once", "--ledger", troupe.url, "--group", "g"]
    ran = subprocess.run(
        command, env={"PYTHONPATH": str(releases.this), "PATH": ""}, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1
    assert "upgrade pares here first" in ran.stderr
    no_promise_is_broken(troupe, after)
