"""The ledger on a RabbitMQ that is killed, frozen, cut off, loses its tail or starts empty."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from log_tools import HANG, append_again, open_again, payloads, rings, until
from proxy_tools import proxied
from rabbit_harm import opened
from steady_writer import Writer, check_that_it_stays

import pares
import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import RabbitMQ
from pares.ledger import Ledger


@pytest.fixture(scope="module")
def server() -> Iterator[RabbitMQ]:
    """One that tests may do everything to; each has a stream of its own.

    A RabbitMQ (3.10) that is killed within half a second of the first stream of its life no longer knows its streams. So this
    one was stopped in good order once after that.
    """
    with RabbitMQ() as server:
        opened(server, "first").close()
        server.restart(1, timeout=2 * HANG)
        yield server


@pytest.mark.parametrize("fault", ["killed", "stopped", "frozen", "connections cut"])
def test_what_is_acknowledged_stays(server: RabbitMQ, fault: str) -> None:
    with proxied(server, server.url) as (proxy, url):

        def strike(ledger: Ledger, writer: Writer) -> None:
            for _ in range(2):
                if fault == "killed":
                    server.kill(1)
                    server.restart(1, timeout=2 * HANG)
                elif fault == "stopped":
                    server.restart(1, timeout=2 * HANG)
                elif fault == "frozen":
                    server.freeze(1)
                    time.sleep(1.5)
                    server.thaw(1)
                else:
                    proxy.cut()
                writer.goes_on()

        check_that_it_stays(url.replace("/pares", f"/stays-{fault.split()[0]}") + "?timeout=5", strike)


def test_an_append_that_was_cut_off_lands_at_most_once(server: RabbitMQ) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger = pares.ledger.open(url.replace("/pares", "/cut") + "?timeout=5")
        unknown = 0
        for number in range(40):
            if number % 4 == 1:
                proxy.cut()
            try:
                ledger.append(b"%d" % number)
            except LedgerUnavailable as error:
                unknown += error.unknown
        append_again(ledger, b"end")
        found = payloads(ledger)
        assert len(found) == len({*found}), "one stands in the log twice"
        assert found[-1] == b"end"
        ledger.close()


def test_a_proxy_that_holds_the_answer_back_leaves_the_outcome_unknown(server: RabbitMQ) -> None:
    """The server has the entry, and its word on that does not come. It is not sent again."""
    with proxied(server, server.stream_url("held")) as (proxy, url):
        ledger, other = pares.ledger.open(f"{url}?timeout=1.5"), opened(server, "held")
        append_again(ledger, b"0")
        first = len(payloads(other))
        proxy.hold()
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"1")
        assert caught.value.unknown
        until(lambda: len(payloads(other)) == first + 1)
        proxy.release()
        append_again(ledger, b"2")
        found = payloads(other)
        assert found[first - 1 : first + 1] == [b"0", b"1"]
        assert found.count(b"1") == 1
        assert payloads(ledger) == found
        for each in (ledger, other):
            each.close()


def test_a_connection_that_hears_nothing_any_more_is_noticed(server: RabbitMQ) -> None:
    """What is pushed is held back: a follower does not take that for an empty log."""
    with proxied(server, server.stream_url("deaf")) as (proxy, url):
        ledger, other = pares.ledger.open(f"{url}?timeout=1.5"), opened(server, "deaf")
        assert ledger.read(0, timeout=0.3) == []
        proxy.hold()
        other.append(b"x")

        def told() -> bool:
            try:
                assert ledger.end() == 1
            except LedgerUnavailable:
                return True
            return False

        until(told)
        assert not payloads(other, 1)
        proxy.release()
        append_again(ledger, b"y")
        assert payloads(ledger)[0] == b"x"
        for each in (ledger, other):
            each.close()


def test_a_lost_tail_is_another_log(server: RabbitMQ) -> None:
    """As a crash of the machine leaves it: the files are as they were a while ago."""
    ledger = opened(server, "tail")
    ledger.append_many([b"kept"] * 3)
    before = ledger.identity()
    server.stop(1)
    data = server.nodes[0].folder / "data"
    copy = server.nodes[0].folder / "copy"
    shutil.copytree(data, copy)
    server.restart(1, timeout=2 * HANG)
    until(lambda: append_again(ledger, b"lost") >= 5)
    assert ledger.identity() == before
    server.kill(1)
    shutil.rmtree(data)
    copy.rename(data)
    server.restart(1, timeout=2 * HANG)
    other = open_again(lambda: opened(server, "tail"))
    append_again(other, b"others")
    append_again(other, b"others")
    append_again(other, b"others")

    def another() -> bool:
        try:
            ledger.end()
            return ledger.identity() != before
        except LedgerUnavailable:
            return False

    until(another)
    assert payloads(ledger) == payloads(other) == [b"kept"] * 3 + [b"others"] * 3
    for each in (ledger, other):
        each.close()


def test_a_server_that_starts_empty_is_another_log_and_members_go_on() -> None:
    """Nobody has to open the ledger again."""
    with RabbitMQ() as server, pares.Member(server.url, group="g", roles=["r"], session=1.0) as member:
        assert member.wait("r", HANG)
        had = member.term("r")
        assert had is not None
        server.kill(1)
        shutil.rmtree(server.nodes[0].folder / "data")
        server.restart(1, timeout=2 * HANG)
        until(lambda: not had)
        until(lambda: member.holds("r"), 2 * HANG)
        again = member.term("r")
        assert again is not None
        assert again.token > had.token


def test_members_hand_over_and_take_over_by_silence(server: RabbitMQ) -> None:
    """The one that is cut off can't be heard, and its death can't be proven: it is alive."""
    with proxied(server, server.url) as (proxy, url):
        there = server.stream_url("members")
        with (
            pares.Member(url.replace("/pares", "/members"), group="g", roles=["r"], session=1.0, name="a") as near,
            pares.Member(there, group="g", roles=["r"], session=1.0, name="b") as far,
        ):
            until(lambda: near.holds("r") or far.holds("r"))
            if near.holds("r"):
                had = near.term("r")
                near.hand_over("r", to="b")
                until(lambda: far.holds("r"))
                assert not had
            until(lambda: {"a", "b"} <= {member.name for member in far.members()})  # b may lead before a has joined
            had = far.term("r")
            far.hand_over("r", to="a")
            until(lambda: near.holds("r"))
            assert not had
            term = near.term("r")
            assert had is not None
            assert term is not None
            assert term.token > had.token
            proxy.shut()
            until(lambda: far.holds("r"))
            assert not term, "its lease ended before another one began"
            after = far.term("r")
            assert after is not None
            assert after.token > term.token


def test_the_bell_is_heard_again_after_a_cut(server: RabbitMQ) -> None:
    with proxied(server, server.url) as (proxy, url):
        ledger, other = pares.ledger.open(url.replace("/pares", "/bell")), opened(server, "bell")
        bell = ledger.bell()
        assert bell is not None
        proxy.cut()
        assert rings(bell.fileno(), HANG), "something may have come meanwhile"

        def woken() -> bool:
            bell.clear()
            append_again(other, b"x")
            return rings(bell.fileno(), 1.0)

        until(woken)
        bell.close()
        for each in (ledger, other):
            each.close()
