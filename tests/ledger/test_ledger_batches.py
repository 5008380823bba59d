"""A stretch of a log in batches."""

from ledger_stages import SqliteStage

from pares.ledger.batches import batches


def test_a_stretch_and_nothing_beyond_it(sqlite: SqliteStage) -> None:
    log = sqlite.open()
    log.append_many([b"x"] * 10)
    found = [[entry.offset for entry in batch] for batch in batches(log, 0, 2, 7, 3)]
    assert found == [[2, 3, 4], [5, 6]]
    assert list(batches(log, 0, 7, 7, 3)) == []
    assert [entry.offset for batch in batches(log, 0, 9, 100, 3) for entry in batch] == [9]


def test_what_is_trimmed_meanwhile_is_passed_over(sqlite: SqliteStage) -> None:
    log, other = sqlite.open(), sqlite.open()
    log.append_many([b"x"] * 10)
    found: list[int] = []
    for batch in batches(log, 0, 0, 10, 2):
        found += [entry.offset for entry in batch]
        other.trim(6)
    assert found == [0, 1, 6, 7, 8, 9]
