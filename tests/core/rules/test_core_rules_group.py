"""The fold, rule by rule, R9 to R17: how a log begins, which versions count, and what a group may be asked, paused and marked.

R2 to R8 are in test_core_rules.py.
"""

from __future__ import annotations

import pytest
from core_authors import Paper, Pen, began, token, world_of
from core_judge import holders

from pares.core.wire import records as R

pytestmark = pytest.mark.usefixtures("short_memory")


# R9 ------------------------------------------------------------------------------------------------------------------


def test_r9_a_genesis_needs_a_greater_base_and_the_last_counted_record() -> None:
    paper, (a, _) = began("a~1", "b~1")
    last = a.beat()
    paper.genesis(base=500, over=last)
    paper.genesis(base=a.base, over=last)
    paper.genesis(base=9_000, over=last - 1)
    paper.genesis(base=9_000)
    paper.genesis(base=9_000, over=paper.end)
    paper.genesis(base=9_000, over=paper.end + 5)
    assert world_of(paper).base == a.base
    paper.genesis(base=9_000, over=last)
    world = world_of(paper)
    assert (world.base, world.members, world.seats, world.count) == (9_000, {}, {}, 1)


def test_r9_of_two_that_begin_an_empty_log_one_wins_and_nothing_counts_before() -> None:
    paper = Paper()
    Pen(paper, "early~1").join()
    paper.genesis(base=100, m="x")
    paper.genesis(base=200, m="y")
    world = world_of(paper)
    assert world.base == 100
    assert not world.members


def test_r9_a_late_copy_of_a_genesis_does_nothing() -> None:
    paper, (a, _) = began("a~1", "b~1")
    before = world_of(paper).dump()
    paper.put(paper.entries[0][2])
    assert world_of(paper).dump() == before
    a.beat()


# R11 -----------------------------------------------------------------------------------------------------------------


def test_r11_a_version_above_what_all_members_read_does_not_count_for_anybody() -> None:
    paper, (a, _) = began("a~1", "b~1")
    new = Pen(paper, "c~1", reads=2).join()
    before = world_of(paper).dump()
    new.beat(v=2)
    new.unknown(v=2)
    a.beat(v=99)
    Pen(paper, "d~1").join(v=2)
    paper.genesis(base=9_000, over=world_of(paper).last, v=2)
    assert world_of(paper).dump() == before


def test_r11_a_join_that_its_own_writer_could_not_read_does_not_count_also_while_nobody_is_there() -> None:
    """It would lock everybody out who reads less, for ever."""
    paper = Paper()
    paper.genesis()
    Pen(paper, "mad~1", reads=98).join(v=99)
    world = world_of(paper)
    assert (world.highest, world.members) == (1, {})


def test_r11_once_all_can_read_it_a_new_version_counts() -> None:
    paper, (a, b) = began("a~1", "b~1", reads=2)
    old = Pen(paper, "old~1").join()
    a.beat(v=2)
    assert world_of(paper).highest == 1
    old.leave()
    counted = b.beat(v=2)
    world = world_of(paper)
    assert (world.highest, world.members["b~1"].offset) == (2, counted)


def test_r11_an_unknown_kind_counts_and_does_nothing_else() -> None:
    paper, (a, _) = began("a~1", "b~1")
    a.claim("A")
    before = holders(world_of(paper))
    offset = a.unknown("verdict", seat=["A", 0], holder="b~1")
    world = world_of(paper)
    assert holders(world) == before
    assert world.members["a~1"].offset == offset


# R13, R14, R15, R17 --------------------------------------------------------------------------------------------------


def test_r13_who_stepped_down_is_avoided_until_somebody_else_has_held_the_seat() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    a.release("A", token(held), down=True, why="lunch")
    assert world_of(paper).seats["A", 0].avoid == "a~1"
    again = a.claim("A")
    assert world_of(paper).seats["A", 0].avoid == "a~1"
    a.release("A", token(again), why="stepped down")
    assert world_of(paper).seats["A", 0].avoid == "a~1"
    held = b.claim("A")
    assert world_of(paper).seats["A", 0].avoid is None
    b.release("A", token(held), why="stepped down")
    assert world_of(paper).seats["A", 0].avoid is None, "what people read decides nothing"


def test_r13_administrators_ask_and_only_holders_act() -> None:
    paper, (a, _) = began("a~1", "b~1")
    held = a.claim("A")
    admin = Pen(paper, "admin~1", eligible=()).join()
    asked = admin.write(R.Ask, seat=("A", 0), to="b~1")
    admin.write(R.Ask, drain="a~1")
    admin.release("A", token(held))
    admin.transfer("A", token(held), "b~1")
    world = world_of(paper)
    assert world.seats["A", 0].holder == "a~1"
    assert world.seats["A", 0].asked == ("b~1", asked)
    assert world.members["a~1"].draining


def test_r13_silent_members_without_seats_are_forgotten_after_records_and_holders_never() -> None:
    paper, (a, b) = began("a~1", "b~1")
    a.claim("A")
    Pen(paper, "idle~1").join()
    for _ in range(200):
        b.beat()
    world = world_of(paper)
    assert world.members.keys() == {"a~1", "b~1"}
    assert world.held["a~1"] == {("A", 0)}


def test_r14_under_a_pause_claims_fail_except_to_free_a_silent_holders_seat() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    pause = b.pause("A")
    b.claim("A", over=("a~1", held))
    b.claim("A", over=("a~1", held - 1), free=True)
    assert world_of(paper).seats["A", 0].holder == "a~1"
    b.claim("A", over=("a~1", held), free=True)
    assert world_of(paper).seats["A", 0].holder is None
    b.claim("A")
    assert world_of(paper).seats["A", 0].holder is None
    b.resume(pause)
    b.claim("A")
    assert world_of(paper).seats["A", 0].holder == "b~1"


def test_r14_resume_names_the_pause_it_ends() -> None:
    paper, (a, b) = began("a~1", "b~1")
    first = a.pause()
    second = a.pause("A")
    b.resume(first)
    b.resume(first)
    b.resume(second + 1)
    world = world_of(paper)
    assert list(world.pauses) == [second]
    assert world.paused("A")
    assert not world.paused("B")


def test_r14_the_number_of_pauses_has_a_limit_and_the_last_one_can_still_end() -> None:
    paper, (a, _) = began("a~1", "b~1")
    first = a.pause()
    for _ in range(R.MAX_PAUSES + 5):
        a.pause("A")
    assert len(world_of(paper).pauses) == R.MAX_PAUSES
    a.resume(first)
    again = a.pause("A")
    assert again in world_of(paper).pauses


def test_r15_rewind_needs_an_administrator_a_free_seat_and_a_pause() -> None:
    paper, (a, b) = began("a~1", "b~1")
    admin = Pen(paper, "admin~1", eligible=()).join()
    held = a.claim("A")
    a.beat((("A", 0, token(held), 50),))
    pause = admin.pause("A")
    admin.rewind(("A", 0, 10))  # held
    a.release("A", token(held))
    b.rewind(("A", 0, 10))  # no administrator
    assert world_of(paper).seats["A", 0].mark == 50
    admin.rewind(("A", 0, 10), ("no such role", 0, 1))
    assert world_of(paper).seats["A", 0].mark == 10
    admin.resume(pause)
    admin.rewind(("A", 0, 5))  # no pause
    assert world_of(paper).seats["A", 0].mark == 10


def test_r15_marks_only_rise() -> None:
    paper, (a, _) = began("a~1", "b~1")
    held = a.claim("A")
    for mark in (5, 9, 7):
        a.beat((("A", 0, token(held), mark),))
    a.release("A", token(held), mark=2)
    assert world_of(paper).seats["A", 0].mark == 9


def test_r17_did_changes_nothing_but_the_sign_of_life() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    before = world_of(paper)
    b.write(R.Did, seat=("A", 0), token=token(held), what="stop", at=1, why="x")
    after = world_of(paper)
    assert (after.seats, after.roles, after.pauses) == (before.seats, before.roles, before.pauses)
    assert after.members.keys() == before.members.keys()


def test_section_7_takes_never_overlap_and_done_raises_the_mark() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    a.write(R.Take, seat=("A", 0), token=token(held), first=0, last=9)
    a.write(R.Take, seat=("A", 0), token=token(held), first=5, last=14)  # taken before
    a.write(R.Take, seat=("A", 0), token=token(held), first=20, last=10)  # backwards
    b.write(R.Take, seat=("A", 0), token=token(held), first=10, last=19)  # not its seat
    a.write(R.Done, seat=("A", 0), token=token(held), first=0, last=4)
    seat = world_of(paper).seats["A", 0]
    assert (seat.taken, seat.mark) == (10, 5)
