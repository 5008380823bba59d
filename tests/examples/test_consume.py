"""The consumers that are killed and frozen, in a short form: with the fence every order is booked, and once."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from examples.consume.stage import Plan, Stage, Worker
from examples.troupe import ROOT

from standstill import stopped_with_the_index

pytestmark = pytest.mark.processes


def test_with_the_fence_every_order_is_booked_once() -> None:
    arguments = ["--seconds", "5", "--pace", "1.2", "--rate", "200", "--session", "0.6", "--seed", "3", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "examples.consume", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["kills"] + found["freezes"] >= 3
    assert found["orders"] == found["booked"] > 0
    assert (found["missing"], found["twice"]) == (0, 0)


def test_a_worker_that_is_frozen_with_a_lock_of_the_database_goes_on(tmp_path: Path) -> None:
    """Though the one that counts what was booked waits for that lock."""
    with closing(Stage(Plan(session=0.5), tmp_path)) as stage:
        worker = Worker("worker-0", stopped_with_the_index(Path(stage.sink)), "frozen", until=1.0)
        stage.workers = [worker]
        with stage.storm():
            assert stage.booked() == 0
        assert worker.process.wait(60) == 0
