"""The ledger on a Redis that is frozen, killed, cut off, started empty, or has somebody in the way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from log_tools import HANG, append_again, payloads, rings, until
from proxy_tools import proxied
from redis_harm import ask, opened
from steady_writer import Writer

import pares
import pares.ledger
from pares.core.errors import LedgerGap, LedgerUnavailable
from pares.dev import Redis
from pares.ledger import Ledger, expire
from pares.ledger.redis.scripts import JUMP
from pares.ledger.retention import Trimming


@pytest.fixture(scope="module")
def one() -> Iterator[Redis]:
    with Redis() as one:
        yield one


@pytest.fixture
def server(one: Redis) -> Redis:
    """One that the test may do everything to, with no ledger in it."""
    if not one.nodes[0].running:
        one.restart(1, timeout=HANG)
    ask(one, "FLUSHALL")
    return one


@pytest.mark.parametrize("fault", ["killed", "stopped", "frozen", "connections cut"])
def test_what_is_acknowledged_stays(server: Redis, fault: str) -> None:
    """As on any ledger; offsets leave a hole where another run of the server begins to append."""
    ledger, reader = opened(server), opened(server)
    identity = ledger.identity()
    writer = Writer(ledger)
    writer.start()
    writer.goes_on()
    for _ in range(3):
        if fault == "killed":
            server.kill(1)
            server.restart(1, timeout=HANG)
        elif fault == "stopped":
            server.restart(1, timeout=HANG)
        elif fault == "frozen":
            server.freeze(1)
            time.sleep(1.5)
            server.thaw(1)
        else:
            ask(server, "CLIENT", "KILL", "TYPE", "normal")
            ask(server, "CLIENT", "KILL", "TYPE", "pubsub")
        writer.goes_on()
    writer.end()
    found: dict[int, int] = {}
    at = 0
    while entries := reader.read(at):
        found |= {int(entry.payload): entry.offset for entry in entries}
        at = entries[-1].offset + 1
    assert {number: found.get(number) for number in writer.acknowledged} == writer.acknowledged
    assert not writer.refused & found.keys(), "said to be refused, and is there"
    assert [*found] == sorted(found), "out of order"
    assert reader.identity() == identity == ledger.identity()
    holes = [later - earlier for earlier, later in zip(found.values(), [*found.values()][1:], strict=False)]
    assert sum(hole > 1 for hole in holes) == (3 if fault in ("killed", "stopped") else 0)
    for each in (ledger, reader):
        each.close()


def test_a_script_that_the_server_does_not_know_any_more(server: Redis) -> None:
    ledger = opened(server)
    ledger.append(b"0")
    ask(server, "SCRIPT", "FLUSH")
    assert ledger.append(b"1") == 1
    ask(server, "SCRIPT", "FLUSH")
    assert payloads(ledger) == [b"0", b"1"]
    ledger.close()


# A proxy in between -----------------------------------------------------------------------------------------------------


def test_a_proxy_that_holds_the_answer_back_leaves_the_outcome_unknown(server: Redis) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger = pares.ledger.open(f"{url}?timeout=1.5")
        ledger.append(b"0")
        proxy.hold()
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"1")
        assert caught.value.unknown
        until(lambda: ask(server, "XLEN", "pares") == 2)
        proxy.release()
        append_again(ledger, b"2")
        assert payloads(ledger) == [b"0", b"1", b"2"], "it was done once, and is not sent again"
        ledger.close()


def test_an_append_whose_answer_is_cut_off_is_there_once(server: Redis) -> None:
    """The client library would send it again, ten times by its default. Here nobody does."""
    with proxied(server, server.url) as (proxy, url):
        ledger = pares.ledger.open(f"{url}?timeout=20")
        ledger.append(b"0")
        proxy.hold()
        with ThreadPoolExecutor(1) as pool:
            appending = pool.submit(ledger.append, b"1")
            until(lambda: ask(server, "XLEN", "pares") == 2)
            proxy.cut()
            proxy.release()
            with pytest.raises(LedgerUnavailable) as caught:
                appending.result(HANG)
        assert caught.value.unknown
        assert ledger.append(b"2") == 2
        assert ask(server, "XLEN", "pares") == 3
        assert payloads(ledger) == [b"0", b"1", b"2"]
        ledger.close()


def test_a_connection_that_listens_and_hears_nothing_any_more_is_noticed(server: Redis) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger, other = pares.ledger.open(f"{url}?timeout=1.5"), opened(server)
        bell = ledger.bell()
        assert bell is not None
        until(lambda: ask(server, "PUBSUB", "NUMSUB", "pares:bell:0:0")[1] == 1)
        bell.clear()
        taken = proxy.taken
        proxy.hold(b"SUBSCRIBE")
        other.append(b"x")
        assert payloads(ledger) == [b"x"], "who reads asks the server"
        until(lambda: proxy.taken > taken)
        assert not rings(bell.fileno(), 0)
        proxy.release()
        assert rings(bell.fileno(), HANG), "something may have come meanwhile"
        bell.close()
        for each in (ledger, other):
            each.close()


# A server that starts empty, and keys that go ---------------------------------------------------------------------------


def test_a_server_that_starts_empty_is_another_log_and_members_go_on() -> None:
    """The memory of a cache: nobody has to open the ledger again."""
    with Redis({"appendonly": "no"}) as server:
        ledger = opened(server)
        ledger.append_many([b"old"] * 3)
        before = ledger.identity()
        with pares.Member(server.url, group="g", roles=["r"], session=1.0) as member:
            assert member.wait("r", HANG)
            had = member.term("r")
            assert had is not None
            server.kill(1)
            server.restart(1, timeout=HANG)
            until(lambda: not had)
            until(lambda: member.holds("r"))
            again = member.term("r")
            assert again is not None
            assert again.token > had.token
        assert ledger.identity() != before
        ledger.close()


def test_an_append_makes_no_log_and_a_look_on_makes_none_either(server: Redis) -> None:
    ledger, onlooker = opened(server), opened(server, readonly=True)
    ledger.append(b"x")
    ask(server, "FLUSHALL")
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="the log is gone") as caught:
            ledger.append(b"y")
        assert not caught.value.unknown
    with pytest.raises(LedgerUnavailable, match="is gone"):
        onlooker.identity()
    assert ask(server, "DBSIZE") == 0
    ledger.identity()
    assert onlooker.end() == 0
    for each in (ledger, onlooker):
        each.close()


def test_an_evicted_stream_is_another_log(server: Redis) -> None:
    """The key of the entries alone; what is left of the log is none."""
    ledger = opened(server)
    ledger.append_many([b"old"] * 3)
    before = ledger.identity()
    ask(server, "DEL", "pares")
    with pytest.raises(LedgerUnavailable, match=r"deleted or evicted"):
        ledger.read(0)
    assert ledger.identity() != before
    assert (ledger.start(), ledger.end()) == (0, 0)
    assert ledger.append(b"new") == 0
    ledger.close()


def test_somebody_elses_trim_is_a_gap(server: Redis) -> None:
    ledger = opened(server)
    ledger.append_many([b"%d" % number for number in range(10)])
    ask(server, "XTRIM", "pares", "MAXLEN", "4")
    assert ledger.start() == 6
    with pytest.raises(LedgerGap, match="starts at 6"):
        ledger.read(2)
    assert payloads(ledger, 6) == [b"6", b"7", b"8", b"9"]
    ask(server, "XTRIM", "pares", "MAXLEN", "0")
    assert (ledger.start(), ledger.end(), ledger.read(10)) == (10, 10, [])
    assert ledger.append(b"10") == 10
    ledger.close()


def test_entries_deleted_in_the_middle_are_not_passed_over(server: Redis) -> None:
    ledger = opened(server)
    ledger.append_many([b"%d" % number for number in range(10)])
    ask(server, "XDEL", "pares", "5-0", "6-0", "10-0")
    assert [entry.payload for entry in ledger.read(0)] == [b"0", b"1", b"2", b"3"]
    for offset in (4, 5, 9):
        with pytest.raises(LedgerUnavailable, match=r"missing in the middle.*XDEL.*DEL pares:log pares"):
            ledger.read(offset)
    assert ledger.read(10) == []
    ledger.close()


def test_somebody_elses_entries_are_no_entries_and_are_named(server: Redis) -> None:
    ledger = opened(server)
    ledger.append(b"0")
    ask(server, "XADD", "pares", "*", "their", "own")
    assert payloads(ledger) == [b"0"]
    with pytest.raises(LedgerUnavailable, match=r"somebody else has added entries.*another \?stream=") as caught:
        ledger.append(b"1")
    assert not caught.value.unknown
    assert ledger.end() == 1
    ledger.close()


def test_a_full_server_refuses_all_or_nothing(server: Redis) -> None:
    ledger = opened(server)
    ledger.append(b"0")
    ask(server, "CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(LedgerUnavailable, match="maxmemory: raise that") as caught:
            ledger.append_many([b"1", b"2"])
        assert not caught.value.unknown
        assert payloads(ledger) == [b"0"]
    finally:
        ask(server, "CONFIG", "SET", "maxmemory", "0")
    assert ledger.append(b"1") == 1
    ledger.close()


def test_a_right_that_goes_in_between_leaves_nothing_half_done(server: Redis) -> None:
    ledger = opened(server)
    ledger.append(b"0")
    for right in ("xadd", "hset", "publish", "time", "info"):
        ask(server, "ACL", "SETUSER", "default", f"-{right}")
        try:
            with pytest.raises(LedgerUnavailable, match="lacks a right") as caught:
                ledger.append_many([b"1", b"2"])
            assert not caught.value.unknown
        finally:
            ask(server, "ACL", "SETUSER", "default", "+@all")
        assert payloads(ledger) == [b"0"]
        assert ledger.end() == 1
    ledger.close()


# Holes, and the bell ----------------------------------------------------------------------------------------------------


def test_a_log_with_a_hole_is_trimmed_behind_it(server: Redis) -> None:
    ledger = opened(server, retention=100)
    ledger.append_many([b"x"] * 5)
    server.restart(1, timeout=HANG)
    place = append_again(ledger, b"y")
    assert place >= 4 + JUMP
    ledger.append_many([b"z"] * 5)
    entries = ledger.read(0)
    assert [entry.offset for entry in entries] == [*range(5), *range(place, place + 6)]
    for offset in (5, 6, place - 1, place):
        assert ledger.read(offset)[0].offset == place, "nothing is lost in a hole"
    now = entries[-1].timestamp_ms
    assert expire(ledger, place + 3, now_ms=now + 101_000) == place + 3 == ledger.start()
    with pytest.raises(LedgerGap):
        ledger.read(7)
    ledger.close()


def test_a_member_trims_a_log_across_a_hole(server: Redis) -> None:
    """A part at a time, of which the hole is none."""
    ledger = opened(server, retention=100)
    ledger.append_many([b"x"] * 5)
    server.restart(1, timeout=HANG)
    append_again(ledger, b"y")
    end = ledger.append_many([b"z"] * 5)[-1] + 1
    trimming = Trimming(ledger, lambda: 0, lambda: time.time_ns() // 1000 + 200_000_000)
    until(lambda: not trimming.trim(end, 0) and ledger.start() == end)
    assert ledger.read(end) == []
    ledger.close()


def test_the_bell_is_heard_again_after_a_restart(server: Redis) -> None:
    ledger, other = opened(server), opened(server)
    bell = ledger.bell()
    assert bell is not None
    server.restart(1, timeout=HANG)
    assert rings(bell.fileno(), HANG), "something may have come meanwhile"

    def woken() -> bool:
        bell.clear()
        append_again(other, b"x")
        return rings(bell.fileno(), 1.0)

    until(woken)
    bell.close()
    for each in (ledger, other):
        each.close()


def test_nobody_can_put_entries_into_a_log_by_a_notice(server: Redis) -> None:
    ledger = opened(server)
    bell = ledger.bell()
    assert bell is not None
    assert ask(server, "PUBLISH", "pares:bell:0:0", "anything") == 1
    assert rings(bell.fileno(), HANG)
    assert ledger.read(0, timeout=0.1) == []
    assert ledger.append(b"0") == 0
    bell.close()
    ledger.close()


def test_an_idle_connection_that_the_server_ends_is_made_anew(server: Redis) -> None:
    ledger = opened(server)
    ledger.append(b"0")
    ask(server, "CLIENT", "KILL", "TYPE", "normal")
    assert ledger.append(b"1") == 1, "nothing was sent on the dead one, so nothing is unknown"
    ledger.close()


def test_a_database_of_its_own(server: Redis) -> None:
    first, second = opened(server), pares.ledger.open(server.url.replace("/0", "/1"))
    bell = second.bell()
    assert bell is not None
    bell.clear()
    first.append(b"x")
    assert second.end() == 0
    assert not rings(bell.fileno(), 0.1), "channels are the same in all databases, but not theirs"
    bell.close()
    each: Ledger
    for each in (first, second):
        each.close()
