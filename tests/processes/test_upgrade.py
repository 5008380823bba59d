"""R11 with real processes: a group goes from one format version to the next and back, one process at a time, and is led
all along.

Three releases: this one (writes 1, reads 1), one that already reads the next version but does not write it, and one that
writes it, with a form that this release can't read.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process_judge import falling_tokens, overlaps, zombie_writes
from process_troupe import Troupe, Worker
from releases import make_release

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SESSION = 20.0
"""Seconds: so long that no lease runs out by itself, on however busy a machine. Nothing here waits for one."""
SETTLE = 0.25
TELL = """
import json, sys
import pares
from pares.core.changes import SeatChanged
from pares.ledger import open as open_ledger

with pares.Observer(sys.argv[1], group="g") as observer:
    moves = [(c.seat[0], c.token, c.holder, c.cause) for c in observer.read() if isinstance(c, SeatChanged)]
    highest = observer.world.highest
ledger = open_ledger(sys.argv[1], readonly=True)
at, records = ledger.start(), []
while entries := ledger.read(at):
    records += [json.loads(entry.payload) for entry in entries]
    at = entries[-1].offset + 1
print(json.dumps({"moves": moves, "highest": highest, "records": [(r["m"], r["v"], r["k"], "mood" in r) for r in records]}))
"""


class Releases:
    """What the processes run: `this` is the one under test."""

    def __init__(self, folder: Path) -> None:
        self.this = make_release(folder, "this", writes=1, reads=1)
        self.reads_next = make_release(folder, "reads-next", writes=1, reads=2)
        self.next = make_release(folder, "next", writes=2, reads=2)


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


def replace(troupe: Troupe, worker: Worker, release: Path) -> None:
    """One process is ended as a deploy ends it, and one of another release comes in its place."""
    worker.end()
    troupe.bury(worker)
    troupe.enlist(release)
    troupe.until_all_led()


def roll(troupe: Troupe, release: Path) -> None:
    for worker in [*troupe.workers]:
        replace(troupe, worker, release)


def told(troupe: Troupe, release: Path) -> dict[str, Any]:
    """What the log says, by somebody of that release who can read it."""
    ran = subprocess.run(
        [sys.executable, "-c", TELL, troupe.url],
        env={"PYTHONPATH": str(release), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def no_promise_is_broken(troupe: Troupe, log: dict[str, Any]) -> None:
    beliefs = troupe.all_beliefs()
    assert overlaps(beliefs) == []
    assert falling_tokens(beliefs) == []
    assert zombie_writes(troupe.writes()) == []
    decided = {(role, token): holder.partition("~")[0] for role, token, holder, _ in log["moves"] if holder}
    for belief in beliefs:
        assert decided.get((troupe.roles[belief.role], belief.token)) == belief.member, belief
    taken: set[str] = set()
    for role, _, holder, cause in log["moves"]:
        # From the moment it is first held each seat went from hand to hand, and was never free.
        assert holder is not None, f"{role} was free ({cause})"
        assert cause == "transfer" or role not in taken, (
            f"{role} was taken by a {cause}: its holder had not handed it over"
        )
        taken.add(role)


def versions(log: dict[str, Any]) -> Counter[int]:
    return Counter(version for _, version, _, _ in log["records"])


def test_forward_and_back_one_by_one(troupe: Troupe, releases: Releases) -> None:
    """Over a release that reads both: each step can be taken back at any time."""
    troupe.begin(release=releases.this)
    roll(troupe, releases.reads_next)
    assert set(versions(told(troupe, releases.this))) == {1}
    roll(troupe, releases.this)  # and back, though all could read the next version by then
    roll(troupe, releases.reads_next)

    first = troupe.workers[0]
    replace(troupe, first, releases.next)
    assert told(troupe, releases.next)["highest"] == 2, (
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
    assert {1, 2} <= set(versions(log))
    no_promise_is_broken(troupe, log)


def test_at_once_and_back_before_all_are_there(troupe: Troupe, releases: Releases) -> None:
    """Without that release: as long as one process is there that can't read the next version, nobody writes it, and the others
    may go back."""
    troupe.begin(release=releases.this)
    old = troupe.workers[2]
    for worker in troupe.workers[:2]:
        replace(troupe, worker, releases.next)
    log = told(troupe, releases.this)
    assert (log["highest"], set(versions(log))) == (1, {1})
    for worker in [worker for worker in troupe.workers if worker is not old]:
        replace(troupe, worker, releases.this)
    log = told(troupe, releases.this)
    assert (log["highest"], set(versions(log))) == (1, {1})
    no_promise_is_broken(troupe, log)


def test_who_cannot_read_it_stays_out_and_disturbs_nobody(troupe: Troupe, releases: Releases) -> None:
    """Once the next version is written there is no way back to a release that can't read it: it says so, and leads nothing."""
    troupe.begin(release=releases.next)
    before = told(troupe, releases.next)
    assert (before["highest"], 2 in versions(before)) == (2, True)
    late = Worker(troupe, "late", releases.this)
    try:
        text = troupe.until(lambda: said(troupe, "late", "upgrade pares here first"), "it says what to do")
        assert "writes format 2 and this version of pares reads up to 1" in text
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


def said(troupe: Troupe, name: str, words: str) -> str:
    text = (troupe.folder / f"{name}.log").read_text()
    return text if words in text else ""
