"""What becomes of a history whose log was trimmed, replaced or cut, or whose own files were changed."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from kept import judged, rows, saved, straightly
from scribe import Scribe, story

from pares.core.errors import CapabilityError, ConfigError, LedgerGap, LedgerRewound
from pares.ledger import open as open_ledger
from pares.spark.facts import frozen
from pares.spark.histories import disk, history, manifest, updating

pytestmark = pytest.mark.timeless


@pytest.fixture(scope="module")
def log() -> Scribe:
    return story(3, roles=4, steps=60)


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


def test_behind_a_lost_range_another_stretch_is_judged(log: Scribe, tmp_path: Path) -> None:
    """A term that was open before, and its successor's behind the gap, would be two leaders at once."""
    later = story(3, roles=4, steps=60)
    later.snapshot(next(term.member for term in later.truths if term.end is None))
    url = saved(later, tmp_path / "l.db")
    kept = history(None, tmp_path / "h")
    kept.update(url, max_records=20)
    with closing(open_ledger(url)) as ledger:
        ledger.trim(33)
    kept.update(url, max_records=30, on_loss="mark")
    kept.update(url)
    assert judged(kept) == straightly(url)
    batches = manifest.Chain(kept.path).read()
    assert [batch.lost for batch in batches] == [{}, {"0": (20, 33)}, {}]
    assert [batch.partitions["0"].since for batch in batches] == [0, 1, 1]


def test_two_logs_in_turn_are_each_read_once(log: Scribe, tmp_path: Path) -> None:
    """One that was restored from a backup, say, after another had taken its place."""
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    kept.update(url)
    away = tmp_path / "away"
    away.mkdir()
    for path in tmp_path.glob("l.db*"):
        path.rename(away / path.name)
    saved(log, tmp_path / "l.db", 20)
    kept.update(url, on_loss="mark")
    for path in away.glob("l.db*"):
        path.replace(tmp_path / path.name)
    with closing(open_ledger(url)) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[30:]])
    with pytest.raises(LedgerRewound):
        kept.update(url)
    again = kept.update(url, on_loss="mark")
    assert again is not None
    assert again.ranges == {"0": (30, len(log.entries))}
    assert judged(kept) == straightly(url)


def test_a_log_that_loses_its_tail_while_it_is_read(log: Scribe, tmp_path: Path) -> None:
    """What is planned can't be read, and a reading that comes to the log's end does not notice by itself."""
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    planned = updating.plan(kept.path, updating.Order(url), None)
    assert planned is not None
    (task,) = planned.plans
    with pytest.raises(LedgerRewound, match="ends at 30, and was read up to 50"):
        updating.run(None, [msgspec.structs.replace(task, high=50)])
    with closing(open_ledger(url)) as ledger:
        ledger.trim(10)
    with pytest.raises(LedgerGap, match="offsets 0 to 9 of partition 0"):
        updating.run(None, planned.plans)


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


def test_behind_a_lost_tail_the_fold_begins_anew(log: Scribe, tmp_path: Path) -> None:
    """By all that the log still has, and not as if it had been empty until there."""
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    last = kept.update(url)
    assert last is not None
    with closing(open_ledger(url)) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[30:]])
    end = len(log.entries)
    ahead = msgspec.structs.replace(last, partitions={"0": manifest.Done(end + 9, last.partitions["0"].world)})
    planned = updating.plan(kept.path, updating.Order(url, on_loss="mark"), ahead)
    assert planned is not None
    assert planned.manifest.lost == {"0": (end + 9, end)}
    again = msgspec.structs.replace(planned.manifest, partitions={"0": manifest.Done(30, since=1)})
    order = updating.Order(url, on_loss="mark")
    planned = updating.plan(kept.path, order, again)
    assert planned is not None
    number = msgspec.structs.replace(planned.manifest, batch=1, partitions={"0": manifest.Done(30, since=1)})
    plans = [msgspec.structs.replace(plan, batch=1) for plan in planned.plans]
    results = updating.run(None, plans)
    manifest.Chain(kept.path).commit(updating.finished(kept.path, updating.Planned(number, plans, ()), results))
    assert judged(kept) == straightly(url)
    assert [row["offset"] for row in rows(kept, "records")] == list(range(end))


def test_a_file_server_that_is_asked_twice_has_created_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer to the first request was lost, so the second one finds what the first has made."""

    real = os.link

    def link(source: Path, place: Path) -> None:
        real(source, place)
        raise FileExistsError

    path = tmp_path / "there"
    monkeypatch.setattr(disk.os, "link", link)
    with disk.draft(tmp_path) as draft:
        assert disk.create(draft, path)
        monkeypatch.undo()
        with disk.draft(tmp_path) as other:
            assert not disk.create(other, path)


def test_a_batch_that_leaves_something_out_is_refused(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 30)
    kept = history(None, tmp_path / "h")
    first = kept.update(url)
    assert first is not None
    chain = manifest.Chain(kept.path)
    later = msgspec.structs.replace(first, batch=1, ranges={"0": (31, 32)})
    with pytest.raises(ConfigError, match="begins at 31 of partition 0, read up to 30"):
        chain.commit(later)
    with pytest.raises(ConfigError, match="does not say how far"):
        chain.commit(msgspec.structs.replace(first, batch=1, ranges={}, partitions={}))
    chain.commit(msgspec.structs.replace(later, lost={"0": (30, 31)}))


def test_a_state_that_can_not_be_read_costs_time_and_no_row(
    log: Scribe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade: the log is folded anew from its beginning, in silence; if that is gone, it is an error."""
    url = saved(log, tmp_path / "l.db", 60)
    straight, kept, cut = (history(None, tmp_path / name) for name in ("straight", "kept", "cut"))
    for one in (straight, kept, cut):
        one.update(url, max_records=40)
    straight.update(url)
    monkeypatch.setattr(frozen, "FORMAT", frozen.FORMAT + 1)
    kept.update(url)
    assert rows(kept, "facts") == rows(straight, "facts")
    with closing(open_ledger(url)) as ledger:
        ledger.trim(40)
    with pytest.raises(CapabilityError, match="the log's beginning is gone"):
        cut.update(url)


def test_a_state_that_was_changed_is_not_gone_on_from(log: Scribe, tmp_path: Path) -> None:
    url = saved(log, tmp_path / "l.db", 60)
    kept = history(None, tmp_path / "h")
    first = kept.update(url, max_records=20)
    assert first is not None
    with open(kept.path / first.partitions["0"].world, "r+b") as file:
        file.seek(50)
        file.write(b"?")
    with pytest.raises(ConfigError, match="not as it was written, and nothing goes on without it"):
        kept.update(url)


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
