"""Large groups and starts, small and on files: each figure is there, and a group that does not settle is a row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.cases import Row
from bench.hosts import before, cases, crowd, players
from bench.hosts.crowd import Group, measured
from bench.hosts.starts import GROUP, names, started
from bench.processes import Troupe

import pares
from pares.core.wire.records import Snapshot, decode

pytestmark = pytest.mark.processes

TEN_S = 10.0


@pytest.fixture(autouse=True)
def on_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Troupe, "begins", "file")
    monkeypatch.setattr(crowd, "STILL", 0.4)


def told(rows: list[Row]) -> dict[str, Row]:
    """By what is said behind the group."""
    return {row.what.partition(": ")[2]: row for row in rows}


def test_a_crowd_is_measured_from_its_start_to_the_death_of_half_of_it() -> None:
    group = Group(members=6, roles=12, processes=3, session=TEN_S, calm=1.0, ledger="file")
    with Troupe() as troupe:
        rows = list(measured(troupe, group))
    assert {row.what.partition(": ")[0] for row in rows} == {"6 members, 12 roles, session 10 s, file, 3 processes"}
    found = told(rows)
    assert [*found] == [
        "all led after",
        "most and least that a member leads differ by",
        "terms until then, of each role",
        "lost in 0.0167 minutes",
        "processor of a member",
        "memory of a process",
        "memory of a member, beside its interpreter",
        "memory of a member, grown in 0.0167 minutes",
        "the log grows by",
        "half killed at once, led again after",
        "terms for each role of the dead",
        "members that began anew, errors logged",
    ]
    assert found["most and least that a member leads differ by"].figures.isdigit()
    own = float(found["memory of a member, beside its interpreter"].figures.split()[2])
    process = float(found["memory of a process"].figures.split()[2])
    assert 0 < own < process / 2, "the interpreter is not in it"
    assert found["half killed at once, led again after"].met is True
    assert found["members that began anew, errors logged"].figures == "0, 0"


def test_a_crowd_that_does_not_come_to_lead_everything_says_so_and_ends() -> None:
    group = Group(members=2, roles=4, processes=2, session=TEN_S, calm=0.5, patience=0.0, ledger="file")
    with Troupe() as troupe:
        found = told(list(measured(troupe, group)))
    late = found["all led after"]
    assert late.figures.endswith(" of 4 are led after 0 s")
    assert late.met is False
    assert "half killed at once, led again after" not in found
    assert found["members that began anew, errors logged"].figures == "0, 0"


def test_members_of_one_process_have_one_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def opens(url: str) -> Any:
        opened.append(real(url))
        return opened[-1]

    real = pares.open
    monkeypatch.setattr(pares, "open", opens)
    made = list(players.members(f"file://{tmp_path}/log", TEN_S, 2, range(3), "p"))
    try:
        assert [member.name for member in made] == ["p.0", "p.1", "p.2"]
        assert len(opened) == 1
    finally:
        for member in made:
            member.close()
        opened[0].close()


def test_starts_on_an_empty_log() -> None:
    with Troupe() as troupe:
        rows = list(started(troupe.url, 8, 0.2))
    assert {row.what.partition(": ")[0] for row in rows} == {
        "8 members started within a second, session 10 s, file, an empty log"
    }
    found = told(rows)
    assert [*found] == ["in the group after", "began anew", "errors logged"]
    assert found["in the group after"].figures.endswith("(n=8)")
    assert found["began anew"].figures == found["errors logged"].figures == "0"


def test_starts_behind_a_history_that_members_have_written() -> None:
    with Troupe() as troupe:
        found = told(list(started(troupe.url, 8, 0.2, 900)))
    records, _, snapshots, _ = found["there before"].figures.split()
    assert int(records) >= 900
    assert int(snapshots) > 0
    assert found["in the group after"].figures.endswith("(n=8)")


def test_a_history_ends_with_nobody_in_the_group(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/log"
    pares.open(url).close()
    count, snapshots = before.lived_on(url, GROUP, names(3), 900)
    log = pares.open(url)
    assert log.start() == 0, "nothing was trimmed"
    entries = log.read(0, max_records=count)
    log.close()
    assert sum(type(decode(entry.payload)) is Snapshot for entry in entries) == snapshots
    with pares.Observer(url, group=GROUP) as observer:
        assert observer.world.members == {}


@pytest.mark.timeout(400)
def test_quick_cases_of_the_command() -> None:
    command = [
        sys.executable,
        "-m",
        "bench",
        "--ledger",
        "file",
        "--quick",
        "--json",
        "--only",
        "starts",
        "--only",
        "crowd",
    ]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    for word in ("an empty log", "a group with a history", "half killed at once"):
        assert word in ended.stdout


def test_a_witness_of_many_is_measured() -> None:
    rows = [row.what for row in cases.wakes(quick=True)]
    assert rows == [
        "witness of 100 members: wakings of its watch, per minute",
        "witness of 100 members: a lock let go of, until it knows",
    ]
