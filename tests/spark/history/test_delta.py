"""A history whose tables are tables of Delta Lake, too: each batch once, whoever publishes it and wherever he is stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from full_disk import files_of_at_most
from kept import bytes_of, named_by_delta, named_by_manifests, of_entries, rows, saved, stored
from scribe import Scribe, story

from pares.core.errors import CapabilityError, ConfigError, ParesError
from pares.ledger import open as open_ledger
from pares.spark.histories import History, delta, history, manifest
from pares.spark.sinks import delta_log
from pares.spark.sinks.delta_log import LOG, DeltaLog

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
    found = DeltaTable(of.path / name)
    read = sorted(found.to_pyarrow_table().to_pylist(), key=repr)
    assert found.count() == len(read)
    return read


def assert_published(of: History) -> None:
    for name in delta.PUBLISHED:
        assert named_by_delta(of, name) == named_by_manifests(of, name)
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
    assert not (kept.path / "records" / LOG).exists()
    kept = history(None, kept.path, format="delta")
    assert kept.update(url) is None
    assert_published(kept)
    # Made, and all at once.
    assert DeltaTable(kept.path / "records").version() == 1


def test_it_says_what_it_can_not_be(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="format='iceberg': give parquet or delta"):
        history(None, tmp_path / "h", format="iceberg")  # type: ignore[arg-type]
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url, max_records=40)
    with pytest.raises(ConfigError, match="has tables of Delta, which each batch goes into"):
        history(None, kept.path, format="parquet")

    def missing(name: str) -> str:
        raise delta_log.PackageNotFoundError(name)

    monkeypatch.setattr(delta_log, "version", missing)
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[delta\]'"):
        history(None, tmp_path / "other", format="delta")
    # What is there can be read without it, and nothing is added.
    assert len(rows(history(None, kept.path), "records")) == 40
    with pytest.raises(CapabilityError, match=r"pip install 'pares\[delta\]'"):
        history(None, kept.path).update(url)
    assert len(rows(history(None, kept.path), "records")) == 40


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
    assert DeltaTable(made.path / "records").version() == 2


def test_many_batches_cost_a_table_without_rows_little_and_are_not_forgotten(tmp_path: Path, log: Scribe) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    url = saved(log, tmp_path / "l.db")
    count = 0
    while kept.update(url, max_records=1):
        count += 1
    assert count > 128
    assert_published(kept)
    empty = DeltaTable(kept.path / "quarantine")
    assert empty.version() == count // delta.SPARSE
    # delta-rs has made a checkpoint of the log, and the number is in it.
    assert list((kept.path / "records" / LOG).glob("*.checkpoint.parquet"))
    assert kept.update(url) is None
    assert_published(kept)


def test_a_sweep_takes_nothing_of_deltas(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url)
    (kept.path / "records" / ".draft-left").touch()
    assert [path.name for path in kept.sweep(older_than_s=-1)] == [".draft-left"]
    assert_published(kept)


def test_one_who_opened_it_as_parquet_goes_on_as_delta(url: str, tmp_path: Path) -> None:
    early = history(None, tmp_path / "h")
    early.update(url, max_records=40)
    history(None, early.path, format="delta").update(url, max_records=40)
    early.update(url, max_records=40)
    assert early.format == "delta"
    assert_published(early)


def test_what_is_there_is_published_also_by_an_update_that_fails(tmp_path: Path, log: Scribe) -> None:
    url, kept = saved(log, tmp_path / "l.db"), history(None, tmp_path / "h")
    while kept.update(url, max_records=50):
        pass
    for path in tmp_path.glob("l.db*"):
        path.unlink()
    with pytest.raises(ConfigError, match="is not there"):
        history(None, kept.path, format="delta").update(url)
    assert_published(kept)
    # Where nothing is known, nothing is made.
    with pytest.raises(ConfigError, match="is not there"):
        history(None, tmp_path / "new", format="delta").update(url)
    assert not (tmp_path / "new").exists()


def test_a_commit_that_fails_behind_itself_has_been_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = DeltaTable.create_write_transaction

    def fails(table: DeltaTable, *given: Any, **named: Any) -> None:
        made(table, *given, **named)
        raise RuntimeError("no checkpoint")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails)
    kept = history(None, tmp_path / "h", format="delta")
    kept.update(url)
    assert_published(kept)
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "records is there, though delta-rs says no checkpoint" in "\n".join(caplog.messages)


def test_what_delta_can_not_do_is_said_and_the_history_has_its_batch(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(log: DeltaLog, *given: Any) -> bool:
        raise RuntimeError("out of order")

    kept = history(None, tmp_path / "h", format="delta")
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", fails)
        with pytest.raises(
            ParesError, match=r"has its batches, and the Delta table .* could not follow \(out of order\)"
        ):
            kept.update(url, max_records=40)
    assert len(rows(kept, "records")) == 40
    assert any("the Delta table records lacks the batches from 0 on: update again" in text for text in kept.check())
    kept.update(url)
    assert_published(kept)


def test_a_part_that_was_put_back_alone_is_refused_with_what_to_do(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    while kept.update(url, max_records=50):
        pass
    last = kept.last
    assert last is not None
    (kept.path / "manifests" / f"{last.batch:020d}.json").unlink()
    (kept.path / "manifests" / f"{last.batch - 1:020d}.json").unlink()
    with pytest.raises(ConfigError, match=r"has batch \d+, and the history has no such batch yet: remove .*_delta_log"):
        kept.update(url, max_records=1)
    for name in delta.PUBLISHED:
        shutil.rmtree(kept.path / name / LOG)
    again = history(None, kept.path, format="delta")
    again.update(url)
    assert_published(again)


def test_a_table_of_other_columns_is_refused_with_what_to_do(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h")
    kept.update(url)
    DeltaTable.create(str(kept.path / "facts"), pa.schema([("a", pa.int64())]))
    with pytest.raises(ConfigError, match=r"has other columns than a history's facts: move .*_delta_log away"):
        history(None, kept.path).update(url)


def test_a_table_that_something_else_has_changed_is_found(url: str, tmp_path: Path) -> None:
    kept = history(None, tmp_path / "h", format="delta")
    while kept.update(url, max_records=50):
        pass
    compacted = DeltaTable(kept.path / "records")
    compacted.optimize.compact()
    kept.sweep(older_than_s=-1)
    # It can be read all the same, and a VACUUM that is told no time takes nothing away.
    assert table(kept, "records") == sorted(rows(kept, "records"), key=repr)
    assert DeltaTable(kept.path / "records").vacuum(dry_run=False) == []
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
