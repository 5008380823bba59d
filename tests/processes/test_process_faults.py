"""Real processes, real signals: leaders are killed and frozen, again and again, and no promise is broken: on SQLite, and on
a real Kafka, PostgreSQL, NATS, Redis, RabbitMQ and Pulsar and an emulated Kinesis (mark `brokers`), by claims, by Fast NELI and
by exclusive NELI.

`PARES_ROUNDS` says how often (6; `make soak`: 50); unless it does, SQLite has one round of Fast NELI, and none of NELI. Each
test ends with the same questions: did two believe at once, did a token fall, did a zombie write, and does every belief stand in
the log.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process_troupe import Troupe, Worker, no_promise_is_broken

pytestmark = [pytest.mark.processes, pytest.mark.timeout(3600)]

ROUNDS = int(os.environ.get("PARES_ROUNDS", "6"))
SHORT, LONG = (0.3, ROUNDS), (1.0, max(2, ROUNDS // 4))
CASES = [
    ("claims", "sqlite", *SHORT),
    ("claims", "sqlite", *LONG),
    ("claims", "kafka", *SHORT),
    ("claims", "kafka", *LONG),
    ("fast-neli", "kafka", *LONG),
    ("neli", "kafka", *LONG),
    ("claims", "postgres", *SHORT),
    ("claims", "nats", *SHORT),
    ("claims", "redis", *SHORT),
    ("claims", "rabbitmq", *LONG),
    ("claims", "pulsar", *LONG),
    ("claims", "kinesis", 3.0, LONG[1]),
]
"""(protocol, ledger, session, rounds)"""
if "PARES_ROUNDS" in os.environ:
    CASES += [("fast-neli", "sqlite", 0.6, ROUNDS), ("fast-neli", "sqlite", *LONG), ("neli", "sqlite", *LONG)]
else:
    CASES += [("fast-neli", "sqlite", 0.6, 1)]
ROLES = {"claims": ("A", "B", "C", "D"), "neli": ("0", "1", "2", "3"), "fast-neli": ("0", "1", "2", "3")}
"""Where partitions are shared out, each has one."""


@pytest.fixture
def troupe(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Troupe]:
    params = request.node.callspec.params
    protocol, session = params["protocol"], params["session"]
    shape: dict[str, Any] = {} if protocol == "claims" else {"partitions": len(ROLES[protocol])}
    url = f"sqlite:///{tmp_path}/group.db" + (f"?partitions={shape['partitions']}" if shape else "")
    if params["ledger"] == "kafka":
        if shape:  # the group's session is the broker's affair
            shape["config"] = str(tmp_path / "client.properties")
            (tmp_path / "client.properties").write_text(f"session.timeout.ms={round(session * 1000)}\n")
        url = request.getfixturevalue("kafka").topic_url(f"t-{uuid.uuid4().hex}", **shape)
    if params["ledger"] == "postgres":
        url = request.getfixturevalue("postgres").table_url(f"t_{uuid.uuid4().hex}")
    if params["ledger"] == "nats":
        url = request.getfixturevalue("nats").stream_url(f"t-{uuid.uuid4().hex}")
    if params["ledger"] == "redis":
        url = request.getfixturevalue("redis_server").stream_url(f"t-{uuid.uuid4().hex}")
    if params["ledger"] == "rabbitmq":
        url = request.getfixturevalue("rabbit_server").stream_url(f"t-{uuid.uuid4().hex}")
    if params["ledger"] == "pulsar":
        url = request.getfixturevalue("pulsar_server").topic_url(f"t-{uuid.uuid4().hex}")
    if params["ledger"] == "kinesis":
        url = request.getfixturevalue("moto").stream_url(f"t-{uuid.uuid4().hex}")
    troupe = Troupe(tmp_path, url, session, ROLES[protocol], protocol)
    yield troupe
    troupe.end()


@pytest.mark.parametrize(("protocol", "ledger", "session", "rounds"), CASES)
def test_leaders_that_are_killed(troupe: Troupe, protocol: str, ledger: str, session: float, rounds: int) -> None:
    troupe.begin()
    taken_over = 0
    while taken_over < rounds:
        victim = troupe.a_leader()
        at = victim.kill()
        troupe.bury(victim)
        # What it believed when it died: a role that was on its way to somebody else is no takeover.
        held = [belief for belief in victim.beliefs() if belief.last > at - 20_000_000]
        for belief in held:
            heir = troupe.until(lambda b=belief: troupe.successor_of(b), f"somebody succeeds in role {belief.role}")
            assert heir is not None
            taken_over += 1
        troupe.enlist()
        troupe.until_all_led()
    if protocol == "claims":
        # By the lock that the kernel let go of: nobody waits for a session to pass.
        assert troupe.proven_dead() >= {worker.name for worker in troupe.dead}
    no_promise_is_broken(troupe)


@pytest.mark.parametrize(("protocol", "ledger", "session", "rounds"), CASES)
def test_leaders_that_are_frozen(troupe: Troupe, protocol: str, ledger: str, session: float, rounds: int) -> None:
    troupe.begin()
    tried = struck = 0
    while struck < rounds:
        tried += 1
        assert tried <= 5 * rounds, "whoever is frozen has nothing to lose"
        time.sleep(session * troupe.random.uniform(0.2, 0.7))
        frozen, held = troupe.freeze_a_leader()
        before = len(frozen.events("thawed"))
        time.sleep(2 * session + 0.3)  # not for anything to happen: this long it stands still, at least
        for belief in held:
            troupe.until(lambda b=belief: troupe.successor_of(b), f"somebody succeeds in role {belief.role} meanwhile")
        frozen.thaw()
        troupe.until(lambda w=frozen, n=before: first_checks(w, n, len(troupe.roles)), "it has looked at every role")
        # Not if it found, in the moment in which it was frozen, that its lease had just run out.
        struck += any(check["before"] for check in frozen.events("thawed")[before:])
        troupe.until_all_led()
    checks = troupe.all_events("thawed")
    assert len(checks) >= tried * len(troupe.roles)
    assert [check for check in checks if check["held"]] == [], "the first check after SIGCONT says no"
    troupe.until(lambda: len(troupe.all_events("zombie")) >= rounds / 2, "zombies have tried to write")
    no_promise_is_broken(troupe)


def first_checks(worker: Worker, before: int, roles: int) -> bool:
    return len(worker.events("thawed")) >= before + roles
