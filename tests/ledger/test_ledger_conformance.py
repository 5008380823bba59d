"""The conformance suite: what every ledger promises, run unchanged over each (see ledger_stages.py)."""

import os
import select
import threading
import time
from collections.abc import Callable

import pytest
from ledger_stages import Stage, descriptors, in_child, in_threads
from log_tools import HANG, payloads, read_all

import pares.ledger
from pares.core.errors import (
    ClosedError,
    ConfigError,
    ForkedError,
    LedgerGap,
    LedgerRewound,
    LedgerUnavailable,
)
from pares.ledger import MAX_BATCH, MAX_BATCH_BYTES, MAX_PAYLOAD, Entry, Ledger, Log, expire


def rings(descriptor: int, timeout: float) -> bool:
    return bool(select.select([descriptor], [], [], timeout)[0])


def test_is_what_the_protocols_say(stage: Stage) -> None:
    ledger = stage.open()
    assert isinstance(ledger, Ledger)
    assert isinstance(ledger.topic("t"), Log)
    assert stage.url.startswith(f"{ledger.kind}://")
    assert ledger.partitions == 1
    assert ledger.retention == 3600.0


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


def test_one_handle_serves_many_threads(stage: Stage) -> None:
    ledger = stage.open()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                offset = ledger.append(b"%d" % number)
                assert ledger.read(offset, max_records=1)[0].payload == b"%d" % number
                ledger.identity()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert not errors
    assert sorted(payloads(ledger)) == sorted(b"%d" % number for number in range(8) for _ in range(50))


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


def test_read_waits_for_the_first_entry(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    began = time.monotonic()
    assert ledger.read(0, timeout=0.15) == []
    assert time.monotonic() - began >= 0.15
    timer = threading.Timer(0.1, other.append, [b"x"])
    timer.start()
    assert [entry.payload for entry in ledger.read(0, timeout=HANG)] == [b"x"]
    timer.join()


def test_waiting_reads_share_a_handle(stage: Stage) -> None:
    ledger = stage.open()
    found: list[bytes] = []
    readers = [
        threading.Thread(target=lambda: found.extend(entry.payload for entry in ledger.read(0, timeout=HANG)))
        for _ in range(6)
    ]
    for reader in readers:
        reader.start()
    time.sleep(0.05)
    stage.open().append(b"x")
    for reader in readers:
        reader.join(HANG)
    assert found == [b"x"] * 6


def test_the_bell_rings_for_others_and_own_appends(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    bell = ledger.bell()
    assert bell is not None
    bell.clear()
    assert not rings(bell.fileno(), 0.05)
    for writer in (ledger, other, other):
        writer.append(b"x")
        assert rings(bell.fileno(), HANG)
        bell.clear()
        assert not rings(bell.fileno(), 0)
    other.append_many([b"x"] * 10)
    assert rings(bell.fileno(), HANG)
    bell.close()
    bell.close()
    with pytest.raises(ClosedError):
        bell.fileno()
    other.append(b"x")


def test_an_entry_is_readable_once_the_bell_rings(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    bell = ledger.bell()
    assert bell is not None
    bell.clear()
    for number in range(50):
        writer = threading.Thread(target=other.append, args=(b"%d" % number,))
        writer.start()
        assert rings(bell.fileno(), HANG)
        bell.clear()
        assert payloads(ledger, number) == [b"%d" % number]
        writer.join()
        bell.clear()
    bell.close()


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


def test_topics_are_logs_of_their_own(stage: Stage) -> None:
    ledger = stage.open()
    ledger.append(b"ledger")
    orders, bills = ledger.topic("orders", partitions=3), ledger.topic("bills/2024 ä", partitions=1)
    assert (orders.partitions, bills.partitions) == (3, 1)
    assert [orders.append(b"%d" % partition, partition) for partition in (0, 1, 2, 2)] == [0, 0, 0, 1]
    assert bills.append(b"bill") == 0
    assert payloads(orders, partition=2) == [b"2", b"2"]
    orders.trim(1, 2)
    assert [orders.start(partition) for partition in range(3)] == [0, 0, 1]
    same = stage.open().topic("orders", partitions=9)
    assert same.partitions == 3
    assert same.read(1, 2) == orders.read(1, 2)
    assert same.identity() == orders.identity() != bills.identity()
    assert payloads(ledger) == [b"ledger"]


def test_many_partitions(stage: Stage) -> None:
    ledger, other = stage.open(partitions=16), stage.open()
    bells = [ledger.bell(partition) for partition in range(16)]
    for turn in range(5):
        for partition in range(16):
            assert other.append(b"%d" % partition, partition) == turn
        for partition in range(16):
            assert [entry.payload for entry in ledger.read(turn, partition, timeout=HANG)] == [b"%d" % partition]
    for bell in bells:
        assert bell is not None
        bell.close()


def test_topics_share_handles_and_bells(stage: Stage) -> None:
    ledger = stage.open()
    topic, other = ledger.topic("a"), ledger.topic("b")
    bell = topic.bell(3)
    assert bell is not None
    bell.clear()
    stage.open().topic("a").append(b"x", 3)
    assert rings(bell.fileno(), HANG)
    bell.close()
    topic.close()
    topic.close()
    with pytest.raises(ClosedError):
        topic.append(b"x")
    other.append(b"y")
    ledger.append(b"z")
    ledger.close()
    with pytest.raises(ClosedError):
        other.append(b"y")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0b", "\x7f", "\x85", "\ud800", None, 5])
def test_bad_topic_names(stage: Stage, name: object) -> None:
    with pytest.raises(ConfigError, match="topic's name"):
        stage.open().topic(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("partitions", [0, -1, 10_001, True, 1.5])
def test_bad_numbers_of_partitions(stage: Stage, partitions: object) -> None:
    with pytest.raises(ConfigError, match=r"partitions="):
        stage.open().topic("t", partitions)  # pyright: ignore[reportArgumentType]


def test_longest_topic_name(stage: Stage) -> None:
    name = "€" * 200
    stage.open().topic(name).append(b"x")
    assert payloads(stage.open().topic(name)) == [b"x"]


def test_partitions_are_independent_and_can_grow(stage: Stage) -> None:
    ledger = stage.open(partitions=2)
    ledger.append(b"0", 0)
    ledger.append_many([b"1", b"1"], 1)
    assert (ledger.end(0), ledger.end(1)) == (1, 2)
    for use in (ledger.append, lambda payload, partition: ledger.read(0, partition)):
        for partition in (2, -1):
            with pytest.raises(ConfigError, match=f"no partition {partition}: it has partitions 0 to 1"):
                use(b"x", partition)
    assert stage.open(partitions=4).partitions == 4
    assert ledger.partitions == 4
    assert ledger.append(b"3", 3) == 0
    assert stage.open().partitions == 4
    with pytest.raises(ConfigError, match="can't shrink to partitions=3"):
        stage.open(partitions=3)


def test_the_url_says_which_partition_a_group_lives_in(stage: Stage) -> None:
    ledger = stage.open(partitions=2, partition=1)
    assert pares.ledger.partition_of(ledger.url) == 1
    assert pares.ledger.partition_of(ledger.topic("a?b#c").url) == 1
    again = pares.ledger.open(ledger.url)
    assert again.identity() == ledger.identity()
    again.close()
    with pytest.raises(ConfigError, match="partition 2, but the ledger has partitions 0 to 1"):
        stage.open(partition=2)


def test_options(stage: Stage) -> None:
    assert stage.open(retention=60).retention == 60.0
    assert stage.open(retention="none").retention is None
    for wrong in (0, -1, "x", float("nan"), float("inf"), True):
        with pytest.raises(ConfigError, match="retention="):
            stage.open(retention=wrong)
    with pytest.raises(ConfigError, match="unknown option colour"):
        stage.open(colour="red")


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


def calls(ledger: Ledger) -> list[Callable[[], object]]:
    """Every method of a ledger but close, ready to be called."""
    return [
        lambda: ledger.append(b"x"),
        lambda: ledger.append_many([b"x"]),
        lambda: ledger.read(0),
        lambda: ledger.read(0, timeout=1.0),
        ledger.start,
        ledger.end,
        lambda: ledger.trim(0),
        ledger.identity,
        ledger.bell,
        lambda: ledger.partitions,
        lambda: ledger.topic("t"),
    ]


def test_a_closed_ledger_says_so(stage: Stage) -> None:
    ledger = stage.open()
    ledger.close()
    ledger.close()
    for call in calls(ledger):
        with pytest.raises(ClosedError, match="closed"):
            call()


def test_closing_ends_a_waiting_read(stage: Stage) -> None:
    ledger = stage.open()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            ledger.read(0, timeout=HANG)
        except ClosedError as error:
            raised.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    time.sleep(0.05)
    ledger.close()
    reader.join(HANG / 2)
    assert len(raised) == 1


def test_a_forked_child_can_use_nothing_inherited(stage: Stage) -> None:
    ledger = stage.open()
    topic, bell = ledger.topic("a"), ledger.bell()
    ledger.append(b"x")
    assert bell is not None

    def child() -> None:
        for call in [*calls(ledger), lambda: topic.append(b"x"), bell.fileno, bell.clear]:
            with pytest.raises(ForkedError):
                call()
        bell.close()
        topic.close()
        ledger.close()

    in_child(child)
    assert ledger.append(b"y") == 1
    assert rings(bell.fileno(), HANG)
    bell.close()
    assert payloads(ledger) == [b"x", b"y"]


def test_opened_and_closed_again_and_again_leaks_nothing(stage: Stage) -> None:
    def cycle() -> None:
        ledger = pares.ledger.open(stage.url)
        ledger.append(b"x")
        bell = ledger.bell()
        ledger.read(ledger.end(), timeout=0.001)
        ledger.topic("a").append(b"x")
        ledger.close()
        assert bell is not None
        bell.close()

    cycle()
    threads, grown = {*threading.enumerate()}, 1
    for _ in range(2):  # the stage's own client may come to open a connection, which it does once
        before = descriptors()
        for _ in range(stage.often):
            cycle()
        grown = descriptors() - before
        if grown <= 0:
            break
    assert grown <= 0
    assert {*threading.enumerate()} <= threads, "none is new; another test's may have ended meanwhile"
