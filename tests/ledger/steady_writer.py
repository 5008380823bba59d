"""Somebody who appends, and somebody who reads along, while a test breaks the servers under them."""

from __future__ import annotations

import threading
import time
from typing import Final

from pares.core.errors import LedgerUnavailable
from pares.ledger import Entry, Log

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
    entries = log.read(0, max_records=10_000)
    while len(more := log.read(entries[-1].offset + 1, max_records=10_000)):
        entries += more
    at = {int(entry.payload): entry.offset for entry in entries}
    assert len(at) == len(entries), "a record stands in the log twice"
    assert {number: at.get(number) for number in writer.acknowledged} == writer.acknowledged
    assert not writer.refused & at.keys(), "said to be refused, and is there"
    assert [int(entry.payload) for entry in entries] == sorted(at), "out of order"
    return entries
