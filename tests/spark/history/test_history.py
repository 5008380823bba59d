"""A history's tables in Spark, and the audit by what is stored."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scribe import Scribe, story
from tests.spark.facts.test_fold_ranges import steady
from tests.spark.follow.tenures import induced

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import open as open_ledger
from pares.spark import history
from pares.spark.audit import audit
from pares.spark.facts import cuts
from pares.spark.histories import History, judging, spread, updating
from pares.spark.result import AuditResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A story in which two led at once, and one was killed."""
    log = story(9, roles=4, steps=120)
    log.put_role("twice")
    one, other = log.join("one"), log.join("other")
    first = log.claim(one, "twice")
    log.lead(first)
    log.sleep(1200)
    log.beat(other)
    log.lead(log.claim(other, "twice"))
    log.sleep(40)
    log.stop(first, at=log.now - 10)
    log.beat(other)
    return log.save(tmp_path_factory.mktemp("history") / "l.db")


@pytest.fixture(scope="module")
def read(spark: SparkSession, url: str) -> AuditResult:
    """The audit of the log itself."""
    return audit(url, "g", spark=spark)


@pytest.fixture(scope="module")
def kept(spark: SparkSession, url: str, read: AuditResult, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Of three batches; the log is gone."""
    made = history(spark, tmp_path_factory.mktemp("kept"))
    for most in (100, 100, None):
        made.update(url, max_records=most)
    for path in Path(url.removeprefix("sqlite:///")).parent.glob("l.db*"):
        path.unlink()
    return made


def test_the_audit_of_the_history_is_that_of_the_log(kept: History, read: AuditResult) -> None:
    stored = kept.audit("g")
    assert stored.summary == read.summary
    assert stored.promises == read.promises
    assert {name: stored.rows(name) for name in stored.tables} == {name: read.rows(name) for name in read.tables}
    assert stored.exit_code == 3
    with pytest.raises(ConfigError, match="nothing of group 'other'"):
        kept.audit("other")


def test_tables_of_what_was_found(kept: History) -> None:
    rows = [row.asDict() for row in kept.violations.collect()]
    (worst,) = (row for row in rows if row["rule"] == "overlap" and row["verdict"] == "certain")
    assert (worst["group"], worst["role"], worst["length_ms"]) == ("g", "twice", 30)
    last = kept.last
    assert last is not None
    assert worst["log"] == last.log
    near = [row["offset"] for row in kept.why(worst).select("offset").collect()]
    assert set(worst["offsets"]) <= set(near)
    assert near == sorted(near)
    assert len(near) <= 11 * len(worst["offsets"])
    assert kept.terms.columns[:3] == ["log", "group", "role"]
    with pytest.raises(ConfigError, match="has no table 'nonsense'"):
        kept.table("nonsense")


def test_records_around_a_violation_are_of_its_log_and_of_its_partition(spark: SparkSession, tmp_path: Path) -> None:
    """Of a group whose log has two partitions, in a history of two logs in turn: the same offsets stand in all of them."""
    kept = history(spark, tmp_path / "h")
    place = f"sqlite:///{tmp_path}/n.db"
    logs: list[str] = []
    for seed in (3, 4):
        for path in tmp_path.glob("n.db*"):
            path.unlink()
        with closing(open_ledger(f"{place}?partitions=2")) as ledger:
            for partition, entries in induced(seed).items():
                ledger.append_many([payload for _, _, payload in entries], partition)
        batch = kept.update(place, on_loss="mark")
        assert batch is not None
        logs.append(batch.log)
    where = {
        (row["log"], row["role"]): row["partition"]
        for row in kept.table("facts").where("kind = 'gained'").select("log", "role", "partition").distinct().collect()
    }
    assert {partition for _, partition in where.items()} == {0, 1}
    for (log, role), partition in where.items():
        told = {"log": log, "group": "g", "role": role, "offsets": [6]}
        near = kept.why(told).select("log", "partition", "offset").collect()
        assert near
        assert {(row["log"], row["partition"]) for row in near} == {(log, partition)}
    newest = kept.why({"partition": 1, "from_offset": 2, "to_offset": None}).select("log", "partition").distinct()
    assert [tuple(row) for row in newest.collect()] == [(logs[-1], 1)]
    unknown = kept.why({"offsets": [2]}).select("log", "partition").distinct().sort("partition")
    assert [tuple(row) for row in unknown.collect()] == [(logs[-1], 0), (logs[-1], 1)]


def test_availability_by_stretches_adds_up(kept: History) -> None:
    """Each stretch by itself, against the terms' own sums."""
    by_second = kept.slo("1s").toArrow().to_pylist()
    whole = {(row["role"], row["seat"]): row for row in kept.slo("30d").toArrow().to_pylist()}
    assert len(by_second) > len(whole) == 5
    for name in ("there_ms", "led_ms", "none_ms", "double_ms", "paused_ms"):
        for key, row in whole.items():
            assert row[name] == sum(one[name] for one in by_second if (one["role"], one["seat"]) == key), (name, key)
    assert all(0 <= row["led_ms"] <= row["there_ms"] <= 1000 for row in by_second)
    assert whole["twice", 0]["double_ms"] == 30
    assert sum(row["paused_ms"] for row in whole.values()) > 0
    gaps = kept.table("gaps").toArrow().to_pylist()
    for (role, seat), row in whole.items():
        lasted = sum(gap["to_ms"] - gap["from_ms"] for gap in gaps if (gap["role"], gap["seat"]) == (role, seat))
        assert row["none_ms"] == lasted
    (twice,) = kept.slo("30d", role="twice").toArrow().to_pylist()
    assert twice == whole["twice", 0]
    with pytest.raises(ConfigError, match="such as 1h"):
        kept.slo("1 hour")


def test_by_the_minute(kept: History) -> None:
    minutes = kept.table("slo_minute").toArrow().to_pylist()
    assert list(minutes[0])[1:5] == ["group", "role", "seat", "minute_ms"]
    assert {row["minute_ms"] % 60_000 for row in minutes} == {0}
    assert sum(row["double_ms"] for row in minutes) == 30
    rates = kept.table("rate_minute").toArrow().to_pylist()
    records = kept.table("records").toArrow().to_pylist()
    assert sum(row["records"] for row in rates) == len(records)
    assert sum(row["bytes"] for row in rates) == sum(row["bytes"] for row in records)
    assert sum(row["beats"] for row in rates) == sum(row["kind"] == "beat" for row in records) > 0
    facts = kept.table("facts").where("kind = 'gained'")
    assert sum(row["gained"] for row in rates) == facts.count() > 0


def test_where_each_row_came_from(kept: History) -> None:
    batches = [row.asDict() for row in kept.table("batches").collect()]
    assert [(row["batch"], row["entries"]) for row in batches[:2]] == [(0, 100), (1, 100)]
    lineage = kept.table("lineage").where("table = 'records'").collect()
    assert [(row["from_offset"], row["to_offset"], row["rows"]) for row in lineage[:2]] == [
        (0, 100, 100),
        (100, 200, 100),
    ]
    assert kept.table("records").count() == sum(row["entries"] for row in batches)
    assert kept.table("quarantine").count() == 0


def test_by_sparks_tasks_it_is_the_same_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log of three partitions, each in a task of its own; and judged by SQL."""
    url = f"sqlite:///{tmp_path}/p.db?partitions=3"
    log = story(8, roles=3, steps=60)
    with closing(open_ledger(url)) as ledger:
        for partition, payloads in enumerate((log.entries, log.entries[:50], log.entries[:7])):
            ledger.append_many([payload for _, _, payload in payloads], partition)
    place = url.partition("?")[0]
    here = history(None, tmp_path / "here")
    here.update(place, max_records=80)
    here.update(place)
    settings = dict(spark.sparkContext.getConf().getAll())
    monkeypatch.setattr(updating, "SMALL", 0)
    there = history(spark, tmp_path / "there")
    there.update(place, max_records=80)
    there.update(place)
    files = {path.relative_to(here.path): path.read_bytes() for path in here.path.rglob("*.*")}
    assert {path.relative_to(there.path): path.read_bytes() for path in there.path.rglob("*.*")} == files
    assert dict(spark.sparkContext.getConf().getAll()) == settings
    assert there.table("records").groupBy("partition").count().count() == 3
    short = history(spark, here.path).audit("g")
    monkeypatch.setattr(judging, "SMALL", 0)
    assert there.audit("g").summary == short.summary


def test_a_partition_in_ranges_is_the_same_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each range by a task of Spark's. Two are folded again: in one a member is forgotten of which its lead-in has not heard,
    and one begins with a false snapshot."""
    url = steady((2500, 9000, 16_000), wrong=9000, length=24_000).save(tmp_path / "l.db")
    here, there = history(None, tmp_path / "here"), history(spark, tmp_path / "there")
    monkeypatch.setattr(spread, "PER_RANGE", 6000)
    monkeypatch.setattr(cuts, "LEAD_IN", 1000)
    done: list[spread.Order] = []
    each = spread._each

    def noted(session: SparkSession, orders: list[spread.Order]) -> list[bytes]:
        done.extend(orders)
        return each(session, orders)

    monkeypatch.setattr(spread, "_each", noted)
    here.update(url)
    there.update(url)
    files = {path.relative_to(here.path): path.read_bytes() for path in here.path.rglob("*.*")}
    assert {path.relative_to(there.path): path.read_bytes() for path in there.path.rglob("*.*")} == files
    spans = [order.span for order in done if order.span is not None]
    assert [span.task.low for span in spans if not span.task.state] == [0, 5000, 15_000, 20_000]
    assert [span.task.low for span in spans if span.task.state] == [5000, 15_000]
    assert there.table("anomalies").count() == 0
    assert there.table("ends").where("kind = 'defect'").count() == 1


def test_tables_need_spark(tmp_path: Path) -> None:
    made = history(None, tmp_path / "h")
    with pytest.raises(ConfigError, match="there is no history in"):
        history(None, tmp_path / "none").slo()
    made.update(Scribe().save(tmp_path / "l.db"))
    with pytest.raises(CapabilityError, match="without Spark"):
        made.table("records")
