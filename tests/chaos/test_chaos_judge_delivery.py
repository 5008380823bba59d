"""The judge of deliveries, on journals made by hand: what is kept, and each thing that can be broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chaos.delivery.journal import Journal, Line, lines, runs
from chaos.delivery.judge import Begin, Verdict, judge
from chaos.delivery.plan import WAYS, Way
from chaos.delivery.report import cells, to_json

TOPIC = [(0, offset) for offset in range(6)]
BEGINS = {(0, 10): Begin(0), (0, 20): Begin(2, ((4, 5),))}
TAKES = {(0, 10): Begin(0, took=[(0, 2), (2, 3)], name="a"), (0, 20): Begin(3, took=[(3, 6)], name="b")}


def script(*said: tuple[str, str, int, Any]) -> list[Line]:
    """(kind, worker, token, offsets), one after the other, in partition 0."""
    return [
        Line(worker, kind, at, 0, token, tuple(offsets) if isinstance(offsets, range | list) else (offsets,))
        for at, (kind, worker, token, offsets) in enumerate(said)
    ]


def did(worker: str, token: int, offsets: Any) -> list[tuple[str, str, int, Any]]:
    return [("did", worker, token, offset) for offset in offsets]


def a_crash(*more: tuple[str, str, int, Any]) -> list[Line]:
    """`a` does 0 to 4, of which 0, 1 and 4 are marked; `b` goes on."""
    return script(
        ("given", "a-1", 10, range(5)),
        *did("a-1", 10, range(5)),
        ("given", "b-1", 20, [2, 3, 5]),
        *did("b-1", 20, [2, 3, 5]),
        *more,
    )


def broken(way: Way, said: list[Line], begins: dict[tuple[int, int], Begin] = BEGINS, **more: Any) -> list[str]:
    return judge(way, TOPIC, said, begins, **more).broken


def test_at_least_once_may_repeat_what_was_unmarked() -> None:
    found = judge("at-least-once", TOPIC, a_crash(), BEGINS)
    assert found.broken == []
    assert (found.lost, found.repeated, found.allowed, found.out_of_order, found.terms) == (0, 2, 2, 0, 2)
    assert (found.records, found.given, found.effects) == (6, 8, 8)


def test_a_record_without_an_effect_is_lost() -> None:
    said = [line for line in a_crash() if not (line.kind == "did" and line.offsets == (5,))]
    assert broken("at-least-once", said) == ["1 records lost: (0, 5)"]


def test_a_record_that_was_marked_may_not_be_given_out_again() -> None:
    said = a_crash(("given", "b-1", 20, [4]), *did("b-1", 20, [4]))
    assert any("though they were marked: 0:4" in words for words in broken("at-least-once", said))


def test_nothing_is_repeated_beyond_what_was_unmarked() -> None:
    said = a_crash(*did("b-1", 20, [2]))
    assert broken("at-least-once", said) == [
        "1 records done more than once in a term: (0, 2)",
        "1 records done backwards in a term: (0, 2)",
        "3 repeated, and 2 were unmarked when a term began",
    ]


def test_what_one_record_may_be_repeated_is_not_lent_to_another() -> None:
    """2 and 3 were unmarked: that each of them could be repeated lets nobody do 5 twice."""
    said = script(
        ("given", "a-1", 10, range(5)),
        *did("a-1", 10, range(5)),
        ("given", "b-1", 20, [5]),
        *did("b-1", 20, [5, 5]),
    )
    found = judge("at-least-once", TOPIC, said, BEGINS)
    assert found.repeated <= found.allowed
    assert found.broken == ["1 records done more than once in a term: (0, 5)"]


def test_marks_that_came_when_the_next_term_had_begun_allow_the_repetition() -> None:
    """`a` says done for all, and no beat of its lands before it is killed."""
    said = script(
        ("given", "a-1", 10, range(6)),
        *did("a-1", 10, range(6)),
        ("said", "a-1", 10, range(6)),
        ("given", "b-1", 20, range(6)),
        *did("b-1", 20, range(6)),
    )
    begins = {(0, 10): Begin(0), (0, 20): Begin(0)}
    found = judge("at-least-once", TOPIC, said, begins)
    assert (found.broken, found.repeated, found.allowed) == ([], 6, 6)
    assert broken("at-least-once", said, {**begins, (0, 20): Begin(1)})[0].startswith("1 records given out though")


def test_an_effect_belongs_to_a_term_that_had_the_record() -> None:
    said = script(("given", "a-1", 10, range(5)), *did("a-1", 10, range(6)))
    assert broken("at-least-once", said) == ["1 records done that were not given out in that term: (0, 5)"]


def test_positions_only_rise() -> None:
    begins = {**BEGINS, (0, 30): Begin(1)}
    assert broken("at-least-once", a_crash(), begins) == [
        "1 terms (partition, token) that began before where an earlier one had: (0, 30)"
    ]


def test_a_term_has_one_worker() -> None:
    said = a_crash(("given", "c-1", 20, []))
    assert broken("at-least-once", said) == ["1 terms that two workers were given records in: (0, 20)"]


def test_what_a_flush_has_written_down_may_not_come_again() -> None:
    said = script(
        ("given", "a-1", 10, range(5)),
        *did("a-1", 10, range(5)),
        ("said", "a-1", 10, range(5)),
        ("kept", "a-1", 10, []),
        ("given", "b-1", 20, [2, 3, 5]),
        *did("b-1", 20, [2, 3, 5]),
    )
    assert broken("at-least-once", said) == ["2 records given out again though a flush had written them down: 0:2, 0:3"]


def test_a_frozen_worker_that_writes_down_late_what_it_was_given_is_no_repetition() -> None:
    said = script(
        ("given", "b-1", 20, [2, 3, 5]),
        *did("b-1", 20, [2, 3, 5]),
        ("said", "b-1", 20, [2, 3, 5]),
        ("kept", "b-1", 20, []),
        ("given", "a-1", 10, range(5)),
        *did("a-1", 10, range(5)),
    )
    found = judge("at-least-once", TOPIC, said, BEGINS)
    assert not any("flush" in words for words in found.broken)
    assert found.allowed == 2


def test_order_is_that_of_first_effects() -> None:
    assert judge("at-least-once", TOPIC, a_crash(), BEGINS).out_of_order == 0
    said = script(("given", "a-1", 10, range(6)), *did("a-1", 10, [0, 1, 3, 2, 4, 5]))
    assert broken("at-least-once", said) == [
        "1 records done backwards in a term: (0, 2)",
        "1 records done out of order: (0, 2)",
    ]


def test_at_most_once_a_frozen_worker_may_do_late_what_it_has_taken() -> None:
    said = script(
        ("given", "a-1", 10, range(2)),
        *did("a-1", 10, range(2)),
        ("given", "a-1", 10, [2]),
        ("given", "b-1", 20, range(3, 6)),
        *did("b-1", 20, [3, 4, 5]),
        *did("a-1", 10, [2]),
    )
    found = judge("at-most-once", TOPIC, said, TAKES)
    assert (found.broken, found.out_of_order, found.lost) == ([], 1, 0)


def test_in_a_term_nothing_is_given_out_backwards() -> None:
    said = a_crash(("given", "b-1", 20, [3]))
    assert any("backwards in a term: 0:3 to b-1" in words for words in broken("at-least-once", said))


def test_a_term_that_the_log_never_gave_is_told() -> None:
    said = a_crash(("given", "c-1", 30, [5]))
    assert any("that the log never gave: (0, 30)" in words for words in broken("at-least-once", said))


def test_at_most_once_repeats_nothing() -> None:
    said = script(
        ("given", "a-1", 10, range(2)),
        *did("a-1", 10, range(2)),
        ("given", "a-1", 10, [2]),
        ("given", "b-1", 20, range(3, 6)),
        *did("b-1", 20, [3]),
    )
    found = judge("at-most-once", TOPIC, said, TAKES, died={"a", "b"})
    assert (found.broken, found.lost) == ([], 3), "2, and 4 and 5: each the last of what a term had taken"
    assert broken("at-most-once", said, TAKES, died={"b"}) == [
        "1 records lost that a worker had taken which lived: (0, 2)"
    ]
    again = broken("at-most-once", a_crash(), {**TAKES, (0, 20): Begin(2, took=[(2, 6)])})
    assert again[0].startswith("2 records done more than once: (0, 2), (0, 3)")
    assert again[1].startswith("2 records given out more than once")


def test_at_most_once_nothing_is_given_out_that_was_not_taken_before() -> None:
    said = script(("given", "a-1", 10, range(6)), *did("a-1", 10, range(6)))
    assert broken("at-most-once", said, TAKES) == [
        "3 records given out that were not taken in that term: (0, 3), (0, 4), (0, 5)"
    ]


def test_at_most_once_what_is_lost_is_the_end_of_what_a_term_had_taken() -> None:
    said = script(("given", "a-1", 10, [0, 2]), *did("a-1", 10, [0, 2]), ("given", "b-1", 20, [3]))
    begins = {**TAKES, (0, 20): Begin(3, took=[(3, 4)], name="b")}
    assert broken("at-most-once", said, begins, died={"a", "b"}) == [
        "1 records lost in the midst of what a term had taken: (0, 1)",
        "2 records lost that nobody had taken: (0, 4), (0, 5)",
    ]


def test_rows_of_the_sink_are_the_effects_behind_a_fence() -> None:
    said = a_crash()
    rows = [*((0, offset, 10) for offset in range(5)), (0, 5, 20)]
    assert broken("fenced", said, rows=rows) == []
    assert broken("fenced", said, rows=[*rows, (0, 2, 20)])[0:2] == [
        "1 records done backwards in a term: (0, 2)",
        "1 records done more than once: (0, 2)",
    ]
    assert broken("fenced", said, rows=rows[:-1]) == ["1 records lost: (0, 5)"]
    assert broken("fenced", said, rows=[(0, 7, 10), *rows])[0].startswith(
        "1 effects of records that are not in the topic: (0, 7)"
    )


def test_behind_a_fence_no_row_is_written_in_a_term_that_another_had_followed() -> None:
    rows = [(0, 0, 10), (0, 1, 10), (0, 2, 20), (0, 3, 10), (0, 4, 10), (0, 5, 20)]
    assert broken("fenced", a_crash(), rows=rows) == [
        "2 rows written in a term that another had followed: (0, 3), (0, 4)"
    ]


def test_a_plain_group_is_counted_and_not_judged() -> None:
    found = judge("plain group", TOPIC, script(*did("a-1", 0, [0, 2, 1, 2, 2])), {})
    assert (found.lost, found.repeated, found.out_of_order, found.broken) == (3, 2, 1, [])


def test_a_journal_outlives_the_middle_of_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "w1-1.journal")
    journal.given(3, 17, [0, 1, 2, 7])
    journal.did(3, 17, 0)
    journal.kept(3, 17)
    with (tmp_path / "w1-1.journal").open("a") as file:
        file.write("did 99 3 1")
    found = [(line.worker, line.kind, line.partition, line.token, line.offsets) for line in lines(tmp_path)]
    assert found == [
        ("w1-1", "given", 3, 17, (0, 1, 2, 7)),
        ("w1-1", "did", 3, 17, (0,)),
        ("w1-1", "kept", 3, 17, ()),
    ]
    assert runs([]) == ""


def test_several_terms_at_once_are_those_of_several_slots() -> None:
    """Two workers work on one partition: each has a slot, whose order and position are its own."""
    begins = {(0, 10): Begin(0, slot=0), (0, 11): Begin(0, slot=1), (0, 20): Begin(2, slot=0)}
    said = script(
        *(("given", "a-1", 10, [0, 4]), ("given", "b-1", 11, [2, 3])),
        *did("b-1", 11, [2, 3]),
        *did("a-1", 10, [0, 4]),
        *(("given", "c-1", 20, [4, 5]), ("given", "b-1", 11, [6])),
        *did("c-1", 20, [4, 5]),
        *did("b-1", 11, [6]),
    )
    topic = [(0, offset) for offset in (0, 2, 3, 4, 5, 6)]
    found = judge("ranges", topic, said, begins)
    assert found.broken == []
    assert (found.repeated, found.allowed, found.lost, found.out_of_order) == (1, 1, 0, 0)
    assert judge("at-least-once", topic, said, begins).broken, "of one partition it would be none"
    again = script(("given", "c-1", 20, [1]), *did("c-1", 20, [1]))
    assert any("though they were marked" in words for words in judge("keys", topic, [*said, *again], begins).broken)


@pytest.mark.parametrize("way", WAYS)
def test_the_report_says_what_was_broken(way: Way) -> None:
    verdict = Verdict(way, 10, broken=["1 records lost: (0, 5)"], faults={"worker-kill": 2}, seconds=2.0)
    assert cells(verdict)[-1] == "BROKEN"
    told = json.loads(json.dumps(to_json([verdict], None, seed=1)))
    assert (told["seed"], told["ways"][0]["broken"]) == (1, ["1 records lost: (0, 5)"])
