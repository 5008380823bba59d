"""What can be wrong with a Redis ledger's URL, its server or its keys; messages name the remedy and no secret."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from log_tools import HANG, payloads, until
from redis_harm import ask
from redis_stages import RedisStage

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Redis
from pares.ledger.redis import link, settings, wire
from planted_secret import SECRET, leaks


@pytest.fixture
def stage(redis_server: Redis, tmp_path: Path) -> Iterator[RedisStage]:
    stage = RedisStage(tmp_path, redis_server)
    yield stage
    stage.close()


def test_nobody_listens_and_no_such_database(stage: RedisStage) -> None:
    with pytest.raises(LedgerUnavailable, match="refused"):
        pares.ledger.open("redis://127.0.0.1:1/0")
    with pytest.raises(LedgerUnavailable, match="no database 77: name another one in the URL"):
        pares.ledger.open(stage.server.url.replace("/0", "/77"))


def test_a_wrong_password_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDISCLI_AUTH", raising=False)
    with Redis({"requirepass": SECRET}) as server:
        right = pares.ledger.open(server.url, options={"password": SECRET})
        assert right.append(b"x") == 0
        assert not leaks(right.url)
        right.close()
        with pytest.raises(LedgerUnavailable, match="wants a password: put it into REDISCLI_AUTH") as none:
            pares.ledger.open(server.url)
        with pytest.raises(LedgerUnavailable, match="look whether it and the user are right") as wrong:
            pares.ledger.open(server.url, options={"password": SECRET[::-1]})
        for caught in (none, wrong):
            assert not leaks(str(caught.value))
            assert SECRET[::-1] not in str(caught.value)
        settings = tmp_path / "client.properties"
        settings.write_text(f"password={SECRET}\n")
        by_file = pares.ledger.open(f"{server.url}?config={settings}")
        assert payloads(by_file) == [b"x"]
        by_file.close()
        monkeypatch.setenv("REDISCLI_AUTH", SECRET)
        by_environment = pares.ledger.open(server.url)
        assert payloads(by_environment) == [b"x"]
        by_environment.close()


def test_keys_of_somebody_else_are_left_as_they_are(stage: RedisStage) -> None:
    one, key = stage.server, stage.stream
    made = (
        ("SET", key, "mine"),
        ("XADD", key, "*", "my", "own"),
        ("SET", f"{key}:log", "mine"),
        ("HSET", f"{key}:log", "my", "own"),
        ("XADD", f"{key}:1", "*", "my", "own"),
    )
    for words in made:
        ask(one, *words)
        before = ask(one, "DUMP", words[1])
        with pytest.raises(ConfigError, match=rf"the key {words[1]} is there, and of no pares ledger.*\?stream="):
            stage.open(partitions=2)
        assert ask(one, "DUMP", words[1]) == before
        assert ask(one, "DEL", words[1]) == 1
        assert not stage.there()
    stage.open().append(b"x")
    ask(one, "SET", f"{key}:1", "mine")
    with pytest.raises(ConfigError, match=f"the key {key}:1 is there"):
        stage.open(partitions=2)
    assert stage.open().partitions == 1


def test_a_newer_layout_and_a_server_that_is_too_old(stage: RedisStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.open().append(b"x")
    ask(stage.server, "HSET", f"{stage.stream}:log", "layout", "2")
    with pytest.raises(CapabilityError, match=r"made by a newer pares.*upgrade pares"):
        stage.open()
    monkeypatch.setattr(link, "OLDEST", (99, 1))
    with pytest.raises(CapabilityError, match=r"a ledger needs 99\.1 or newer; upgrade the server"):
        stage.open()


def test_a_node_of_a_cluster_is_refused() -> None:
    with (
        Redis({"cluster-enabled": "yes"}) as server,
        pytest.raises(CapabilityError, match=r"is a node of a Redis Cluster.*\?sentinel=NAME"),
    ):
        pares.ledger.open(server.url)


def test_without_the_client_its_extra_is_named(stage: RedisStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.connection", None)
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[redis\]'"):
        wire.connect(settings.take(*_parts(stage.server.url)), "127.0.0.1:1", 1.0)


def _parts(url: str) -> tuple[pares.ledger.Address, pares.ledger.Options]:
    from pares.ledger.registry import parse

    address = parse(url)
    return address, pares.ledger.Options(url, address.query)


def test_odd_payloads_and_names(stage: RedisStage) -> None:
    ledger = stage.open()
    odd = [b"\\", b"'", b"%s", bytes(range(256)), b"", b"\r\n"]
    assert ledger.append_many(odd) == [0, 1, 2, 3, 4, 5]
    assert payloads(ledger) == odd
    for name in ("back\\slash'quote\"%$1", "a:1", "a", "log", "a:log", "*"):
        assert ledger.topic(name).append(name.encode(), 1) == 0
        assert [payloads(ledger.topic(name), 0, at) for at in range(4)] == [[], [name.encode()], [], []]


def test_many_that_open_it_first_make_it_once(stage: RedisStage) -> None:
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: pares.ledger.open(stage.url), range(8)))
    assert len({ledger.identity() for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.append(b"x")
        ledger.close()
    assert stage.open().end() == 8


def test_readonly_makes_nothing(stage: RedisStage) -> None:
    with pytest.raises(ConfigError, match="readonly makes nothing: start a member first"):
        stage.open(readonly=True)
    assert not stage.there()
    stage.open().append(b"x")
    onlooker = stage.open(readonly=True)
    assert payloads(onlooker) == [b"x"]
    for act in (lambda: onlooker.append(b"y"), lambda: onlooker.trim(1)):
        with pytest.raises(CapabilityError, match="opened read-only"):
            act()


def test_it_closes_while_the_server_is_frozen(tmp_path: Path) -> None:
    with Redis() as server:
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
