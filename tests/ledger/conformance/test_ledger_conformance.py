"""The conformance suite: what every ledger promises, run unchanged over each (see ledger_stages.py). Here a log and its order;
waiting, topics and handles have files of their own, test_ledger_conformance_*.py."""

import os
import select
import threading
import time

import pytest
from ledger_stages import Stage, in_threads
from log_tools import HANG, payloads, read_all

from pares.core.errors import ConfigError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.ledger import MAX_BATCH, MAX_BATCH_BYTES, MAX_PAYLOAD, Entry, Group, Ledger, Log, ManyAtOnce, expire
from pares.ledger.registry import scheme_of


def test_is_what_the_protocols_say(stage: Stage) -> None:
    ledger = stage.open()
    assert isinstance(ledger, Ledger)
    assert isinstance(ledger.topic("t"), Log)
    assert stage.url.startswith(f"{ledger.kind}://")
    assert ledger.partitions == 1
    assert ledger.retention == 3600.0


def test_declares_what_it_can_do(stage: Stage) -> None:
    ledger = stage.open()
    declared = ledger.capabilities
    assert not declared.readonly
    assert declared == ledger.capabilities, "asked twice, it says the same"
    assert scheme_of(stage.url).scope in ("network", declared.scope), "its registry says no more than it does itself"
    assert ledger.topic("t").capabilities.scope == declared.scope
    assert not isinstance(ledger, Group) or declared.reassignment_bound is not None


def test_one_bell_is_for_all_partitions_where_that_is_declared(stage: Stage) -> None:
    log = stage.open().topic("t", 2)
    bell = log.bell(0)
    assert bell is not None
    bell.clear()
    log.append(b"x", 1)
    if log.capabilities.one_bell:
        assert select.select([bell.fileno()], [], [], HANG)[0]
    bell.close()


def test_does_for_many_partitions_at_once_what_it_does_for_each(stage: Stage) -> None:
    log = stage.open().topic("t", 3)
    if isinstance(log, ManyAtOnce):
        assert log.append_each([(0, b"a"), (2, b"b"), (2, b"c")]) == [log.start(0), log.end(2) - 2, log.end(2) - 1]
        assert log.changed([log.end(0), 0, log.end(2) - 1]) == [2]
    assert [log.end(1), len(log.read(log.start(1), 1))] == [0, 0]


def test_begins_empty_at_offset_0(stage: Stage) -> None:
    ledger = stage.open()
    assert (ledger.start(), ledger.end(), ledger.read(0)) == (0, 0, [])
    assert ledger.append(b"first") == 0


def test_reads_back_what_was_appended(stage: Stage) -> None:
    ledger = stage.open()
    before = time.time_ns() // 1_000_000
    written = [b"", b"\0\xff\n", "ä€".encode(), b"x" * 5000]
    offsets = [ledger.append(payload) for payload in written]
    entries = stage.open().read(0)
    assert [(entry.offset, entry.payload) for entry in entries] == list(zip(offsets, written, strict=True))
    assert all(before <= entry.timestamp_ms <= time.time_ns() // 1_000_000 for entry in entries)


def test_own_and_others_appends_are_read_at_once(stage: Stage) -> None:
    one, two = stage.open(), stage.open()
    for number in range(20):
        writer, other = (one, two) if number % 2 else (two, one)
        offset = writer.append(b"%d" % number)
        assert writer.end() == other.end() == offset + 1
        assert writer.read(offset)[0] == other.read(offset)[0]
        assert writer.read(offset + 1) == other.read(offset + 1) == []


def test_resumes_from_any_offset(stage: Stage) -> None:
    ledger = stage.open()
    offsets = [ledger.append(b"%d" % number) for number in range(25)]
    again = stage.open()
    for number, offset in enumerate(offsets):
        assert payloads(again, offset) == [b"%d" % other for other in range(number, 25)]
    assert again.read(ledger.end()) == []


def test_returns_no_more_than_max_records(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append_many([b"%d" % number for number in range(300)])
    assert [len(ledger.read(0, max_records=most)) for most in (1, 2, 100, 101, 299, 300, 301)] == [
        1,
        2,
        100,
        101,
        299,
        300,
        300,
    ]
    with pytest.raises(ConfigError, match="max_records=0"):
        ledger.read(0, max_records=0)


def test_large_payloads_come_in_several_reads(stage: Stage) -> None:
    ledger = stage.open()
    large = os.urandom(MAX_PAYLOAD)
    for _ in range(20):
        ledger.append(large)
    first = ledger.read(0)
    assert 1 <= len(first) < 20
    assert payloads(ledger) == [large] * 20


def check_order(ledger: Ledger, given: dict[str, list[int]], count: int) -> None:
    """What `given` says was appended is in the log at those offsets, each writer's in its own order, and nothing else."""
    entries = read_all(ledger)
    assert [entry.offset for entry in entries] == sorted({entry.offset for entry in entries})
    assert len(entries) == len(given) * count
    at = {entry.offset: entry.payload.decode() for entry in entries}
    for name, offsets in given.items():
        assert offsets == sorted(offsets)
        assert [at[offset] for offset in offsets] == [f"{name} {number}" for number in range(count)]


def test_orders_8_concurrent_writers_in_threads(stage: Stage) -> None:
    given = in_threads(stage, [f"writer{number}" for number in range(8)], 100)
    check_order(stage.open(), given, 100)


@pytest.mark.processes
def test_orders_8_concurrent_writers_elsewhere(stage: Stage) -> None:
    ledger = stage.open()
    given = stage.elsewhere([f"writer{number}" for number in range(8)], 100)
    check_order(ledger, given, 100)


def test_two_readers_beside_writers_read_the_same(stage: Stage) -> None:
    stage.open()
    seen: list[list[Entry]] = [[], []]

    def follow(entries: list[Entry]) -> None:
        ledger = stage.open()
        while len(entries) < 400:
            entries += ledger.read(entries[-1].offset + 1 if entries else 0, max_records=7, timeout=1.0)

    readers = [threading.Thread(target=follow, args=(entries,)) for entries in seen]
    for reader in readers:
        reader.start()
    in_threads(stage, ["a", "b", "c", "d"], 100)
    for reader in readers:
        reader.join(HANG)
    assert len(seen[0]) == 400
    assert seen[0] == seen[1] == read_all(stage.open())


def test_append_many_is_all_or_nothing(stage: Stage) -> None:
    ledger = stage.open()
    assert ledger.append_many([b"a", b"b", b"c"]) == [0, 1, 2]
    assert ledger.append_many([]) == []
    too_large = b"x" * (MAX_PAYLOAD + 1)
    for bad in (too_large, "text", None):
        with pytest.raises(ConfigError):
            ledger.append_many([b"d", bad, b"e"])  # pyright: ignore[reportArgumentType]
    assert payloads(ledger) == [b"a", b"b", b"c"]
    assert ledger.append(b"d") == 3


def test_append_many_of_several_writers_do_not_mix(stage: Stage) -> None:
    stage.open()

    def write(name: bytes) -> None:
        ledger = stage.open()
        for number in range(20):
            ledger.append_many([b"%s %d %d" % (name, number, part) for part in range(25)])

    threads = [threading.Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    found = payloads(stage.open())
    assert len(found) == 3 * 20 * 25
    for at in range(0, len(found), 25):
        name, number, _ = found[at].split()
        assert found[at : at + 25] == [b"%s %s %d" % (name, number, part) for part in range(25)]


def test_payload_limits(stage: Stage) -> None:
    ledger = stage.open()
    largest = os.urandom(MAX_PAYLOAD)
    assert ledger.append(largest) == 0
    with pytest.raises(ConfigError, match=f"{MAX_PAYLOAD + 1} bytes is over the limit of {MAX_PAYLOAD}"):
        ledger.append(largest + b"x")
    with pytest.raises(ConfigError, match=f"{MAX_BATCH + 1} payloads.*{MAX_BATCH}"):
        ledger.append_many([b""] * (MAX_BATCH + 1))
    with pytest.raises(ConfigError, match=f"bytes in one append_many are over the limit of {MAX_BATCH_BYTES}"):
        ledger.append_many([largest] * (MAX_BATCH_BYTES // MAX_PAYLOAD + 1))
    for wrong in ("text", bytearray(b"x"), None, 5):
        with pytest.raises(ConfigError, match="must be bytes"):
            ledger.append(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="use append"):
        ledger.append_many(b"bytes")  # pyright: ignore[reportArgumentType]
    assert payloads(ledger) == [largest]


def test_offsets_are_never_used_again(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append_many([b"x"] * 10)
    ledger.trim(10)
    assert (ledger.start(), ledger.end(), ledger.read(10)) == (10, 10, [])
    ledger.close()
    again = stage.open()
    assert (again.start(), again.end()) == (10, 10)
    assert again.append(b"y") == 10
    again.trim(11)
    again.close()
    assert stage.open().append(b"z") == 11


def test_a_gap_is_visible(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append_many([b"%d" % number for number in range(10)])
    ledger.trim(4)
    assert ledger.start() == 4
    for offset in (-1, 0, 3):
        with pytest.raises(LedgerGap, match=f"offset {offset} .*starts at 4"):
            ledger.read(offset)
    assert payloads(ledger, 4) == [b"%d" % number for number in range(4, 10)]
    ledger.trim(2)
    assert ledger.start() == 4
    ledger.trim(10)
    with pytest.raises(LedgerGap):
        stage.open().read(9)


def test_a_position_beyond_the_end_is_visible(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append_many([b"x"] * 3)
    for offset in (4, 5, 1 << 39, 1 << 62, 1 << 80):
        with pytest.raises(LedgerRewound, match=f"offset {offset} .*end 3"):
            ledger.read(offset)
        with pytest.raises(LedgerRewound):
            ledger.trim(offset)
    assert (ledger.start(), ledger.end()) == (0, 3)


def test_unavailable_and_back(stage: Stage) -> None:
    ledger = stage.impatient()
    ledger.append(b"before")
    with stage.outage():
        for _ in range(3):
            with pytest.raises(LedgerUnavailable) as caught:
                ledger.append(b"lost")
            assert caught.value.unknown is False
        with pytest.raises(LedgerUnavailable):
            ledger.append_many([b"lost", b"lost"])
        with pytest.raises(LedgerUnavailable):
            ledger.trim(1)
        assert payloads(ledger) == [b"before"]
    assert ledger.append(b"after") == 1
    assert payloads(ledger) == [b"before", b"after"]


def test_100_000_records(stage: Stage) -> None:
    ledger = stage.open()
    for at in range(0, 100_000, 5_000):
        ledger.append_many([b"%d" % number for number in range(at, at + 5_000)])
    assert ledger.end() == 100_000
    found = read_all(stage.open())
    assert [entry.offset for entry in found] == list(range(100_000))
    assert all(entry.payload == b"%d" % entry.offset for entry in found)
    ledger.trim(99_990)
    assert payloads(ledger, 99_990) == [b"%d" % number for number in range(99_990, 100_000)]


def test_identity_is_the_logs_not_the_handles(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append(b"x")
    assert ledger.identity() == ledger.identity() == stage.open().identity()
    assert ledger.topic("a").identity() != ledger.identity()


def test_another_log_behind_the_url_is_noticed(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append_many([b"old"] * 5)
    topic = ledger.topic("orders")
    topic.append(b"old")
    assert len(ledger.read(0)) == 5
    before = ledger.identity()
    stage.replace()
    with pytest.raises(LedgerRewound):
        ledger.read(5)
    assert ledger.identity() != before
    assert (ledger.start(), ledger.end()) == (0, 0)
    assert ledger.append(b"new") == 0
    assert payloads(stage.open()) == payloads(ledger) == [b"new"]
    assert ledger.topic("orders").end() == 0


def test_expires_by_age_behind_a_place(stage: Stage) -> None:
    ledger = stage.open(retention=100)
    ledger.append_many([b"x"] * 10)
    now = ledger.read(9)[0].timestamp_ms
    assert expire(ledger, 6, now_ms=now + 99_000) == 0
    assert expire(ledger, 6, now_ms=now + 101_000) == ledger.start() == 6
    assert expire(ledger, 3, now_ms=now + 101_000) == 6
    assert expire(ledger, 1_000, now_ms=now + 101_000) == ledger.start() == ledger.end() == 10
    for_ever = stage.open(retention="none")
    for_ever.append(b"y")
    assert expire(for_ever, 11, now_ms=now + 10**12) == 10
    assert expire(for_ever, 11, age=5.0, now_ms=now + 10**12) == 11
