"""What a reader does with what it can't read, or should not believe (R11): it counts it, and goes on."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from core_authors import GROUP, Entry, Paper, Pen, began
from core_feed import Feed, busy, last_place

from pares.core.wire import records as R
from pares.core.wire.reader import KEPT_BAD, Reader
from pares.core.wire.snapshots import KEPT_SETS

pytestmark = pytest.mark.usefixtures("short_memory")


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


def test_r11_what_has_the_wrong_form_above_version_1_counts_and_is_shown() -> None:
    paper, (a, _) = began("a~1", "b~1", reads=2)
    wrong = a.unknown("ready", v=2, ready="perhaps")
    reader = Feed(paper).run()
    assert reader.world.members["a~1"].offset == wrong
    assert "a~1" not in reader.world.unready
    assert reader.world.in_force
    assert [(sample.offset, sample.reason) for sample in reader.bad_samples] == [(wrong, "bad field")]


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
    paper, (a, _) = began("a~1", "b~1", reads=3)
    assert not Feed(paper).run().too_new
    a.beat(v=3)
    assert Feed(paper).run().too_new
