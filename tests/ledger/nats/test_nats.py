"""What can happen to a NATS ledger while it is in use: streams that are cut, servers that end or stand still, late appends."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator

import pytest
from log_tools import HANG, append_again, meddling, payloads, read_all, until
from nats_stages import Server

import pares
import pares.ledger
from pares.core.errors import LedgerGap, LedgerUnavailable
from pares.dev import Nats
from pares.ledger import Entry
from pares.ledger.nats.log import NatsLedger


def opened(server: Server, stream: str, **options: object) -> NatsLedger:
    ledger = pares.ledger.open(server.nats.stream_url(stream), **options)
    assert isinstance(ledger, NatsLedger)
    return ledger


@pytest.fixture
def stream(server: Server) -> Iterator[str]:
    stream = server.name()
    yield stream
    server.delete(stream)


@pytest.fixture
def own() -> Iterator[Server]:
    """A server that a test may harm."""
    with Nats() as nats:
        yield Server(nats)


def test_what_was_purged_under_a_follower_is_a_gap(server: Server, stream: str) -> None:
    ledger, other = opened(server, stream), opened(server, stream)
    bell = ledger.bell()
    assert bell is not None
    ledger.append_many([b"%d" % number for number in range(100)])
    assert len(ledger.read(0, timeout=HANG, max_records=10)) == 10
    assert server.api(f"STREAM.PURGE.{stream}", seq=91)["purged"] == 90
    late = opened(server, stream)
    with pytest.raises(LedgerGap, match="starts at 90"):
        late.read(10)
    assert [entry.offset for entry in read_all(late, 90)] == list(range(90, 100))
    # One who follows has read them before.
    assert [entry.offset for entry in read_all(ledger, 95)] == list(range(95, 100))
    assert server.api(f"STREAM.PURGE.{stream}")["purged"] == 10
    assert (ledger.start(), ledger.end()) == (100, 100)
    assert other.append(b"after") == 100
    assert [entry.payload for entry in ledger.read(100, timeout=HANG)] == [b"after"]
    bell.close()
    for one in (ledger, other, late):
        one.close()


def test_limits_cut_the_log_visibly(server: Server, stream: str) -> None:
    ledger = opened(server, stream)
    server.update(stream, max_msgs=10)
    assert ledger.append_many([b"%d" % number for number in range(25)]) == list(range(25))
    assert (ledger.start(), ledger.end()) == (15, 25)
    with pytest.raises(LedgerGap):
        ledger.read(14)
    assert len(read_all(ledger, 15)) == 10
    ledger.close()


def test_messages_deleted_one_by_one_are_holes(server: Server, stream: str) -> None:
    ledger, follower = opened(server, stream), opened(server, stream)
    bell = follower.bell()
    assert bell is not None
    ledger.append_many([b"%d" % number for number in range(10)])
    for sequence in (1, 4, 5, 10):
        assert server.api(f"STREAM.MSG.DELETE.{stream}", seq=sequence)["success"]
    late = opened(server, stream)
    assert (late.start(), late.end()) == (1, 10)
    assert [entry.offset for entry in read_all(late, 1)] == [1, 2, 5, 6, 7, 8]
    assert [entry.offset for entry in read_all(late, 3)] == [5, 6, 7, 8]
    assert late.read(9) == []
    assert late.append(b"x") == 10
    assert [entry.offset for entry in late.read(9)] == [10]
    assert [entry.offset for entry in follower.read(10, timeout=HANG)] == [10]
    bell.close()
    for one in (ledger, follower, late):
        one.close()


def test_without_direct_requests_the_leader_is_asked(server: Server, stream: str) -> None:
    ledger = opened(server, stream)
    server.update(stream, allow_direct=False)
    written = [b"%d" % number for number in range(100)]
    ledger.append_many(written)
    for sequence in (11, 12, 50):
        assert server.api(f"STREAM.MSG.DELETE.{stream}", seq=sequence)["success"]
    del written[49], written[11], written[10]
    late = opened(server, stream)
    assert payloads(late) == written
    assert [entry.payload for entry in late.read(0, max_records=11)] == written[:11]
    assert [entry.offset for entry in late.read(10, max_records=1)] == [12]
    large = b"x" * 1_000_000
    for _ in range(2):
        late.append_many([large] * 10)
    assert 1 <= len(late.read(100)) <= 17
    assert late.read(100, max_records=1)[0].payload == large
    ledger.close()
    late.close()


def test_one_append_is_one_batch_up_to_what_a_stream_takes(server: Server, stream: str) -> None:
    ledger, other = opened(server, stream, timeout=20), opened(server, stream, timeout=20)
    with meddling(other):
        for number in range(10):
            offsets = ledger.append_many([b"%d" % number] * 1000)
            assert offsets == list(range(offsets[0], offsets[0] + 1000))
        many = ledger.append_many([b"x"] * 3500)
    assert many == sorted(many)
    assert len(many) == 3500
    ledger.close()
    other.close()


def test_a_stream_that_is_full_refuses(server: Server, stream: str) -> None:
    ledger = opened(server, stream)
    ledger.append(b"x")
    server.update(stream, max_msgs=1, discard="new")
    for use in (lambda: ledger.append(b"y"), lambda: ledger.append_many([b"y", b"z"])):
        with pytest.raises(LedgerUnavailable, match="maximum messages exceeded") as caught:
            use()
        assert caught.value.unknown is False
    server.update(stream, max_msgs=-1)
    assert ledger.append(b"y") == 1
    ledger.close()


# Late appends --------------------------------------------------------------------------------------------------------


def test_a_copy_of_an_append_that_comes_late_is_refused(server: Server, stream: str) -> None:
    """What a network, or a server that stood still, may do with a message that was sent long ago."""
    ledger = opened(server, stream)
    ledger.append(b"first")
    assert ledger.append(b"second") == 1
    kept = server.api(f"STREAM.MSG.GET.{stream}", seq=2)["message"]
    answer = json.loads(server.request(kept["subject"], b"second", Nats_Expected_Last_Subject_Sequence="1"))
    assert answer["error"]["err_code"] == 10071
    assert ledger.append(b"third") == 2
    assert payloads(ledger) == [b"first", b"second", b"third"]
    ledger.close()


def test_an_append_of_unknown_outcome_that_landed_is_not_in_the_way(server: Server, stream: str) -> None:
    ledger = opened(server, stream)
    ledger.append(b"first")
    kept = server.api(f"STREAM.MSG.GET.{stream}", seq=1)["message"]
    # As if the ledger had sent it, and not heard the answer.
    assert json.loads(server.request(kept["subject"], b"unknown"))["seq"] == 2
    assert ledger.append(b"third") == 2
    assert ledger.append_many([b"fourth", b"fifth"]) == [3, 4]
    assert payloads(ledger) == [b"first", b"unknown", b"third", b"fourth", b"fifth"]
    ledger.close()


def test_a_trim_behind_one_s_own_last_append_is_not_in_the_way(server: Server, stream: str) -> None:
    ledger, other = opened(server, stream), opened(server, stream)
    ledger.append(b"a")
    other.append_many([b"b", b"c"])
    ledger.trim(2)
    assert ledger.append(b"d") == 3
    ledger.trim(4)
    assert ledger.append_many([b"e", b"f"]) == [4, 5]
    assert other.append(b"g") == 6
    ledger.close()
    other.close()


def test_a_server_that_stands_still(own: Server) -> None:
    ledger = opened(own, "t", timeout=0.5)
    bell = ledger.bell()
    assert ledger.append(b"before") == 0
    assert payloads(ledger) == [b"before"]
    own.nats.freeze(1)
    unknown: list[bool] = []
    for number in range(4):
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"lost %d" % number)
        unknown.append(caught.value.unknown)
    # Only the first may still land: the others were not sent, as nobody answered.
    assert unknown == [True, False, False, False]
    for use in (ledger.end, lambda: ledger.read(1), lambda: ledger.trim(1)):
        with pytest.raises(LedgerUnavailable):
            use()
    own.nats.thaw(1)
    after = append_again(ledger, b"after")
    time.sleep(1.0)
    found = payloads(ledger)
    # What was sent before it stood still came when it went on, or never; nothing came after the next append.
    assert found[0] == b"before"
    assert {*found[1:]} <= {b"lost 0", b"after"}
    assert found.count(b"lost 0") <= 1
    assert len(found) == after + 1
    assert found[after] == b"after"
    assert bell is not None
    bell.close()
    ledger.close()


def test_a_server_that_is_killed_and_comes_back(own: Server) -> None:
    ledger, follower = opened(own, "t", timeout=0.5), opened(own, "t", timeout=0.5)
    bell = follower.bell()
    identity = ledger.identity()
    written: list[bytes] = []
    for turn in range(3):
        for number in range(20):
            written.append(b"%d %d" % (turn, number))
            assert ledger.append(written[-1]) == len(written) - 1
        own.nats.kill(1)
        with pytest.raises(LedgerUnavailable):
            ledger.append(b"lost")
        own.nats.restart(1)
        until(lambda: ledger.epoch > 0)
        assert ledger.end() == len(written)
    found: list[Entry] = []
    end = time.monotonic() + HANG
    while len(found) < len(written) and time.monotonic() < end:
        try:
            found += follower.read(len(found), timeout=0.5)
        except LedgerUnavailable:
            time.sleep(0.02)
    assert [entry.payload for entry in found] == written
    # The tail has come back too: what is appended now is pushed.
    threading.Timer(0.3, append_again, [ledger, b"last"]).start()
    assert [entry.payload for entry in follower.read(len(written), timeout=HANG)] == [b"last"]
    assert ledger.identity() == follower.identity() == identity
    assert bell is not None
    bell.close()
    ledger.close()
    follower.close()


def test_a_reader_that_stood_still_has_missed_nothing(own: Server) -> None:
    """Its connection ends meanwhile, and with it everything that was pushed to it."""
    ledger, follower = opened(own, "t"), opened(own, "t", timeout=0.3)
    bell = follower.bell()
    read: list[Entry] = []
    done = threading.Event()

    def follow() -> None:
        while not done.is_set():
            try:
                read.extend(follower.read(len(read), timeout=0.2))
            except LedgerUnavailable:
                time.sleep(0.01)

    thread = threading.Thread(target=follow)
    thread.start()
    number = 0
    for turn in range(4):
        for _ in range(50):
            ledger.append(b"%d" % number)
            number += 1
        if turn % 2:
            own.nats.freeze(1)
            time.sleep(0.8)
            own.nats.thaw(1)
        else:
            own.nats.restart(1)
        append_again(ledger, b"after turn %d" % turn)
    until(lambda: len(read) >= ledger.end())
    done.set()
    thread.join(HANG)
    assert [entry.offset for entry in read] == list(range(len(read)))
    assert read == read_all(ledger)
    assert bell is not None
    bell.close()
    ledger.close()
    follower.close()


def test_a_server_that_starts_empty_is_another_log_and_members_go_on(own: Server) -> None:
    """Nobody has to open the ledger again."""
    with pares.Member(own.nats.stream_url("members"), group="g", roles=["r"], session=1.0) as member:
        assert member.wait("r", HANG)
        had = member.term("r")
        assert had is not None
        own.nats.kill(1)
        shutil.rmtree(own.nats.nodes[0].folder / "data")
        own.nats.restart(1, timeout=HANG)
        until(lambda: not had)
        until(lambda: member.holds("r"))
        again = member.term("r")
        assert again is not None
        assert again.token > had.token
