"""What the memory ledger has beyond `Log`: names, and a switch for faults."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest
from ledger_stages import in_child

import pares.ledger
from pares.core.errors import ClosedError, LedgerRewound, LedgerUnavailable, ParesError
from pares.ledger import memory
from pares.ledger.memory import MemoryLedger, drop

HANG = 30.0


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


@pytest.mark.parametrize("topic", [False, True])
def test_a_read_that_is_about_to_wait_while_it_is_closed_does_not_wait(
    topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed when it has looked, and does not listen yet."""
    ledger = open_memory("closing")
    log = ledger.topic("t") if topic else ledger
    _before_it_waits(monkeypatch, ledger.close)
    assert isinstance(_came_of_it(lambda: log.read(0, timeout=10 * HANG)), ClosedError)
    drop("closing")


def test_a_read_that_is_about_to_wait_on_a_log_that_is_dropped_waits_on_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = open_memory("dropping")
    ledger.append(b"x")
    _before_it_waits(monkeypatch, lambda: drop("dropping"))
    assert isinstance(_came_of_it(lambda: ledger.read(1, timeout=10 * HANG)), LedgerRewound)
    ledger.close()
    drop("dropping")


def _came_of_it(call: Callable[[], object]) -> object:
    """What the call returned or raised, while others may be waiting longer."""
    came: SimpleQueue[object] = SimpleQueue()

    def run() -> None:
        try:
            came.put(call())
        except ParesError as error:
            came.put(error)

    threading.Thread(target=run, daemon=True).start()
    return came.get(timeout=HANG)


def _before_it_waits(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """When the next caller has found its log, and does not look at it yet, this happens."""
    found = memory._space

    def late(name: str) -> memory._Space:
        monkeypatch.setattr(memory, "_space", found)
        space = found(name)
        thread = threading.Thread(target=happens)
        thread.start()
        thread.join()
        return space

    monkeypatch.setattr(memory, "_space", late)
