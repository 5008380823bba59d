"""Batches of a history: each once, whole, in the order of the log, and the same bytes however often it is tried."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from histories import broken
from kept import bytes_of, judged, of_entries, rows, saved, straightly
from scribe import Scribe, story

from pares.core.errors import ConfigError, Stale
from pares.core.wire import world
from pares.ledger import open as open_ledger
from pares.spark import logs
from pares.spark.facts.claims import history as facts_of
from pares.spark.histories import Overtaken, columns, disk, history, manifest, updating

pytestmark = pytest.mark.timeless


class Stopped(BaseException):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def log() -> Scribe:
    return story(3, roles=4, steps=60)


def test_batches_follow_each_other_and_bring_everything_once(log: Scribe, tmp_path: Path) -> None:
    half = len(log.entries) // 2
    url = saved(log, tmp_path / "l.db", half)
    kept = history(None, tmp_path / "h")
    first = kept.update(url, max_records=30)
    assert first is not None
    assert first.ranges == {"0": (0, 30)}
    second = kept.update(url)
    assert second is not None
    assert second.ranges == {"0": (30, half)}
    assert kept.update(url) is None
    with closing(open_ledger(url)) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[half:]])
    kept.update(url)
    found = rows(kept, "records")
    assert [(row["offset"], row["payload"]) for row in found] == [(at, payload) for at, _, payload in log.entries]
    assert {row["batch"] for row in found} == {0, 1, 2}
    assert all(row["counted"] is not None for row in found)
    times = {at: row["ts_ms"] for at, row in enumerate(found)}
    entries = [(at, times[at], payload) for at, _, payload in log.entries]
    expected = [fact for fact in facts_of("g", entries) if fact.kind != "record"]
    ends = [row for row in rows(kept, "ends") if row["batch"] == 2]
    told = [row for row in rows(kept, "facts") + ends if row["kind"] != "record"]
    assert sorted((row["kind"], repr(row["offset"]), repr(row["token"])) for row in told) == sorted(
        (fact.kind, repr(fact.offset), repr(fact.token)) for fact in expected
    )
    assert kept.check() == []


class Mortal:
    """The operating system, as the module `disk` has it, of a process that is killed before call number `after`: whatever it
    does from then on (cleaning up, too) does not happen."""

    def __init__(self, after: int) -> None:
        self._left = after

    def __getattr__(self, name: str) -> Any:
        known = getattr(os, name)
        return self._mortal(known) if name not in ("path", "O_RDONLY") else known

    def _mortal(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Stopped
            return do(*given)

        return call


def test_killed_at_any_call_and_done_again_it_is_the_same(log: Scribe, tmp_path: Path) -> None:
    url = of_entries([*log.entries, (0, 0, b"\xff no record")], tmp_path / "l.db")
    straight = history(None, tmp_path / "straight")
    for most in (40, None):
        straight.update(url, max_records=most)
    expected = bytes_of(straight.path)
    begun = history(None, tmp_path / "begun")
    begun.update(url, max_records=40)
    whole = [{name: rows(of, name) for name in columns.TABLES} for of in (begun, straight)]
    killed, left = 0, 0
    while True:
        kept = history(None, tmp_path / f"killed-{killed}")
        shutil.copytree(begun.path, kept.path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "os", Mortal(killed))
            try:
                kept.update(url)
                break
            except Stopped:
                left += len(set(bytes_of(kept.path)) - set(expected))
        assert {name: rows(kept, name) for name in columns.TABLES} in whole
        kept.update(url)
        assert kept.check() == []
        kept.sweep(older_than_s=-1)
        assert bytes_of(kept.path) == expected
        killed += 1
    # Five tables and the manifest, each with a draft that is written, synced and put in its place.
    assert killed > 40
    assert left > 0


def test_of_two_writers_one_wins_and_the_other_says_so(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    order = updating.Order(url)
    slow = updating.plan(kept.path, order, None)
    assert slow is not None
    results = updating.run(None, slow.plans)
    kept.update(url, max_records=25)
    with pytest.raises(Overtaken, match="another writer has committed batch 0") as raised:
        manifest.Chain(kept.path).commit(updating.finished(kept.path, slow, results))
    assert raised.value.batch == 0
    kept.update(url)
    assert [row["offset"] for row in rows(kept, "records")] == list(range(len(log.entries)))
    # What the slower one wrote is no part of it, and goes when it is old.
    assert kept.sweep() == []
    assert len(kept.sweep(older_than_s=-1)) == 4
    assert kept.check() == []


def test_at_the_same_instant_one_wins(log: Scribe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked, and neither saw the other."""
    url = saved(log, tmp_path / "l.db")
    slow, quick = history(None, tmp_path / "h"), history(None, tmp_path / "h")
    create = disk.create

    def late(draft: Path, place: Path) -> bool:
        monkeypatch.setattr(disk, "create", create)
        quick.update(url, max_records=25)
        return create(draft, place)

    monkeypatch.setattr(disk, "create", late)
    with pytest.raises(Overtaken):
        slow.update(url)
    assert [row["offset"] for row in rows(slow, "records")] == list(range(25))


def test_writers_that_race_bring_everything_once(log: Scribe, tmp_path: Path) -> None:
    """Three at once, each of which goes on after it was overtaken; and one that sweeps."""
    url = saved(log, tmp_path / "l.db")
    kept = history(None, tmp_path / "h")

    def write(most: int) -> int:
        overtaken = 0
        while True:
            try:
                if history(None, kept.path).update(url, max_records=most) is None:
                    return overtaken
            except Overtaken:
                overtaken += 1

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, most) for most in (3, 4, 5)]
        sweeper = pool.submit(lambda: [kept.sweep() for _ in range(20)])
        # However they came to turn about: it ends, and nobody fails of anything else.
        assert all(writer.result(120) >= 0 for writer in writers)
        assert sweeper.result(120) == [[]] * 20
    assert [row["offset"] for row in rows(kept, "records")] == list(range(len(log.entries)))
    assert kept.check() == []
    assert judged(kept) == straightly(url)


def test_a_lower_token_is_refused(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    order = updating.Order(url, token=7)
    late = updating.plan(kept.path, order, None)
    assert late is not None
    kept.update(url, token=9, max_records=20)
    with pytest.raises(Stale, match="token 8 is lower than 9") as raised:
        kept.update(url, token=8)
    assert (raised.value.token, raised.value.seen) == (8, 9)
    with pytest.raises(Stale):
        manifest.Chain(kept.path).commit(updating.finished(kept.path, late, updating.run(None, late.plans)))
    assert kept.update(url, token=9, max_records=5) is not None
    assert kept.update(url, token=12) is not None


@pytest.mark.parametrize("seed", range(12))
def test_in_whatever_batches_it_is_the_fold_from_the_beginning(seed: int, tmp_path: Path) -> None:
    """Random histories, most of them unlawful, also with members that are forgotten on the way."""
    chance = random.Random(seed)
    url = broken(seed).save(tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "FORGET", chance.choice([5, 20, 10_000]))
        patch.setattr(world, "PLACE_EVERY", 3)
        while kept.update(url, max_records=chance.randint(1, 60)) is not None:
            pass
        assert judged(kept) == straightly(url)
    assert kept.check() == []


def test_an_avalanche_of_small_batches(log: Scribe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch costs does not follow from how many there are: one manifest is read to plan it, and one to commit it."""
    url = saved(log, tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    read, one = list[int](), manifest.Chain._one

    def counted(chain: manifest.Chain, number: int) -> manifest.Manifest:
        read.append(number)
        return one(chain, number)

    monkeypatch.setattr(manifest.Chain, "_one", counted)
    costs: list[int] = []
    while kept.update(url, max_records=1) is not None:
        costs.append(len(read))
        read.clear()
    assert len(costs) == len(log.entries) > 100
    assert costs[0] == 0
    assert set(costs[1:]) == {2}
    assert judged(kept) == straightly(url)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_records": 0}, "never read anything"),
        ({"on_loss": "ignore"}, "give one of error, mark"),
        ({"groups": []}, "would keep nothing"),
    ],
)
def test_what_no_batch_can_be_asked_for(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        history(None, tmp_path / "h").update("sqlite:///none.db", **given)


def test_what_is_no_record_is_in_the_quarantine_and_all_else_stays(log: Scribe, tmp_path: Path) -> None:
    url = of_entries([*log.entries[:10], (10, 5, b"\xff no record"), *log.entries[10:40]], tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    kept.update(url)
    (bad,) = rows(kept, "quarantine")
    assert [bad[name] for name in ("table", "offset", "payload", "group")] == ["records", 10, b"\xff no record", None]
    assert bad["reason"].startswith("not a record")
    assert [row["offset"] for row in rows(kept, "records")] == [*range(10), *range(11, 41)]


def test_a_row_that_does_not_fit_says_why() -> None:
    good = {
        "log": "l",
        "partition": 0,
        "batch": 0,
        "group": "g",
        "offset": 1,
        "ts_ms": 5,
        "kind": "beat",
        "member": "a~0",
    }
    kept, refused = columns.fitting(
        "records", [good, {**good, "n": 2**70}, {**good, "member": None}, {**good, "role": 7}, {**good, "n": 3}]
    )
    assert kept.column("n").to_pylist() == [None, 3]
    reasons = [row["reason"] for row in refused]
    assert reasons[0] == "no member"
    assert reasons[1].startswith("n is no int64")
    assert reasons[2].startswith("role is no string")
    assert {row["table"] for row in refused} == {"records"}


def test_a_history_is_of_the_same_groups_always(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    kept.update(url, groups=["g", "other"], max_records=10)
    with pytest.raises(ConfigError, match="begin another history"):
        kept.update(url)
    assert kept.update(url, groups=["other", "g"]) is not None


def test_in_whatever_portions_it_is_read_it_is_the_same_bytes(log: Scribe, tmp_path: Path) -> None:
    """A broker gives as much at once as there happens to be: here of two groups in turn."""
    other = story(5, roles=2, steps=60)
    turns = [entry for pair in zip(log.entries, other.entries, strict=False) for entry in pair]
    renamed = [(at, ms, payload.replace(b'"g":"g"', b'"g":"h"', at % 2)) for at, (_, ms, payload) in enumerate(turns)]
    url = of_entries(renamed, tmp_path / "l.db")
    found: list[dict[str, bytes]] = []
    for size in (5000, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "_ROWS", size)
            kept = history(None, tmp_path / f"h{size}")
            kept.update(url)
            assert {row["group"] for row in rows(kept, "facts")} == {"g", "h"}
            found.append(bytes_of(kept.path))
    assert found[0] == found[1]
