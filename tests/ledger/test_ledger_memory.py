"""What the memory ledger has beyond `Log`: names, and a switch for faults."""

import threading

import pytest
from ledger_stages import in_child

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.ledger.memory import MemoryLedger, drop


def open_memory(name: str) -> MemoryLedger:
    ledger = pares.ledger.open(f"memory://{name}")
    assert isinstance(ledger, MemoryLedger)
    return ledger


def test_is_shared_by_name_and_outlives_its_handles() -> None:
    one = open_memory("one")
    one.append(b"x")
    one.close()
    assert open_memory("one").end() == 1
    assert open_memory("two").end() == 0
    drop("one")
    drop("one")
    assert open_memory("one").end() == 0
    drop("one")
    drop("two")


def test_an_append_whose_acknowledgement_is_lost_is_there() -> None:
    ledger, other = open_memory("lost"), open_memory("lost")
    ledger.cut("unacknowledged", reads=False)
    with pytest.raises(LedgerUnavailable) as caught:
        other.append(b"x")
    assert caught.value.unknown is True
    assert [entry.payload for entry in other.read(0)] == [b"x"]
    ledger.heal()
    assert other.append(b"y") == 1
    drop("lost")


def test_reads_can_fail_alone() -> None:
    ledger = open_memory("deaf")
    ledger.cut("fine")
    assert ledger.append(b"x") == 0
    for call in (lambda: ledger.read(0), ledger.start, ledger.end, ledger.identity):
        with pytest.raises(LedgerUnavailable):
            call()
    ledger.heal()
    assert len(ledger.read(0)) == 1
    drop("deaf")


def test_a_cut_reaches_who_waits() -> None:
    ledger = open_memory("waits")
    timer = threading.Timer(0.05, ledger.cut)
    timer.start()
    with pytest.raises(LedgerUnavailable):
        ledger.read(0, timeout=60.0)
    timer.join()
    drop("waits")


def test_a_forked_child_begins_with_an_empty_one() -> None:
    open_memory("forked").append(b"parent")

    def child() -> None:
        ledger = open_memory("forked")
        assert ledger.end() == 0
        ledger.append(b"child")

    in_child(child)
    assert [entry.payload for entry in open_memory("forked").read(0)] == [b"parent"]
    drop("forked")
