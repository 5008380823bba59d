"""Topics of ledgers: where keys belong, what can't be asked for, and which ledgers have them."""

from __future__ import annotations

import select
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest
from origins import ORIGINS, TOPIC, Kept
from source_tools import payloads

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import MAX_KEY, MAX_PAYLOAD, open_source, open_topic, partition_for
from pares.ledger.base import Stamped
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


def test_what_has_keys_rings_and_what_is_not_urgent_rings_not(kept: Kept) -> None:
    kept.make()
    topic = kept.topic
    bell = topic.bell()
    if bell is None:
        return
    topic.append_many([b"beat"], 0, urgent=False)
    assert not select.select([bell], [], [], 0)[0]
    for append in (
        lambda: topic.append_many([b"x"], 0, keys=[b"k"], urgent=False),
        lambda: topic.append(b"x", 0, b"k"),
        lambda: topic.append(b"x", 0),
        lambda: topic.append_many([b"x"], 0),
    ):
        append()
        assert select.select([bell], [], [], 10)[0]
        bell.clear()
    bell.close()


def test_records_have_keys_and_stamps(kept: Kept) -> None:
    """One by one, as readers that keep up find them; then several at once, of which the oldest go."""
    kept.make()
    topic = kept.topic
    if not topic.capabilities.stamps:
        return
    stamped = cast(Stamped, topic)
    stamps: list[int | None] = []
    for number in range(6):
        payload, key = b"%d\n" % number, b"key\n%d" % number if number % 2 else None
        topic.append(payload, 0, key)
        (entry,), found = stamped.read_stamped(number)
        assert (entry.offset, entry.payload) == (number, payload)
        assert [(record.key, record.payload) for record in topic.records(number)] == [(key, payload)]
        stamps += found
    assert None not in stamps
    topic.append_many([b"a", b"b"], 0, keys=[None, b"k"])
    entries, found = stamped.read_stamped(0)
    assert entries == topic.read(0)
    assert found[:6] == stamps
    assert found[6] == found[7] is not None
    topic.trim(4)
    assert stamped.read_stamped(4)[1] == found[4:]
    assert [record.key for record in topic.records(4)] == [None, b"key\n5", None, b"k"]


def test_a_trim_leaves_no_key_and_no_stamp_in_the_file(tmp_path: Path) -> None:
    origin = ORIGINS["sqlite"](tmp_path)
    assert isinstance(origin, Kept)
    origin.make()
    origin.topic.append_many([b"x"] * 9, 0, keys=[b"k"] * 9)
    origin.topic.trim(7)
    path = origin.ledger.url.removeprefix("sqlite:///").partition("?")[0]
    origin.close()
    with closing(sqlite3.connect(path)) as connection:
        for table in ("entries", "keys", "stamps"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (2,), table


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
