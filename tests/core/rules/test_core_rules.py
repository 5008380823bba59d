"""The fold, rule by rule: small logs written by hand, each of which shows one sentence of the rules R2 to R8: what counts, and
who holds a seat. R9 to R17 are in test_core_rules_group.py."""

from __future__ import annotations

import pytest
from core_authors import Pen, began, token, world_of
from core_judge import holders

from pares.core.wire import records as R

LOCK = R.Lock(boot="b", device="d", inode="i", file="f")


pytestmark = pytest.mark.usefixtures("short_memory")


# R2, one by one ------------------------------------------------------------------------------------------------------


def test_r2_a_late_copy_is_no_sign_of_life() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    beat = paper.entries[a.beat()][2]
    last = a.beat()
    paper.put(beat)
    b.claim("A", over=("a~1", last))
    world = world_of(paper)
    assert world.seats["A", 0].holder == "b~1"
    assert world.seats["A", 0].token > token(held)


def test_r2_the_dead_and_the_departed_never_return() -> None:
    paper, (a, b) = began("a~1", "b~1", lock=LOCK)
    b.obituary("a~1")
    a.beat()
    a.join()
    assert world_of(paper).members.keys() == {"b~1"}
    b.leave()
    b.join()
    assert not world_of(paper).members


def test_r2_the_base_must_be_the_one_in_force() -> None:
    paper, (a, _) = began("a~1", "b~1")
    before = world_of(paper).dump()
    a.beat(b=a.base + 1)
    a.beat(b=a.base - 1)
    assert world_of(paper).dump() == before


# R3 ------------------------------------------------------------------------------------------------------------------


def test_r3_of_two_claims_of_a_free_seat_the_first_wins() -> None:
    paper, (a, b) = began("a~1", "b~1")
    first = a.claim("A")
    b.claim("A")
    seat = world_of(paper).seats["A", 0]
    assert (seat.holder, seat.token) == ("a~1", token(first))


def test_r3_of_two_challengers_the_first_wins() -> None:
    paper, (a, b, c) = began("a~1", "b~1", "c~1")
    held = a.claim("A")
    b.claim("A", over=("a~1", held))
    c.claim("A", over=("a~1", held))
    assert world_of(paper).seats["A", 0].holder == "b~1"


@pytest.mark.parametrize("late", ["beat", "claim", "did", "unknown", "release of another term"])
def test_r3_anything_that_counts_from_the_holder_defeats_a_claim(late: str) -> None:
    paper, (a, b) = began("a~1", "b~1", roles=("A", "B"))
    held = a.claim("A")
    if late == "beat":
        a.beat()
    elif late == "claim":
        a.claim("A")  # refused, and a sign of life
    elif late == "did":
        a.write(R.Did, seat=("A", 0), token=token(held), what="lead", at=0)
    elif late == "unknown":
        a.unknown()
    else:
        a.release("A", token(held) - 1)
    b.claim("A", over=("a~1", held))
    assert world_of(paper).seats["A", 0].holder == "a~1"


def test_r3_a_claim_names_the_holder_as_well_as_the_offset() -> None:
    paper, (a, b, c) = began("a~1", "b~1", "c~1")
    held = a.claim("A")
    c.claim("A", over=("b~1", held))
    c.claim("A")
    assert world_of(paper).seats["A", 0].holder == "a~1"
    a.release("A", token(held))
    b.claim("A", over=("a~1", held))
    assert world_of(paper).seats["A", 0].holder is None


def test_r3_a_second_seat_of_one_role_to_one_member_never() -> None:
    paper, (a, b) = began("a~1", "b~1", roles=())
    a.role("A", seats=2)
    a.claim("A", index=0)
    a.claim("A", index=1)
    assert world_of(paper).seats["A", 1].holder is None
    held = b.claim("A", index=1)
    b.transfer("A", token(held), "a~1", index=1)
    assert world_of(paper).seats["A", 1].holder is None


@pytest.mark.parametrize("why_not", ["draining", "not eligible", "administrator", "paused", "no such seat", "removed"])
def test_r13_r14_r3a_who_may_not_hold_does_not_get_a_seat_by_claim_or_by_transfer(why_not: str) -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    eligible: tuple[str, ...] | None = {"not eligible": ("B",), "administrator": ()}.get(why_not)
    c = Pen(paper, "c~1", eligible=eligible).join()
    if why_not == "draining":
        b.write(R.Ask, drain="c~1")
    elif why_not == "paused":
        b.pause("A")
    elif why_not == "removed":
        b.role("A", removed=True)
    a.transfer("A", token(held), "c~1", index=3 if why_not == "no such seat" else 0)
    c.claim("A", over=("a~1", held))
    c.claim("A")
    c.claim("A", index=3)
    assert not world_of(paper).held["c~1"]


# R3a -----------------------------------------------------------------------------------------------------------------


def test_r3a_a_removed_role_keeps_its_holder_takes_no_claims_and_goes_with_its_last_seat() -> None:
    paper, (a, b) = began("a~1", "b~1", roles=())
    a.role("A", seats=2)
    held = a.claim("A", index=1)
    b.role("A", removed=True)
    world = world_of(paper)
    assert world.seats.keys() == {("A", 1)}
    assert world.seats["A", 1].holder == "a~1"
    b.claim("A", over=("a~1", held), index=1)
    assert world_of(paper).seats["A", 1].holder == "a~1"
    a.release("A", token(held), index=1)
    world = world_of(paper)
    assert not world.seats
    assert not world.roles


def test_r3a_removing_and_adding_again_frees_nothing_behind_the_holders_back() -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    b.role("A", removed=True)
    b.role("A")
    b.claim("A")
    seat = world_of(paper).seats["A", 0]
    assert (seat.holder, seat.token) == ("a~1", token(held))


def test_r3a_fewer_seats_wait_for_their_holders() -> None:
    paper, (a, b) = began("a~1", "b~1", roles=())
    a.role("A", seats=3)
    a.claim("A", index=0)
    held = b.claim("A", index=2)
    a.role("A", seats=1)
    world = world_of(paper)
    assert world.seats.keys() == {("A", 0), ("A", 2)}
    assert not world.open(("A", 2))
    b.release("A", token(held), index=2)
    assert world_of(paper).seats.keys() == {("A", 0)}


# R5, R6 --------------------------------------------------------------------------------------------------------------


def test_r5_release_transfer_and_mark_of_another_term_have_no_effect() -> None:
    paper, (a, b) = began("a~1", "b~1")
    old = a.claim("A")
    a.release("A", token(old))
    new = a.claim("A")
    a.release("A", token(old), mark=9)
    a.transfer("A", token(old), "b~1", mark=9)
    a.beat((("A", 0, token(old), 9),))
    b.release("A", token(new), mark=9)
    seat = world_of(paper).seats["A", 0]
    assert (seat.holder, seat.token, seat.mark) == ("a~1", token(new), 0)


def test_r6_a_transfer_makes_the_receiver_the_holder_with_a_token_of_its_own() -> None:
    paper, (a, _) = began("a~1", "b~1")
    held = a.claim("A")
    moved = a.transfer("A", token(held), "b~1", mark=5, pin=True)
    seat = world_of(paper).seats["A", 0]
    assert (seat.holder, seat.token, seat.mark, seat.pinned) == ("b~1", token(moved), 5, True)


@pytest.mark.parametrize("to", ["unknown", "gone", "itself", "draining", "paused"])
def test_r6_a_transfer_to_who_can_not_take_it_is_a_release(to: str) -> None:
    paper, (a, b) = began("a~1", "b~1")
    held = a.claim("A")
    target = "b~1"
    if to == "unknown":
        target = "z~1"
    elif to == "gone":
        b.leave()
    elif to == "itself":
        target = "a~1"
    elif to == "draining":
        a.write(R.Ask, drain="b~1")
    elif to == "paused":
        b.pause()
    a.transfer("A", token(held), target, mark=3)
    seat = world_of(paper).seats["A", 0]
    assert (seat.holder, seat.mark) == (None, 3)


# R7, R8 --------------------------------------------------------------------------------------------------------------


def test_r7_an_obituary_frees_all_seats_and_several_change_nothing_more() -> None:
    paper, (a, b, c) = began("a~1", "b~1", "c~1", roles=("A", "B"), lock=LOCK)
    a.claim("A")
    a.claim("B")
    b.obituary("a~1")
    b.claim("A")
    world = world_of(paper)
    assert world.seats["A", 0].holder == "b~1"
    assert world.seats["B", 0].holder is None
    c.obituary("a~1")
    after = world_of(paper)
    assert holders(after) == holders(world)
    assert after.gone.keys() == {"a~1"}


def test_r7_nobody_without_a_lock_can_be_declared_dead_and_nobody_buries_itself() -> None:
    paper, (a, b) = began("a~1", "b~1")
    Pen(paper, "c~1", lock=LOCK).join().obituary("c~1")
    b.obituary("a~1")
    assert world_of(paper).members.keys() == {"a~1", "b~1", "c~1"}
    a.beat()


def test_r8_who_lost_a_seat_without_giving_it_up_is_remembered_by_name_until_somebody_holds_it() -> None:
    paper, (a, b) = began("a~1", "b~1", roles=("A", "B"), lock=LOCK)
    a.claim("A")
    held = a.claim("B")
    a.release("B", token(held))
    b.obituary("a~1")
    seats = world_of(paper).seats
    assert (seats["A", 0].last, seats["B", 0].last) == ("a", None)
    b.claim("A")
    assert world_of(paper).seats["A", 0].last is None


def test_r8_a_second_incarnation_of_a_name_takes_nothing_by_joining() -> None:
    paper, (a, _) = began("a~1", "b~1")
    held = a.claim("A")
    Pen(paper, "a~2").join().claim("A")
    assert world_of(paper).seats["A", 0].token == token(held)
