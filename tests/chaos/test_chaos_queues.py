"""What queues can carry of leadership: how beliefs are judged, and one freeze on each real queue."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chaos.queues.contender import SECOND, Believed
from chaos.queues.run import led, moves, overlaps

ROOT = Path(__file__).resolve().parents[2]


def test_a_belief_is_all_between_its_first_look_and_its_last(tmp_path: Path) -> None:
    looks = [0, 10, 20, 900, 0, 0, 1000, 1010]
    (tmp_path / "a").write_bytes(struct.pack(f"={len(looks)}q", *looks) + b"\0\0")
    assert Believed(tmp_path / "a").stretches() == [(10, 900), (1000, 1010)]
    assert Believed(tmp_path / "nobody").stretches() == []


def test_only_beliefs_of_different_processes_cross() -> None:
    found = {"a": [(0, 100), (50, 60)], "b": [(90, 120), (200, 300)], "c": [(120, 130)]}
    assert overlaps(found) == [10]
    assert moves(found) == 3
    assert led(found, 0, 400) == (130 + 100) / 400


def queues(*words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "chaos.queues", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.brokers
@pytest.mark.processes
@pytest.mark.timeout(400)
def test_rabbitmq_s_word_makes_two_leaders_and_beats_that_come_back_make_one() -> None:
    code, told = queues(
        "--queue", "amqp", "--rule", "amqp-exclusive-word", "--rule", "amqp-exclusive-beats", "--fault", "freeze"
    )
    word, beats = told["trials"]
    assert word["overlaps"] >= 1
    assert word["longest"] > 1.0, "it believed through the freeze"
    assert (code, beats["overlaps"]) == (0, 0)
    facts = {what: found for _, what, found in told["facts"]}
    assert facts["messages that a joiner finds, of 10 that were read"] == "0"


@pytest.mark.brokers
@pytest.mark.processes
@pytest.mark.timeout(400)
def test_elasticmq_has_a_lease_and_no_beats() -> None:
    code, told = queues("--queue", "sqs", "--rule", "sqs-held-word", "--rule", "sqs-held-lease", "--fault", "freeze")
    word, lease = told["trials"]
    assert word["overlaps"] >= 1
    assert (code, lease["overlaps"]) == (0, 0)
    assert lease["takeover"] * SECOND > 0
    facts = {what: found for _, what, found in told["facts"]}
    assert facts["messages of the group that others get while one is in flight"] == "0"
