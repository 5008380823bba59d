"""The conformance suite of sources: what comes, in which order, with which limits, and what is left out."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from log_tools import HANG
from origins import Origin
from source_tools import comes, fetched, payloads, read_to, some

from pares.core.errors import ConfigError, LedgerGap, LedgerRewound
from pares.ledger import Record, open_source

READER = """
import sys
from pares.ledger import open_source
source = open_source(sys.argv[1], sys.argv[2])
offset, left = 0, int(sys.argv[3])
while left:
    found = source.fetch(0, offset, max_records=7, max_bytes=1 << 20, timeout=1.0)
    for record in found.records:
        print(record.offset, record.payload.decode(), flush=True)
    offset, left = found.next, left - len(found.records)
source.close()
"""


def numbered(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


def test_records_come_in_order_and_next_goes_on(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(60))
    source = origin.open()
    records, after = read_to(source, 60)
    assert [record.payload for record in records] == numbered(60)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert after > offsets[-1]
    assert all(record.timestamp_ms > 1_500_000_000_000 for record in records)
    origin.append(numbered(40, 60))
    assert payloads(source, 40, after) == numbered(40, 60)
    assert fetched(source, read_to(source, 100)[1]).records == ()


def test_any_place_may_be_read_again(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(50))
    source = origin.open()
    records, _ = read_to(source, 50)
    for at in (49, 0, 30, 10, 10, 31):
        assert some(source, records[at].offset, max_records=1).records == (records[at],)
    assert read_to(source, 45, records[5].offset)[0] == records[5:]


def test_two_readers_at_different_places_both_get_on(origin: Origin) -> None:
    """In turn, and neither waits: as a consumer works off two slots of one partition."""
    origin.make()
    origin.append(numbered(60))
    source = origin.open()
    records, _ = read_to(source, 60)
    source = origin.open()
    at = [records[0].offset, records[40].offset]
    found: tuple[list[Record], list[Record]] = ([], [])

    def done() -> bool:
        for reader, end in enumerate((40, 20)):
            more = fetched(source, at[reader], max_records=min(7, end - len(found[reader]) or 1))
            if len(found[reader]) < end:
                found[reader].extend(more.records)
                at[reader] = more.next
        return [len(one) for one in found] == [40, 20]

    comes(done)
    assert [*found[0], *found[1]] == records


def test_no_more_records_than_are_asked_for(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(30))
    source = origin.open()
    offset, sizes, found = 0, list[int](), list[Record]()
    while len(found) < 30:
        more = some(source, offset, max_records=7)
        sizes.append(len(more.records))
        found += more.records
        offset = more.next
    assert max(sizes) <= 7
    assert [record.payload for record in found] == numbered(30)


def test_no_more_bytes_than_are_asked_for_but_at_least_one_record(origin: Origin) -> None:
    origin.make()
    origin.append([b"x" * 1000] * 20 + [b"y" * 5000] + [b"z" * 10] * 5)
    source = origin.open()
    offset, found = 0, list[Record]()
    while len(found) < 26:
        more = some(source, offset, max_bytes=3000)
        assert sum(len(record.payload) for record in more.records) <= 3000 or len(more.records) == 1
        found += more.records
        offset = more.next
    assert [len(record.payload) for record in found] == [1000] * 20 + [5000] + [10] * 5
    assert len(some(source, 0, max_bytes=1).records) == 1


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"max_bytes": 0}, {"offset": -1}, {"partition": -1}])
def test_what_can_not_be_asked_for(origin: Origin, limits: dict[str, int]) -> None:
    origin.make()
    with pytest.raises(ConfigError):
        fetched(origin.open(), **limits)


def test_a_fetch_waits_for_the_first_record_alone(origin: Origin) -> None:
    origin.make()
    source = origin.open()
    empty = fetched(source, 0, timeout=0.05)
    assert (empty.records, empty.next) == ((), 0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetched, source, 0, timeout=HANG)
        origin.append([b"first"])
        assert [record.payload for record in waiting.result(HANG).records] == [b"first"]


def test_no_timeout_is_needed_for_what_is_there(origin: Origin) -> None:
    origin.make()
    origin.append([b"x"])
    source = origin.open()
    comes(lambda: len(fetched(source, 0, timeout=0.0).records) == 1)


def test_start_and_end(origin: Origin) -> None:
    origin.make()
    source = origin.open()
    assert (source.start(0), source.end(0)) == (0, 0)
    origin.append(numbered(5))
    comes(lambda: source.end(0) == 5)
    assert source.start(0) == 0
    for ask in (source.start, source.end, lambda partition: fetched(source, 0, partition)):
        for partition in (1, -1):
            with pytest.raises(ConfigError, match=f"no partition {partition}"):
                ask(partition)


def test_ends_of_many_at_once(origin: Origin) -> None:
    count = 3 if origin.grows else 1
    origin.make(count)
    source = origin.open()
    comes(lambda: source.ends(range(count)) == dict.fromkeys(range(count), 0))  # one that has no leader yet is left out
    for partition in range(count):
        origin.append(numbered(partition + 1), partition)
    comes(lambda: source.ends(range(count)) == {partition: source.end(partition) for partition in range(count)})
    comes(lambda: source.ends([count - 1]) == {count - 1: source.end(count - 1)})
    assert source.ends([0, count, -1]).keys() == {0}, "without those that are not there"
    assert source.ends([]) == {}


def test_partitions_that_have_something_new_are_told_in_one_look(origin: Origin) -> None:
    count = 3 if origin.grows else 1
    origin.make(count)
    source = origin.open()
    places = dict.fromkeys(range(count), 0)
    for partition in places:
        fetched(source, 0, partition)
    comes(lambda: not list(source.changed(places)))
    origin.append(numbered(2), count - 1)
    comes(lambda: list(source.changed(places)) == [count - 1])
    assert list(source.changed(places)) == [count - 1], "until it was read"
    assert payloads(source, 2, partition=count - 1) == numbered(2)
    places[count - 1] = read_to(source, 2, partition=count - 1)[1]
    comes(lambda: not list(source.changed(places)))
    assert list(source.changed({})) == []


def test_partitions_that_nobody_has_fetched_yet_are_told_of(origin: Origin) -> None:
    """Also where it takes a while until something has come."""
    origin.make()
    origin.append(numbered(2))
    source = origin.open()
    comes(lambda: list(source.changed({0: 0})) == [0])
    assert payloads(source, 2) == numbered(2)


def test_what_is_wrong_shows_at_a_fetch_of_what_has_changed(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(2))
    source = origin.open()
    assert payloads(source, 2) == numbered(2)
    comes(lambda: list(source.changed({0: 100})) == [0])
    with pytest.raises(LedgerRewound):
        fetched(source, 100, timeout=HANG)
    assert 7 in source.changed({7: 0})
    with pytest.raises(ConfigError):
        fetched(source, 0, 7)


def test_next_goes_past_holes(origin: Origin) -> None:
    origin.make()
    source = origin.open()
    origin.append(numbered(5))
    before, after = read_to(source, 5)
    origin.hole()
    comes(lambda: fetched(source, after, timeout=0.1).next == source.end(0))
    origin.append(numbered(5, 5))
    beyond, end = read_to(source, 5, after)
    assert [record.payload for record in beyond] == numbered(5, 5)
    jumps = [two.offset - one.offset for one, two in itertools.pairwise([*before, *beyond])]
    assert (max(jumps) > 1) is origin.holes
    assert read_to(source, 10)[0] == [*before, *beyond]
    assert fetched(source, end, timeout=0.05).next >= end


def test_retention_that_overtakes_a_reader_names_what_is_lost(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(20))
    origin.forget(8)
    source = origin.open()
    comes(lambda: source.start(0) == 8)
    with pytest.raises(LedgerGap) as caught:
        fetched(source, 3, timeout=HANG)
    assert caught.value.lost == range(3, 8)
    assert "starts at 8" in str(caught.value)
    assert payloads(source, 12, 8) == numbered(12, 8)
    origin.forget(20)
    comes(lambda: source.start(0) == 20)
    assert source.end(0) == 20
    with pytest.raises(LedgerGap) as caught:
        fetched(origin.open(), 8, timeout=HANG)
    assert caught.value.lost == range(8, 20)
    origin.append([b"after"])
    assert some(source, 20).records[0].offset == 20


def test_an_offset_beyond_the_end(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(3))
    source = origin.open()
    with pytest.raises(LedgerRewound):
        fetched(source, 1000, timeout=HANG)
    assert payloads(source, 3) == numbered(3)


def test_a_topic_grows(origin: Origin) -> None:
    origin.make()
    source = origin.open()
    assert source.partitions() == 1
    if not origin.grows:
        return
    origin.append([b"0"])
    assert payloads(source, 1) == [b"0"]
    origin.make(3)
    comes(lambda: source.partitions() == 3)
    origin.append([b"2"], 2)
    assert payloads(source, 1, partition=2) == [b"2"]
    assert payloads(source, 1) == [b"0"]
    assert origin.open().partitions() == 3


def test_many_threads_fetch_different_partitions_at_once(origin: Origin) -> None:
    count, each = (8 if origin.grows else 1), 300
    origin.make(count)
    source = origin.open()

    def consume(partition: int) -> list[bytes]:
        return [record.payload for record in read_to(source, each, partition=partition, max_records=17)[0]]

    with ThreadPoolExecutor(count) as pool:
        reading = [pool.submit(consume, partition) for partition in range(count)]
        for turn in range(0, each, 50):
            for partition in range(count):
                origin.append([b"%d %d" % (partition, number) for number in range(turn, turn + 50)], partition)
        for partition, found in enumerate(reading):
            assert found.result(HANG) == [b"%d %d" % (partition, number) for number in range(each)]


def test_many_threads_fetch_one_partition_at_their_own_places(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(200))
    source = origin.open()

    def consume(begin: int) -> list[bytes]:
        return [record.payload for record in read_to(source, 50, begin, max_records=9)[0]][:50]

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(consume, range(0, 200, 50))]
    assert [payload for part in found for payload in part] == numbered(200)


def test_a_reader_in_another_process(origin: Origin) -> None:
    origin.make()
    origin.append(numbered(10))
    if not origin.shared:
        return
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, origin.url, origin.name, "25"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert reader.stdout is not None
        lines = [reader.stdout.readline() for _ in range(10)]
        origin.append(numbered(15, 10))
        lines += reader.communicate(timeout=HANG)[0].splitlines(keepends=True)
    finally:
        reader.kill()
        reader.wait()
    assert reader.returncode == 0
    assert [line.split() for line in lines] == [[str(number), str(number)] for number in range(25)]


def test_keys(origin: Origin) -> None:
    origin.make()
    keys = [b"a", None, b"", b"a b", "ä€".encode(), b"5 x", b"-", b"\n" * 20, bytes(range(256)), b"k" * 60_000]
    if not origin.kept_keys:
        keys = [b"a", b"a-b", "ä€".encode(), b"5-x", b"-"]
    origin.append([b"%d" % number for number in range(len(keys))], keys=keys)
    records, _ = read_to(origin.open(), len(keys))
    assert [record.key for record in records] == keys
    assert [record.payload for record in records] == numbered(len(keys))


def test_payloads_of_all_sizes(origin: Origin) -> None:
    origin.make()
    sizes = [0, 1, 2, 100, 4095, 4096, 4097, 65_535, 65_537, origin.largest, 3]
    sent = [(b"%d\n " % size * (size // 3 + 1))[:size] for size in sizes]
    for payload in sent:
        origin.append([payload])
    assert payloads(origin.open(), len(sizes)) == sent
    assert [len(some(origin.open(), 9, max_bytes=10).records[0].payload)] == [origin.largest]


@pytest.mark.parametrize("name", ["a b/c", "ä€😀", "%2F..", "#?&=", "..", "x" * 200, "€" * 200, "a.b", "pares.x"])
def test_names_of_any_characters(origin: Origin, name: str) -> None:
    origin.make(1, name)
    source = origin.open(name)
    assert source.name == name
    assert source.end(0) == 0
    assert fetched(source, 0).records == ()


def test_a_topic_that_is_not_there_is_not_made(origin: Origin) -> None:
    origin.make()
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"no topic|no stream"):
            origin.open("never")
    for name in ("", "a\nb"):
        with pytest.raises(ConfigError, match="topic's name"):
            open_source(origin.url, name)
