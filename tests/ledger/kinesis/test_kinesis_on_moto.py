"""The ledger on moto, which is an emulator: requests that fail in each way, a server that is frozen or starts empty, members
that share the reads of a shard.

What moto does not do (forgetting by age, numbers as AWS has them, late sight) is in test_kinesis_offsets.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kinesis_harm import opened, stream_of
from log_tools import HANG, append_again, payloads, until

import pares
import pares.ledger
from kinesis_tools import Moto, logged_in, new_name
from pares.core.errors import CapabilityError, LedgerUnavailable

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def frail() -> Iterator[Moto]:
    """One that tests may do everything to."""
    with logged_in(), Moto() as moto:
        yield moto


@pytest.mark.parametrize(
    ("how", "lands", "says"),
    [
        ("drop", True, "the connection failed"),
        ("fail", False, "the service failed"),
        ("late", True, "does not answer in time"),
    ],
)
def test_an_append_without_an_answer_is_sent_once_and_its_outcome_is_unknown(
    moto: Moto, how: str, lands: bool, says: str
) -> None:
    """boto3 would send it up to five times."""
    with opened(moto, timeout=1) as ledger:
        stream = stream_of(ledger)
        ledger.append(b"0")
        before = moto.count("PutRecord", stream)
        with moto.fault(how, "PutRecord", stream=stream, times=1, seconds=2.0):
            with pytest.raises(LedgerUnavailable, match=f"whether it happened is unknown.*{says}") as caught:
                ledger.append(b"1")
            assert caught.value.unknown
        assert moto.count("PutRecord", stream) == before + 1
        if lands:
            until(lambda: ledger.end() == 2)
        assert append_again(ledger, b"2") == 1 + lands
        assert payloads(ledger) == [b"0", *([b"1"] if lands else []), b"2"]


def test_what_is_refused_for_now_is_sent_again_until_it_is_taken(moto: Moto) -> None:
    with opened(moto) as ledger:
        stream = stream_of(ledger)
        with moto.fault("throttle", "PutRecord", stream=stream, times=3):
            assert ledger.append(b"0") == 0
        assert moto.count("PutRecord", stream) == 4
        with moto.fault("throttle", "PutRecord", stream=stream), pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"1")
        assert not caught.value.unknown
        assert payloads(ledger) == [b"0"]


def test_reads_that_are_too_many_slow_their_reader_down(moto: Moto) -> None:
    with opened(moto, timeout=10) as ledger:
        stream = stream_of(ledger)
        with moto.fault("throttle", "GetRecords", stream=stream, times=8):
            assert ledger.append(b"0") == 0
        assert ledger.read(0, timeout=HANG)[0].payload == b"0"
        assert any("was told" in text and "raise poll" in text for _, text in ledger.checks())  # type: ignore[attr-defined]


def test_a_reader_that_never_gets_its_turn_is_told_why(moto: Moto) -> None:
    with opened(moto, timeout=0.3) as ledger:
        ledger.append(b"0")
        with (
            moto.fault("throttle", "GetRecords", stream=stream_of(ledger)),
            pytest.raises(LedgerUnavailable, match="more processes read it than it lets: give each a slower"),
        ):
            ledger.end()
        until(lambda: append_again(ledger, b"1") >= 1)


def test_an_expired_iterator_is_made_anew(moto: Moto) -> None:
    with opened(moto) as ledger:
        for turn in range(3):
            with moto.fault("expire", "GetRecords", stream=stream_of(ledger), times=2):
                assert ledger.append(b"%d" % turn) == turn
        assert payloads(ledger) == [b"0", b"1", b"2"]


def test_a_right_that_is_missing_is_named_with_the_remedy(moto: Moto) -> None:
    with opened(moto) as ledger:
        ledger.append(b"0")
        with moto.fault("deny", "PutRecord", "GetRecords", stream=stream_of(ledger)):
            for call in (lambda: ledger.append(b"1"), ledger.end):
                with pytest.raises(
                    LedgerUnavailable, match=r"lacks a right; docs/security\.md.*AccessDenied"
                ) as caught:
                    call()
                assert not caught.value.unknown
        assert ledger.append(b"1") == 1


RIGHTS = (ROOT / "docs/security.md").read_text().partition("## Kinesis")[2].partition("## Secrets")[0]
OPENING, READING, WRITING = "the ledger can't be opened", "nothing can be read", "no append is taken"


@pytest.mark.parametrize(
    ("right", "lacks"),
    [
        ("DescribeStreamSummary", OPENING),
        ("ListShards", OPENING),
        ("GetShardIterator", READING),
        ("GetRecords", READING),
        ("PutRecord", WRITING),
    ],
)
def test_each_right_is_needed_for_what_the_page_says(moto: Moto, right: str, lacks: str) -> None:
    row = next(line for line in RIGHTS.splitlines() if f"`kinesis:{right}`" in line)
    assert lacks in row
    stream = new_name()
    with opened(moto, stream) as ledger:
        ledger.append(b"x")
    with moto.fault("deny", right, stream=stream):
        if lacks is OPENING:
            with pytest.raises(LedgerUnavailable, match=r"lacks a right; docs/security\.md"):
                pares.ledger.open(moto.url(stream))
            return
        with opened(moto, stream) as ledger:
            for call in (lambda: ledger.append(b"y"), ledger.end if lacks is READING else None):
                if call is not None:
                    with pytest.raises(LedgerUnavailable, match=r"lacks a right; docs/security\.md"):
                        call()
            if lacks is WRITING:
                assert payloads(ledger) == [b"x"]


def test_a_frozen_service_leaves_the_outcome_unknown_and_holds_nobody_for_ever(frail: Moto) -> None:
    with opened(frail, timeout=1) as ledger:
        ledger.append(b"0")
        frail.freeze()
        try:
            with pytest.raises(LedgerUnavailable, match="whether it happened is unknown") as caught:
                ledger.append(b"1")
            assert caught.value.unknown
            for call in (ledger.end, lambda: ledger.read(0, max_records=1), ledger.identity):
                try:
                    call()
                except LedgerUnavailable:
                    pass  # they wait no longer than they may
        finally:
            frail.thaw()
        append_again(ledger, b"2")
        found = payloads(ledger)
        assert found[0] == b"0"
        assert found.count(b"1") <= 1


def test_a_service_that_is_away_has_done_nothing(frail: Moto) -> None:
    with opened(frail) as ledger:
        ledger.append(b"0")
        frail.kill()
        try:
            for turn in range(3):
                with pytest.raises(LedgerUnavailable) as caught:
                    ledger.append(b"1")
                assert not caught.value.unknown or turn == 0, "nobody listens there"
        finally:
            frail.start()


def test_a_service_that_starts_empty_is_another_log_and_members_go_on(frail: Moto) -> None:
    with pares.Member(frail.url(new_name()), group="g", roles=["r"], session=2.0) as member:
        assert member.wait("r", HANG)
        had = member.term("r")
        assert had is not None
        frail.kill()
        frail.start()
        until(lambda: not had)
        until(lambda: member.holds("r"), 2 * HANG)
        again = member.term("r")
        assert again is not None
        assert again.token > had.token


def test_members_hand_over_and_take_over_by_silence(moto: Moto) -> None:
    url = moto.url(new_name())
    with (
        pares.Member(url, group="g", roles=["r"], session=3.0, name="a") as one,
        pares.Member(url, group="g", roles=["r"], session=3.0, name="b") as two,
    ):
        until(lambda: one.holds("r") or two.holds("r"))
        near, far = (one, two) if one.holds("r") else (two, one)
        had = near.term("r")
        near.hand_over("r", to=far.name)
        until(lambda: far.holds("r"))
        term = far.term("r")
        assert had is not None
        assert term is not None
        assert not had
        assert term.token > had.token


def test_five_members_share_the_reads_of_a_shard(moto: Moto) -> None:
    """At the pace that is the default: a read a second each, which is what a shard answers, and a session of ten."""
    stream = new_name()
    url = moto.url(stream, poll="1")
    with moto.reads(5):
        members = [pares.Member(url, group="g", roles=["r"], session=10.0, name=f"m{n}") for n in range(5)]
        try:
            until(lambda: any(member.holds("r") for member in members))
            leader = next(member for member in members if member.holds("r"))
            term = leader.term("r")
            began, reads, refused = time.monotonic(), moto.count("GetRecords", stream), moto.refused()
            until(lambda: moto.count("GetRecords", stream) > reads + 60 and time.monotonic() > began + 12)
            assert term, "it has led for more than a session on end"
            seconds = time.monotonic() - began
            asked = moto.count("GetRecords", stream) - reads
            assert asked <= 5.5 * seconds + 5, "they ask no more often than they may"
            assert moto.refused() - refused <= asked / 2
            leader.close()
            others = [member for member in members if member is not leader]
            until(lambda: any(member.holds("r") for member in others))
        finally:
            threads = [threading.Thread(target=member.close) for member in members]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(2 * HANG)


def test_a_stream_that_moto_has_split_is_refused(moto: Moto) -> None:
    stream = new_name()
    with opened(moto, stream) as ledger:
        ledger.append(b"0")
        client = moto.client()
        shard = client.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
        client.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(1 << 127))
        with pytest.raises(CapabilityError, match="has 2 shards"):
            pares.ledger.open(moto.url(stream))
    moto.client().create_stream(StreamName=f"{stream}-2", ShardCount=2)
    with pytest.raises(CapabilityError, match=r"has 2 shards.*one shard"):
        pares.ledger.open(moto.url(f"{stream}-2"))


def test_what_others_write_is_passed_over(moto: Moto) -> None:
    with opened(moto) as ledger:
        for data in (b"\x00\xff", b'{"pares":1}\n', b"text"):
            ledger.append(b"x")
            moto.put(stream_of(ledger), data)
        assert payloads(ledger) == [b"x"] * 3
        assert ledger.end() == 3


def test_doctor_says_that_this_is_an_emulator(moto: Moto) -> None:
    with opened(moto) as ledger:
        ledger.append(b"x")
        said = {text: level for level, text in ledger.checks()}  # type: ignore[attr-defined]
    assert any("moto, an emulator of Kinesis, and never on AWS itself" in text for text in said)
    assert any(f"reached at {moto.endpoint}" in text for text in said)
    assert any("poll=none" in text and level == "warning" for text, level in said.items())


def test_a_ledger_that_only_looks_on_makes_nothing(moto: Moto) -> None:
    stream = new_name()
    with pytest.raises(pares.ConfigError, match=r"there is no stream.*readonly makes nothing"):
        pares.ledger.open(moto.url(stream), readonly=True)
    with opened(moto, stream) as ledger, opened(moto, stream, readonly=True) as looking:
        ledger.append(b"x")
        assert payloads(looking) == [b"x"]
        with pytest.raises(CapabilityError, match="read-only"):
            looking.append(b"y")
