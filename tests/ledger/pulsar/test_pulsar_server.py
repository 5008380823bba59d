"""The ledger on a Pulsar that is killed, frozen, lets go of its topics, lags, loses its tail or starts empty."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from log_tools import HANG, append_again, open_again, payloads, until
from pulsar_harm import opened
from steady_writer import Writer, check_that_it_stays

import pares
from pares.core.errors import LedgerUnavailable
from pares.dev import Pulsar
from pares.ledger import Ledger
from pares.ledger.pulsar import client
from pulsar_tools import Management, path


@pytest.fixture(scope="module")
def server() -> Iterator[Pulsar]:
    """One that tests may do everything to; each has a topic of its own."""
    with Pulsar() as server:
        yield server


@pytest.mark.parametrize("fault", ["killed", "stopped", "frozen", "unloaded"])
def test_what_is_acknowledged_stays(server: Pulsar, fault: str) -> None:
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
                Management(server).unload(f"stays-{fault}")
            writer.goes_on()

    check_that_it_stays(f"{server.topic_url(f'stays-{fault}')}&timeout=5", strike)


def test_an_append_that_was_cut_off_lands_at_most_once(server: Pulsar) -> None:
    """The client sends again what was not acknowledged when its connection broke."""
    ledger, management = opened(server, "cut"), Management(server)
    with ThreadPoolExecutor(1) as pool:
        for number in range(30):
            cut = pool.submit(management.unload, "cut") if number % 3 == 1 else None
            try:
                ledger.append(b"%d" % number)
            except LedgerUnavailable:
                pass
            if cut is not None:
                cut.result()
    append_again(ledger, b"end")
    found, other = payloads(ledger), opened(server, "cut")
    assert len(found) == len({*found}), "one stands in the log twice"
    assert found[-1] == b"end"
    assert payloads(other) == found
    for each in (ledger, other):
        each.close()


def test_an_end_that_lags_behind_what_was_read_is_no_loss(server: Pulsar, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker shows entries before it tells that the topic ends behind them, when it closes a segment."""
    ledger = opened(server, "lags")
    ledger.append_many([b"a", b"b"])
    ledger.append(b"c")
    assert len(payloads(ledger)) == 3
    before = ledger.identity()
    last = client.Watch.last
    monkeypatch.setattr(client.Watch, "last", lambda watch: max(0, last(watch) - 1))
    assert (ledger.end(), ledger.identity()) == (3, before)
    Management(server).unload("lags")
    until(lambda: append_again(ledger, b"d") >= 3)
    assert ledger.end() == 4
    assert ledger.read(4) == []
    monkeypatch.undo()
    assert payloads(ledger) == [b"a", b"b", b"c", b"d"]
    assert ledger.identity() == before
    ledger.close()


@pytest.mark.parametrize("others", [0, 3])
def test_a_lost_tail_is_another_log(server: Pulsar, others: int) -> None:
    """As a disk that was restored leaves it: the files are as they were a while ago. `others` append before it is noticed."""
    topic = f"tail-{others}"
    ledger = opened(server, topic)
    ledger.append_many([b"kept"] * 3)
    before = ledger.identity()
    server.stop(1)
    data, copy = server.nodes[0].folder / "data", server.nodes[0].folder / "copy"
    shutil.copytree(data, copy)
    server.restart(1, timeout=2 * HANG)
    until(lambda: append_again(ledger, b"lost") >= 5)
    assert ledger.identity() == before
    server.kill(1)
    shutil.rmtree(data)
    copy.rename(data)
    server.restart(1, timeout=2 * HANG)
    other = open_again(lambda: opened(server, topic))
    for _ in range(others):
        append_again(other, b"others")

    def another() -> bool:
        try:
            ledger.end()
            return ledger.identity() != before
        except LedgerUnavailable:
            return False

    until(another)
    assert payloads(ledger) == payloads(other) == [b"kept"] * 3 + [b"others"] * others
    append_again(ledger, b"goes on")
    assert payloads(other)[-1] == b"goes on"
    for each in (ledger, other):
        each.close()


def test_what_was_trimmed_the_broker_may_delete_and_readers_still_count(server: Pulsar) -> None:
    ledger, management = opened(server, "trimmed"), Management(server)
    written = 0

    def write(count: int) -> None:
        nonlocal written
        for _ in range(count):
            append_again(ledger, b"%d" % written)
            written += 1
        management.unload("trimmed")  # the broker begins another segment then

    def kept() -> int:
        """Messages that the broker has."""
        management.ask("POST", f"{path('trimmed')}/trim")
        return management.ask("GET", f"{path('trimmed')}/internalStats")["numberOfEntries"]

    write(100)
    write(100)
    assert kept() >= 200, "the subscription keeps all of it, though the namespace has no retention"
    ledger.trim(150)
    write(10)
    until(lambda: kept() < 120)
    found, other = payloads(ledger, 150), opened(server, "trimmed")
    assert (other.start(), other.end()) == (ledger.start(), ledger.end()) == (150, 150 + len(found))
    assert payloads(other, 150) == found
    assert found[-1] == b"209"
    for each in (ledger, other):
        each.close()


def test_a_server_that_starts_empty_is_another_log_and_members_go_on() -> None:
    """Nobody has to open the ledger again."""
    with Pulsar() as server, pares.Member(server.url, group="g", roles=["r"], session=2.0) as member:
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


def test_members_hand_over_and_go_on_after_a_kill(server: Pulsar) -> None:
    url = server.topic_url("members")
    with (
        pares.Member(url, group="g", roles=["r"], session=2.0, name="a") as one,
        pares.Member(url, group="g", roles=["r"], session=2.0, name="b") as other,
    ):
        until(lambda: len(one.members()) == len(other.members()) == 2)
        until(lambda: one.holds("r") or other.holds("r"))
        near, far = (one, other) if one.holds("r") else (other, one)
        had = near.term("r")
        near.hand_over("r", to="b" if near is one else "a")
        until(lambda: far.holds("r"))
        after = far.term("r")
        assert had is not None
        assert after is not None
        assert not had
        assert after.token > had.token
        server.kill(1)
        until(lambda: not after, HANG)
        assert not one.holds("r"), "nobody believes while nothing can be read"
        assert not other.holds("r")
        server.restart(1, timeout=2 * HANG)
        until(lambda: one.holds("r") or other.holds("r"), 2 * HANG)
        last = one.term("r") if one.holds("r") else other.term("r")
        assert last is None or last.token >= after.token
