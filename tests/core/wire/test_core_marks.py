"""The reader's own loop takes beats with marks, and notes what they raised in its own way: it must live in the same world as a
reader that takes them record by record, whatever its batches (R1, R10, R15)."""

from __future__ import annotations

import itertools

import pytest
from core_authors import GROUP, Paper, Pen, Plain, began
from core_histories import MAD, SENSIBLE, Author, histories
from hypothesis import given
from hypothesis import strategies as st

from pares.core.wire.reader import Reader
from pares.core.wire.world import World

pytestmark = pytest.mark.usefixtures("short_memory")

ABOUT_MARKS = ("join", "beat", "marks", "claim", "transfer", "release", "role", "remove", "take", "genesis", "copy")
OTHER = tuple(sorted((SENSIBLE.keys() | MAD.keys()) - {*ABOUT_MARKS}))


def same(real: Reader, plain: Plain) -> None:
    fresh = World.load(plain.world.dump())
    assert real.world.dump() == plain.world.dump()
    assert real.world.digest() == plain.world.digest() == fresh.digest()


@given(histories(least=40, most=200, without=OTHER), st.lists(st.integers(0, 300), max_size=8))
def test_r15_any_batches_of_beats_with_marks_lead_to_the_world_that_record_by_record_leads_to(
    author: Author, cuts: list[int]
) -> None:
    entries, plain, real, single = author.paper.entries, Plain(), Reader(GROUP, "m0~1"), Reader(GROUP, "m0~1")
    real.attach(0, 0)
    single.attach(0, 0)
    edges = sorted({0, len(entries), *(cut % (len(entries) + 1) for cut in cuts)})
    for low, high in itertools.pairwise(edges):
        real.feed(entries[low:high])
        mine: list[tuple[int, int, bytes]] = []
        for entry in entries[low:high]:
            single.feed([entry])
            mine += single.mine
            plain.read(entry)
        assert real.mine == mine
        assert (real.uncounted, real.position) == (single.uncounted, single.position)
    same(real, plain)
    assert real.places == single.places
    assert real.places == {upto: World.load(text).digest() for upto, text in plain.places.items()}


def both(paper: Paper) -> None:
    real, plain = Reader(GROUP), Plain()
    real.attach(0, 0)
    real.feed(paper.entries)
    same(real, plain.read_all(paper.entries))


def begun() -> tuple[Paper, Pen, Pen, int]:
    paper, (a, b) = began("a~1", "b~1")
    token = a.claim("A") + 1000
    return paper, a, b, token


def test_r15_marks_raise_nothing_of_a_seat_that_went_with_its_role_and_came_again() -> None:
    paper, a, b, token = begun()
    a.beat((("A", 0, token, 5),))
    a.release("A", token)
    b.role("A", removed=True)
    b.role("A")
    a.beat((("A", 0, token, 50),))
    both(paper)
    b.claim("A")
    a.beat((("A", 0, token, 60),))
    both(paper)
    assert Plain().read_all(paper.entries).world.seats["A", 0].mark == 0


def test_r15_a_token_of_one_seat_raises_no_mark_of_another() -> None:
    paper, a, _, token = begun()
    a.role("B")
    other = a.claim("B") + 1000
    a.beat((("A", 0, token, 5), ("B", 0, other, 6)))
    a.beat((("B", 0, token, 50), ("A", 0, other, 60), ("A", 1, token, 70)))
    both(paper)


def test_r15_a_world_that_begins_anew_keeps_nothing_of_the_marks_before() -> None:
    paper, a, _, token = begun()
    a.beat((("A", 0, token, 5),))
    paper.genesis(2_000, paper.end - 1, m="founder~2")
    both(paper)
    again = Pen(paper, "c~1")
    again.base = 2_000
    again.join().role("A")
    fresh = again.claim("A") + 2_000
    again.beat((("A", 0, token, 50), ("A", 0, fresh, 7)))
    both(paper)
    assert Plain().read_all(paper.entries).world.seats["A", 0].mark == 7
