"""Where a reader may begin: at a snapshot as from the beginning (R10)."""

from __future__ import annotations

import itertools

import pytest
from core_authors import GROUP, Paper, Pen, Plain, began, token
from core_feed import Feed, busy, last_place, snapshot
from core_histories import Author, histories, narrow_window
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pares.core.wire import records as R
from pares.core.wire.reader import KEPT_PLACES, NO_PLACE, Reader, State
from pares.core.wire.world import World

pytestmark = pytest.mark.usefixtures("short_memory")


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


def _at(paper: Paper, upto: int) -> str:
    return Plain().read_all([entry for entry in paper.entries if entry[0] < upto]).world.dump()


def test_r10_a_snapshot_of_what_is_no_place_to_its_reader_is_a_defect_too() -> None:
    """Nobody takes one there in the same world."""
    paper, (a, _) = busy()
    between = last_place(paper)[0] + 3
    wrong = _at(paper, between)
    snapshot(a, between, wrong)
    reader = Feed(paper).run()
    (defect,) = reader.defects
    assert (defect.author, defect.upto, defect.mine, defect.theirs) == ("a~1", between, NO_PLACE, wrong)
    assert reader.verified == -1


def test_r10_a_reader_that_missed_a_record_and_the_others_find_each_others_snapshots_false() -> None:
    """The log lost its tail, and went on, before that reader read again: it counts to other places."""
    paper, (a, b) = began("a~1", "b~1")
    lost = paper.end
    misled = Reader(GROUP, "b~1")
    misled.attach(0, lost)
    b.beat()
    misled.feed(paper.entries)
    del paper.entries[lost:]
    paper.end = lost
    c = Pen(paper, "c~1").join()  # where the lost beat stood: to the misled reader nothing of this member ever counts
    for pen in [a, b, c] * 30:
        pen.beat()
    upto, text = last_place(paper)
    snapshot(a, upto, text)
    misled.feed([entry for entry in paper.entries if entry[0] > lost])
    assert [(defect.author, defect.mine) for defect in misled.defects] == [("a~1", NO_PLACE)]
    own = max(misled.places)
    snapshot(b, own, misled.world.dump())
    reader = Feed(paper).run()
    assert reader.verified == upto
    assert [(defect.author, defect.upto, defect.mine) for defect in reader.defects] == [("b~1", own, NO_PLACE)]


def test_r10_a_snapshot_from_before_the_places_that_are_kept_is_not_judged() -> None:
    paper, (a, _) = busy(beats=100)
    (first, text), *_, (last, newest) = sorted(Plain().read_all(paper.entries).places.items())
    snapshot(a, last, newest, id="new")
    reader = Feed(paper, last).run()
    assert reader.entered
    snapshot(a, first, text, id="old")
    snapshot(a, first + 1, _at(paper, first + 1), id="older")
    reader.feed([entry for entry in paper.entries if entry[0] >= reader.position])
    assert reader.defects == []


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


@pytest.mark.parametrize(
    ("what", "lie"),
    [
        ("a holder that is not there", '"holder":"a~1"|"holder":"z~1"'),
        ("a role that is not there", '"role":"A"|"role":"Z"'),
        ("two seats of one role", '"role":"B","index":0,"holder":null|"role":"A","index":1,"holder":"a~1"'),
        ("somebody that is gone", '"gone":{"c~1"|"gone":{"b~1"'),
        ("a token that no record could carry", '"token":1006|"token":9007199254740993'),
        ("something unknown", '"pinned":false|"pinned":false,"polished":true'),
        ("a session of a year", '"session_ms":1000|"session_ms":31536000000'),
        ("an index beyond all seats", '"role":"B","index":0|"role":"B","index":100'),
    ],
)
def test_r10_a_world_that_contradicts_itself_is_no_world(what: str, lie: str) -> None:
    paper, (a, _) = began("a~1", "b~1", roles=("A", "B"))
    Pen(paper, "c~1").join().leave()
    paper.hole()
    a.claim("A")
    text = Plain().read_all(paper.entries).world.dump().replace('"token":1008', '"token":1006')
    true, _, false = lie.partition("|")
    assert true in text, what
    World.load(text)
    with pytest.raises(ValueError, match="not a world"):
        World.load(text.replace(true, false))


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


def test_r15_marks_of_beats_count_as_in_the_plain_fold_also_those_of_terms_that_are_over() -> None:
    """The reader's own loop takes beats with marks, too: so it must let in what the fold does, and nothing else."""
    paper, (a, b) = began("a~1", "b~1")
    a.claim("A")
    token = Plain().read_all(paper.entries).world.seats["A", 0].token
    for mark in (5, 9, 7):
        a.beat(marks=(("A", 0, token, mark),))
    b.beat(marks=(("A", 0, token, 100),))
    a.beat(marks=(("A", 0, token + 1, 100), ("B", 0, token, 100), ("A", 1, token, 100)))
    reader, plain = Feed(paper).run(), Plain().read_all(paper.entries)
    assert reader.world.seats["A", 0].mark == 9
    assert reader.world.dump() == plain.world.dump()
    assert reader.world.digest() == plain.world.digest()


@given(histories(least=20, most=120), st.integers(1, 30))
def test_what_was_decoded_already_is_folded_as_if_it_were_not(author: Author, size: int) -> None:
    entries = [entry for entry in author.paper.entries if isinstance(_decoded(entry[2]), Struct)]
    plain, told = Reader(GROUP), Reader(GROUP)
    for reader in (plain, told):
        reader.attach(0, 0)
    for at in range(0, len(entries), size):
        part = entries[at : at + size]
        assert plain.feed(part) == told.feed(part, [R.decode(entry[2]) for entry in part])
    assert (plain.world.dump(), plain.uncounted, plain.places) == (told.world.dump(), told.uncounted, told.places)
    assert (plain.position, plain.anchor, plain.bad) == (told.position, told.anchor, told.bad)


def _decoded(payload: bytes) -> object:
    try:
        return R.decode(payload)
    except R.BadRecord:
        return None
