"""The conformance suite: who waits for an entry is woken by it, by a read or by a bell."""

import threading
import time

import pytest
from ledger_stages import Stage
from log_tools import HANG, payloads, rings

from pares.core.errors import ClosedError


def test_read_waits_for_the_first_entry(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    began = time.monotonic()
    assert ledger.read(0, timeout=0.15) == []
    assert time.monotonic() - began >= 0.15
    timer = threading.Timer(0.1, other.append, [b"x"])
    timer.start()
    assert [entry.payload for entry in ledger.read(0, timeout=HANG)] == [b"x"]
    timer.join()


def test_waiting_reads_share_a_handle(stage: Stage) -> None:
    ledger = stage.open()
    found: list[bytes] = []
    readers = [
        threading.Thread(target=lambda: found.extend(entry.payload for entry in ledger.read(0, timeout=HANG)))
        for _ in range(6)
    ]
    for reader in readers:
        reader.start()
    time.sleep(0.05)
    stage.open().append(b"x")
    for reader in readers:
        reader.join(HANG)
    assert found == [b"x"] * 6


def test_the_bell_rings_for_others_and_own_appends(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    bell = ledger.bell()
    assert bell is not None
    bell.clear()
    assert not rings(bell.fileno(), 0.05)
    for writer in (ledger, other, other):
        writer.append(b"x")
        assert rings(bell.fileno(), HANG)
        bell.clear()
        assert not rings(bell.fileno(), 0)
    other.append_many([b"x"] * 10)
    assert rings(bell.fileno(), HANG)
    bell.close()
    bell.close()
    with pytest.raises(ClosedError):
        bell.fileno()
    other.append(b"x")


def test_what_is_not_urgent_rings_no_bell(stage: Stage) -> None:
    """A service tells its readers of everything; on one host an append that is not urgent costs nobody a wake-up."""
    ledger, other = stage.open(), stage.open()
    bell = ledger.bell()
    assert bell is not None
    bell.clear()
    offsets = [other.append_many([b"beat"], urgent=False)[0], *other.append_many([b"beat"] * 2, urgent=False)]
    if ledger.capabilities.scope != "network":
        assert not rings(bell.fileno(), 0.05)
    assert payloads(ledger) == [b"beat"] * 3, "the next read finds it"
    bell.clear()
    offsets += other.append_many([b"act"], urgent=True)
    assert rings(bell.fileno(), HANG)
    bell.close()
    assert offsets == sorted(set(offsets))
    assert payloads(ledger) == [b"beat"] * 3 + [b"act"]


def test_a_waiting_read_finds_what_is_not_urgent(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    timer = threading.Timer(0.05, lambda: other.append_many([b"beat"], urgent=False))
    timer.start()
    assert [entry.payload for entry in ledger.read(0, timeout=HANG)] == [b"beat"]
    timer.join()


def test_an_entry_is_readable_once_the_bell_rings(stage: Stage) -> None:
    ledger, other = stage.open(), stage.open()
    bell = ledger.bell()
    assert bell is not None
    bell.clear()
    for number in range(50):
        writer = threading.Thread(target=other.append, args=(b"%d" % number,))
        writer.start()
        assert rings(bell.fileno(), HANG)
        bell.clear()
        assert payloads(ledger, number) == [b"%d" % number]
        writer.join()
        bell.clear()
    bell.close()


def test_closing_ends_a_waiting_read(stage: Stage) -> None:
    ledger = stage.open()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            ledger.read(0, timeout=HANG)
        except ClosedError as error:
            raised.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    time.sleep(0.05)
    ledger.close()
    reader.join(HANG / 2)
    assert len(raised) == 1
