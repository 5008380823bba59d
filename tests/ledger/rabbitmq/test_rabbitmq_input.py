"""What can be wrong with a RabbitMQ ledger's server or its streams; messages name the remedy and no secret."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from log_tools import HANG, payloads, until
from rabbit_stages import RabbitStage

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import RabbitMQ
from pares.ledger.rabbitmq import wire
from planted_secret import SECRET, leaks


@pytest.fixture
def stage(rabbit_server: RabbitMQ, tmp_path: Path) -> Iterator[RabbitStage]:
    stage = RabbitStage(tmp_path, rabbit_server)
    yield stage
    stage.close()


def test_nobody_listens_and_a_port_of_something_else() -> None:
    with pytest.raises(
        LedgerUnavailable, match="look whether the server runs, and its plugin rabbitmq_stream is enabled"
    ):
        pares.ledger.open("rabbitmq-stream://127.0.0.1:1/s?timeout=1")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    plug, _ = listener.accept()
                except OSError:
                    return
                with plug:
                    plug.recv(100)
                    plug.sendall(b"AMQP\x00\x00\x09\x01")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(LedgerUnavailable, match="speaks AMQP there: name the port of the plugin"):
            pares.ledger.open(f"rabbitmq-stream://127.0.0.1:{listener.getsockname()[1]}/s?timeout=1")
        listener.shutdown(socket.SHUT_RDWR)


def test_wrong_passwords_and_no_vhost(stage: RabbitStage, tmp_path: Path) -> None:
    stage.management.user("ann", SECRET)
    stage.management.permit("ann")
    url = stage.url.replace("://", "://ann@")
    right = pares.ledger.open(url, options={"password": SECRET})
    assert right.append(b"x") == 0
    assert not leaks(right.url)
    right.close()
    for password in (SECRET[::-1], ""):
        with pytest.raises(ConfigError, match="refuses this user and password: check USER@ in the URL") as caught:
            pares.ledger.open(url, options={"password": password})
        assert not leaks(str(caught.value))
        assert SECRET[::-1] not in str(caught.value)
    settings = tmp_path / "client.properties"
    settings.write_text(f"password={SECRET}\n")
    by_file = pares.ledger.open(f"{url}&config={settings}")
    assert payloads(by_file) == [b"x"]
    by_file.close()
    with pytest.raises(ConfigError, match=r"may not use this vhost, or there is none: check \?vhost="):
        pares.ledger.open(f"{stage.url}&vhost=nowhere")


def test_missing_rights_are_named(stage: RabbitStage) -> None:
    stage.management.user("bob", SECRET)
    url, login = stage.url.replace("://", "://bob@"), {"password": SECRET}
    stage.management.permit("bob", configure="^$")
    with pytest.raises(LedgerUnavailable, match="may not make it: give it the right to configure, write and read"):
        pares.ledger.open(url, options=login)
    stage.open().append(b"x")
    stage.management.permit("bob", configure="^$", write="^$")
    reader = pares.ledger.open(url, options=login, readonly=True)
    assert payloads(reader) == [b"x"]
    reader.close()
    writer = pares.ledger.open(url, options=login)
    with pytest.raises(LedgerUnavailable, match=r"lacks a right; docs/security\.md") as caught:
        writer.append(b"y")
    assert not caught.value.unknown
    writer.close()
    stage.management.permit("bob", configure="^$", read="^$")
    with pytest.raises(LedgerUnavailable, match="lacks a right"):
        pares.ledger.open(url, options=login)


def test_queues_and_streams_of_somebody_else_are_left_as_they_are(stage: RabbitStage) -> None:
    stage.management.make_queue(stage.stream)
    with pytest.raises(ConfigError, match="of no pares ledger; it was left as it is: name another stream"):
        stage.open()
    assert stage.management.queues(stage.stream) == [stage.stream]
    stage.delete()
    stage.open().append(b"x")
    stage.management.make_queue(f"{stage.stream}=1")
    with pytest.raises(ConfigError, match="of no pares ledger"):
        stage.open(partitions=2)


def test_a_server_that_is_too_old(stage: RabbitStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "OLDEST", (99, 1))
    with pytest.raises(CapabilityError, match=r"a ledger needs 99\.1 or newer; upgrade the server"):
        stage.open()


def test_without_the_client_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rstream.encoding", None)
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[rabbitmq\]'"):
        pares.ledger.open("rabbitmq-stream://127.0.0.1:1/s")


def test_a_payload_that_fits_into_no_frame_and_many_that_fit_into_several(
    stage: RabbitStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = wire.Wire.begin

    async def smaller(self: wire.Wire) -> None:
        await begin(self)
        self.largest = 10_000

    monkeypatch.setattr(wire.Wire, "begin", smaller)
    ledger = stage.open()
    with pytest.raises(ConfigError, match=r"stream\.frame_max=10000: raise it"):
        ledger.append(b"x" * 10_000)
    many = [b"%d" % number * 100 for number in range(100)]
    assert ledger.append_many(many) == list(range(100))
    assert payloads(ledger) == many


def test_odd_payloads_and_names(stage: RabbitStage) -> None:
    ledger = stage.open()
    odd = [b"\\", bytes(range(256)), b"", b"\x00\x53\x75\xb0"]
    assert ledger.append_many(odd) == [0, 1, 2, 3]
    assert payloads(ledger) == odd
    for name in ("a:1", "a", "a=1", "starts", "*", "ä"):
        assert ledger.topic(name).append(name.encode(), 1) == 0
        assert [payloads(ledger.topic(name), 0, at) for at in range(4)] == [[], [name.encode()], [], []]


def test_many_that_open_it_first_make_it_once(stage: RabbitStage) -> None:
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: pares.ledger.open(stage.url), range(8)))
    assert len({ledger.identity() for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.append(b"x")
        ledger.close()
    assert stage.open().end() == 8


def test_readonly_makes_nothing(stage: RabbitStage) -> None:
    with pytest.raises(ConfigError, match="readonly makes nothing: start a member first"):
        stage.open(readonly=True)
    assert not stage.there()
    stage.open().append(b"x")
    onlooker = stage.open(readonly=True)
    assert payloads(onlooker) == [b"x"]
    for act in (lambda: onlooker.append(b"y"), lambda: onlooker.trim(1)):
        with pytest.raises(CapabilityError, match="opened read-only"):
            act()


def test_it_closes_while_the_server_is_frozen() -> None:
    with RabbitMQ() as server:
        ledger = pares.ledger.open(f"{server.url}?timeout=20")
        bell = ledger.bell()
        assert bell is not None
        server.freeze(1)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ledger.end)
            until(lambda: asked.running())
            ledger.close()
            assert asked.exception(HANG / 4) is not None
        bell.close()
        server.thaw(1)
