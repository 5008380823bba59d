"""`make chaos-ledgers`: what it plans, how it judges, and short runs: on files here, on servers with `make brokers`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.ledgers.servers import clusters
from chaos.ledgers import report
from chaos.ledgers.__main__ import exit_code
from chaos.ledgers.faults import KINDS, LOSSES
from chaos.ledgers.grounds import Emulated, Ground, OneServer, Pair, Restored
from chaos.ledgers.losses import Losses, crossings
from chaos.ledgers.places import ledgers
from chaos.ledgers.run import Found, Plan
from chaos.ledgers.standby import Followed
from chaos.verdict.judge import Outcome
from process_beliefs import Belief

import pares.dev

ROOT = Path(__file__).resolve().parents[2]
GROUNDS: tuple[type[Ground], ...] = (Ground, OneServer, Restored, Pair, Followed, Emulated)


# The plan ------------------------------------------------------------------------------------------------------------


def test_each_server_that_pares_dev_starts_is_tried() -> None:
    others = {"Node", "Security"}
    assert {kind.__name__ for kind in clusters().values()} == {*pares.dev.__all__} - others
    assert {*ledgers()} == {"file", "sqlite", "kinesis", *clusters()}


def test_each_fault_that_a_ledger_names_is_one() -> None:
    assert {kind for ground in GROUNDS for kind in ground.kinds} == {*KINDS}
    assert {ground.loss for ground in GROUNDS} - {""} == {*LOSSES}


def test_a_plan_is_drawn_by_its_seed_and_leaves_no_kind_out() -> None:
    def plan(seed: int, *only: str) -> list[str]:
        return Plan(faults=20, losses=0, seed=seed, session=1.0, only=only).schedule(ground)

    ground = OneServer.__new__(OneServer)
    assert plan(7) == plan(7) != plan(8)
    assert {*plan(7)[:8]} == {*plan(7)[8:16]} == {*OneServer.kinds}
    assert len(plan(7)) == 20
    assert plan(7, "server-kill", "failover") == ["server-kill"] * 20, "what can't be made there is left out"
    assert plan(7, "failover") == []


# The judge -----------------------------------------------------------------------------------------------------------


def outcome(**what: Any) -> Outcome:
    usual: dict[str, Any] = {"number": 1, "kind": "member-kill", "what": "", "lasted": 1.0, "acknowledged": None}
    return Outcome(**{**usual, "led": 0.1, "without": 0.2, **what})


def test_a_run_in_which_all_was_kept_has_no_exit_code() -> None:
    found = Found("file", 1, [outcome()], promises=[{"promise": "p", "verdict": "kept", "evidence": ""}])
    assert (found.broken, exit_code([found])) == ([], 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"overlaps": ["role 0: a and b both believed for 3.000 ms"]},
        {"stale": ["A: a wrote under 1 after b's 2"]},
        {"falling": ["role 0: 2 of a, then 1 of b"]},
        {"fallen": ["member a ended with 1"]},
        {"led": None},
    ],
)
def test_each_thing_that_may_not_be_ends_a_run_with_3(wrong: dict[str, Any]) -> None:
    sound, found = Found("sqlite", 1, [outcome()]), Found("file", 1, [outcome(**wrong)])
    assert len(found.broken) == 1
    assert exit_code([sound, found]) == 3


def test_what_the_log_or_its_audit_says_does_too() -> None:
    assert exit_code([Found("file", 1, unlogged=["a believed in 7"])]) == 3
    assert exit_code([Found("file", 1, promises=[{"promise": "p", "verdict": "broken", "evidence": "e"}])]) == 3
    assert exit_code([Found("file", 1, at_the_end=["role 0: ..."], unaudited="no")]) == 3


def test_a_ledger_that_could_not_be_tried_is_not_passed_over() -> None:
    assert exit_code([Found("sqlite", 1, [outcome()]), Found("file", 1, aborted="no server")]) == 1
    assert exit_code([Found("file", 1, [outcome()], unaudited="no")]) == 1
    assert exit_code([]) == 1


def test_two_that_believe_at_once_are_measured() -> None:
    def belief(member: str, role: int, token: int, first: float, last: float) -> Belief:
        return Belief(member, role, token, int(first * 1e9), int(last * 1e9))

    found = [belief("a", 0, 1, 0, 5), belief("b", 0, 2, 4.5, 9), belief("b", 1, 3, 0, 9), belief("a", 0, 4, 9.5, 10)]
    assert crossings(found) == [0.5]
    assert crossings([found[0], belief("a", 0, 2, 4.5, 9)]) == [], "it is the same member"


def test_a_loss_is_held_to_what_is_said_of_its_ledger() -> None:
    redis, postgres = (Losses(name, "restored", 1.0, 1, [0.4], stale=1, falling=2) for name in ("redis", "postgres"))
    assert len(redis.broken) == 2, "tokens rise there, and a fence holds"
    assert postgres.broken == []
    assert [words.partition(" (")[0] for words in postgres.named] == [
        "only one believes",
        "tokens rise",
        "a fence refuses what comes late",
    ]
    assert Losses("redis", "restored", 1.0, 1, [1.5]).broken, "for more than a session nobody else may believe"
    assert Losses("redis", "restored", 1.0, 1, never=1).broken
    assert exit_code([Found("redis", 1, losses=redis)]) == 3


def test_the_tables_name_each_ledger_and_what_was_wrong(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    losses = Losses("postgres", "restored", 1.0, 1, falling=2)
    found = [Found("file", 2, [outcome(), outcome(led=None)]), Found("postgres", 1, losses=losses, aborted="no server")]
    report.write(found, "seed 1", file)
    text = file.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| file | 2 of 2 | 0 |" in text
    assert "| tokens rise (2 fell) |" in text
    assert "- file: BROKEN: fault 1 (member-kill): nobody led again" in text
    assert "- postgres: ABORTED: no server" in text


def test_what_was_not_tried_again_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"{report.BEGIN}\n{report.END}\n")
    losses = Losses("redis", "restored", 1.0, 1)
    first = [
        Found("file", 1, [outcome()]),
        Found("redis", 1, [outcome()], losses=losses, notes=["a note"]),
        Found("kinesis", 1, [outcome()], session=5.0, aborted="no emulator"),
    ]
    report.write(first, "seed 1", file)
    report.write([Found("file", 2, [outcome(), outcome()]), Found("kafka", 1, [outcome()])], "seed 2", file)
    text = file.read_text()
    assert "Of earlier runs: redis, kinesis.\n" in text
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")]
    assert [name.strip() for name, _ in rows] == [
        *("ledger", "file", "kafka", "redis", "kinesis (session 5 s)"),
        *("ledger", "redis"),
    ]
    assert rows[1][1].strip() == "2 of 2"
    assert "- redis: note: a note" in text
    assert "- kinesis: ABORTED: no emulator" in text
    report.write([Found("redis", 1, [outcome()]), Found("kinesis", 1, [outcome()], session=5.0)], "seed 3", file)
    text = file.read_text()
    assert "a note" not in text
    assert "ABORTED" not in text
    assert text.count("| redis ") == 1, "its loss was not tried again: what was said of it is gone, too"


# Runs ----------------------------------------------------------------------------------------------------------------


def run(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and what came of each ledger."""
    command = [sys.executable, "-m", "chaos.ledgers", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {each["ledger"]: each for each in json.loads(done.stdout)["ledgers"]}


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_on_files_no_promise_is_broken() -> None:
    code, found = run("--ledger", "file", "--ledger", "sqlite", "--faults", "2", "--session", "0.5", "--seed", "1")
    assert [each["broken"] for each in found.values()] == [[], []]
    assert code == 0, found
    for each in found.values():
        assert {row["kind"]: row["count"] for row in each["kinds"]} == {"member-kill": 1, "member-freeze": 1, "all": 2}
        assert each["terms"] >= 4
        assert each["writes"] > 100
        assert len([p for p in each["audit"] if p["verdict"] == "kept"]) >= 5


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_on_files_a_planted_overlap_is_found_out() -> None:
    """Members believe for longer than a session, and a leader is frozen for one: it goes on beside its successor. That takes a
    last beat of some age: each second freeze or so has one, so of a dozen some have."""
    plant = ["--mutant", "lease-longer-than-session", "--only", "member-freeze", "--lasts", "1", "--no-audit"]
    code, found = run("--ledger", "file", *plant, "--faults", "12", "--session", "2", "--seed", "2")
    assert code == 3
    assert found["file"]["kinds"][-1]["overlaps"] > 0
    assert any("both believed" in words for words in found["file"]["broken"])


@pytest.mark.brokers
@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ledger", ["postgres", "redis", "rabbitmq", "pulsar", "nats", "kafka", "kinesis"])
def test_on_a_server_no_promise_is_broken(ledger: str) -> None:
    """Each kind of fault that keeps what was acknowledged, once; and where it can be brought about, a loss."""
    count = {"redis": 9, "postgres": 9, "kinesis": 5}.get(ledger, 8)
    code, found = run("--ledger", ledger, "--faults", str(count), "--losses", "1", "--seed", "3")
    assert found[ledger]["broken"] == []
    assert code == 0, found
    assert found[ledger]["made"] == count
    assert len(found[ledger]["kinds"]) == count + 1
    assert (found[ledger]["losses"] is None) == (ledger not in ("postgres", "redis", "rabbitmq"))
