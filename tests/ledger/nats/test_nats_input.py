"""What a NATS ledger says of what can't work: addresses, credentials, rights, streams, sizes, URLs."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from log_tools import payloads
from nats_stages import OPEN, Server

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Nats, ports
from pares.ledger import MAX_PAYLOAD
from pares.ledger.nats.log import NatsLedger
from planted_secret import SECRET, leaks


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nats:///stream", "names no server"),
        ("nats://host:4222/a/b", "'a/b' is no name of a stream"),
        ("nats://host:4222/a.b", "'a.b' is no name of a stream"),
        ("nats://host:4222/" + "x" * 201, "no name of a stream"),
        ("nats://host:0/t", "'host:0' is no HOST:PORT"),
        ("nats://host:70000/t", "is no HOST:PORT"),
        ("nats://host:1,,other:2/t", "'' is no HOST:PORT"),
        ("nats://host:1/t?colour=red", "unknown option colour"),
        ("nats://host:1/t?partitions=0", "partitions=0"),
        ("nats://host:1/t?replication=none", "replication=none"),
        ("nats://host:1/t?timeout=-1", "timeout=-1"),
        ("nats://host:1/t?prefix=a.b", "prefix=a.b"),
        ("nats://host:1/t?monitor=a:b", "'a:b' is no HOST:PORT of a monitoring port"),
        ("nats://host:1/t?config=/not/there", "config=/not/there can't be read: No such file"),
    ],
)
def test_urls_that_cannot_be(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open(url)
    assert says in str(caught.value)


def test_a_password_has_no_place_in_a_url() -> None:
    with pytest.raises(ConfigError, match="options=") as caught:
        pares.ledger.open(f"nats://me:{quote(SECRET, safe='')}@host:4222/t")
    assert SECRET not in str(caught.value)


def test_client_settings_that_cannot_be(tmp_path: Path) -> None:
    for options, says in [
        ({"allow_reconnect": "1"}, "unknown client setting allow_reconnect: a nats:// ledger knows user"),
        ({"creds": str(tmp_path / "none")}, "creds=.*(is no file|pip install nkeys)|needs nkeys"),
        ({"tls_ca": str(tmp_path / "none")}, "tls_ca=.*is no file"),
        ("user=me", "must be a dictionary"),
    ]:
        with pytest.raises((ConfigError, CapabilityError), match=says):
            pares.ledger.open("nats://127.0.0.1:1/t", options=options, timeout=0.2)
    (tmp_path / "ca.pem").write_text("nothing of the kind")
    with pytest.raises(ConfigError, match="name PEM files"):
        pares.ledger.open("nats://127.0.0.1:1/t", options={"tls_ca": str(tmp_path / "ca.pem")}, timeout=0.2)
    (tmp_path / "client.properties").write_text(f"user=me\n{SECRET}\n")
    with pytest.raises(ConfigError, match="line 2 is no setting") as caught:
        pares.ledger.open(f"nats://127.0.0.1:1/t?config={tmp_path}/client.properties")
    assert not leaks(str(caught.value))
    assert SECRET.partition("=")[0] not in str(caught.value)


def test_nobody_is_there() -> None:
    first, second = ports.free(["127.0.0.1"] * 2)
    began = time.monotonic()
    with pytest.raises(LedgerUnavailable) as caught:
        pares.ledger.open(f"nats://127.0.0.1:{first},127.0.0.1:{second}/t", timeout=0.3)
    assert time.monotonic() - began < 30
    for port in (first, second):
        assert f"127.0.0.1:{port}: " in str(caught.value)
    assert "refused" in str(caught.value).lower()
    assert caught.value.unknown is False


def test_a_host_without_an_address() -> None:
    with pytest.raises(LedgerUnavailable, match=r"nobody\.invalid:4222"):
        pares.ledger.open("nats://nobody.invalid/t", timeout=0.5)


def test_one_that_accepts_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        with pytest.raises(
            LedgerUnavailable, match=rf"127\.0\.0\.1:{port}: .*(no answer|imeout|nothing)|nothing was heard"
        ):
            pares.ledger.open(f"nats://127.0.0.1:{port}/t", timeout=1.5)


def test_one_that_is_no_nats() -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:
        import threading

        def answer() -> None:
            try:
                while True:
                    connection, _ = odd.accept()
                    with connection:
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = odd.getsockname()[1]
        with pytest.raises(LedgerUnavailable, match="INFO"):
            pares.ledger.open(f"nats://127.0.0.1:{port}/t", timeout=0.5)
        odd.shutdown(socket.SHUT_RDWR)  # closing alone would leave the thread in its accept()
        thread.join()


def test_credentials(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    with Nats(users={"ann": SECRET}) as nats:
        texts: list[str] = []
        for options in (nats.client("ann", "x-" + SECRET), {}, {"token": "t-" + SECRET}):
            with pytest.raises(ConfigError, match="refuse these credentials") as wrong:
                pares.ledger.open(nats.url, options=options)
            texts.append(str(wrong.value))
        ledger = pares.ledger.open(nats.url, options=nats.client("ann"))
        texts += [repr(ledger), ledger.url, ledger.identity()]
        assert ledger.append(b"x") == 0
        ledger.close()
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in nats.client("ann").items()))
        ledger = pares.ledger.open(nats.url, config=str(path))
        again = pares.ledger.open(ledger.url)
        assert again.identity() == ledger.identity()
        assert "config=" in ledger.url
        ledger.close()
        again.close()
    output = capfd.readouterr()
    for text in [*texts, caplog.text, output.out, output.err]:
        assert SECRET not in text


def test_tls_was_asked_of_a_server_without(server: Server, tmp_path: Path) -> None:
    import ssl

    paths = ssl.get_default_verify_paths()
    ca = paths.cafile or paths.openssl_cafile
    with pytest.raises(LedgerUnavailable, match="it speaks no TLS"):
        pares.ledger.open(server.nats.stream_url("t"), options={"tls_ca": ca}, timeout=0.5)


def test_rights_that_are_missing(server: Server) -> None:
    stream = server.name()
    with (
        server.denied("$JS.API.STREAM.CREATE.>"),
        pytest.raises(LedgerUnavailable, match=r"no right.*(?i:stream\.create)"),
    ):
        pares.ledger.open(server.nats.stream_url(stream))
    ledger = pares.ledger.open(server.nats.stream_url(stream))
    with server.denied(f"pares.log.{stream}.>"):
        with pytest.raises(LedgerUnavailable, match="no right") as denied:
            ledger.append(b"x")
        assert denied.value.unknown is False
        with pytest.raises(LedgerUnavailable, match="no right"):
            ledger.append_many([b"x", b"y"])
        assert ledger.read(0) == []
    assert ledger.append(b"x") == 0
    ledger.close()
    server.delete(stream)


def test_no_jetstream() -> None:
    with Nats(jetstream=False) as nats:
        with pytest.raises(CapabilityError, match=r"no JetStream at 127.*nats-server with -js"):
            pares.ledger.open(f"nats://{nats.bootstrap}/t")
        accounts = {"plain": {"users": [{"user": "ann", "password": "x"}]}}
        settings = {"accounts": accounts, "no_auth_user": "ann"}
    with Nats(settings=settings) as nats, pytest.raises(CapabilityError, match="JetStream"):
        pares.ledger.open(nats.url)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"retention": "workqueue"}, "forgets what was consumed"),
        ({"retention": "interest"}, "forgets what was consumed"),
        ({"max_msgs_per_subject": 1}, "forgets in the middle"),
        ({"max_msg_size": 1000}, "at most 1000 bytes"),
        ({"no_ack": True}, "acknowledges nothing"),
        ({"sealed": True}, "sealed"),
    ],
)
def test_streams_that_can_t_carry_a_log(server: Server, config: dict[str, object], says: str) -> None:
    stream = server.name()
    server.make(stream)
    if "sealed" in config:
        server.update(stream, **config)
    else:
        server.delete(stream)
        server.make(stream, **config)
    with pytest.raises(ConfigError, match=rf"the stream {stream} can't carry a log: .*{says}"):
        pares.ledger.open(server.nats.stream_url(stream))
    server.delete(stream)


def test_a_mirror_can_t_carry_a_log(server: Server) -> None:
    source, mirror = server.name(), server.name()
    server.make(source)
    server.make(mirror, subjects=None, mirror={"name": source})
    with pytest.raises(ConfigError, match="it is a mirror"):
        pares.ledger.open(server.nats.stream_url(mirror))
    server.delete(mirror)
    server.delete(source)


def test_a_stream_of_somebody_else_s_with_foreign_messages(server: Server) -> None:
    stream = server.name()
    server.make(stream, subjects=[f"{stream}.>"])
    for payload in (b"\0\xff", b"", b"{}"):
        server.request(f"{stream}.orders.new", payload, Some_Header="v")
    ledger, late = pares.ledger.open(server.nats.stream_url(stream)), pares.ledger.open(server.nats.stream_url(stream))
    bell = ledger.bell()
    assert ledger.append(b"ours") == 3
    # No atomic batches there: one by one.
    assert ledger.append_many([b"a", b"b", b"c"]) == [4, 5, 6]
    server.request(f"{stream}.orders.new", b"theirs")
    expected = [b"\0\xff", b"", b"{}", b"ours", b"a", b"b", b"c", b"theirs"]
    assert payloads(late) == expected
    assert payloads(ledger, 3, timeout=30) == expected[3:]
    assert isinstance(ledger, NatsLedger)
    levels = {text.partition(":")[0].partition(" (")[0]: level for level, text in ledger.checks()}
    assert levels["the stream has no atomic batches"] == "note"
    assert bell is not None
    bell.close()
    ledger.close()
    late.close()
    server.delete(stream)


def test_a_stream_with_no_place_for_a_subject_of_one_s_own(server: Server) -> None:
    stream = server.name()
    server.make(stream, subjects=[f"{stream}.events"], allow_atomic=True)
    one, two = (pares.ledger.open(server.nats.stream_url(stream)) for _ in range(2))
    assert [one.append(b"a"), two.append(b"b"), one.append(b"c")] == [0, 1, 2]
    assert two.append_many([b"d", b"e"]) == [3, 4]
    assert isinstance(one, NatsLedger)
    assert any(level == "warning" and "leave no place" in text for level, text in one.checks())
    one.close()
    two.close()
    server.delete(stream)


def test_subjects_that_are_taken(server: Server) -> None:
    stream, other = server.name(), server.name()
    server.make(other, subjects=[f"pares.log.{stream}.>"])
    with pytest.raises(ConfigError, match="another stream has taken these subjects"):
        pares.ledger.open(server.nats.stream_url(stream))
    server.delete(other)


def test_a_stock_server_takes_the_largest_payload() -> None:
    """Its max_payload leaves no room for headers: the largest go alone, and without a fence."""
    with Nats(settings={"max_payload": MAX_PAYLOAD}) as nats:
        ledger = pares.ledger.open(nats.url, timeout=10)
        large, nearly = b"x" * MAX_PAYLOAD, b"y" * (MAX_PAYLOAD - 300)
        assert ledger.append(large) == 0
        assert ledger.append_many([b"a", b"b", large, b"c", nearly]) == [1, 2, 3, 4, 5]
        assert ledger.append(b"d") == 6
        found = [entry for at in (0, 3, 6) for entry in ledger.read(at, max_records=3)]
        assert [len(entry.payload) for entry in found] == [len(large), 1, 1, len(large), 1, len(nearly), 1]
        assert isinstance(ledger, NatsLedger)
        assert any(level == "note" and f"max_payload={MAX_PAYLOAD}" in text for level, text in ledger.checks())
        ledger.close()


def test_a_server_for_small_messages_only() -> None:
    with Nats(settings={"max_payload": 200_000}) as nats:
        ledger = pares.ledger.open(nats.url)
        assert ledger.append(b"x" * 199_000) == 0
        with pytest.raises(ConfigError, match="does not fit"):
            ledger.append(b"x" * 300_000)
        assert ledger.append(b"y") == 1
        assert isinstance(ledger, NatsLedger)
        assert any(level == "warning" and "max_payload=200000" in text for level, text in ledger.checks())
        ledger.close()
        nats.reload({"max_payload": 4096})
        with pytest.raises(ConfigError, match=r"at most 4096 bytes \(max_payload\)"):
            pares.ledger.open(nats.url)


def test_a_payload_that_the_stream_does_not_take(server: Server) -> None:
    stream = server.name()
    ledger = pares.ledger.open(server.nats.stream_url(stream))
    server.update(stream, max_msg_size=150_000)
    with pytest.raises(ConfigError, match="max_msg_size"):
        ledger.append(b"x" * 160_000)
    assert ledger.append(b"x" * 140_000) == 0
    ledger.close()
    server.delete(stream)


def test_looking_on_only(server: Server) -> None:
    stream = server.name()
    with pytest.raises(ConfigError, match=rf"no stream {stream}, and readonly makes nothing"):
        pares.ledger.open(server.nats.stream_url(stream), readonly=True)
    assert not server.streams(stream)
    ledger = pares.ledger.open(server.nats.stream_url(stream, prefix=f"{stream}-"))
    ledger.append(b"x")
    with server.denied(f"pares.log.{stream}.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.PURGE.>"):
        looker = pares.ledger.open(server.nats.stream_url(stream, prefix=f"{stream}-", readonly=1))
        assert isinstance(looker, NatsLedger)
        assert looker.capabilities.readonly
        assert [entry.payload for entry in looker.read(0)] == [b"x"]
        for use in (lambda: looker.append(b"y"), lambda: looker.append_many([b"y"]), lambda: looker.trim(1)):
            with pytest.raises(CapabilityError, match="opened read-only"):
                use()
        with pytest.raises(ConfigError, match="readonly makes nothing"):
            looker.topic("orders")
        looker.close()
    ledger.close()
    server.delete(stream)


def test_more_replicas_than_servers(server: Server) -> None:
    with pytest.raises(ConfigError, match=r"with 3 replicas.*replication="):
        pares.ledger.open(server.nats.stream_url(server.name(), replication=3))


def test_unsafe_settings_are_told(server: Server) -> None:
    stream = server.name()
    ledger = pares.ledger.open(server.nats.stream_url(stream, monitor=server.nats.monitors))
    assert isinstance(ledger, NatsLedger)
    assert ledger.checks() == [
        ("warning", f"the stream {stream} has one replica: a server that is lost takes it with it"),
        ("good", "the server node-1 syncs each write to disk"),
    ]
    server.update(stream, max_age=1_000_000_000, max_msgs=1000, max_bytes=10**9, allow_rollup_hdrs=True)
    found = {text.partition("=")[0].partition(":")[0]: level for level, text in ledger.checks()}
    assert {name: found[name] for name in ("max_age", "max_msgs", "max_bytes", "allow_rollup_hdrs")} == {
        "max_age": "problem",
        "max_msgs": "problem",
        "max_bytes": "problem",
        "allow_rollup_hdrs": "note",
    }
    server.delete(stream)
    assert ledger.checks()[0] == ("problem", f"the stream {stream} is gone")
    ledger.close()
    server.make(stream, subjects=[f"{stream}.*"], storage="memory")
    ledger = pares.ledger.open(server.nats.stream_url(stream))
    assert isinstance(ledger, NatsLedger)
    assert any(level == "problem" and "in memory only" in text for level, text in ledger.checks())
    ledger.close()
    server.delete(stream)


def test_servers_that_do_not_sync_are_told() -> None:
    with Nats(settings={"jetstream": {"sync_interval": "10s"}}) as nats:
        (nobody,) = ports.free(["127.0.0.1"])
        ledger = pares.ledger.open(nats.stream_url("t", monitor=f"{nats.monitors},127.0.0.1:{nobody}"))
        assert isinstance(ledger, NatsLedger)
        found = [(level, text) for level, text in ledger.checks() if "sync" in text or "monitor=" in text]
        assert [level for level, _ in found] == ["problem", "warning"]
        assert "node-1 syncs writes to disk every 10 s only" in found[0][1]
        assert f"127.0.0.1:{nobody}" in found[1][1]
        ledger.close()
        blind = pares.ledger.open(nats.stream_url("t"))
        assert isinstance(blind, NatsLedger)
        assert any(level == "note" and "can't be seen from here" in text for level, text in blind.checks())
        blind.close()


def test_names_of_topics(server: Server) -> None:
    stream = server.name()
    ledger = pares.ledger.open(server.nats.stream_url(stream, prefix=f"{stream}-"))
    for name in ("orders", "pares.bus", "a/b", "a_b"):
        ledger.topic(name, 1).append(name.encode())
    made = server.streams(stream)
    assert f"{stream}-orders" in made
    assert len(made) == 5
    ledger.close()
    plain = pares.ledger.open(server.nats.stream_url(stream))
    with pytest.raises(ConfigError, match="is the ledger's own log"):
        plain.topic(stream)
    plain.close()
    server.delete(stream)


def test_every_setting_that_tests_take_away_is_back(server: Server) -> None:
    assert server.nats.settings == OPEN
