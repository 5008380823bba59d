"""The file of a SQLite ledger is deleted, replaced or closed while handles on it are open."""

from collections.abc import Callable
from contextlib import closing

import pytest
from ledger_stages import SqliteStage, descriptors, integrity

from pares.core.errors import ClosedError, LedgerRewound, LedgerUnavailable
from pares.ledger.sqlite.log import SqliteLedger


def test_a_file_that_is_deleted_is_missed(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    ledger.append(b"x")
    identity = ledger.identity()
    aside = sqlite.folder / "aside.db"
    sqlite.path.rename(aside)
    calls: list[Callable[[], object]] = [
        ledger.identity,
        lambda: ledger.read(1),
        lambda: ledger.append(b"y"),
        ledger.end,
    ]
    for call in calls:
        with pytest.raises(LedgerUnavailable, match="is gone") as caught:
            call()
        assert caught.value.unknown is False
    assert not sqlite.path.exists()
    aside.rename(sqlite.path)
    assert ledger.identity() == identity
    assert ledger.append(b"y") == 1


def test_a_file_replaced_during_an_append_leaves_the_outcome_unknown(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    assert isinstance(ledger, SqliteLedger)

    def append() -> None:
        with ledger._file().transaction("append") as (_, connection):
            connection.execute("UPDATE logs SET next = next + 1")
            sqlite.replace()

    with pytest.raises(LedgerUnavailable) as caught:
        append()
    assert caught.value.unknown is True
    assert ledger.append(b"x") == 0


def test_a_file_replaced_by_something_else_is_not_written_to(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    ledger.append(b"x")
    sqlite.path.unlink()
    sqlite.path.write_bytes(b"no database")
    for call in (ledger.identity, lambda: ledger.append(b"y"), lambda: ledger.read(1)):
        with pytest.raises(LedgerUnavailable, match="replaced by something that is no ledger"):
            call()
    assert sqlite.path.read_bytes() == b"no database"


def test_a_deleted_ledger_that_is_made_again_is_sound(sqlite: SqliteStage) -> None:
    """Handles on the deleted file must not touch the new one's write-ahead log and index, which have the same names."""
    old = [sqlite.open() for _ in range(3)]
    for ledger in old:
        ledger.append(b"old")
    sqlite.path.unlink()
    new = sqlite.open()
    new.append_many([b"new"] * 50)
    for ledger in old[:2]:
        with pytest.raises(LedgerRewound):
            ledger.read(51)
    for ledger in old:
        ledger.append(b"late")
        ledger.close()
    assert [entry.payload for entry in new.read(0)] == [b"new"] * 50 + [b"late"] * 3
    new.close()
    assert integrity(sqlite.path) == "ok"
    with closing(sqlite.open()) as again:
        assert again.end() == 53


def test_a_closed_file_is_not_opened_again(sqlite: SqliteStage) -> None:
    """By a thread that was about to use it when another closed it."""
    ledger = sqlite.open()
    assert isinstance(ledger, SqliteLedger)
    file = ledger._file()
    before = descriptors()
    ledger.close()
    with pytest.raises(ClosedError):
        file.read(lambda side, connection: None)
    with pytest.raises(ClosedError):
        file.transaction("append").__enter__()
    assert descriptors() < before
