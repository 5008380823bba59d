"""Reading by need (R21) on the ledgers of services: who is woken, and what is found without being woken.

In these tests most appends are not urgent, as in a large group; so readers are lazy before anything is looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from ledger_stages import ServedStage
from log_tools import HANG, append_again, payloads, rings, until

import pares.ledger
from pares.dev import Kafka, Nats
from pares.ledger import Bell, Ledger, Noting
from pares.ledger.local.stamp import own_stopwatch as stopwatch
from pares.ledger.service_log import TailedLog
from pares.ledger.window import MANY, Window

BY_NEED = pytest.mark.parametrize("served", ["nats", "kafka", "redis"], indirect=True)
"""Not PostgreSQL: there the tail hears of every append, and brings it without ringing where it is not urgent."""


def window_of(ledger: Ledger) -> Window:
    shared: Any = ledger
    return shared._service.window(shared._topic, 0)


def tails(ledger: Ledger) -> bool:
    """Whether a thread brings what is new, until its readers are lazy; else they always bring it themselves."""
    return isinstance(ledger, TailedLog)


def follows(ledger: Ledger) -> bool:
    """Whether the handle would hear of an append."""
    return not tails(ledger) or window_of(ledger).open


class Reader:
    """A handle with a bell, which has read all that stands in the log when it is made."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        if ledger.capabilities.arrivals:  # else its readers bring what they need in any case
            cast(Noting, ledger).attend(0, self, closely=False)
        bell = ledger.bell()
        assert bell is not None
        self.bell: Bell = bell
        self.found: list[bytes] = []
        self.place = 0

    def read(self) -> list[bytes]:
        """What is new."""
        new: list[bytes] = []
        while found := self.ledger.read(self.place):
            new += [entry.payload for entry in found]
            self.place = found[-1].offset + 1
        self.found += new
        return new

    def until(self, payload: bytes) -> None:
        until(lambda: payload in self.read() or payload in self.found)

    def is_lazy(self) -> bool:
        self.read()
        return not tails(self.ledger) or window_of(self.ledger).lazy

    def hush(self) -> None:
        """Silences the bell, once it has rung for what came before."""
        self.read()
        self.bell.clear()
        while rings(self.bell.fileno(), 0.3):
            self.bell.clear()


def quiet(ledger: Ledger, *texts: bytes) -> list[int]:
    return ledger.append_many(list(texts), urgent=False)


def lazy(opening: Callable[[], Ledger]) -> tuple[Reader, Reader]:
    """Two readers of a log in which most appends are not urgent, both aware of that."""
    one, two = Reader(opening()), Reader(opening())
    until(lambda: follows(one.ledger) and follows(two.ledger))

    def are_lazy() -> bool:
        quiet(one.ledger, *[b"beat"] * MANY)
        return one.is_lazy() and two.is_lazy()

    until(are_lazy)
    for reader in (one, two):
        reader.hush()
    return one, two


def test_what_is_not_urgent_rings_no_bell(served: ServedStage) -> None:
    """From the first such append on, when no reader is lazy yet."""
    reader, writer = Reader(served.open()), served.open()
    reader.hush()
    until(lambda: follows(reader.ledger))
    assert quiet(writer, b"beat") == [0]
    reader.until(b"beat")
    assert not rings(reader.bell.fileno(), 0)
    writer.append(b"claim")
    assert rings(reader.bell.fileno(), HANG)
    assert reader.read() == [b"claim"]
    reader.bell.close()


def test_what_comes_is_noted_for_a_reader_that_is_attended_closely(served: ServedStage) -> None:
    """It is not woken for what is not urgent, however much of that there is, and knows all the same when it came."""
    reader, writer = Reader(served.open()), served.open()
    assert reader.ledger.capabilities.arrivals == (reader.ledger.kind in ("kafka", "nats", "postgresql"))
    if not reader.ledger.capabilities.arrivals:
        return
    noting, window = cast(Noting, reader.ledger), window_of(reader.ledger)
    noting.attend(0, reader, closely=True)
    cast(Noting, writer).attend(0, writer, closely=True)
    reader.hush()
    until(lambda: follows(reader.ledger))
    for number in range(3 * MANY):
        began = stopwatch()
        offset = quiet(writer, b"beat %d" % number)[-1]
        until(lambda offset=offset: window.high > offset)
        by = stopwatch()
        entries = reader.ledger.read(offset)
        (came,) = noting.arrivals(entries)
        assert came is not None
        assert began <= came <= by
    assert not window.lazy
    assert not rings(reader.bell.fileno(), 0)
    for text in (b"claim", b"release"):
        writer.append(text)
        assert rings(reader.bell.fileno(), HANG)
        reader.until(text)
        reader.bell.clear()
    reader.bell.close()


@BY_NEED
def test_a_lazy_reader_is_woken_by_urgent_appends_alone(served: ServedStage) -> None:
    one, two = lazy(served.open)
    for number in range(5):
        beats = [b"beat %d %d" % (number, at) for at in range(3)]
        quiet(one.ledger, *beats)
        assert not rings(two.bell.fileno(), 0.05)
        one.ledger.append_many([b"%d" % number, b"and more"])
        assert rings(two.bell.fileno(), HANG)
        two.bell.clear()
        two.until(b"and more")
        assert two.found[-5:] == [*beats, b"%d" % number, b"and more"], "with all before it, in order"
        two.found.clear()
    for reader in (one, two):
        reader.bell.close()


@BY_NEED
def test_a_lazy_reader_finds_what_it_was_not_woken_for(served: ServedStage) -> None:
    one, two = lazy(served.open)
    for number in range(20):
        offset = quiet(one.ledger, b"%d" % number)[-1]
        assert [entry.payload for entry in one.ledger.read(offset)] == [b"%d" % number], "its own, at once"
        two.until(b"%d" % number)
    assert two.found[-20:] == [b"%d" % number for number in range(20)]
    assert not rings(two.bell.fileno(), 0)
    for reader in (one, two):
        reader.bell.close()


@BY_NEED
def test_lazy_readers_see_one_order_without_a_hole(served: ServedStage) -> None:
    one, two = lazy(served.open)
    writers = [served.open() for _ in range(3)]

    def write(name: int) -> None:
        for number in range(40):
            writers[name].append_many([b"%d %d" % (name, number)], urgent=number % 8 == 0)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        one.read()
        two.read()
    for thread in threads:
        thread.join(HANG)
    everything = payloads(served.open())
    for reader in (one, two):
        reader.until(everything[-1])
        reader.bell.close()
    assert one.found == two.found == everything
    for name in range(3):
        assert [p for p in one.found if p.startswith(b"%d " % name)] == [b"%d %d" % (name, at) for at in range(40)]


@BY_NEED
def test_a_writer_that_knows_of_no_lazy_readers(served: ServedStage) -> None:
    """As release 0.1 is, or a member that has read nothing yet: its urgent append is found by the next reading."""
    one, two = lazy(served.open)
    served.open().append(b"unheard")
    two.until(b"unheard")
    one.until(b"unheard")
    for reader in (one, two):
        reader.bell.close()


@BY_NEED
def test_a_log_without_quiet_appends_has_no_lazy_readers_in_the_end(
    served: ServedStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = lazy(served.open)
    if not tails(one.ledger):
        assert not rings(two.bell.fileno(), 0), "its readers are lazy always, and are woken by urgent appends alone"
        return
    monkeypatch.setattr("pares.ledger.window.NONE", 0.0)
    monkeypatch.setattr("pares.ledger.window.PERIOD", 0.0)

    def eager() -> bool:
        one.ledger.append(b"x")
        return not one.is_lazy() and not two.is_lazy()

    until(eager)
    for reader in (one, two):
        reader.hush()
    one.ledger.append(b"y")
    assert rings(two.bell.fileno(), HANG)
    two.until(b"y")
    for reader in (one, two):
        reader.bell.close()


@pytest.mark.brokers
@pytest.mark.parametrize("service", ["kafka", "nats"])
def test_a_lazy_reader_hears_again_after_a_restart(service: str) -> None:
    with Kafka() if service == "kafka" else Nats() as server:
        url = server.topic_url("t") if isinstance(server, Kafka) else server.stream_url("t")
        opened: list[Ledger] = []

        def opening() -> Ledger:
            opened.append(pares.ledger.open(url, timeout=5))
            return opened[-1]

        one, two = lazy(opening)
        before = [*two.found]
        server.kill(1)
        server.restart(1)
        append_again(one.ledger, b"after")
        until(lambda: window_of(two.ledger).open)

        def woken() -> bool:
            two.bell.clear()
            one.ledger.append(b"claim")
            return rings(two.bell.fileno(), 1.0)

        until(woken)
        two.until(b"claim")
        assert two.found[: len(before)] == before
        for ledger in opened:
            ledger.close()
