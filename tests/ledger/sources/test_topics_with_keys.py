"""Topics of ledgers: where keys belong, what can't be asked for, and which ledgers have them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest
from origins import ORIGINS, TOPIC, Kept
from source_tools import payloads

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import MAX_KEY, MAX_PAYLOAD, open_source, open_topic, partition_for
from pares.ledger.file.keys import packed, unpacked


@pytest.fixture(params=sorted(ORIGINS))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Kept]:
    origin = ORIGINS[request.param](tmp_path)
    assert isinstance(origin, Kept)
    yield origin
    origin.close()


def test_a_key_has_one_partition_for_ever() -> None:
    """Literals: a version that changed them would part a key's records."""
    assert [partition_for(key, 4) for key in (b"a", b"customer 7", b"", "ä€".encode())] == [3, 1, 0, 0]
    assert partition_for(b"a", 1000) == 0xE8B7BE43 % 1000
    assert partition_for(b"123456789", 1 << 32) == 0xCBF43926


def test_records_go_where_their_keys_belong(kept: Kept) -> None:
    kept.make(4)
    topic = kept.topic
    for number in range(40):
        topic.append(b"%d" % number, key=b"key %d" % number)
    topic.append(b"no key")
    topic.append(b"elsewhere", 2, b"key 1")
    for partition in range(4):
        expected = [b"%d" % number for number in range(40) if crc32(b"key %d" % number) % 4 == partition]
        expected += [b"no key"] if partition == 0 else [b"elsewhere"] if partition == 2 else []
        assert [record.payload for record in topic.records(0, partition)] == expected
        assert [entry.payload for entry in topic.read(0, partition)] == expected
    assert topic.records(0, 0)[-1].key is None
    assert topic.records(0, 2)[-1].key == b"key 1"
    kept.make(8)
    assert topic.partition_of(b"key 1") == crc32(b"key 1") % 8


def test_what_a_topic_does_not_take(kept: Kept) -> None:
    kept.make(2)
    topic = kept.topic
    for key in ("text", bytearray(b"x"), 5):
        with pytest.raises(ConfigError, match="a key must be bytes"):
            topic.append(b"x", key=key)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=f"over the limit of {MAX_KEY}"):
        topic.append(b"x", key=b"k" * (MAX_KEY + 1))
    with pytest.raises(ConfigError, match="needs partition="):
        topic.append_many([b"x"], keys=[b"k"])
    with pytest.raises(ConfigError, match="a key for each of 2 payloads"):
        topic.append_many([b"x", b"y"], 0, keys=[b"k"])
    with pytest.raises(ConfigError, match="no partition 2"):
        topic.append(b"x", 2)
    assert [topic.end(partition) for partition in range(2)] == [0, 0]
    assert topic.append(b"p" * MAX_PAYLOAD, 0, b"k" * MAX_KEY) == 0
    assert topic.append_many([b"x", b"y"], 0, keys=[None, b"k"]) == [1, 2]
    assert [record.key for record in topic.records(1, 0)] == [None, b"k"]


def test_keys_go_with_their_records(kept: Kept) -> None:
    kept.make()
    topic = kept.topic
    topic.append_many([b"%d" % number for number in range(10)], 0, keys=[b"k%d" % number for number in range(10)])
    topic.trim(7)
    assert [(record.offset, record.key) for record in topic.records(7)] == [(7, b"k7"), (8, b"k8"), (9, b"k9")]
    topic.trim(10)
    topic.append(b"bare")
    assert [(record.offset, record.key) for record in topic.records(10)] == [(10, None)]


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_ledger_that_was_opened_to_look_on_makes_and_grows_nothing(kind: str, tmp_path: Path) -> None:
    origin = ORIGINS[kind](tmp_path)
    origin.make(2)
    origin.append([b"x"])
    ledger = pares.ledger.open(origin.url, readonly=True)
    topic = open_topic(ledger, TOPIC)
    assert (topic.partitions, topic.records(0)[0].payload) == (2, b"x")
    with pytest.raises(CapabilityError, match="read-only"):
        topic.append(b"y")
    for name, partitions in ((TOPIC, 3), ("other", 1)):
        with pytest.raises(CapabilityError, match="read-only"):
            open_topic(ledger, name, partitions)
    ledger.close()
    origin.close()


def test_a_ledger_without_topics_says_which_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from pares.ledger import Capabilities
    from pares.ledger.memory import MemoryLedger, drop

    monkeypatch.setattr(MemoryLedger, "capabilities", Capabilities(scope="process"))
    ledger = pares.ledger.open("memory://bare")
    for use, which in (
        (open_topic, "file:, memory:, sqlite:"),
        (open_source, "file:, kafka:, memory:, nats:, sqlite:"),
    ):
        with pytest.raises(CapabilityError, match=which):
            use(ledger, TOPIC)
    ledger.close()
    drop("bare")


def test_a_source_of_an_opened_ledger_leaves_it_open(kept: Kept) -> None:
    kept.make()
    kept.append([b"x"])
    source = open_source(kept.ledger, TOPIC)
    assert payloads(source, 1) == [b"x"]
    source.close()
    kept.append([b"y"])


@pytest.mark.parametrize("key", [None, b"", b"5 x", b"-", b"\n\\"])
def test_a_key_in_the_body_of_a_frame(key: bytes | None) -> None:
    assert unpacked(packed(key, b"7 payload")) == (key, b"7 payload")
    for strange in (b"", b"payload", b"9 short", b"x y"):
        with pytest.raises(LedgerUnavailable, match="not written by a topic"):
            unpacked(strange)
