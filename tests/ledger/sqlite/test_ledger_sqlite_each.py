"""Appending to several partitions at once: the price of one append, and all or nothing."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from pares.core.errors import ParesError
from pares.ledger import open as open_ledger
from pares.ledger.base import MAX_PAYLOAD
from pares.ledger.sqlite.log import SqliteLedger


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    ledger = open_ledger(f"sqlite:///{tmp_path}/work.db?partitions=3")
    assert isinstance(ledger, SqliteLedger)
    return ledger


def test_each_payload_stands_in_its_partition(ledger: SqliteLedger) -> None:
    ledger.append(b"before", 1)
    assert ledger.append_each([(0, b"a"), (1, b"b"), (1, b"c"), (2, b"d")]) == [0, 1, 2, 0]
    read = {number: [entry.payload for entry in ledger.read(0, number)] for number in range(3)}
    assert read == {0: [b"a"], 1: [b"before", b"b", b"c"], 2: [b"d"]}
    assert ledger.append(b"after", 1) == 3
    assert ledger.append_each([]) == []
    ledger.close()


@pytest.mark.parametrize("bad", [(7, b"x"), (1, b"x" * (MAX_PAYLOAD + 1)), (-1, b"x")])
def test_what_is_wrong_with_one_keeps_all_out(ledger: SqliteLedger, bad: tuple[int, bytes]) -> None:
    with pytest.raises(ParesError):
        ledger.append_each([(0, b"a"), bad])
    assert [ledger.end(number) for number in range(3)] == [0, 0, 0]
    assert ledger.append_each([(0, b"a"), (1, b"b")]) == [0, 0]
    ledger.close()


def test_readers_of_each_are_woken(ledger: SqliteLedger) -> None:
    bells = [ledger.bell(number) for number in (0, 2)]
    waiting = select.poll()
    for bell in bells:
        assert bell is not None
        bell.clear()
        waiting.register(bell.fileno(), select.POLLIN)
    ledger.append_each([(0, b"a"), (2, b"b")])
    assert len(waiting.poll(5000)) == 2
    for bell in bells:
        assert bell is not None
        bell.clear()
    assert ledger.append_each([(0, b"c"), (2, b"d")], urgent=False) == [1, 1]
    assert waiting.poll(50) == [], "what is not urgent wakes nobody"
    assert [entry.payload for entry in ledger.read(1, 2)] == [b"d"]
    for bell in bells:
        assert bell is not None
        bell.close()
    ledger.close()


def test_one_look_says_where_there_is_something_to_read(ledger: SqliteLedger) -> None:
    other = open_ledger(ledger.url)
    assert ledger.changed([0, 0, 0]) == []
    ledger.append_each([(0, b"a"), (2, b"b")])
    assert ledger.changed([0, 0, 0]) == [0, 2]
    assert ledger.changed([1, 0, 0]) == [2]
    assert ledger.changed([1, 0, 1]) == []
    other.append(b"c", 1)
    assert ledger.changed([1, 0, 1]) == [1], "what another process appends shows, too"
    assert ledger.changed([1]) == [], "of the first so many"
    assert ledger.changed([1, 1, 1]) == []
    ledger.trim(1, 0)
    assert ledger.changed([0, 1, 9]) == [0, 2], "also where a read would raise"
    assert ledger.changed([]) == []
    other.close()
    ledger.close()
