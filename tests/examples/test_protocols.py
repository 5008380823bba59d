"""One example of each protocol beside claims, played as its reader would: in processes of its own, killed and frozen."""

from __future__ import annotations

import subprocess
import sys

import pytest
from examples.troupe import ROOT

from pares.dev import Kafka, Nats

pytestmark = pytest.mark.processes


def play(module: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", f"examples.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.stdout


def test_nele_a_price_feed() -> None:
    said = play("price_feed")
    assert "leaves by plan" in said
    assert "is killed" in said
    counted = [line.split() for line in said.splitlines() if "ticks" in line]
    assert len(counted) == 2
    for words in counted:
        ticks, missing = int(words[1]), int(words[3])
        assert ticks > 0
        assert missing < ticks, "somebody publishes"


def test_neli_shards() -> None:
    said = play("shards")
    assert "who has shard 0, is killed" in said
    assert "all 600 orders were handled, each once" in said


def test_fast_neli_a_scheduler() -> None:
    said = play("scheduler", "--rounds", "1")
    assert "is killed" in said
    assert said.splitlines()[-1].endswith("in order")


def test_allcall_sides() -> None:
    """Of members that start at once the first one that has listened for long enough leads, and the lowest rank a term later
    (H13): so not the first one to lead is asked for, but the one that leads when all is calm."""
    calm, split = play("sides").split("ann stands still")

    def led(said: str) -> list[str]:
        return [line.split()[1] for line in said.splitlines() if " leads, token " in line]

    assert led(calm)[-1] == "ann"
    assert led(split)[-1] == "bob"
    assert "ann" in led(split)


@pytest.mark.brokers
def test_allcall_on_core_nats() -> None:
    with Nats(jetstream=False) as nats:
        said = play("sides", "--ledger", nats.url)
    assert "ann stands still" in said


@pytest.mark.brokers
def test_fast_neli_a_scheduler_on_kafka() -> None:
    """Kafka's own consumer group decides, as goNELI has it."""
    with Kafka() as kafka:
        said = play("scheduler", "--ledger", kafka.url, "--rounds", "2")
    assert said.count("is killed") == 2
    assert said.splitlines()[-1].endswith("in order")
