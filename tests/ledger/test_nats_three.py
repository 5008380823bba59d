"""Three NATS servers, of which some are gone for a while: what was acknowledged stays, in order, and the ledger goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest
from nats_stages import Server
from steady_writer import HANG, Writer, follow, kept

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Nats
from pares.ledger import Entry
from pares.ledger.nats import NatsLedger


@pytest.fixture(scope="module")
def three() -> Generator[Nats]:
    with Nats(nodes=3) as nats:
        yield nats


def leader_of(server: Server, stream: str) -> int:
    name: str = server.api(f"STREAM.INFO.{stream}")["cluster"]["leader"]
    return int(name.removeprefix("node-"))


@pytest.mark.processes
@pytest.mark.parametrize("fault", ["leader killed", "one by one", "all at once", "leader frozen"])
def test_what_was_acknowledged_stays(three: Nats, fault: str) -> None:
    server = Server(three)
    stream = server.name()
    url = three.stream_url(stream, monitor=three.monitors)
    ledger, reader = pares.ledger.open(url), pares.ledger.open(url)
    assert isinstance(ledger, NatsLedger)
    assert [level for level, _ in ledger.checks()] == ["good"] * 4  # three copies, and each of the three syncs
    identity = ledger.identity()
    read: list[Entry] = []
    done = threading.Event()
    following = threading.Thread(target=follow, args=(reader, read, done), daemon=True)
    following.start()
    writer = Writer(ledger)
    writer.start()
    writer.goes_on()

    if fault == "leader killed":
        leader = leader_of(server, stream)
        three.kill(leader)
        try:
            writer.goes_on()
            assert any(level == "warning" and f"node-{leader}" in text for level, text in ledger.checks())
        finally:
            three.restart(leader)
    elif fault == "one by one":
        for node in (1, 2, 3):
            three.restart(node)
            writer.goes_on()
    elif fault == "all at once":
        for node in (1, 2, 3):
            three.kill(node)
        for node in (1, 2, 3):
            three.restart(node, wait=False)
        three.wait_ready(HANG)
    else:
        leader = leader_of(server, stream)
        three.freeze(leader)
        time.sleep(4.0)
        three.thaw(leader)
    writer.goes_on()
    writer.end()

    again = pares.ledger.open(url, timeout=20)
    entries = kept(again, writer)
    end = time.monotonic() + HANG
    while (not read or read[-1].offset < entries[-1].offset) and time.monotonic() < end:
        time.sleep(0.02)
    done.set()
    following.join(HANG)
    assert read == entries
    assert again.identity() == ledger.identity() == identity
    for one in (ledger, reader, again):
        one.close()
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
    end = time.monotonic() + HANG
    while True:
        try:
            after = ledger.append(b"after")
            break
        except LedgerUnavailable:
            assert time.monotonic() < end
    time.sleep(2.0)
    found = [entry.payload for entry in ledger.read(0)]
    assert found[0] == b"before"
    assert found[after] == b"after"
    assert len(found) == after + 1, "something came after an append that was acknowledged later"
    assert len([payload for payload in found if payload.startswith(b"lost")]) <= 1
    ledger.close()
    server.delete(stream)
