"""R11, the writer's side: the version is raised when all can read it and lowered when one comes who can't; and who can't read
what has counted does not get in, however late it notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core_authors import Paper, Pen, began, raw
from core_driver import A, Solo

from pares.core.claims.protocol import Stage
from pares.core.events import Lead, Stop
from pares.core.wire import records as R
from pares.core.wire.reader import Reader
from pares.core.wire.world import World

NEXT: dict[str, Any] = {"writes": 3, "reads": 3}


def world_of(paper: Paper) -> World:
    reader = Reader("g")
    reader.attach(paper.start, paper.end)
    reader.feed(paper.entries)
    return reader.world


def versions(records: Sequence[R.Record]) -> set[int]:
    return {record.v for record in records}


def test_it_writes_the_next_version_once_all_can_read_it_and_not_before() -> None:
    paper, (old,) = began("old~1")
    solo = Solo("A", paper=paper, **NEXT)
    written = solo.run(2)
    assert (versions(written), solo.world.seats[A].holder) == ({1}, solo.me)
    old.leave()
    written = solo.run(2)
    assert versions(written) == {3}
    assert solo.world.highest == 3
    assert not solo.of(Stop)
    assert len(solo.of(Lead)) == 1, "its term goes on all along"


def test_a_log_is_begun_and_joined_in_the_first_version_whatever_comes_after() -> None:
    """A joiner that looks for a way in must be able to read how a log begins, and whom it has; a joiner that is adrift does not
    even know what the others read."""
    solo = Solo("A", **NEXT)
    written = solo.run(1)
    assert [(type(record).__name__, record.v) for record in written[:2]] == [("Genesis", 1), ("Join", 1)]
    assert versions(written[2:]) == {3}
    adrift = Solo("A", paper=Paper(10), start=10, **NEXT)
    Pen(adrift.paper, "x~1").beat()
    (first, *_) = adrift.run(1)
    assert (type(first), first.adrift, first.v) == (R.Join, True, 1)


def test_between_releases_that_read_it_either_version_counts() -> None:
    paper, (other,) = began("b~1", reads=3)
    solo = Solo("A", paper=paper, writes=1, reads=3)
    other.beat(v=3)
    written = solo.run(2)
    assert versions(written) == {1}
    other.beat(v=3)
    solo.run(1)
    assert (solo.world.highest, solo.world.seats[A].holder) == (3, solo.me)


def test_r10_r11_a_world_of_version_2_goes_into_a_snapshot_of_version_2_whatever_its_writer_writes() -> None:
    """A reader of version 1 can't begin with it, and must be told so. [it waits for ever, and nobody knows why]"""
    paper, (other,) = began("b~1", reads=2)
    solo = Solo("A", paper=paper, writes=1)
    solo.run(1)
    other.beat(v=2)
    written = solo.run(70)
    snapshots = [record for record in written if isinstance(record, R.Snapshot)]
    assert snapshots
    assert versions(snapshots) == {2}
    assert versions([record for record in written if not isinstance(record, R.Snapshot)]) == {1}
    old = Reader("g", reads=1)
    old.attach(snapshots[0].upto, paper.end)
    for _ in range(10):
        old.feed([entry for entry in paper.entries if entry[0] >= max(snapshots[0].upto, old.position)])
    assert (old.too_new, "upgrade pares here first" in old.upgrade) == (True, True)


def test_who_comes_and_reads_less_brings_the_version_down_before_anything_newer_counts() -> None:
    """All read the next version, and nobody has written it yet: whoever reads less is let in, and it stays as it was."""
    paper, (other,) = began("b~1", reads=3)
    late = Pen(paper, "old~1").join()
    not_counted = other.beat(v=3)
    counted = other.beat()
    world = world_of(paper)
    assert (world.highest, world.reads) == (1, 1)
    assert world.members["b~1"].offset == counted != not_counted
    assert "old~1" in world.members
    assert late.id in world.members


def test_a_join_by_who_cannot_read_what_has_counted_does_not_count() -> None:
    """Its sender had looked, and found nothing newer; the news came before its join did. Let in, it would live in a world
    of its own, and claim seats in it."""
    paper, (other,) = began("b~1", reads=3)
    other.beat(v=3)
    Pen(paper, "old~1").join()
    world = world_of(paper)
    assert set(world.members) == {"b~1"}
    assert (world.highest, world.reads) == (3, 3)


def test_and_it_stops_with_an_error_that_says_what_to_do() -> None:
    paper, (other,) = began("b~1", reads=3)
    solo = Solo("A", paper=paper)
    solo.read()

    def news(records: list[R.Record]) -> str:
        if isinstance(records[0], R.Join) and solo.world.highest == 1 and world_of(paper).highest == 1:
            other.beat(v=3)  # after it has looked, before its join lands
        return "lands"

    solo.fate = news
    written = solo.run(1)
    assert [type(record) for record in written] == [R.Join]
    assert solo.claims.stage is Stage.OVER
    assert isinstance(solo.ending, Stop)
    assert (solo.ending.kind, "upgrade pares here first" in solo.ending.text) == ("newer-format", True)
    assert not solo.of(Lead)
    assert set(world_of(paper).members) == {"b~1"}


def test_an_old_world_in_a_new_snapshot_is_not_begun_with() -> None:
    """The log is trimmed, its only way in a snapshot of a group that writes the next version: the joiner says so at once."""
    paper, (a, b) = began("x~1", "y~1", reads=3)
    for _ in range(400):
        a.beat(v=3)
        b.beat()
    reader = Reader("g")
    reader.attach(0, paper.end)
    reader.feed(paper.entries)
    upto = max(reader.places)
    early = world_of_upto(paper, upto)
    a.write(R.Snapshot, upto=upto, id="s", part=0, parts=1, world=early.dump(), v=3)
    solo = Solo("A", paper=paper, start=upto - 5)
    paper.start = upto - 5
    written = solo.run(1)
    assert written == []
    assert isinstance(solo.ending, Stop)
    assert solo.ending.kind == "newer-format"


def world_of_upto(paper: Paper, upto: int) -> World:
    reader = Reader("g")
    reader.attach(0, upto)
    reader.feed([entry for entry in paper.entries if entry[0] < upto])
    return reader.world


def trimmed_behind_a_newer_snapshot() -> tuple[Paper, Pen]:
    """A log without its origin, in which a group lives whose snapshots have a form that this version can't read."""
    paper = Paper(10)
    new = Pen(paper, "new~1", session=1000, reads=3)
    new.join()
    new.n += 1
    paper.put(
        raw(
            k="snapshot",
            v=3,
            g="g",
            m=new.id,
            n=new.n,
            b=new.base,
            s=250,
            upto=10,
            id="s",
            part=0,
            parts=1,
            worlds=["?"],
        )
    )
    return paper, new


def test_adrift_behind_a_snapshot_that_it_cannot_read_it_says_so_in_the_end() -> None:
    paper, new = trimmed_behind_a_newer_snapshot()
    solo = Solo("A", paper=paper, start=10)
    for _ in range(40):
        solo.run(0.25)
        new.beat(v=3)
    assert isinstance(solo.ending, Stop)
    assert (solo.ending.kind, "writes format 3" in solo.ending.text) == ("newer-format", True)
    assert solo.kinds(solo.sent) == ["Join"], "it has asked, and begun nothing anew"


def test_but_whoever_gets_an_answer_that_it_can_read_goes_in() -> None:
    """So a forged snapshot of a version that nobody has keeps nobody out."""
    paper, (a, b) = began("x~1", "y~1")
    for _ in range(400):
        a.beat()
        b.beat()
    reader = Reader("g")
    reader.attach(0, paper.end)
    reader.feed(paper.entries)
    upto = max(reader.places)
    forged = raw(k="snapshot", v=99, g="g", m="evil~1", n=1, b=a.base, s=1, upto=upto, id="e", part=0, parts=1, x=1)
    paper.put(forged)
    paper.start = upto - 5
    solo = Solo("A", paper=paper, start=upto - 5)
    solo.run(0.2)
    a.write(R.Snapshot, upto=upto, id="s", part=0, parts=1, world=world_of_upto(paper, upto).dump())
    paper.put(forged)
    for _ in range(40):
        solo.run(0.25)
        a.beat()
        b.beat()
    assert solo.ending is None
    assert solo.world.seats[A].holder == solo.me
