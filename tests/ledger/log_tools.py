"""What tests of any ledger need: the whole of a log, an append that is certain, a bell, what takes a moment to be true."""

import select
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from pares.core.errors import LedgerUnavailable
from pares.ledger import Entry, Log

HANG = 60.0
PATIENT = 20
"""Seconds that a request may take where no server fails: a busy machine may stand still for one."""
T = TypeVar("T")


def read_all(log: Log, offset: int = 0, partition: int = 0, timeout: float = 0.0) -> list[Entry]:
    """All entries from `offset` on, where one read may return only the first of them. Each may take `timeout` seconds, and
    ends sooner but for a hole at the end."""
    entries: list[Entry] = []
    while offset < log.end(partition) and (found := log.read(offset, partition, timeout=timeout)):
        entries += found
        offset = found[-1].offset + 1
    return entries


def payloads(log: Log, offset: int = 0, partition: int = 0, timeout: float = 0.0) -> list[bytes]:
    return [entry.payload for entry in read_all(log, offset, partition, timeout)]


def append_again(log: Log, payload: bytes) -> int:
    """Append, and again until it is certain: for payloads of which two would do no harm."""
    end = time.monotonic() + HANG
    while True:
        try:
            return log.append(payload)
        except LedgerUnavailable:
            assert time.monotonic() < end


def open_again(opening: Callable[[], T]) -> T:
    """Open, and again until a server has answered in time: for what is to lose patience soon in an outage, and is opened on a
    server that has only just started."""
    end = time.monotonic() + HANG
    while True:
        try:
            return opening()
        except LedgerUnavailable:
            assert time.monotonic() < end


@contextmanager
def meddling(log: Log) -> Generator[None]:
    """Meanwhile somebody appends here, as fast as it goes."""
    stop = threading.Event()

    def meddle() -> None:
        while not stop.is_set():
            log.append(b"other")

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        yield
    finally:
        stop.set()
        meddler.join(HANG)


def rings(descriptor: int, timeout: float = HANG) -> bool:
    """Whether the bell with this descriptor rings within so many seconds."""
    return bool(select.select([descriptor], [], [], timeout)[0])


def until(done: Callable[[], bool], timeout: float = HANG) -> None:
    """Wait for what takes a moment to be true everywhere."""
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)
