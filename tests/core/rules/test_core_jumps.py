"""Logs that begin in the middle, end in a hole, are begun anew, or are shared (R9, R12)."""

from __future__ import annotations

import pytest
from core_authors import BASE, Paper, Pen, Plain, began, raw, token
from core_feed import Feed, busy, last_place, snapshot

from pares.core.wire import records as R
from pares.core.wire.reader import WINDOW, State

pytestmark = pytest.mark.usefixtures("short_memory")


def test_r12_holes_between_offsets_are_normal() -> None:
    paper = Paper()
    paper.hole(3)
    paper.genesis()
    a = Pen(paper, "a~1").join()
    paper.hole(5)
    a.role("A")
    paper.hole(2)
    held = a.claim("A")
    reader = Feed(paper).run()
    assert reader.entered
    assert reader.world.seats["A", 0].token == token(held)


@pytest.mark.parametrize("start", [0, 3])
def test_r12_a_log_that_ends_in_a_hole_is_entered_all_the_same(start: int) -> None:
    """Nobody writes before it has entered, so who waits for an entry at the very end may wait for ever."""
    paper, (a, _) = busy()
    upto, text = last_place(paper)
    snapshot(a, upto, text)
    paper.hole(3)
    reader = Feed(paper, start).run()
    assert reader.entered


@pytest.mark.parametrize("start", [0, 7])
def test_r12_an_empty_log(start: int) -> None:
    reader = Feed(Paper(start), start).run()
    assert reader.state is (State.FOLDING if start == 0 else State.ADRIFT)
    assert reader.last_seen == start - 1


def test_r12_a_log_whose_start_is_not_its_origin_is_entered_only_by_snapshot_or_genesis() -> None:
    paper, (a, b) = busy()
    reader = Feed(paper, 2).run()
    assert reader.state is State.ADRIFT
    assert not reader.entered
    assert reader.world.base == 0
    assert reader.last_seen == paper.entries[-1][0]
    assert reader.newest_base == BASE
    upto, text = last_place(paper)
    snapshot(a, upto, text)
    b.beat()
    reader.feed(paper.since(reader.position))
    reader.feed(paper.since(reader.position))
    assert reader.entered
    assert reader.world.dump() == Plain().read_all(paper.entries).world.dump()


def test_r12_adrift_the_longest_session_is_that_of_the_joins_still_there_or_the_longest_there_is() -> None:
    paper = Paper(10)
    Pen(paper, "a~1", session=700).join().beat()
    Pen(paper, "b~1", session=300).join()
    assert Feed(paper, 10).run().longest_ms == 700
    Pen(paper, "whose join is gone~1").beat(s=5000)
    assert Feed(paper, 10).run().longest_ms == 20_004, "four times what it says of its next record, and a little"
    hasty = Pen(paper, "who says nothing of it~1")
    hasty.beat(s=R.AT_ONCE)
    assert Feed(paper, 10).run().longest_ms == R.MAX_SESSION_MS
    hasty.beat(s=6000)
    assert Feed(paper, 10).run().longest_ms == 24_004, "one record is enough to know that it is no longer than that"
    hasty.beat(s=R.AT_ONCE)
    assert Feed(paper, 10).run().longest_ms == 24_004


def test_r12_adrift_a_genesis_over_the_last_record_begins_the_world() -> None:
    paper = Paper(10)
    old = Pen(paper, "old~1")
    old.base = 500
    last = old.beat()
    paper.put(raw(k="beat", v=1, g="other group", m="x", n=1, b=1, s=1))
    paper.genesis(base=1_000, over=last)
    Pen(paper, "new~1").join()
    reader = Feed(paper, 10).run()
    assert reader.entered
    assert (reader.world.base, set(reader.world.members)) == (1_000, {"new~1"})


@pytest.mark.parametrize(
    ("base", "back", "version"),
    [(1_000, 1, 1), (500, 0, 1), (499, 0, 1), (1_000, 0, 99)],
    ids=["not the last record", "the same base", "a smaller base", "a version nobody reads"],
)
def test_r9_r12_adrift_a_genesis_that_the_others_refuse_is_refused_too(base: int, back: int, version: int) -> None:
    """Else those who folded and those who were adrift would live in two worlds on one log."""
    paper = Paper(10)
    old = Pen(paper, "old~1")
    old.base = 500
    old.beat()
    last = old.beat()
    paper.genesis(base=base, over=last - back, v=version)
    Pen(paper, "new~1").join()
    assert Feed(paper, 10).run().state is State.ADRIFT


def test_r12_a_reader_that_enters_by_a_genesis_agrees_with_one_that_saw_the_old_world() -> None:
    paper, (a, _) = busy()
    last = a.beat()
    paper.genesis(base=BASE * 2, over=last)
    fresh = Pen(paper, "c~1")
    fresh.base = BASE * 2
    fresh.join()
    a.beat()
    whole = Feed(paper).run()
    late = Feed(paper, 5).run()
    assert late.entered
    assert late.world.digest() == whole.world.digest()
    assert late.world.dump() == whole.world.dump()


def test_r12_the_anchor_is_the_last_entry_read_whatever_it_is() -> None:
    paper, (a, _) = began("a~1", "b~1")
    paper.put(b"garbage")
    reader = Feed(paper).run()
    assert reader.anchor == (paper.end - 1, b"garbage")
    a.beat()
    reader.feed(paper.since(reader.position))
    assert reader.anchor == (paper.end - 1, paper.last())


def test_groups_that_share_a_partition_do_not_see_each_other() -> None:
    paper, (a, b) = busy()
    mixed = Paper()
    for _, _, payload in paper.entries:
        mixed.put(raw(k="genesis", v=1, g="other", m="x", n=1, b=5, s=0, base=9**9, over=None))
        mixed.put(payload)
        mixed.put(payload.replace(b'"g":"g"', b'"g":"other"'))
    ours = Feed(mixed).run()
    assert ours.world.members.keys() == {"a~1", "b~1"}
    assert ours.uncounted == 0
    assert ours.world.seats["A", 0].holder == "a~1"
    assert a.n + b.n == sum(m.n for m in ours.world.members.values())


def test_a_small_log_from_its_origin_is_folded_at_once() -> None:
    paper, _ = busy()
    assert paper.end <= WINDOW
    feed = Feed(paper)
    feed.run()
    assert feed.asked[0] == 0
    assert feed.reader.entered
