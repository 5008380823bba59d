"""Batches whose partitions are folded in ranges: the same bytes as by a single task, wherever the ranges begin."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import bytes_of, judged, of_entries, rows, straightly
from scribe import Scribe
from tests.spark.facts.test_fold_ranges import false_world, goes_on, random_log, steady

from pares.core.wire import records as r
from pares.core.wire import world
from pares.ledger import open as open_ledger
from pares.spark.facts import cuts, ranged, telling
from pares.spark.facts.cuts import Cut
from pares.spark.histories import History, columns, disk, history, spread, updating
from pares.spark.source import reads

pytestmark = pytest.mark.timeless


class Here:
    """Does in this process what Spark's tasks do, one after the other; notes what they were."""

    def __init__(self) -> None:
        self.orders: list[spread.Order] = []

    def each(self, _: object, orders: Sequence[spread.Order]) -> list[bytes]:
        self.orders += orders
        return [spread._do(order) for order in orders]

    def spans(self, *, again: bool = False) -> list[spread.Span]:
        return [order.span for order in self.orders if order.span is not None and bool(order.span.task.state) == again]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """Small portions, and ranges of a few of them."""
    made = Here()
    monkeypatch.setattr(updating, "SMALL", 0)
    monkeypatch.setattr(spread, "_each", made.each)
    for module in (spread, reads):
        monkeypatch.setattr(module, "PORTION", 20)
    monkeypatch.setattr(spread, "PER_RANGE", 200)
    monkeypatch.setattr(cuts, "LEAD_IN", 30)
    return made


def in_ranges(path: Path) -> History:
    """A history whose updates are cut into ranges."""
    return history(object(), path)  # type: ignore[arg-type]


def cut_at_random(url: str, monkeypatch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """Lead-ins begin at any entry, with or without a snapshot near it."""
    with closing(open_ledger(url)) as ledger:
        there = [entry.offset for entry in ledger.read(0, 0, 100_000)]

    def anywhere(_: object, __: int, low: int, high: int, ranges: int, ___: object) -> list[Cut]:
        at = sorted(dice.randrange(low + 1, high) for _ in range(3 * ranges))
        back = [max(low, one - dice.choice([10, 60, 150, 300])) for one in at]
        return [
            Cut(max(offset for offset in there if offset <= since), one) for since, one in zip(back, at, strict=True)
        ]

    monkeypatch.setattr(spread, "cuts", anywhere)


def same(made: History, straight: History) -> list[dict[str, Any]]:
    """All files are the same, unless ranges have come upon snapshots that one fold does not: these rows of `facts` are more,
    and are returned."""
    for table in ("records", "quarantine", "ends", "worlds"):
        assert rows(made, table) == rows(straight, table)
    expected = rows(straight, "facts")
    found = rows(made, "facts")
    more = [row for row in found if row["kind"] == "defect"]
    assert [row for row in found if row not in more] == expected
    if not more:
        assert bytes_of(made.path) == bytes_of(straight.path)
    return more


def told_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of holes and of steps back only a few are told one by one."""
    for place in ("facts.folding.HOLES", "facts.joined.HOLES", "histories.spread.HOLES"):
        monkeypatch.setattr(f"pares.spark.{place}", 4)
    for place in ("facts.claims.STEPS", "facts.joined.STEPS", "facts.ranged.STEPS", "histories.spread.STEPS"):
        monkeypatch.setattr(f"pares.spark.{place}", 4)


def with_holes(url: str, dice: random.Random, many: int) -> None:
    """Takes entries out of a log, but the first and the last; some of those that are left are no records."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as ledger, ledger:
        keys = [row[0] for row in ledger.execute("SELECT id FROM entries ORDER BY id")][40:-1]
        runs = [(at, dice.choice([1, 1, 30])) for at in dice.sample(range(len(keys)), min(many, len(keys) // 4))]
        gone = {key for at, length in runs for key in keys[at : at + length]}
        ledger.executemany("DELETE FROM entries WHERE id = ?", [(key,) for key in gone])
        for key in dice.sample(sorted(set(keys) - gone), 6):
            ledger.execute("UPDATE entries SET payload = ? WHERE id = ?", (b"\xff no record", key))


@pytest.mark.parametrize("seed", range(40))
def test_in_whatever_ranges_it_is_the_same_bytes(
    seed: int, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random logs with true and false snapshots, of one group or two, some with holes and with what is no record."""
    dice = random.Random(seed)
    monkeypatch.setattr(world, "FORGET", dice.choice([20, 60, 10_000]))
    monkeypatch.setattr(world, "PLACE_EVERY", dice.choice([3, 16]))
    past = dice.choice([2, 1000])
    for module in (ranged, telling):
        monkeypatch.setattr(module, "PAST", past)
    told_of_few(monkeypatch)
    url = of_entries(random_log(seed, acts=250), tmp_path / "l.db")
    if seed % 2:
        with_holes(url, dice, 20)
    cut_at_random(url, monkeypatch, dice)
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    for most in (dice.choice([150, 200, 400]), None):
        straight.update(url, max_records=most)
        made.update(url, max_records=most)
    more = same(made, straight)
    assert len(here.spans()) > 5
    assert more or judged(made) == straightly(url)
    assert made.check() == []


def long_log(wrong: int = -1) -> Scribe:
    """Two groups, one of which is quiet and has no snapshot; beside them what is no record."""
    log = steady((130, 330, 620), wrong=wrong, length=100)
    other = Scribe("quiet", entries=log.entries)
    other.role("r")
    other.lead(other.claim(other.join("q"), "r"))
    for at in range(800):
        log.sleep(20)
        log.beat(f"m{at % 4}~0")
        if at in (30, 230, 520):
            log.snapshot("m0~0", wrong=at == wrong)
        if at == 700:
            log.raw(b"\xff no record")
            other.now = log.now
            other.beat("q~0")
    return log


def test_ranges_begin_behind_snapshots_and_none_is_folded_twice(here: Here, tmp_path: Path) -> None:
    url = of_entries(steady((150, 380, 600), length=900).entries, tmp_path / "l.db")
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    straight.update(url)
    made.update(url)
    assert same(made, straight) == []
    tasks = [span.task for span in here.spans()]
    assert len(tasks) == 4
    assert [task.low for task in tasks] == [0, *(task.high for task in tasks[:-1])]
    assert all(task.low % 20 == 0 and task.since < task.low - 30 for task in tasks[1:])
    assert here.spans(again=True) == []
    assert [path for path in made.path.iterdir() if path.name.startswith(".")] == []


def test_a_false_snapshot_is_a_defect_and_its_range_is_folded_again(here: Here, tmp_path: Path) -> None:
    """So is that in which a group writes of which no snapshot is near: this group alone."""
    url = of_entries(long_log(wrong=230).entries, tmp_path / "l.db")
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    straight.update(url)
    made.update(url)
    assert same(made, straight) == []
    assert [row["kind"] for row in rows(made, "ends")].count("defect") == 1
    again = [order.table.pieces for order in here.orders if order.table is not None and order.table.name == "facts"]
    assert [piece.again for piece in again[0] if piece.again] == [["g"], ["quiet"]]
    assert judged(made) == straightly(url)


def test_a_defect_that_ranges_alone_come_upon_stays_in_the_history(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A false snapshot of a place of which the fold has no hash any more."""
    monkeypatch.setattr("pares.core.wire.reader.KEPT_PLACES", 3)
    log = steady(length=140)
    upto, text = false_world(log)
    goes_on(log, 400)
    late = log.put(r.Snapshot, "m0~0", upto=upto, id="late", part=0, parts=1, world=text)
    goes_on(log, 200)
    monkeypatch.setattr(spread, "cuts", lambda *_: [Cut(upto, late + 30)])
    url = of_entries(log.entries, tmp_path / "l.db")
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    for most in (len(log.entries) - 20, None):
        straight.update(url, max_records=most)
        made.update(url, max_records=most)
    (defect,) = same(made, straight)
    assert (defect["offset"], defect["other"], defect["batch"]) == (late, "m0~0", 0)


def test_without_snapshots_a_partition_is_one_task(here: Here, tmp_path: Path) -> None:
    url = of_entries(steady(length=900).entries, tmp_path / "l.db")
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    straight.update(url)
    made.update(url)
    assert same(made, straight) == []
    assert [order.plan is not None for order in here.orders] == [True]


def test_of_several_partitions_the_one_with_claims_is_cut(here: Here, tmp_path: Path) -> None:
    log = long_log()
    with closing(open_ledger(f"sqlite:///{tmp_path}/p.db?partitions=3")) as ledger:
        for partition, entries in enumerate((log.entries[:300], log.entries, log.entries[:7])):
            ledger.append_many([payload for _, _, payload in entries], partition)
    url = f"sqlite:///{tmp_path}/p.db?partition=1"
    straight, made = history(None, tmp_path / "straight"), in_ranges(tmp_path / "made")
    for most in (900, None):
        straight.update(url, max_records=most)
        made.update(url, max_records=most)
    assert same(made, straight) == []
    assert {span.plan.partition for span in here.spans()} == {1}
    assert len(here.spans()) >= 3
    assert {order.plan.partition for order in here.orders if order.plan is not None} >= {0, 2}


def test_a_small_update_is_done_in_this_process(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "SMALL", 2000)
    url = of_entries(steady((150, 380, 600), length=900).entries, tmp_path / "l.db")
    made = in_ranges(tmp_path / "made")
    made.update(url)
    assert here.orders == []
    assert judged(made) == straightly(url)


class Stopped(BaseException):
    """As if the process had been killed here."""


def test_killed_at_any_step_and_done_again_it_is_the_same(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each of the tasks that the driver has done, and after the last one, when it commits."""
    url = of_entries(long_log(wrong=230).entries, tmp_path / "l.db")
    straight, begun = history(None, tmp_path / "straight"), in_ranges(tmp_path / "begun")
    straight.update(url, max_records=60)
    begun.update(url, max_records=60)
    before = {name: rows(begun, name) for name in columns.TABLES}
    straight.update(url)
    expected = bytes_of(straight.path)
    do, remove, killed = spread._do, shutil.rmtree, 0
    while True:
        kept = in_ranges(tmp_path / f"killed-{killed}")
        shutil.copytree(begun.path, kept.path)
        left = killed

        def mortal(order: spread.Order) -> bytes:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped
            return do(order)

        with monkeypatch.context() as patch:
            patch.setattr(spread, "_do", mortal)
            # Nothing of what a killed process would have cleared away is cleared away.
            patch.setattr(disk.shutil, "rmtree", lambda *_, **__: None)
            try:
                kept.update(url)
                break
            except Stopped:
                pass
        assert {name: rows(kept, name) for name in columns.TABLES} == before
        assert len(list(kept.path.glob(f"{disk.DRAFT}*"))) == 1
        assert kept.sweep() == []
        kept.update(url)
        assert kept.check() == []
        kept.sweep(older_than_s=-1)
        assert bytes_of(kept.path) == expected
        remove(kept.path)
        killed += 1
    # Ranges, two that are folded again, and three tables.
    assert killed > 7
