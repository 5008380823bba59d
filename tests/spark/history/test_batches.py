"""Batches of a history: each once, whole, in the order of the log, and the same bytes however often it is tried."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from scribe import Entries, Scribe, story

from pares.core.errors import CapabilityError, ConfigError, LedgerGap, LedgerRewound, Stale
from pares.ledger import open as open_ledger
from pares.spark.facts import frozen
from pares.spark.facts.claims import history as facts_of
from pares.spark.histories import History, Overtaken, columns, disk, history, manifest, updating

pytestmark = pytest.mark.timeless


class Stopped(BaseException):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def log() -> Scribe:
    return story(3, roles=4, steps=60)


def saved(log: Scribe, path: Path, upto: int | None = None) -> str:
    return of_entries(log.entries[:upto], path)


def of_entries(entries: Entries, path: Path) -> str:
    log = Scribe()
    log.entries = entries
    return log.save(path)


def rows(of: History, table: str) -> list[dict[str, Any]]:
    """All rows of a stored table, as the manifests name its files."""
    files = [file for batch in manifest.Chain(of.path).read() for file in batch.files.get(table, ())]
    return [row for file in files for row in pq.ParquetFile(of.path / file.path).read().to_pylist()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


def stopping(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Has the step number `after` on the disk be the last: before it, and if `after` is odd, after it. Returns how many
    steps there were."""
    steps = 0

    def wrapped(do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            nonlocal steps
            if steps == after:
                raise Stopped
            steps += 1
            done = do(*given)
            if steps == after:
                raise Stopped
            steps += 1
            return done

        return step

    for name in ("put", "create"):
        monkeypatch.setattr(disk, name, wrapped(getattr(disk, name)))
    return lambda: steps


def test_stopped_at_any_step_and_done_again_it_is_the_same(log: Scribe, tmp_path: Path) -> None:
    url = of_entries([*log.entries, (0, 0, b"\xff no record")], tmp_path / "l.db")
    straight = history(None, tmp_path / "straight")
    for most in (40, None):
        straight.update(url, max_records=most)
    expected = bytes_of(straight.path)
    stopped, after = 0, 0
    while True:
        kept = history(None, tmp_path / f"stopped-{after}")
        kept.update(url, max_records=40)
        with pytest.MonkeyPatch.context() as patch:
            stopping(patch, after)
            try:
                kept.update(url)
                break
            except Stopped:
                stopped += 1
        assert {file for file in bytes_of(kept.path) if "draft" in file} == set()
        kept.update(url)
        assert bytes_of(kept.path) == expected
        after += 1
    # Five tables and the manifest: before and after each.
    assert stopped == 12


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


def test_what_was_trimmed_is_named_or_marked(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 60)
    kept = history(None, tmp_path / "h")
    kept.update(url, max_records=20)
    with closing(open_ledger(url)) as ledger:
        ledger.trim(33)
    with pytest.raises(LedgerGap, match="offsets 20 to 32 of partition 0 are no longer in") as raised:
        kept.update(url)
    assert raised.value.lost == range(20, 33)
    batch = kept.update(url, on_loss="mark")
    assert batch is not None
    assert batch.ranges == {"0": (33, 60)}
    (lost,) = rows(kept, "anomalies")
    assert [lost[name] for name in ("kind", "from_offset", "to_offset", "count", "batch")] == [
        "lost_range",
        20,
        32,
        13,
        1,
    ]
    assert [row["offset"] for row in rows(kept, "records")] == [*range(20), *range(33, 60)]


def test_another_log_is_an_error_or_marked(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    before = kept.update(url)
    assert before is not None
    for path in tmp_path.glob("l.db*"):
        path.unlink()
    assert saved(log, tmp_path / "l.db", 50) == url
    with pytest.raises(LedgerRewound, match="is another log now"):
        kept.update(url)
    after = kept.update(url, on_loss="mark")
    assert after is not None
    assert after.log != before.log
    assert after.ranges == {"0": (0, 50)}
    (lost,) = rows(kept, "anomalies")
    assert (lost["kind"], lost["from_offset"], lost["to_offset"]) == ("another_log", 30, None)
    assert [row["log"] for row in rows(kept, "records")] == [before.log] * 30 + [after.log] * 50


def test_a_log_that_lost_its_tail_is_another_one(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    kept.update(url)
    last = kept.last
    assert last is not None
    order = updating.Order(url)
    ahead = msgspec.structs.replace(last, partitions={"0": manifest.Done(99)})
    with pytest.raises(LedgerRewound, match=r"partition 0 of .* ends at 30, and was read up to 99"):
        updating.plan(kept.path, order, ahead)


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


def test_a_state_that_can_not_be_read_costs_time_and_no_row(
    log: Scribe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade: the log is folded anew from its beginning, in silence; if that is gone, it is an error."""
    url = saved(log, tmp_path / "l.db", 60)
    straight, kept, cut = (history(None, tmp_path / name) for name in ("straight", "kept", "cut"))
    for one in (straight, kept, cut):
        one.update(url, max_records=40)
    straight.update(url)
    monkeypatch.setattr(frozen, "FORMAT", 2)
    kept.update(url)
    assert rows(kept, "facts") == rows(straight, "facts")
    with closing(open_ledger(url)) as ledger:
        ledger.trim(40)
    with pytest.raises(CapabilityError, match="the log's beginning is gone"):
        cut.update(url)


def test_a_damaged_history_says_where(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 60)
    kept = history(None, tmp_path / "h")
    for _ in range(3):
        kept.update(url, max_records=20)
    (facts,) = manifest.Chain(kept.path).read()[1].files["facts"]
    with open(kept.path / facts.path, "r+b") as file:
        file.seek(50)
        file.write(b"?")
    assert kept.check() == [f"batch 1: {facts.path} is missing, or is not as it was written"]
    (kept.path / "manifests" / f"{1:020d}.json").unlink()
    with pytest.raises(ConfigError, match="has no batch 1, and later ones"):
        kept.check()
