"""Three NATS servers, of which some are gone for a while: what was acknowledged stays, in order, and the ledger goes on."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest
from log_tools import append_again, payloads, until
from nats_stages import Server
from steady_writer import FAULTS, Writer, check_that_it_stays, strike

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Nats
from pares.ledger import Ledger
from pares.ledger.nats.log import NatsLedger


@pytest.fixture(scope="module")
def three() -> Generator[Nats]:
    with Nats(nodes=3) as nats:
        yield nats


def leader_of(server: Server, stream: str) -> int:
    name: str = server.api(f"STREAM.INFO.{stream}")["cluster"]["leader"]
    return int(name.removeprefix("node-"))


@pytest.mark.processes
@pytest.mark.parametrize("fault", FAULTS)
def test_what_was_acknowledged_stays(three: Nats, fault: str) -> None:
    server = Server(three)
    stream = server.name()

    def struck(ledger: Ledger, writer: Writer) -> None:
        assert isinstance(ledger, NatsLedger)
        # Three copies, and each of the three syncs; a copy may be late while one server has just come back and all are busy.
        until(lambda: [level for level, _ in ledger.checks()] == ["good"] * 4)

        def missed(node: int) -> None:
            assert any(level == "warning" and f"node-{node}" in text for level, text in ledger.checks())

        strike(three, fault, lambda: leader_of(server, stream), writer, missed)

    check_that_it_stays(three.stream_url(stream, monitor=three.monitors), struck)
    server.delete(stream)


@pytest.mark.processes
def test_without_a_majority_nothing_is_acknowledged_and_nothing_comes_late(three: Nats) -> None:
    server = Server(three)
    stream = server.name()
    ledger = pares.ledger.open(three.stream_url(stream), timeout=0.5)
    assert ledger.append(b"before") == 0
    leader = leader_of(server, stream)
    others = [node for node in (1, 2, 3) if node != leader]
    for node in others:
        three.freeze(node)
    unknown = 0
    for number in range(4):
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"lost %d" % number)
        unknown += caught.value.unknown
    assert unknown >= 1
    for node in others:
        three.thaw(node)
    after = append_again(ledger, b"after")
    time.sleep(2.0)
    found = payloads(ledger)
    assert found[0] == b"before"
    assert found[after] == b"after"
    assert len(found) == after + 1, "something came after an append that was acknowledged later"
    assert len([payload for payload in found if payload.startswith(b"lost")]) <= 1
    ledger.close()
    server.delete(stream)
