"""ALLCALL between real processes, over a SQLite log, a Kafka topic and core NATS: frozen, thawed, stopped, killed."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allcall_players import Players, until

from pares.dev import Nats
from pares.runtime.clock import stopwatch
from standstill import stop_between_writes

TIMES: dict[str, Any] = {"heartbeat": 0.4, "lease": 1.6, "skew": 0.2}


@pytest.fixture(params=["sqlite", "kafka", "core nats"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/work.db"
        return
    if request.param == "kafka":
        yield f"kafka://{request.getfixturevalue('kafka').bootstrap}/t-{uuid.uuid4().hex}"
        return
    with Nats(jetstream=False) as nats:
        yield f"nats://{nats.bootstrap}"


@pytest.mark.processes
def test_kill_freeze_thaw_and_a_graceful_end(ledger: str) -> None:
    """A leader is frozen, thawed, stopped gracefully and killed; nobody acts on a lease that is over."""
    with Players() as players:
        a, b, c = (players.start(ledger, name, rank, TIMES) for rank, name in enumerate("abc"))
        players.come_to("a")

        first = a.token
        if ledger.startswith("sqlite"):  # who has SQLite's lock keeps the others from hearing each other
            stop_between_writes(a.process, Path(ledger.removeprefix("sqlite:///")))
        else:
            a.signal(signal.SIGSTOP)
        until(lambda: b.leads and not a.leads, "b leads")
        second = b.token
        assert second > first
        thawed = stopwatch()
        a.signal(signal.SIGCONT)
        players.come_to("a")  # at the end of b's term, for it has the lower rank
        third = a.token
        assert third > second
        assert max(a.by(first)) < thawed, "after the thaw it did nothing on a lease that was over"

        a.end()
        players.come_to("b")
        fourth = b.token
        assert fourth > third

        b.signal(signal.SIGKILL)
        players.come_to("c")
        assert c.token > fourth
