"""Where a reader may begin, what it does with what it can't read, and when the log is not what it was (R10, R11, R12)."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Iterator

import pytest
from core_authors import BASE, GROUP, Entry, Paper, Pen, Plain, began, raw, token
from core_histories import Author, histories, narrow_window, short_memory
from hypothesis import given
from hypothesis import strategies as st

from pares.core import records as R
from pares.core.reader import KEPT_BAD, KEPT_PLACES, KEPT_SETS, WINDOW, Reader, State
from pares.core.world import World


@pytest.fixture(autouse=True, scope="module")
def _short() -> Iterator[None]:
    with short_memory():
        yield


class Feed:
    """Gives a reader what it asks for, as a loop would, from a log that begins at `start`."""

    def __init__(self, paper: Paper, start: int = 0, *, batch: int = 1000, member: str = "") -> None:
        self.paper = paper
        self.reader = Reader(GROUP, member)
        self.batch = batch
        self.asked: list[int] = []
        self.reader.attach(start, paper.end)
        self.start = start

    def run(self) -> Reader:
        """Until there is nothing more to read."""
        for _ in range(10_000):
            entries = [e for e in self.paper.entries if e[0] >= max(self.start, self.reader.position)][: self.batch]
            before = (self.reader.state, self.reader.position)
            self.asked.append(self.reader.position)
            self.reader.feed(entries)
            if not entries and before == (self.reader.state, self.reader.position):
                return self.reader
        raise AssertionError("a reader that never comes to an end")


def snapshot(pen: Pen, upto: int, text: str, *, parts: int = 1, id: str = "s") -> int:
    size = -(-len(text) // parts)
    for part in range(parts):
        chunk = text[part * size : (part + 1) * size]
        pen.write(R.Snapshot, upto=upto, id=id, part=part, parts=parts, world=chunk)
    return pen.paper.end - 1


def busy(members: int = 2, beats: int = 60) -> tuple[Paper, list[Pen]]:
    """A log long enough to have places: `a~1` holds A, the others beat."""
    paper, pens = began(*(f"{chr(97 + i)}~1" for i in range(members)))
    pens[0].claim("A")
    for i in range(beats):
        pens[i % members].beat()
    return paper, pens


def last_place(paper: Paper) -> tuple[int, str]:
    return max(Plain().read_all(paper.entries).places.items())


# R10: from a snapshot, as from the beginning -------------------------------------------------------------------------


@given(
    histories(least=40, most=160, without=("forged_snapshot", "genesis", "bad_genesis")),
    st.integers(1, 9),
    st.integers(2, 20),
    st.data(),
)
def test_r10_whoever_gets_into_a_trimmed_log_lives_in_the_same_world(
    author: Author, batch: int, window: int, data: st.DataObject
) -> None:
    """Wherever retention has cut the log: a reader that gets in at all, by whatever way, agrees with one that saw it all."""
    start = data.draw(st.integers(0, author.paper.end))
    with narrow_window(window):
        reader = Feed(author.paper, start, batch=batch).run()
        author_world = Plain().read_all(author.paper.entries).world
    if reader.state is State.FOLDING and reader.position >= author.paper.entries[-1][0] + 1:
        assert reader.world.dump() == author_world.dump()
        assert reader.world.digest() == author_world.digest()
    assert not reader.defects
    if start == 0:
        assert reader.state is State.FOLDING


@given(histories(least=40, most=160), st.integers(1, 9), st.integers(2, 20))
def test_r10_with_the_whole_log_there_forged_snapshots_mislead_nobody(author: Author, batch: int, window: int) -> None:
    with narrow_window(window):
        reader = Feed(author.paper, 0, batch=batch).run()
        assert reader.world.dump() == Plain().read_all(author.paper.entries).world.dump()


def test_r10_a_joiner_folds_from_upto_and_not_from_the_snapshots_own_place() -> None:
    paper, (a, b) = busy()
    upto, text = last_place(paper)
    held = token(6)
    a.release("A", World.load(text).seats["A", 0].token)
    claimed = b.claim("A")
    snapshot(b, upto, text)
    b.beat()
    with narrow_window(4):
        reader = Feed(paper, upto).run()
    assert reader.entered
    assert reader.world.seats["A", 0].holder == "b~1"
    assert reader.world.seats["A", 0].token == token(claimed) > held
    assert reader.world.dump() == Plain().read_all(paper.entries).world.dump()


def test_r10_a_snapshot_whose_upto_the_log_no_longer_has_is_not_used() -> None:
    paper, (a, _) = busy()
    upto, text = last_place(paper)
    snapshot(a, upto, text)
    assert Feed(paper, upto).run().entered
    assert Feed(paper, upto + 1).run().state is State.ADRIFT


def test_r10_a_snapshot_that_reaches_beyond_its_own_place_is_not_used() -> None:
    paper, (a, _) = busy()
    _, text = last_place(paper)
    snapshot(a, paper.end + 5, text)
    for _ in range(9):
        a.beat()
    assert Feed(paper, 5).run().state is State.ADRIFT


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_r10_an_incomplete_set_of_parts_is_ignored(lost: int) -> None:
    paper, (a, _) = busy()
    upto, text = last_place(paper)
    snapshot(a, upto, text, parts=3)
    a.beat()
    assert Feed(paper, upto).run().entered
    del paper.entries[-4 + lost]
    reader = Feed(paper, upto).run()
    assert reader.state is State.ADRIFT


def test_r10_parts_out_of_order_and_twice_are_still_one_snapshot() -> None:
    paper, (a, b) = busy()
    upto, text = last_place(paper)
    size = len(text) // 3 + 1
    for part in (2, 0, 2, 1):
        a.write(R.Snapshot, upto=upto, id="s", part=part, parts=3, world=text[part * size : (part + 1) * size])
        b.beat()
    reader = Feed(paper, upto).run()
    assert reader.entered
    assert reader.world.dump() == Plain().read_all(paper.entries).world.dump()


def test_r10_the_search_goes_backwards_in_growing_windows_and_finds_parts_that_lie_across_them() -> None:
    paper, (a, b) = busy(beats=40)
    upto, text = last_place(paper)
    for part in range(4):
        size = len(text) // 4 + 1
        a.write(R.Snapshot, upto=upto, id="s", part=part, parts=4, world=text[part * size : (part + 1) * size])
        for _ in range(20):
            b.beat()
    end = paper.end
    with narrow_window(8):
        feed = Feed(paper, upto, batch=5)
        reader = feed.run()
    lows = [position for position in (end - 8, end - 32, end - 128, upto) if position >= upto]
    assert set(lows) <= set(feed.asked)
    assert reader.entered
    assert reader.world.dump() == Plain().read_all(paper.entries).world.dump()


def test_r10_the_newest_usable_snapshot_is_taken() -> None:
    paper, (a, b) = busy(beats=200)
    places = sorted(Plain().read_all(paper.entries).places.items())
    for upto, text in (places[1], places[-1]):
        snapshot(a, upto, text, id=f"{upto}")
    b.beat()
    with narrow_window(1000):
        feed = Feed(paper, 20)
    feed.run()
    assert min(position for position in feed.asked if position > 20) == places[-1][0]
    assert feed.reader.entered


@pytest.mark.parametrize("text", ["", "{}", "[" * 5000, '{"base":1}', "null", "\x00"])
def test_r10_a_snapshot_that_is_no_world_is_refused_and_an_older_one_taken(text: str) -> None:
    paper, (a, b) = busy()
    upto, good = last_place(paper)
    snapshot(a, upto, good, id="good")
    snapshot(b, upto, text, id="bad")
    with narrow_window(4):
        reader = Feed(paper, upto).run()
    assert reader.entered
    assert reader.world.dump() == Plain().read_all(paper.entries).world.dump()


def test_r10_a_snapshot_that_does_not_count_in_the_world_it_carries_is_nobodys_to_begin_with() -> None:
    """Such a record changes nothing at all for those who live in that world (R2): so nobody may live by it."""
    paper, (a, b) = busy()
    upto, text = last_place(paper)
    stranger = Pen(paper, "stranger~1")
    snapshot(stranger, upto, text)
    b.beat()
    assert Feed(paper, upto).run().state is State.ADRIFT
    snapshot(a, upto, text)
    assert Feed(paper, upto).run().entered


def forge(text: str, **seat: object) -> str:
    """The same world, but for one seat."""
    world = World.load(text)
    for name, value in seat.items():
        setattr(world.seats["A", 0], name, value)
    return world.dump()


@pytest.mark.parametrize("forged", [{"holder": "b~1"}, {"token": 5}, {"mark": 5}, {"pinned": True}, {"taken": 1}])
def test_r10_a_difference_is_a_defect_reported_with_the_evidence(forged: dict[str, object]) -> None:
    paper, (a, _) = busy()
    upto, text = last_place(paper)
    wrong = forge(text, **forged)
    snapshot(a, upto, wrong)
    reader = Feed(paper).run()
    (defect,) = reader.defects
    assert (defect.author, defect.upto, defect.theirs) == ("a~1", upto, wrong)
    assert defect.mine == World.load(text).digest()
    assert reader.verified == -1


def test_r10_snapshots_that_agree_are_noted_and_others_are_not_judged() -> None:
    paper, (a, _) = busy(beats=100)
    upto, text = last_place(paper)
    snapshot(a, upto, text)
    reader = Feed(paper).run()
    assert (reader.verified, reader.defects) == (upto, [])
    paper, (a, _) = busy(beats=100)
    snapshot(a, upto, text, parts=2)
    assert Feed(paper).run().verified == upto


@pytest.mark.parametrize(
    "field", ["n", "offset", "session_ms", "token", "mark", "taken", "removed", "gone", "pauses", "base"]
)
def test_r10_a_world_without_one_of_its_fields_is_no_world(field: str) -> None:
    paper, (a, b) = busy()
    b.pause("B")
    Pen(paper, "c~1").join().leave()
    for _ in range(30):
        a.beat()
    _, text = last_place(paper)
    assert f'"{field}":' in text
    World.load(text)
    with pytest.raises(ValueError, match="not a world"):
        World.load(text.replace(f'"{field}":', f'"no_{field}":'))
    cut = text.index(f'"{field}":')
    end = min(i for i in (text.find(",", cut), text.find("}", cut)) if i > 0)
    with pytest.raises(ValueError, match="not a world"):
        World.load(text[:cut] + text[end + 1 :])


def test_r10_a_snapshot_of_no_place_is_nobodys_to_begin_with() -> None:
    """Nobody keeps a hash of the world there, so nobody could say that it is wrong."""
    paper, (a, b) = busy()
    upto, _ = last_place(paper)
    between = upto + 3
    text = Plain().read_all([e for e in paper.entries if e[0] < between]).world.dump()
    snapshot(a, between, text)
    b.beat()
    assert Feed(paper, 5).run().state is State.ADRIFT


def test_r10_places_come_by_a_rule_of_the_fold_for_slow_groups_too() -> None:
    paper, (a,) = began("a~1")
    for _ in range(200):
        a.beat()
    places = sorted(Plain().read_all(paper.entries).places)
    gaps = [high - low for low, high in itertools.pairwise(places)]
    assert set(gaps) == {20}  # a lone holder beats four times a session: every five sessions
    reader = Feed(paper).run()
    assert sorted(reader.places) == places


def test_r10_what_a_reader_keeps_of_places_is_bounded() -> None:
    paper, (a,) = began("a~1")
    for _ in range(20 * (KEPT_PLACES + 10)):
        a.beat()
    reader = Feed(paper).run()
    assert len(reader.places) == KEPT_PLACES
    assert max(reader.places) == last_place(paper)[0]


def test_r10_a_joiner_that_is_adrift_makes_a_place_of_its_own() -> None:
    paper, (a, _) = busy()
    Pen(paper, "c~1").join(adrift=True)
    reader = Reader(GROUP, "a~1")
    reader.attach(0, paper.end)
    reader.feed(paper.entries)
    assert reader.taken is not None
    assert reader.taken.upto == paper.end
    assert "c~1" in World.load(reader.taken.text).members
    a.beat()


# R11 -----------------------------------------------------------------------------------------------------------------


def test_r11_bad_records_are_counted_by_reason_sampled_and_stop_nobody() -> None:
    paper, (a, _) = began("a~1", "b~1")
    for i in range(100):
        paper.put(b"\xff" * (i + 1))
        paper.put(b"[" * 1000)
    last = a.beat()
    reader = Feed(paper).run()
    assert reader.bad == {"not a record": 100, "nested too deep": 100}
    assert len(reader.bad_samples) == KEPT_BAD
    assert all(len(sample.payload) <= 200 for sample in reader.bad_samples)
    assert (reader.bad_samples[0].offset, reader.bad_samples[0].reason) == (4, "not a record")
    assert reader.world.members["a~1"].offset == last


def hostile_snapshots(paper: Paper, pen: Pen, count: int) -> None:
    for i in range(count):
        kind = i % 4
        upto = paper.end + 100 if kind == 0 else 1
        pen.write(R.Snapshot, upto=upto, id=f"x{i}", part=5 if kind == 1 else 0, parts=2, world="x" * 50)
        if kind == 2:
            pen.write(R.Snapshot, upto=2, id=f"x{i}", part=1, parts=3, world="")


def test_r11_no_set_of_parts_stops_a_reader_or_fills_its_memory() -> None:
    paper, (a, b) = busy()
    upto, text = last_place(paper)
    half = len(text) // 2
    a.write(R.Snapshot, upto=upto, id="true", part=0, parts=2, world=text[:half])
    hostile_snapshots(paper, b, 2)
    a.write(R.Snapshot, upto=upto, id="true", part=1, parts=2, world=text[half:])
    hostile_snapshots(paper, b, 400)
    for start in (0, upto):
        reader = Feed(paper, start).run()
        assert reader.entered
        assert len(reader._parts._sets) <= KEPT_SETS  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("before", [0, 1, 3, 4, 5, 6, 9])
def test_r11_a_set_is_completed_or_forgotten_whatever_comes_between_its_parts(before: int) -> None:
    paper, (a, b) = busy()
    upto, text = last_place(paper)
    half = len(text) // 2
    a.write(R.Snapshot, upto=upto, id="true", part=0, parts=2, world=text[:half])
    for i in range(before):
        b.write(R.Snapshot, upto=9_999, id=f"x{i}", part=0, parts=2, world="")
        b.write(R.Snapshot, upto=1, id=f"y{i}", part=0, parts=2, world="")
    a.write(R.Snapshot, upto=upto, id="true", part=1, parts=2, world=text[half:])
    reader = Feed(paper).run()
    assert reader.verified in (upto, -1)
    assert (reader.verified == upto) == (before < KEPT_SETS)


def unknown_flood(count: int, *, member: bool) -> list[Entry]:
    paper, (a,) = began("a~1")
    pen = a if member else Pen(paper, "stranger~1")
    for i in range(count):
        pen.unknown(f"poem{i}", verse="x" * 20)
    return paper.entries


@pytest.mark.parametrize("member", [True, False])
def test_r11_floods_of_unknown_kinds_do_not_grow_a_reader(member: bool) -> None:
    entries = unknown_flood(20_000, member=member)
    reader = Reader(GROUP, "somebody~1")
    reader.attach(0, 0)
    reader.feed(entries[:10_000])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for low in range(10_000, len(entries), 500):
        reader.feed(entries[low : low + 500])
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # What may grow is the hashes of at most KEPT_PLACES places; a byte a record would already show.
    assert grown < 60_000
    assert reader.world.count == (len(entries) if member else 3)


def test_r11_floods_of_pauses_do_not_grow_the_world() -> None:
    paper, (a,) = began("a~1")
    for _ in range(20_000):
        a.pause(ms=R.MAX_PAUSE_MS)
    world = Feed(paper).run().world
    assert len(world.pauses) == R.MAX_PAUSES


def test_r11_who_joins_a_log_with_counted_records_above_what_it_reads_is_told() -> None:
    paper, (a, _) = began("a~1", "b~1", reads=2)
    assert not Feed(paper).run().too_new
    a.beat(v=2)
    assert Feed(paper).run().too_new


# R12 -----------------------------------------------------------------------------------------------------------------


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
    Pen(paper, "whose join is gone~1").beat()
    assert Feed(paper, 10).run().longest_ms == R.MAX_SESSION_MS


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
