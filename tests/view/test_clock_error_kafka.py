"""The clock error of a real Kafka, and a topic of which the times say nothing about it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

import pares
from kafka_tools import new_topic
from pares.dev import Kafka
from pares.view.checkup import examine, measured
from pares.view.clock_error import measure
from pares.view.induced import Plan

pytestmark = pytest.mark.brokers
PATIENCE = 60.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_broker_on_this_host_is_measured_to_have_its_clock(kafka: Kafka) -> None:
    ledger = pares.open(f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=3", options=kafka.client())
    found = measure(ledger)
    assert found.partitions == 3
    assert found.low_us <= 0 <= found.high_us, "one clock"
    assert not found.moved
    plan = Plan("neli", T=20.0, clock_error=5.0, session=60.0)  # so much that no busy machine measures more
    checkup = measured(examine(ledger, "g", 0, now_ms(), plan), ledger, now_ms())
    assert checkup.sound, [str(finding) for finding in checkup.findings if finding.level == "problem"]
    ledger.close()


def test_the_groups_session_is_the_clients(kafka: Kafka) -> None:
    """6 s unless given: T and e of a member with nothing set are below that."""
    ledger: Any = pares.open(f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=1", options=kafka.client())
    with pares.Member(ledger, group=f"g-{uuid.uuid4().hex[:8]}", roles=["0"], protocol="neli") as me:
        assert me.wait("0", PATIENCE)
        checkup = measured(examine(ledger, me.group, 0, now_ms()), ledger, now_ms())
        assert checkup.induction is not None
        facts = checkup.induction.facts()
        assert (facts["session_ms"], facts["session_from"]) == (6000, "session.timeout.ms")
        assert facts["sum_ms"] == 2975 + 50
        assert [t["within_ms"] for t in facts["tenures"]] == [3025]
        assert facts["measured"]["bound_ms"] > 0
    settings = {**kafka.client(), "session.timeout.ms": 1000}
    other: Any = pares.open(ledger.url, options=settings)
    checkup = examine(other, "none", 0, now_ms(), Plan("neli", T=0.98))
    assert any("980 ms + 50 ms = 1030 ms" in finding.text for finding in checkup.findings if finding.level == "problem")
    other.close()
    ledger.close()


def test_writers_times_are_refused_in_exclusive_mode(kafka: Kafka) -> None:
    topic = new_topic(kafka, settings={"message.timestamp.type": "CreateTime"})
    url = f"kafka://{kafka.bootstrap}/{topic}"
    command = [sys.executable, "-m", "pares", "doctor", "--ledger", url, "--protocol", "neli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=PATIENCE)
    assert done.returncode == 1, done.stderr
    assert "message.timestamp.type=LogAppendTime" in " ".join(done.stdout.split())
    ledger = pares.open(url)
    assert ledger.end(0) == 0, "nothing was appended for nothing"
    assert examine(ledger, "g", 0, now_ms(), Plan("neli", overlap=1.0)).sound, "NELE compares no clocks"
    ledger.close()
