"""Offsets in a stream that forgets: everybody counts alike, wherever they begin, and no offset is given out twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from kinesis_service import HOUR, Service
from log_tools import payloads

import pares
import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerGap, LedgerUnavailable
from pares.ledger import MAX_PAYLOAD, Ledger
from pares.ledger.counted import places, records
from pares.ledger.kinesis import client, reads, tail, writer

URL = "kinesis://eu-central-1/jobs?poll=none"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    monkeypatch.setattr(client, "connect", lambda settings: service)
    return service


@pytest.fixture
def opened(service: Service) -> Iterator[Callable[..., Ledger]]:
    ledgers: list[Ledger] = []

    def open(**options: object) -> Ledger:
        ledgers.append(pares.ledger.open(URL, **options))
        return ledgers[-1]

    yield open
    for ledger in ledgers:
        ledger.close()


def test_a_reader_that_begins_near_the_end_counts_as_one_that_was_there_from_the_start(
    service: Service, opened: Callable[..., Ledger]
) -> None:
    first = opened()
    for number in range(30):
        first.append(b"%d" % number)
        service.elapse(20)
    reads = service.asked["read"]
    late = opened()
    assert late.end() == 30
    assert service.asked["read"] - reads < 20
    assert late.append(b"30") == 30
    assert payloads(late) == payloads(first) == [b"%d" % number for number in range(31)]


def test_what_the_stream_has_forgotten_is_a_gap(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    for number in range(40):
        ledger.append(b"%d" % number)
        service.elapse(HOUR)
    late = opened()
    for each in (late, ledger):
        start = each.start()
        assert 16 <= start <= 18, "24 hours of 40 are left"
        with pytest.raises(LedgerGap):
            each.read(start - 1)
        assert payloads(each, start) == [b"%d" % number for number in range(start, 40)]
    assert late.append(b"40") == 40
    assert ledger.read(40)[0].payload == b"40"


@pytest.mark.parametrize("stays", [True, False], ids=["one who was there all the time", "nobody was there"])
def test_a_stream_that_forgot_everything_goes_on_above_all_offsets_that_ever_were(
    service: Service, opened: Callable[..., Ledger], stays: bool
) -> None:
    there = opened()
    there.append_many([b"old"] * 1000)
    identity = there.identity()
    if not stays:
        there.close()
    service.elapse(30 * HOUR)
    new = opened()
    begins = new.append(b"new")
    assert begins >= 30 * 3600 * 1_000_000, "the microseconds since the stream was made"
    assert new.identity() == identity
    assert new.start() == begins
    everybody = [opened(), new, *([there] if stays else [])]
    for turn, each in enumerate(everybody, 1):
        assert each.append(b"%d" % turn) == begins + turn
    for each in everybody:
        assert each.end() == begins + len(everybody) + 1
        assert payloads(each, begins)[0] == b"new"


def test_two_that_begin_a_forgotten_log_at_once_agree(service: Service, opened: Callable[..., Ledger]) -> None:
    opened().append(b"old")
    service.elapse(40 * HOUR)
    one, two = opened(), opened()
    # Each has looked, and found nothing; neither knows of the other.
    assert sorted([one.end(), two.end()])[0] >= 40 * 3600 * 1_000_000
    offsets = [one.append(b"a"), two.append(b"b"), one.append(b"c")]
    assert offsets == [*range(offsets[0], offsets[0] + 3)]
    assert payloads(one, offsets[0]) == payloads(two, offsets[0]) == payloads(opened(), offsets[0])


def test_a_stream_whose_retention_was_lower_once_has_lost_its_beginning_for_all_its_youth(
    service: Service, opened: Callable[..., Ledger]
) -> None:
    there = opened()
    for number in range(30):
        there.append(b"%d" % number)
        service.elapse(HOUR)
    service.streams["jobs"].hours = 100
    late = opened()
    start = late.start()
    with pytest.raises(LedgerUnavailable, match="has just gone out of the stream"):
        late.read(0)
    start = late.start()
    assert 6 <= start <= 8
    assert payloads(late, start) == [b"%d" % number for number in range(start, 30)]
    with pytest.raises(LedgerGap):
        late.read(start - 1)
    assert late.append(b"30") == there.end() - 1 == 30


def test_a_reader_that_goes_on_at_a_known_place_counts_the_births_behind_it(
    service: Service, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that its writer wrote when it could not see the record before it."""
    monkeypatch.setattr(places, "_EVERY", 1)
    monkeypatch.setattr(reads, "_KEPT", 0)
    ledger = opened()
    for number in range(3):
        ledger.append(b"%d" % number)
    service.elapse(8 * HOUR)
    head = service.streams["jobs"].records[0][2].replace(b'"entries"', b'"birth"').replace(b'"holds":1', b'"holds":0')
    service.put_record(StreamName="jobs", PartitionKey="x", Data=head)
    begins = ledger.append(b"3")
    assert begins >= 8 * 3600 * 1_000_000
    late = opened()
    for offset in (2, 0, 1, 2, begins):
        for each in (ledger, late):
            assert each.read(offset, max_records=1)[0].payload == b"%d" % min(offset, 3)
    assert [entry.offset for entry in late.read(1)][:2] == [1, 2]
    assert late.end() == begins + 1


def test_after_long_silence_the_next_writer_leaves_a_mark_that_can_be_counted_from(
    service: Service, opened: Callable[..., Ledger]
) -> None:
    """Else what it wrote could be counted by nobody who comes a day later, when what stood before it is gone."""
    ledger = opened()
    ledger.append(b"0")
    service.elapse(20 * HOUR)
    assert ledger.end() == 1  # the service's clock is learnt from its answers
    offset = ledger.append(b"1")
    assert offset > 1
    service.elapse(10 * HOUR)
    late = opened()
    assert payloads(late, late.start()) == [b"1"]
    assert late.end() == offset + 1


def test_a_reader_that_only_looks_on_begins_nothing(service: Service, opened: Callable[..., Ledger]) -> None:
    opened().append(b"old")
    service.elapse(40 * HOUR)
    put = service.asked["put"]
    with pytest.raises(LedgerUnavailable, match="a member that starts begins it anew"):
        opened(readonly=True).end()
    assert service.asked["put"] == put


def test_an_iterator_that_expired_is_made_anew(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger, other = opened(), opened()
    for number in range(5):
        assert ledger.append(b"%d" % number) == number
        service.elapse(301)
        assert other.end() == number + 1
    assert payloads(other) == [b"0", b"1", b"2", b"3", b"4"]


def test_large_appends_in_parts_whose_first_ones_are_gone(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    large = [os.urandom(MAX_PAYLOAD) for _ in range(3)]
    assert ledger.append_many(large) == [0, 1, 2]
    kept = service.streams["jobs"]
    assert len(kept.records) == 4
    assert ledger.append(b"3") == 3
    # The one who died in the middle of an append.
    kept.records.append((kept.last + (1 << 182) + 1, service.now, kept.records[0][2].replace(b'"n":1', b'"n":7', 1)))
    kept.last += 1
    assert ledger.append(b"4") == 4
    assert opened().read(0)[:3] == ledger.read(0)[:3]
    assert [entry.payload for entry in opened().read(3)] == [b"3", b"4"]


def test_records_of_others_and_damaged_ones_are_passed_over(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    ledger.append(b"0")
    head = service.streams["jobs"].records[0][2]
    for bad in (
        b"",
        b"\xff\xfe\n",
        b"{}\n",
        b'{"pares":1}\n',
        b'{"pares":1,"log":5}\n' + b"[" * 3000,
        head.replace(b'"part":0', b'"part":-1'),
        head.replace(b'"holds":1', b'"holds":20000'),
        head.replace(b'"next":0', b'"next":99007199254740993'),
        head.replace(b'"after":""', b'"after":"x"'),
        head.replace(b'"log":"', b'"log":"another'),
        head.replace(b'"kind":"entries"', b'"kind":"trim"'),
        b'{"pares":' + b"9" * 4090,
    ):
        service.put_record(StreamName="jobs", PartitionKey="x", Data=bad)
        assert ledger.append(b"x") == ledger.end() - 1
    # One whose head is right and whose body is not takes its place in the count, and has no entry.
    service.put_record(StreamName="jobs", PartitionKey="x", Data=head.replace(b'"n":1', b'"n":99') + b"more")
    last = ledger.append(b"end")
    assert last == 14
    assert payloads(ledger) == payloads(opened()) == [b"0"] + [b"x"] * 12 + [b"end"]
    assert any("are none of the log's" in text for _, text in ledger.checks())  # type: ignore[attr-defined]


def test_a_record_of_a_newer_pares_stops_its_reader_with_a_remedy(
    service: Service, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened()
    ledger.append(b"0")
    newer = service.streams["jobs"].records[0][2].replace(b'"pares":1', b'"pares":2')
    service.put_record(StreamName="jobs", PartitionKey="x", Data=newer)
    with pytest.raises(CapabilityError, match=r"layout 2.*upgrade pares"):
        ledger.end()


def test_what_aws_shows_late_is_waited_for(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    ledger.append(b"0")
    service.hidden = 1

    def show() -> None:
        service.hidden = 0

    import threading

    timer = threading.Timer(0.2, show)
    timer.start()
    assert ledger.append(b"1") == 1
    timer.join()


def test_an_append_that_nobody_reads_back_is_of_unknown_outcome(
    service: Service, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(timeout=0.3)
    ledger.append(b"0")
    service.hidden = 1
    put = service.asked["put"]
    with pytest.raises(LedgerUnavailable, match="whether it happened is unknown") as caught:
        ledger.append(b"1")
    assert caught.value.unknown
    assert service.asked["put"] == put + 1, "sent once"
    service.hidden = 0
    assert ledger.append(b"2") == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shards": 3}, r"has 3 shards.*one shard.*Name a stream that is not there"),
        ({"mode": "ON_DEMAND"}, r"is on demand.*update-stream-mode"),
        ({"closed": True}, r"was split or merged.*End all members"),
    ],
)
def test_a_stream_that_can_carry_no_log_is_refused(
    service: Service, opened: Callable[..., Ledger], change: dict[str, object], says: str
) -> None:
    opened().close()
    for name, value in change.items():
        setattr(service.streams["jobs"], name, value)
    with pytest.raises(CapabilityError, match=says):
        opened()


def test_a_stream_that_is_split_while_it_is_used_says_so(service: Service, opened: Callable[..., Ledger]) -> None:
    ledger = opened()
    ledger.append(b"0")
    service.streams["jobs"].closed = True
    for call in (lambda: ledger.append(b"1"), ledger.end, lambda: ledger.read(1)):
        with pytest.raises(CapabilityError, match="was split or merged"):
            call()


def test_retention_is_the_streams(service: Service, opened: Callable[..., Ledger]) -> None:
    opened(retention=50 * HOUR).close()
    assert service.streams["jobs"].hours == 50, "one that is made here keeps what it is to keep"
    with pytest.raises(ConfigError, match=r"100 hours.*keeps records for 50.*increase-stream-retention-period"):
        opened(retention=100 * HOUR)
    never = opened(retention="none")
    assert any("retention=none can't be had" in text for _, text in never.checks())  # type: ignore[attr-defined]


def test_a_tail_that_rests_reads_nothing(
    service: Service, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "UNUSED", 0.05)
    ledger = opened()
    ledger.append(b"0")
    from log_tools import until

    def rests() -> bool:
        before = service.asked["read"]
        import time

        time.sleep(0.2)
        return service.asked["read"] == before

    until(rests)
    assert ledger.append(b"1") == 1
    assert payloads(ledger) == [b"0", b"1"]


def test_exclusive_neli_is_refused_as_nobody_vouches_for_the_times(service: Service) -> None:
    with pytest.raises(CapabilityError, match=r"that it does not vouch for.*fast-neli"):
        pares.Member(URL, group="g", roles=["r"], protocol="neli")


def test_heads_fit_where_they_have_to() -> None:
    """A part, its head and its key are one record of the service, of at most 1 MiB."""
    start = records.Start((1 << 53) - 1, (1 << 53) - 1, "9" * 56)
    head = records.Head(
        1, "1" * 12 + ":" + "9" * 16, "entries", "x" * 12, (1 << 53) - 1, 63, 64, 10_000, "9" * 56, (1 << 53) - 1, start
    )
    data = records.encode(head, b"x" * writer.CHUNK)
    assert len(data) + 12 <= 1 << 20
    assert records.decode(data, head.log, "here") == (head, b"x" * writer.CHUNK)
