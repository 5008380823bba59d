"""A Redis master that fails over to a replica, with and without loss; what is promised then, and what is said of it before."""

from __future__ import annotations

import logging
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from log_tools import HANG, payloads, read_all, until
from redis_harm import ask, caught_up

import pares
import pares.ledger
from pares.core.errors import ConfigError, LedgerRewound, LedgerUnavailable
from pares.dev import Redis, ports
from pares.dev.process import start
from pares.dev.redis import program, serves
from pares.fence import SqlFence, Stale
from pares.ledger import Checked, Ledger
from pares.ledger.redis.scripts import JUMP


@pytest.fixture
def pair() -> Iterator[Redis]:
    """A master and its replica."""
    with Redis(replicas=1) as pair:
        yield pair


def ledger_on(pair: Redis, **options: object) -> Ledger:
    return pares.ledger.open(f"{pair.url}?timeout=5", **options)


def fail_over(pair: Redis, *, lost: bool, ledger: Ledger) -> None:
    """The replica becomes the master; without what is appended after it was frozen, if `lost`."""
    until(lambda: caught_up(pair))
    if lost:
        pair.freeze(2)
        ledger.append_many([b"lost"] * 5)
    assert len(read_all(ledger)) == (10 if lost else 5)
    pair.kill(1)
    if lost:
        pair.kill(2)  # what lies in its socket it must not read
        pair.restart(2, wait=False)
        until(lambda: serves("127.0.0.1", pair.nodes[1].port))
    pair.promote(2)


@pytest.mark.parametrize("lost", [True, False])
def test_a_failover_is_another_log_only_if_something_was_lost(pair: Redis, lost: bool) -> None:
    ledger = ledger_on(pair)
    ledger.append_many([b"kept"] * 5)
    fail_over(pair, lost=lost, ledger=ledger)
    other = ledger_on(pair)
    new = other.append_many([b"new"] * 9)
    assert new[0] >= 5 + JUMP, "no offset is given out twice"
    if lost:
        with pytest.raises(LedgerUnavailable, match="lacks entries that were seen here"):
            ledger.read(10)
    else:
        assert [entry.payload for entry in ledger.read(5)] == [b"new"] * 9
    assert payloads(ledger) == [b"kept"] * 5 + [b"new"] * 9
    for each in (ledger, other):
        each.close()


def test_a_writer_whose_entry_was_lost_adds_nothing_to_the_log_that_lacks_it(pair: Redis) -> None:
    """Not before it has noticed: each of its beliefs rests on what is gone."""
    ledger = ledger_on(pair)
    ledger.append_many([b"kept"] * 5)
    before = ledger.identity()
    fail_over(pair, lost=True, ledger=ledger)
    other = ledger_on(pair)
    for number in range(20):
        other.append(b"new %d" % number)
    with pytest.raises(LedgerUnavailable, match="lacks entries that were seen here") as caught:
        ledger.append(b"in vain")
    assert not caught.value.unknown
    assert ledger.identity() != before
    assert b"in vain" not in payloads(ledger)
    ledger.append(b"anew")
    assert payloads(other)[-1] == b"anew"
    for each in (ledger, other):
        each.close()


def test_a_shorter_log_is_noticed_without_an_append(pair: Redis) -> None:
    ledger = ledger_on(pair)
    ledger.append_many([b"kept"] * 5)
    before = ledger.identity()
    fail_over(pair, lost=True, ledger=ledger)
    assert ledger.identity() != before
    with pytest.raises(LedgerRewound):
        ledger.read(10)
    ledger.close()


def test_tokens_rise_across_a_failover_that_lost_the_leaders_claim(pair: Redis) -> None:
    """What is not promised then is that only one believes. The fence knows which of them is the older."""
    fence = SqlFence()
    with (
        closing(sqlite3.connect(":memory:")) as sink,
        closing(ledger_on(pair)) as ledger,
        pares.Member(pair.url, group="g", roles=["r"], eligible=[], name="other") as other,
    ):
        sink.executescript(fence.ddl)
        until(lambda: other.state == "live")
        until(lambda: caught_up(pair))
        pair.freeze(2)
        ledger.append_many([b"so that the claim stands far above where the replica's log ends"] * 50)
        with pares.Member(pair.url, group="g", roles=["r"], session=2.0, name="a") as member:
            assert member.wait("r", HANG)
            had = member.term("r")
            assert had is not None
            fence.check(sink, had)
            sink.commit()
            pair.kill(1)
            pair.kill(2)
            pair.restart(2, wait=False)
            until(lambda: serves("127.0.0.1", pair.nodes[1].port))
            pair.promote(2)
            until(lambda: not had)
            until(lambda: member.holds("r"))
            again = member.term("r")
            assert again is not None
            assert again.token > had.token
            fence.check(sink, again)
            sink.commit()
            with pytest.raises(Stale):
                fence.check(sink, had)


def test_an_append_that_no_replica_had_in_time_is_unknown(pair: Redis) -> None:
    ledger = pares.ledger.open(f"{pair.url}?timeout=1&replicas=1")
    assert ledger.append(b"0") == 0
    pair.freeze(2)
    with pytest.raises(LedgerUnavailable, match="0 of 1 replicas had it in time") as caught:
        ledger.append(b"1")
    assert caught.value.unknown
    pair.thaw(2)
    until(lambda: caught_up(pair))
    assert ledger.append(b"2") == 2
    assert payloads(ledger) == [b"0", b"1", b"2"]
    ledger.close()


def test_a_replica_is_refused_and_found_behind_its_master(pair: Redis) -> None:
    replica = f"redis://127.0.0.1:{pair.nodes[1].port}/0"
    with pytest.raises(LedgerUnavailable, match=r"is a replica, and takes no writes: name the master, or all servers"):
        pares.ledger.open(replica)
    turned = pares.ledger.open(f"redis://127.0.0.1:{pair.nodes[1].port},127.0.0.1:{pair.nodes[0].port}/0")
    assert turned.append(b"x") == 0
    turned.close()


def test_a_master_that_becomes_a_replica_under_an_open_connection(pair: Redis) -> None:
    ledger = ledger_on(pair)
    ledger.append(b"0")
    until(lambda: caught_up(pair))
    pair.promote(2)
    ask(pair, "REPLICAOF", "127.0.0.1", str(pair.nodes[1].port), node=1)
    with pytest.raises(LedgerUnavailable, match="is a replica by now") as caught:
        ledger.append(b"1")
    assert not caught.value.unknown
    assert ledger.append(b"1") >= JUMP
    assert ledger.read(0)[0].payload == b"0"
    ledger.close()


# What is said beforehand ------------------------------------------------------------------------------------------------


def doctor(ledger: Ledger) -> str:
    assert isinstance(ledger, Checked)
    return "\n".join(f"{level}: {text}" for level, text in ledger.checks())


def test_what_may_be_lost_is_said_at_open_and_by_doctor(pair: Redis, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pares.redis"):
        ledger = ledger_on(pair)
    assert "no append waits for a replica: a failover may lose acknowledged records" in caplog.text
    assert "two members may then believe in one role for up to a session" in caplog.text
    said = doctor(ledger)
    assert "warning: no append waits for a replica" in said
    ledger.close()
    caplog.clear()
    waits = ledger_on(pair, replicas=1)
    assert "no append waits" not in caplog.text
    assert "note: an append waits for 1 of 1 replicas" in doctor(waits)
    waits.close()


def test_settings_that_lose_the_log_are_said(caplog: pytest.LogCaptureFixture) -> None:
    with Redis({"appendonly": "no", "maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}) as server:
        with caplog.at_level(logging.WARNING, "pares.redis"):
            ledger = pares.ledger.open(server.url)
        for text in (caplog.text, doctor(ledger)):
            assert "appendonly is off: a restart of the server loses" in text
            assert "maxmemory_policy=allkeys-lru: under pressure the server deletes the log" in text
        assert doctor(ledger).count("problem") == 2
        ledger.close()
    caplog.clear()
    with Redis({"appendfsync": "everysec"}) as server:
        with caplog.at_level(logging.WARNING, "pares.redis"):
            ledger = pares.ledger.open(server.url)
        for text in (caplog.text, doctor(ledger)):
            assert "appendfsync=everysec: a crash of the server, or a loss of power, loses up to two seconds" in text
        ledger.close()
    with Redis() as server:
        caplog.clear()
        ledger = pares.ledger.open(server.url)
        assert caplog.text == ""
        assert "good: what is acknowledged is on the server's disk" in doctor(ledger)
        ask(server, "ACL", "SETUSER", "default", "-config")
        assert "note: this user may not ask for appendfsync" in doctor(ledger)
        ledger.close()


# Sentinel ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sentinel(pair: Redis, tmp_path: Path) -> Iterator[int]:
    """A Sentinel that watches the pair; its port."""
    (port,) = ports.free(["127.0.0.1"])
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor mine 127.0.0.1 {pair.port} 1\n"
        "sentinel down-after-milliseconds mine 500\nsentinel failover-timeout mine 5000\n"
    )
    process = start([str(program()), str(config), "--sentinel"], log=tmp_path / "log", folder=tmp_path, survive=False)
    try:
        until(lambda: serves("127.0.0.1", port))
        yield port
    finally:
        process.identity.signal(9)
        process.wait(HANG)


def test_a_failover_by_sentinel_is_followed(pair: Redis, sentinel: int) -> None:
    ledger = pares.ledger.open(f"redis://127.0.0.1:{sentinel}/0?sentinel=mine&timeout=5")
    ledger.append(b"0")
    until(lambda: caught_up(pair))
    until(lambda: b"num-slaves\r\n$1\r\n1" in _said(sentinel))
    identity = ledger.identity()
    pair.kill(1)
    until(lambda: append_if_it_goes(ledger))
    assert ledger.identity() == identity, "nothing was lost"
    assert payloads(ledger)[0] == b"0"
    assert ask(pair, "ROLE", node=2)[0] == b"master"
    ledger.close()


def append_if_it_goes(ledger: Ledger) -> bool:
    try:
        ledger.append(b"1")
    except LedgerUnavailable:
        time.sleep(0.05)
        return False
    return True


def _said(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as wire:
        wire.sendall(b"SENTINEL MASTER mine\r\n")
        return wire.recv(65536)


def test_sentinels_are_told_from_servers(pair: Redis, sentinel: int) -> None:
    with pytest.raises(ConfigError, match=r"is a Sentinel, which keeps no data: add \?sentinel=NAME"):
        pares.ledger.open(f"redis://127.0.0.1:{sentinel}/0")
    with pytest.raises(LedgerUnavailable, match="is no Sentinel"):
        pares.ledger.open(f"{pair.url}?sentinel=mine")
    with pytest.raises(LedgerUnavailable, match="knows of no master other"):
        pares.ledger.open(f"redis://127.0.0.1:{sentinel}/0?sentinel=other")
