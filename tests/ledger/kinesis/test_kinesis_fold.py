"""Which births count, by hand: every reader says the same, whether it was there from the start or goes on at a known place."""

from __future__ import annotations

from pares.ledger.counted.records import Head, Start, encode, pack
from pares.ledger.kinesis.fold import SILENCE, Fold, Raw

LOG, BORN = "1:0", 1_000_000
HOUR = 3_600_000


def record(number: int, hours: float, *, after: str = "", next: int = 0, birth: bool = False) -> Raw:
    kind, holds, body = ("birth", 0, b"") if birth else ("entries", 1, pack([b"x"]))
    head = Head(1, LOG, kind, f"w{number}", 1, 0, 1, holds, after, next, Start())
    return Raw(str(number), BORN + round(hours * HOUR), encode(head, body))


def folded(fold: Fold, *records: Raw) -> Fold:
    for each in records:
        fold.take(each)
    return fold


def from_the_start() -> Fold:
    return Fold.at(LOG, BORN, "here", 0, ("", 0))


def test_of_two_births_over_one_record_the_first_counts() -> None:
    records = [record(1, 0.1), record(2, 7, after="1", birth=True), record(3, 8, after="1", birth=True)]
    fold = folded(from_the_start(), *records)
    assert fold.next == 7 * HOUR * 1000
    later = folded(Fold(LOG, BORN, "here"), *records[1:], record(4, 8, after="2", next=7 * HOUR * 1000))
    assert later.next == 7 * HOUR * 1000 + 1


def test_a_birth_that_names_another_than_the_record_before_it_changes_nothing() -> None:
    """Its writer was not the only one, and goes by what the others wrote."""
    assert folded(from_the_start(), record(1, 0.1), record(2, 0.2), record(3, 0.3, after="1", birth=True)).next == 2


def test_a_birth_after_long_silence_counts_whatever_it_names() -> None:
    """The record before it is out of its writer's sight. So it is for one that goes on right behind that record."""
    old, birth = record(5, 1), record(6, 1 + SILENCE / HOUR + 0.1, birth=True)
    told = (1 + SILENCE / HOUR + 0.1) * HOUR * 1000
    assert folded(Fold.at(LOG, BORN, "here", 40, ("5", old.arrival_ms)), birth).next == told
    assert folded(Fold.at(LOG, BORN, "here", 39, ("4", old.arrival_ms)), old, birth).next == told


def test_a_birth_that_is_seen_first_says_nothing_until_a_later_record_does() -> None:
    fold = folded(Fold(LOG, BORN, "here"), record(6, 9, birth=True))
    assert fold.next is None
    assert folded(fold, record(7, 9, after="6", next=32_400_000_000)).next == 32_400_000_001
    assert fold.begins == (32_400_000_000, "6")


def test_offsets_of_what_was_passed_are_known_afterwards() -> None:
    records = [record(number, 1, after=str(number - 3), next=number - 3) for number in range(10, 14)]
    fold = folded(Fold(LOG, BORN, "here"), *records)
    assert fold.next == 13, "10 comes behind record 10, says the last one"
    assert fold.begins == (10, "10")


def test_no_birth_lowers_an_offset() -> None:
    high = Fold.at(LOG, BORN, "here", 10**13, ("1", BORN))
    assert folded(high, record(2, 9, after="1", birth=True)).next == 10**13
