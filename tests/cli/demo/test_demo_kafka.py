"""The demo on Kafka, as a stranger runs it: on brokers that are there, and on one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_log import Ran, pares
from confluent_kafka.admin import AdminClient
from test_cli_demo import HANG_SECONDS, SOON, env_of, workers

from kafka_tools import PATIENCE, client, new_topic, write
from pares.dev import Kafka

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def demo(folder: Path, *arguments: str) -> Ran:
    return pares("demo", *arguments, env=env_of(folder), timeout=280)


def topics(kafka: Kafka) -> set[str]:
    """All but the brokers' own."""
    found = AdminClient(client(kafka)).list_topics(timeout=PATIENCE).topics
    return {topic for topic in found if not topic.startswith("__")}


def left(folder: Path) -> list[str]:
    """Processes that work in `folder`, brokers too."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and int(entry.name) != os.getpid():
            found.append(command)
    return found


@pytest.mark.spark
def test_on_brokers_that_are_there_it_is_audited_and_its_topic_deleted(tmp_path: Path, kafka: Kafka) -> None:
    before = topics(kafka)
    report = tmp_path / "out" / "report.html"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    url = f"kafka://{kafka.bootstrap}"
    ran = demo(scratch, "--json", "--seconds", "9", "--report", str(report), "--ledger", url)
    assert ran.code == 0, ran
    found = ran.json
    assert found["audited"] is True
    assert found["promises_checked"] >= 8
    assert found["promises_broken"] == []
    assert found["quotes"] > 12 * 30
    assert found["duplicates"] == found["stale_writes_landed"] == 0
    assert found["zombie_writes_refused"] > 0, "the frozen leader woke up with quotes in its hands"
    assert {"crash", "freeze"} <= set(found["takeovers"])
    assert found["members_lost"] == []
    assert found["ledger"] is None
    assert f"{url}/pares-demo-" in report.read_text()
    assert topics(kafka) == before, "its topic is deleted"
    assert workers(scratch) == []
    assert list(scratch.iterdir()) == [], "nothing is left in the temporary folder, locks neither"


def test_a_topic_with_a_name_is_kept_and_not_used_twice(tmp_path: Path, kafka: Kafka) -> None:
    url = kafka.topic_url(f"named-{tmp_path.name}")
    run = ["--no-audit", "--seconds", "5", "--roles", "3", "--members", "3", "--ledger", url]
    ran = demo(tmp_path, *run)
    assert ran.code == 0, ran
    assert "a log in a Kafka topic" in ran.out
    assert "died, which its lock proved" in ran.out
    assert f"look at it: pares history --ledger {url} --group demo" in ran.out
    moves = pares("history", "--ledger", url, "--group", "demo", "--json").json["moves"]
    assert {"first", "died"} <= {move["cause"] for move in moves}
    again = demo(tmp_path, *run)
    assert again.code == 2
    assert "holds records already" in again.err
    assert f"or none (kafka://{kafka.bootstrap})" in again.err


def test_somebody_elses_topic_is_left_alone(tmp_path: Path, kafka: Kafka) -> None:
    topic = new_topic(kafka, partitions=2)
    write(kafka, topic, [b"an order"])
    ran = demo(tmp_path, "--no-audit", "--ledger", kafka.topic_url(topic))
    assert ran.code == 2
    assert "holds records already" in ran.err
    assert topic in topics(kafka)


def test_overlap_on_kafka(tmp_path: Path, kafka: Kafka) -> None:
    run = ["--json", "--no-audit", "--overlap", "--seconds", "9", "--ledger", f"kafka://{kafka.bootstrap}"]
    ran = demo(tmp_path, *run)
    assert ran.code == 0, ran
    found = ran.json
    assert found["missing"] < found["quotes"] / 100
    assert 0 < found["duplicates"] < found["quotes"] / 10
    assert {"crash", "cut"} <= set(found["takeovers"])


@pytest.mark.parametrize("how", ["kafka", "brokers"])
def test_interrupted_it_leaves_nothing(tmp_path: Path, kafka: Kafka, how: str) -> None:
    before = topics(kafka)
    ledger = "kafka" if how == "kafka" else f"kafka://{kafka.bootstrap}"
    command = [sys.executable, "-m", "pares", "demo", "--plain", "--no-audit", "--seconds", SOON, "--ledger", ledger]
    running = subprocess.Popen(
        command, env={**os.environ, **env_of(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = b""
    try:
        assert running.stdout is not None
        while b"is frozen" not in (line := running.stdout.readline()):
            said += line
            assert running.poll() is None, said
        assert (b"runs at 127.0.0.1:" in said) == (how == "kafka")
        assert len(workers(tmp_path)) >= 3
        running.send_signal(signal.SIGINT)
        said += running.stdout.read()
        assert running.wait(HANG_SECONDS) == 130
        assert b"Traceback" not in said
        assert left(tmp_path) == [], "frozen members and brokers included"
        assert list(tmp_path.iterdir()) == []
        assert topics(kafka) == before
    finally:
        running.kill()
        running.communicate()


def test_a_kafka_of_its_own_is_gone_with_it(tmp_path: Path) -> None:
    ran = demo(tmp_path, "--no-audit", "--seconds", "5", "--roles", "3", "--members", "3", "--ledger", "kafka")
    assert ran.code == 0, ran
    assert "started for this demo" in ran.out
    assert "look at it" not in ran.out
    assert "quotes published:" in ran.out
    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_commands_make_no_topic(tmp_path: Path, kafka: Kafka) -> None:
    """What only looks, or only asks, makes nothing of a name that was mistyped."""
    url = kafka.topic_url(f"mistyped-{tmp_path.name}")
    for command in (["history"], ["watch", "--json"], ["doctor"], ["audit"], ["drain", "ann"], ["pause"]):
        ran = pares(*command, "--ledger", url)
        assert ran.code == 2, (command, ran)
        assert "there is no topic" in ran.err
    assert json.dumps(sorted(topics(kafka))).count("mistyped") == 0
