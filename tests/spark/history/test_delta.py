"""A history whose tables are tables of Delta Lake, too: each batch once, whoever publishes it and wherever he is stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from full_disk import files_of_at_most
from kept import bytes_of, of_entries, rows, saved, stored
from scribe import Scribe, story

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import open as open_ledger
from pares.spark.histories import History, delta, history, manifest
from pares.spark.sinks import delta_log
from pares.spark.sinks.delta_log import DeltaLog

pytestmark = pytest.mark.timeless


class Stopped(BaseException):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def log() -> Scribe:
    return story(3, roles=4, steps=60)


@pytest.fixture(scope="module")
def url(log: Scribe, tmp_path_factory: pytest.TempPathFactory) -> str:
    return of_entries([*log.entries, (0, 0, b"\xff no record")], tmp_path_factory.mktemp("log") / "l.db")


def table(of: History, name: str) -> list[dict[str, Any]]:
    """All rows, as an engine of Delta's reads them."""
    files = DeltaTable(of.path / name).file_uris()
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=repr)


def assert_published(of: History) -> None:
    for name in delta.PUBLISHED:
        assert table(of, name) == sorted(rows(of, name), key=repr), name
    assert of.check() == []


def test_each_batch_is_in_every_table_once_and_the_format_is_remembered(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    assert kept.format == "delta"
    kept.update(url, max_records=30)
    assert_published(kept)
    again = history(None, tmp_path / "h")
    assert again.format == "delta"
    while again.update(url, max_records=50):
        assert_published(again)
    assert again.update(url) is None
    assert len(table(again, "records")) > 100
    assert len(table(again, "quarantine")) == 1
    straight = history(None, tmp_path / "straight")
    straight.update(url, max_records=30)
    while straight.update(url, max_records=50):
        pass
    assert straight.format == "parquet"
    assert stored(again) == bytes_of(straight.path)


def test_one_that_was_parquet_becomes_delta_with_all_that_it_has(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h")
    while kept.update(url, max_records=30):
        pass
    assert not (kept.path / "records" / delta.LOG).exists()
    kept = history(None, kept.path, format="delta")
    assert kept.update(url) is None
    assert_published(kept)
    # Made, and all at once.
    assert DeltaTable(kept.path / "records").version() == 1


def test_it_says_what_it_can_not_be(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="format='iceberg': give parquet or delta"):
        history(None, tmp_path / "h", format="iceberg")  # type: ignore[arg-type]
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url)
    with pytest.raises(ConfigError, match="has tables of Delta, which each batch goes into"):
        history(None, kept.path, format="parquet")

    def missing(name: str) -> str:
        raise delta_log.PackageNotFoundError(name)

    monkeypatch.setattr(delta_log, "version", missing)
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[delta\]'"):
        history(None, tmp_path / "other", format="delta")
    # What is there can be read without it, and not be updated.
    assert len(rows(history(None, kept.path), "records")) > 100
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[delta\]'"):
        history(None, kept.path).update(url)


class Mortal:
    """Has the process killed before its step number `at` of publishing, or right behind it."""

    def __init__(self, at: int, *, behind: bool) -> None:
        self._left, self._behind = at, behind

    def step(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left < -1 or (self._left == -1 and not self._behind):
                raise Stopped
            done = do(*given, **named)
            if self._left == -1:
                raise Stopped
            return done

        return call


@pytest.mark.parametrize("behind", [False, True])
def test_killed_at_any_step_and_done_again_each_batch_is_there_once(url: str, tmp_path: Path, *, behind: bool) -> None:
    begun = history(None, tmp_path / "begun")
    begun.update(url, max_records=40)
    killed, torn = 0, 0
    while True:
        kept = history(None, tmp_path / f"killed-{killed}", format="delta")
        shutil.copytree(begun.path, kept.path)
        with pytest.MonkeyPatch.context() as patch:
            mortal = Mortal(killed, behind=behind)
            patch.setattr(deltalake.DeltaTable, "create", mortal.step(DeltaTable.create))
            patch.setattr(DeltaLog, "commit", mortal.step(DeltaLog.commit))
            try:
                kept.update(url)
                break
            except Stopped:
                torn += bool(history(None, kept.path, format="delta").check())
        # By one who was not told of the format: a table of Delta is there, or nothing of the batch is.
        heir = history(None, kept.path, format=None if killed or behind else "delta")
        heir.update(url)
        assert_published(heir)
        versions = {name: DeltaTable(kept.path / name).version() for name in delta.PUBLISHED}
        assert all(version <= 2 for version in versions.values()), versions
        killed += 1
    # Five tables are made, and four of them have rows.
    assert killed == 9
    assert torn > 0


def test_of_many_publishers_each_batch_is_named_once(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h")
    while kept.update(url, max_records=10):
        pass
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(delta.publish, kept.path, manifest.Chain(kept.path)) for _ in range(8)]:
            done.result()
    assert_published(history(None, kept.path))
    assert DeltaTable(kept.path / "records").version() == 1


def test_what_was_judged_by_an_old_snapshot_is_not_committed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher is frozen before its commit, and another one is faster."""
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url, max_records=40)
    made = history(None, kept.path)
    straight, others = DeltaLog.commit, list[str]()

    def late(log: DeltaLog, *given: Any) -> bool:
        if log.folder.name not in others:
            others.append(log.folder.name)
            delta.publish(kept.path, manifest.Chain(kept.path))
        return straight(log, *given)

    monkeypatch.setattr(DeltaLog, "commit", late)
    made.update(url)
    assert len(others) == 4
    assert_published(made)


def test_many_batches_cost_a_table_without_rows_little_and_are_not_forgotten(tmp_path: Path, log: Scribe) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    url = saved(log, tmp_path / "l.db")
    count = 0
    while kept.update(url, max_records=1):
        count += 1
    assert count > 128
    assert_published(kept)
    empty = DeltaTable(kept.path / "quarantine")
    assert empty.version() == count // delta._SPARSE  # pyright: ignore[reportPrivateUsage]
    # delta-rs has made a checkpoint of the log, and the number is in it.
    assert list((kept.path / "records" / delta.LOG).glob("*.checkpoint.parquet"))
    assert kept.update(url) is None
    assert_published(kept)


def test_a_sweep_takes_nothing_of_deltas(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url)
    (kept.path / "records" / ".draft-left").touch()
    assert [path.name for path in kept.sweep(older_than_s=-1)] == [".draft-left"]
    assert_published(kept)


def test_a_table_that_something_else_has_changed_is_found(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    while kept.update(url, max_records=50):
        pass
    DeltaTable(kept.path / "records").optimize.compact()
    (found,) = kept.check()
    assert "the Delta table records names 1 files that no manifest names, and lacks" in found


@pytest.mark.parametrize("size", [1000, 3000])
def test_a_full_disk_is_said_and_the_next_update_makes_good(tmp_path: Path, size: int) -> None:
    url = f"file:{tmp_path}/log"
    with closing(open_ledger(f"{url}?create=1")) as ledger:
        ledger.append_many([payload for _, _, payload in story(3, roles=4, steps=60).entries])
    kept = history(None, tmp_path / "h")
    while kept.update(url, max_records=5):
        pass
    kept = history(None, kept.path, format="delta")
    with files_of_at_most(size), pytest.raises(CapabilityError, match=r"there is no room left at .*: make some"):
        kept.update(url)
    kept.update(url)
    assert_published(kept)
