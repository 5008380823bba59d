"""Somebody who appends, and somebody who reads along, while a test breaks the servers under them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from log_tools import read_all

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev.cluster import LocalCluster
from pares.ledger import Entry, Ledger, Log

HANG: Final = 90.0


class Writer(threading.Thread):
    """Appends numbers, one after the other, whatever happens; never the same twice."""

    def __init__(self, ledger: Log) -> None:
        super().__init__(daemon=True)
        self._ledger = ledger
        self.ended = False
        self.acknowledged: dict[int, int] = {}
        """Offsets of what was acknowledged."""
        self.refused: set[int] = set()
        """What surely was not appended."""
        self.number = 0

    def run(self) -> None:
        while not self.ended:
            self.number += 1
            try:
                offset = self._ledger.append(b"%d" % self.number)
            except LedgerUnavailable as error:
                if not error.unknown:
                    self.refused.add(self.number)
                time.sleep(0.02)
            else:
                self.acknowledged[self.number] = offset

    def goes_on(self) -> None:
        """Wait until two more appends were acknowledged."""
        wanted, end = len(self.acknowledged) + 2, time.monotonic() + HANG
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, "the ledger was not usable again"
            time.sleep(0.02)

    def end(self) -> None:
        self.ended = True
        self.join(HANG)
        assert not self.is_alive()


def follow(ledger: Log, entries: list[Entry], until: threading.Event) -> None:
    while not until.is_set():
        try:
            entries += ledger.read(entries[-1].offset + 1 if entries else 0, timeout=0.5)
        except LedgerUnavailable:
            time.sleep(0.02)


def kept(log: Log, writer: Writer) -> list[Entry]:
    """All that is in the log: what was acknowledged once, at its place and in order, and nothing that was refused."""
    entries = read_all(log)
    at = {int(entry.payload): entry.offset for entry in entries}
    assert len(at) == len(entries), "a record stands in the log twice"
    assert {number: at.get(number) for number in writer.acknowledged} == writer.acknowledged
    assert not writer.refused & at.keys(), "said to be refused, and is there"
    assert [int(entry.payload) for entry in entries] == sorted(at), "out of order"
    return entries


FAULTS: Final = ("leader killed", "one by one", "all at once", "leader frozen")


def strike(
    servers: LocalCluster, fault: str, leader: Callable[[], int], writer: Writer, while_gone: Callable[[int], None]
) -> None:
    """Has one of `FAULTS` happen to three servers; `while_gone` is told of the leader that was killed, before it comes back."""
    if fault == "leader killed":
        node = leader()
        servers.kill(node)
        try:
            writer.goes_on()
            while_gone(node)
        finally:
            servers.restart(node)
    elif fault == "one by one":
        for node in (1, 2, 3):
            servers.restart(node)
            writer.goes_on()
    elif fault == "all at once":
        for node in (1, 2, 3):
            servers.kill(node)
        for node in (1, 2, 3):
            servers.restart(node, wait=False)
        servers.wait_ready(HANG)
    else:
        node = leader()
        servers.freeze(node)
        time.sleep(4.0)
        servers.thaw(node)
    writer.goes_on()


def check_that_it_stays(url: str, strike: Callable[[Ledger, Writer], None]) -> None:
    """Whatever `strike` does: what is acknowledged before, meanwhile and afterwards stays, in order, for who reads along
    and for who comes later; and it is the same log as before."""
    ledger, reader = pares.ledger.open(url), pares.ledger.open(url)
    identity = ledger.identity()
    read: list[Entry] = []
    done = threading.Event()
    following = threading.Thread(target=follow, args=(reader, read, done), daemon=True)
    following.start()
    writer = Writer(ledger)
    writer.start()
    writer.goes_on()
    strike(ledger, writer)
    writer.end()
    again = pares.ledger.open(url, timeout=20)
    entries = kept(again, writer)
    end = time.monotonic() + HANG
    while (not read or read[-1].offset < entries[-1].offset) and time.monotonic() < end:
        time.sleep(0.02)
    done.set()
    following.join(HANG)
    assert read == entries
    assert again.identity() == ledger.identity() == identity
    for one in (ledger, reader, again):
        one.close()
