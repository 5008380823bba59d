"""What can happen to a bus on core NATS: servers that go and come, stand still, or refuse."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from log_tools import PATIENT, open_again, until
from nats_stages import OPEN, Server

from pares.core.errors import CapabilityError, ClosedError, ConfigError, ForkedError, LedgerUnavailable
from pares.dev import Nats
from pares.ledger import Bus, open, open_bus
from pares.ledger.nats.bus import CoreNats

from test_ledger_bus import HANG, Heard  # isort: skip
from ledger_stages import descriptors, in_child  # isort: skip


@pytest.fixture
def own() -> Iterator[Nats]:
    """A server that a test may harm."""
    with Nats(jetstream=False) as nats:
        yield nats


@pytest.fixture
def bus(own: Nats) -> Iterator[CoreNats]:
    """One that takes no stall of a busy machine for an outage."""
    bus = opened(own)
    yield bus
    bus.close()


@pytest.fixture
def wary(own: Nats) -> Iterator[CoreNats]:
    """One that gives a server up that is silent for two seconds."""
    bus = open_again(lambda: opened(own, timeout=2.0))
    yield bus
    bus.close()


def opened(nats: Nats, timeout: float = PATIENT) -> CoreNats:
    bus = open_bus(f"nats://{nats.bootstrap}", timeout=timeout)
    assert isinstance(bus, CoreNats)
    return bus


def publish_until_heard(bus: Bus, payload: bytes, *heard: Heard) -> None:
    """Again and again: what is published into a connection that is about to end is lost."""

    def done() -> bool:
        try:
            bus.publish("a", payload)
        except LedgerUnavailable:
            pass
        return all(payload in listener.messages for listener in heard)

    until(done)


def test_one_s_own_messages_come_back_in_order(bus: CoreNats) -> None:
    heard = Heard()
    bus.listen("a", heard)
    for number in range(1000):
        bus.publish("a", b"%d" % number)
    assert heard.wait(1000) == [b"%d" % number for number in range(1000)]


def test_what_is_published_without_a_connection_is_never_sent(own: Nats, bus: CoreNats) -> None:
    other, heard, here = opened(own), Heard(), Heard()
    other.listen("a", heard)
    bus.listen("a", here)
    assert bus.epoch == 1
    bus.publish("a", b"before")
    assert heard.wait(1) == here.wait(1) == [b"before"]
    own.kill(1)
    until(lambda: bus.epoch == other.epoch == 0)
    for number in range(50):
        with pytest.raises(LedgerUnavailable, match=rf"could not publish: no server answers \({own.bootstrap}: "):
            bus.publish("a", b"lost %d" % number)
    own.restart(1)
    until(lambda: bus.epoch == other.epoch == 2)
    bus.publish("a", b"after")
    assert heard.wait(2) == here.wait(2) == [b"before", b"after"]
    time.sleep(0.2)  # whatever was kept would have come by now
    assert heard.messages == here.messages == [b"before", b"after"]
    other.close()


def test_what_was_on_its_way_when_the_connection_ended_is_dropped(own: Nats, wary: CoreNats) -> None:
    """Many messages, more than the system buffers, into a server that stands still and is then killed."""
    own.freeze(1)
    sent = []
    with pytest.raises(LedgerUnavailable):
        sent.extend(wary.publish("a", b"x" * 1_000_000) for _ in range(1000))
    assert 1 <= len(sent) < 1000
    own.kill(1)
    own.restart(1)
    other, heard = opened(own), Heard()
    other.listen("a", heard)
    publish_until_heard(wary, b"after", heard)
    time.sleep(0.2)
    assert {*heard.messages} == {b"after"}
    other.close()


def test_a_connection_that_ends_with_something_unsent_is_known_to_be_over(own: Nats) -> None:
    """The client library fails to send the rest, and stops before it has told anybody."""
    bus = opened(own, timeout=3600)  # so that nobody asks, and finds out
    epoch = bus._link.now
    assert epoch is not None
    client: Any = epoch.client

    async def cannot() -> None:
        raise ConnectionResetError

    async def leave_something() -> None:
        client._transport.drain = cannot
        client._pending, client._pending_data_size = [b"PING\r\n"], 6

    bus._link.call(leave_something())
    own.kill(1)
    until(lambda: bus.epoch == 0)
    own.restart(1)
    until(lambda: bus.epoch == 2)
    bus.close()


def test_a_server_that_stands_still_is_noticed(own: Nats, wary: CoreNats) -> None:
    heard = Heard()
    wary.listen("a", heard)
    own.freeze(1)
    until(lambda: wary.epoch == 0)
    # So says the connection there was, or the next one, which it is trying to make.
    with pytest.raises(LedgerUnavailable, match=r"does not answer|no answer in"):
        wary.publish("a", b"x")
    own.thaw(1)
    publish_until_heard(wary, b"after", heard)
    assert {*heard.messages} == {b"after"}
    assert wary.epoch >= 2, "another connection"


def test_it_finds_the_other_servers_of_a_cluster() -> None:
    with Nats(nodes=2, jetstream=False) as two:
        bus = open_bus(f"nats://{two.nodes[0].place.address}", timeout=PATIENT)
        heard = Heard()
        bus.listen("a", heard)
        two.kill(1)
        publish_until_heard(bus, b"after", heard)
        bus.close()


def test_messages_cross_a_cluster() -> None:
    with Nats(nodes=3, jetstream=False) as three:
        buses = [open_bus(f"nats://{node.place.address}", timeout=PATIENT) for node in three.nodes]
        heard = [Heard() for _ in buses]
        for bus, listener in zip(buses, heard, strict=True):
            bus.listen("a", listener)
        publish_until_heard(buses[0], b"?", *heard)
        for bus in buses:
            bus.close()


def test_listeners_may_come_and_go_while_messages_come(bus: CoreNats) -> None:
    stop = threading.Event()

    def chatter() -> None:
        while not stop.is_set():
            bus.publish("a", b"x")

    talker = threading.Thread(target=chatter)
    talker.start()
    for _ in range(50):
        heard = Heard()
        end = bus.listen("a", heard)
        heard.wait(3)
        end()
        seen = len(heard.messages)
        assert len(heard.messages) == seen
    stop.set()
    talker.join(HANG)


def test_what_is_too_large_for_the_server_is_refused(own: Nats) -> None:
    own.reload({"max_payload": 1000})
    bus, heard = opened(own), Heard()
    bus.listen("a", heard)
    with pytest.raises(ConfigError, match=r"1001 bytes does not fit into the server's max_payload=1000"):
        bus.publish("a", b"x" * 1001)
    bus.publish("a", b"x" * 1000)
    assert len(heard.wait(1)[0]) == 1000
    bus.close()


def test_subjects_that_one_may_not_use() -> None:
    with Nats(settings=OPEN, jetstream=False) as nats:
        user = {"user": "everybody", "password": "x", "permissions": {"subscribe": {"deny": ["pares.bus.b"]}}}
        nats.reload({**OPEN, "authorization": {"users": [user]}})
        bus = opened(nats)
        with pytest.raises(LedgerUnavailable, match=r"could not listen: the user has no right.*pares\.bus\.b"):
            bus.listen("b", print)
        heard = Heard()
        bus.listen("a", heard)
        bus.publish("a", b"x")
        assert heard.wait(1) == [b"x"]
        bus.close()


def test_a_url_without_a_stream_has_no_log(own: Nats) -> None:
    with pytest.raises(CapabilityError, match=r"has no log.*Name a stream \(JetStream\): nats://.*/STREAM"):
        open(f"nats://{own.bootstrap}")


def test_a_ledger_s_bus_and_core_nats_are_apart(server: Server) -> None:
    stream = server.name()
    ledger, core = open_bus(server.nats.stream_url(stream), timeout=PATIENT), opened(server.nats)
    heard = Heard()
    core.listen("a", heard)
    ledger.publish("a", b"the ledger's")
    core.publish("a", b"core's")
    assert heard.wait(1) == [b"core's"]
    ledger.close()
    core.close()
    server.delete(stream)


def test_closed_and_forked(own: Nats) -> None:
    before, threads = descriptors(), threading.active_count()
    bus = opened(own)
    bus.listen("a", Heard())

    def child() -> None:
        for use in (lambda: bus.publish("a", b"x"), lambda: bus.listen("a", print)):
            with pytest.raises(ForkedError):
                use()
        bus.close()

    in_child(child)
    bus.publish("a", b"x")
    bus.close()
    bus.close()
    for use in (lambda: bus.publish("a", b"x"), lambda: bus.listen("a", print)):
        with pytest.raises(ClosedError):
            use()
    # What earlier tests had left to be closed may be closed by now.
    assert threading.active_count() <= threads
    assert descriptors() <= before
