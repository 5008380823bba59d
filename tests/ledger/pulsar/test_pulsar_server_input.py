"""What can be wrong with a Pulsar ledger's server or its topics; messages name the remedy and no secret."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulsar
import pytest
from log_tools import HANG, payloads, until
from pulsar_stages import PulsarStage

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Pulsar
from pares.dev.pulsar.server import NAMESPACE
from pares.ledger.pulsar import topics
from planted_secret import SECRET, leaks
from pulsar_tools import Management, guarded, path, token


@pytest.fixture
def stage(pulsar_server: Pulsar, tmp_path: Path) -> Iterator[PulsarStage]:
    stage = PulsarStage(tmp_path, pulsar_server)
    yield stage
    stage.close()


@pytest.fixture(scope="module")
def locked() -> Iterator[Pulsar]:
    """A server with authentication and authorization."""
    with guarded() as server:
        yield server


def say(server: Pulsar, topic: str) -> None:
    """Somebody else's message."""
    client = pulsar.Client(
        f"pulsar://{server.bootstrap}", logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    )
    client.create_producer(f"persistent://{NAMESPACE}/{topic}").send(b"hello")
    client.close()


def test_nobody_listens_there() -> None:
    with pytest.raises(LedgerUnavailable, match=r"nobody answers HTTP at http://127.0.0.1:1 .*\?admin= says where"):
        pares.ledger.open("pulsar://127.0.0.1:1/public/default/t?admin=http://127.0.0.1:1&timeout=1")


def test_wrong_tokens(locked: Pulsar, tmp_path: Path) -> None:
    url = locked.topic_url("tokens")
    for wrong in ({"token": SECRET}, {"token": token("admin", b"x" * 32)}, {}):
        with pytest.raises(ConfigError, match="refuses this login: look whether the token is right") as caught:
            pares.ledger.open(url, options=wrong)
        assert not leaks(str(caught.value))
    settings = tmp_path / "client.properties"
    settings.write_text(f"token={token('admin')}\n")
    right = pares.ledger.open(f"{url}&config={settings}")
    assert right.append(b"x") == 0
    assert token("admin") not in repr(vars(right)) + right.url
    right.close()


def test_missing_rights_are_named(locked: Pulsar) -> None:
    admin, url = Management(locked, token("admin")), locked.topic_url("rights")
    login = {"token": token("ann")}
    grant = f"namespaces/{NAMESPACE}/permissions/ann"
    admin.ask("POST", grant, ["consume", "produce"])
    with pytest.raises(LedgerUnavailable, match=r"none of the tenant's admins.*pulsar-admin topics create .*/rights"):
        pares.ledger.open(url, options=login)
    admin.ask("PUT", path("rights"))
    member = pares.ledger.open(url, options=login)
    assert member.append(b"x") == 0
    member.trim(1)
    assert isinstance(member, pares.ledger.Checked)
    assert "may not see the namespace's policies" in str(member.checks())
    member.close()
    admin.ask("POST", grant, ["consume"])
    until(lambda: admin.ask("GET", f"namespaces/{NAMESPACE}/permissions")["ann"] == ["consume"])
    reader = pares.ledger.open(url, options=login, readonly=True)
    assert (reader.start(), reader.end()) == (1, 1)
    reader.close()
    writer = pares.ledger.open(url, options=login)
    with pytest.raises(LedgerUnavailable, match=r"lacks a right; docs/security\.md") as caught:
        writer.append(b"y")
    assert not caught.value.unknown
    writer.close()
    admin.ask("DELETE", grant)
    until(lambda: "ann" not in admin.ask("GET", f"namespaces/{NAMESPACE}/permissions"))
    with pytest.raises((LedgerUnavailable, ConfigError), match="lacks a right"):
        pares.ledger.open(url, options=login)


def test_no_tenant_and_no_namespace(stage: PulsarStage) -> None:
    for place in ("public/nowhere", "nobody/default"):
        with pytest.raises(
            ConfigError, match=f"no tenant {place.split('/')[0]} with a namespace {place.split('/')[1]}"
        ):
            pares.ledger.open(stage.url.replace(NAMESPACE, place))


def test_topics_of_somebody_else_are_left_as_they_are(stage: PulsarStage) -> None:
    stage.management.ask("PUT", path(stage.topic))
    say(stage.server, stage.topic)
    with pytest.raises(ConfigError, match="has messages of somebody else; it was left as it is"):
        stage.open()
    assert stage.management.mark(stage.topic) is None
    stage.delete()
    stage.management.ask("PUT", f"{path(stage.topic)}/partitions", 2)
    with pytest.raises(ConfigError, match="has partitions, so it is none that pares has made"):
        stage.open()
    stage.management.ask("DELETE", f"{path(stage.topic)}/partitions?force=true")


def test_what_somebody_else_writes_into_a_log_is_passed_over(stage: PulsarStage) -> None:
    ledger = stage.open()
    ledger.append(b"a")
    say(stage.server, stage.topic)
    assert ledger.append(b"b") == 1
    say(stage.server, stage.topic)
    other = stage.open()
    assert other.end() == ledger.end() == 2
    assert payloads(ledger) == payloads(other) == [b"a", b"b"]
    assert isinstance(ledger, pares.ledger.Checked)
    assert "2 messages in the topic, of those read here, are none of the log's" in str(ledger.checks())


def test_a_server_that_is_too_old(stage: PulsarStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_LEAST", (99, 1))
    with pytest.raises(CapabilityError, match=r"a ledger needs 99\.1 or newer"):
        stage.open()


def test_without_the_client_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[pulsar\]'"):
        pares.ledger.open("pulsar://127.0.0.1:1/a/b/c")


def test_policies_that_lose_a_log_are_named(stage: PulsarStage, caplog: pytest.LogCaptureFixture) -> None:
    def found() -> str:
        ledger = stage.open()
        assert isinstance(ledger, pares.ledger.Checked)
        return str([text for level, text in ledger.checks() if level == "problem"])

    assert found() == "[]"
    ask, where = stage.management.ask, f"namespaces/{NAMESPACE}"
    quota: dict[str, Any] = {"limitSize": 1 << 40, "limitTime": -1, "policy": "consumer_backlog_eviction"}
    settings = [
        (f"{where}/messageTTL", 60, "message TTL of 60 s"),
        (f"{where}/backlogQuota", quota, "backlog quota that evicts"),
        (f"{where}/subscriptionExpirationTime", 5, "lets unused subscriptions expire"),
    ]
    for place, value, said in settings:
        ask("POST", place, value)
        try:
            until(lambda said=said: said in found())
            assert said in caplog.text
        finally:
            ask("DELETE", place)
        until(lambda: found() == "[]")


def test_odd_payloads_and_names(stage: PulsarStage) -> None:
    ledger = stage.open()
    odd = [b"\\", bytes(range(256)), b"", b'{"pares":1}\n']
    assert ledger.append_many(odd) == [0, 1, 2, 3]
    assert payloads(ledger) == odd
    for name in ("a:1", "a", "a-partition-0", "ä", "*"):
        assert ledger.topic(name, 2).append(name.encode(), 1) == 0
        assert [payloads(ledger.topic(name), 0, at) for at in range(2)] == [[], [name.encode()]]


def test_many_that_open_it_first_make_it_once(stage: PulsarStage) -> None:
    with ThreadPoolExecutor(6) as pool:
        ledgers = list(pool.map(lambda _: pares.ledger.open(stage.url), range(6)))
    assert len({ledger.identity() for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.append(b"x")
        ledger.close()
    assert stage.open().end() == 6


def test_readonly_makes_nothing(stage: PulsarStage) -> None:
    with pytest.raises(ConfigError, match="readonly makes nothing: start a member first"):
        stage.open(readonly=True)
    assert not stage.there()
    assert stage.management.topics(stage.topic) == []
    stage.open().append(b"x")
    onlooker = stage.open(readonly=True)
    assert payloads(onlooker) == [b"x"]
    for act in (lambda: onlooker.append(b"y"), lambda: onlooker.trim(1)):
        with pytest.raises(CapabilityError, match="opened read-only"):
            act()


def test_an_append_larger_than_a_message_counts_whole(stage: PulsarStage) -> None:
    """A stock broker takes 5 MiB."""
    ledger, other = stage.open(), stage.open()
    large = [bytes([number]) * (1 << 20) for number in range(12)]
    assert ledger.append_many(large) == list(range(12))
    assert payloads(other) == large


def test_it_closes_while_the_server_is_frozen(locked: Pulsar) -> None:
    ledger = pares.ledger.open(f"{locked.topic_url('closes')}&timeout=20", options={"token": token("admin")})
    bell = ledger.bell()
    assert bell is not None
    locked.freeze(1)
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ledger.end)
            until(lambda: asked.running())
            ledger.close()
            assert asked.exception(HANG) is not None
        bell.close()
    finally:
        locked.thaw(1)
