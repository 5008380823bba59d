"""What every ledger on a server of one node stands: a server that is frozen or away, and writers that stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from ledger_stages import start_writer
from log_tools import HANG, append_again, payloads, read_all

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Postgres, Pulsar, RabbitMQ, Redis
from pares.ledger import Ledger

Server = Postgres | Redis | RabbitMQ | Pulsar


class Kind(NamedTuple):
    make: type[Server]
    wait: float = 1.0
    """Seconds that a request may take where the ledger is to give up soon."""


KINDS: Final = {
    "postgresql": Kind(Postgres, 2.0),
    "redis": Kind(Redis),
    "rabbitmq": Kind(RabbitMQ),
    "pulsar": Kind(Pulsar, 2.0),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def one(kind: Kind) -> Iterator[Server]:
    with kind.make() as one:
        yield one


@pytest.fixture
def server(one: Server) -> Server:
    """One that the test may do everything to."""
    if not one.nodes[0].running:
        one.restart(1, timeout=HANG)
    return one


@pytest.fixture
def url(server: Server) -> str:
    """A ledger that nobody has used."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    if isinstance(server, Pulsar):
        return server.topic_url(name)
    return server.table_url(name) if isinstance(server, Postgres) else server.stream_url(name)


def opened(url: str, wait: float) -> Ledger:
    return pares.ledger.open(f"{url}{'&' if '?' in url else '?'}timeout={wait}")


def test_a_frozen_server_leaves_the_outcome_unknown_and_holds_nobody_for_ever(
    server: Server, url: str, kind: Kind
) -> None:
    ledger = opened(url, kind.wait)
    append_again(ledger, b"0")
    server.freeze(1)
    with pytest.raises(LedgerUnavailable, match=r"whether it happened is unknown.*does not answer in time") as caught:
        ledger.append(b"1")
    assert caught.value.unknown
    for call in (ledger.end, lambda: ledger.read(0, max_records=1, timeout=0), ledger.identity):
        with contextlib.suppress(LedgerUnavailable):  # they wait no longer than they may
            call()
    server.thaw(1)
    append_again(ledger, b"2")
    found = payloads(ledger)
    assert found[0] == b"0"
    assert found.count(b"1") <= 1
    ledger.close()


def test_a_server_that_is_away_is_told_from_one_that_may_have_done_it(server: Server, url: str) -> None:
    ledger = opened(url, 5)
    ledger.append(b"0")
    server.stop(1)
    for turn in range(3):
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"1")
        assert not caught.value.unknown or turn == 0, "nobody listens there"
    server.restart(1, timeout=HANG)
    append_again(ledger, b"2")
    assert payloads(ledger)[-1] == b"2"
    ledger.close()


@pytest.mark.processes
def test_writers_frozen_at_any_moment_hold_nobody_up(server: Server, url: str) -> None:
    ledger = opened(url, 5)
    writers = [start_writer(url, f"w{number}", 100_000) for number in range(3)]
    readers: list[threading.Thread] = []
    try:
        for writer in writers:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            writer.stdin.write("go\n")
            writer.stdin.flush()
            readers.append(threading.Thread(target=writer.stdout.read))
            readers[-1].start()
        for turn in range(30):
            victim = writers[turn % 3]
            os.kill(victim.pid, signal.SIGSTOP)
            append_again(ledger, b"mine")
            os.kill(victim.pid, signal.SIGCONT)
    finally:
        for writer in writers:
            writer.kill()
        for reader in readers:
            reader.join(HANG)
        for writer in writers:
            with writer:
                pass
    found = read_all(ledger)
    assert [entry.offset for entry in found] == list(range(len(found)))
    assert sum(entry.payload == b"mine" for entry in found) >= 30
    ledger.close()
