"""A ledger as a stream: the same rows as a batch, in portions, from where it stopped; and what is said of what is lost."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from scribe import Scribe, story

from pares.core.errors import LedgerGap, LedgerRewound
from pares.ledger import open as open_ledger
from pares.spark.source.ledger import register
from pares.spark.source.options import options
from pares.spark.source.ranges import OffsetRange, share
from pares.spark.source.reads import batches_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2)
pytestmark = [pytest.mark.spark, pytest.mark.skipif(OLD, reason="Spark before 4.2 has no admission control in Python")]


def stream(spark: SparkSession, url: str, folder: Path, **given: Any) -> list[int]:
    """Has a stream take all that is there and add it to the rows in `folder`; returns how many rows each batch had."""
    register(spark)
    reader = spark.readStream.format("pares").option("url", url)
    for name, value in given.items():
        reader = reader.option(name, str(value))
    query = (
        reader.load()
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(120)
        assert not query.isActive
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()


def rows_of(spark: SparkSession, folder: Path) -> list[str]:
    return sorted(map(repr, spark.read.parquet(str(folder / "rows")).toArrow().to_pylist()))


def saved(log: Scribe, path: Path, upto: int) -> str:
    whole, log.entries = log.entries, log.entries[:upto]
    url = log.save(path)
    log.entries = whole
    return url


def test_in_portions_and_after_a_stop_the_same_rows_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Of facts, which need the fold of all that came before each portion."""
    log = story(6, roles=3, steps=40)
    half = len(log.entries) // 2
    url = saved(log, tmp_path / "l.db", half)
    given = {"table": "facts", "maxRecordsPerTrigger": 100, "state": str(tmp_path / "state")}
    first = stream(spark, url, tmp_path, **given)
    assert len(first) == -(-half // 100)
    with closing(open_ledger(url)) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[half:]])
    assert len(stream(spark, url, tmp_path, **given)) == -(-(len(log.entries) - half) // 100)
    batch = spark.read.format("pares").option("table", "facts").option("ends", "false").load(url)
    assert rows_of(spark, tmp_path) == sorted(map(repr, batch.toArrow().to_pylist()))
    newest = sorted(path.name for path in (tmp_path / "state").glob("*/*.world"))[-1]
    assert int(newest.removesuffix(".world")) == len(log.entries)


def test_a_position_that_was_trimmed_away_or_is_of_another_log(spark: SparkSession, tmp_path: Path) -> None:
    log = story(7, roles=2, steps=20)
    url = saved(log, tmp_path / "l.db", 30)
    stream(spark, url, tmp_path)
    with closing(open_ledger(url)) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[30:]])
        ledger.trim(40)
    with pytest.raises(Exception, match="LedgerGap: offsets 30 to 39 of partition 0 are no longer in"):
        stream(spark, url, tmp_path)
    given = {"onLoss": "mark", "table": "records"}
    (tmp_path / "marked").mkdir()
    checkpoint = tmp_path / "marked" / "checkpoint"
    stream(spark, url, tmp_path / "marked", start=30, **given)
    rows = spark.read.parquet(str(tmp_path / "marked" / "rows")).sort("offset").toArrow().to_pylist()
    assert [row["offset"] for row in rows] == [30, *range(40, len(log.entries))]
    assert (rows[0]["anomaly"]["from_offset"], rows[0]["anomaly"]["to_offset"]) == (30, 40)
    position = json.loads(sorted((checkpoint / "offsets").glob("[0-9]*"))[-1].read_text().splitlines()[-1])
    assert position["offsets"] == {"0": len(log.entries)}
    for path in tmp_path.glob("l.db*"):
        path.unlink()
    fresh = saved(log, tmp_path / "l.db", 5)
    stream(spark, fresh, tmp_path / "marked", **given)
    marked = spark.read.parquet(str(tmp_path / "marked" / "rows")).where("anomaly.kind = 'another_log'")
    (row,) = marked.toArrow().to_pylist()
    assert (row["offset"], position["log"] in row["anomaly"]["detail"]) == (len(log.entries), True)
    assert spark.read.parquet(str(tmp_path / "marked" / "rows")).where(f"log = '{row['log']}'").count() == 1 + 5


@pytest.mark.parametrize(
    ("there", "most", "turns"),
    [
        ((100, 1, 0), 10, (9, 1, 0)),
        ((5, 5, 5), 20, (5, 5, 5)),
        ((100, 50, 1), 2, (1, 1, 0)),
        ((1, 40, 2), 1, (0, 1, 0)),
        ((3, 3, 3), 3, (1, 1, 1)),
    ],
)
def test_turns_are_shared_out(there: tuple[int, ...], most: int, turns: tuple[int, ...]) -> None:
    ends = {str(number): end for number, end in enumerate(there)}
    assert tuple(share(dict.fromkeys(ends, 0), ends, most).values()) == turns


def test_with_turns_of_one_every_partition_is_read() -> None:
    """Also beside two in which something new stands each time."""
    done, ends = dict.fromkeys("abc", 0), {"a": 1, "b": 1, "c": 20}
    for _ in range(200):
        done = share(done, ends, 2)
        ends = {**ends, "a": ends["a"] + 1} if ends["a"] < 60 else ends
    assert done == ends


def test_a_state_from_before_a_lost_range_is_not_gone_on_from(tmp_path: Path) -> None:
    log = story(7, roles=2, steps=40)
    log.snapshot(next(term.member for term in log.truths if term.end is None))
    url, end = saved(log, tmp_path / "l.db", len(log.entries)), len(log.entries)
    told = options({"url": url, "table": "facts", "state": str(tmp_path / "state"), "onLoss": "mark"})
    assert list(batches_of(OffsetRange(0, 0, 10), told, ends=False))
    with closing(open_ledger(url)) as ledger:
        ledger.trim(20)
    with pytest.raises(LedgerGap, match="offsets 10 to 19 of partition 0"):
        list(batches_of(OffsetRange(0, 10, 30), told, ends=False))
    behind = [row for batch in batches_of(OffsetRange(0, 20, end), told, ends=False) for row in batch.to_pylist()]
    told = options({"url": url, "table": "facts", "onLoss": "mark"})
    assert behind == [
        row for batch in batches_of(OffsetRange(0, 20, end), told, ends=False) for row in batch.to_pylist()
    ]


def test_positions_by_hand(tmp_path: Path) -> None:
    """What Spark asks of a stream, asked without it."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from pares.spark.source.ranges import Missing
    from pares.spark.source.stream import LedgerStream

    url = f"sqlite:///{tmp_path}/p.db?partitions=3"
    with closing(open_ledger(url)) as ledger:
        for partition, many in enumerate((100, 1, 0)):
            ledger.append_many([b"x"] * many, partition)
    place = url.partition("?")[0]
    reader = LedgerStream(options({"url": place, "partitions": "all", "maxRecordsPerTrigger": "10"}))
    begin = reader.initialOffset()
    assert begin["offsets"] == {"0": 0, "1": 0, "2": 0}
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    turn = reader.latestOffset(begin, ReadMaxRows(10))
    assert turn["offsets"] == {"0": 9, "1": 1, "2": 0}
    assert [one.value for one in reader.partitions(begin, turn)] == [(0, 0, 9), (1, 0, 1)]
    assert reader.latestOffset(turn, ReadAllAvailable())["offsets"] == {"0": 100, "1": 1, "2": 0}
    assert reader.reportLatestOffset() == reader.latestOffset(turn, ReadAllAvailable())
    reader.prepareForTriggerAvailableNow()
    with closing(open_ledger(place)) as ledger:
        ledger.append_many([b"y"] * 5, 2)
    assert reader.latestOffset(begin, ReadAllAvailable())["offsets"]["2"] == 0
    other = {**turn, "log": "sqlite:other"}
    with pytest.raises(LedgerRewound, match="is another log now"):
        reader.partitions(other, turn)
    beyond = {**turn, "offsets": {**turn["offsets"], "1": 7}}
    growing = LedgerStream(options({"url": place, "partitions": "all"}))
    with pytest.raises(LedgerRewound, match=r"partition 1 of .* ends at 1, and was read up to 7"):
        growing.latestOffset(beyond, ReadAllAvailable())
    back = LedgerStream(options({"url": place, "partitions": "1", "onLoss": "mark"}))
    for limit in (ReadAllAvailable(), ReadMaxRows(5)):
        assert back.latestOffset(beyond, limit)["offsets"] == {"1": 1}
    (told,) = back.partitions(beyond, {**turn, "offsets": {"1": 1}})
    assert isinstance(told, Missing)
    assert told.anomaly[:4] == ("another_log", 1, 1, 7)
    with pytest.raises(LedgerRewound, match=r"partition 1 of .* ends at 1, and was read up to 7"):
        reader.partitions(beyond, beyond)
    with closing(open_ledger(place)) as ledger:
        ledger.trim(50)
    with pytest.raises(LedgerGap, match="offsets 9 to 49 of partition 0") as raised:
        reader.partitions(turn, reader.latestOffset(turn, ReadAllAvailable()))
    assert raised.value.lost == range(9, 50)
    marking = LedgerStream(options({"url": place, "partitions": "0", "onLoss": "mark"}))
    first, second = marking.partitions(turn, {**turn, "offsets": {"0": 60}})
    assert isinstance(first, Missing)
    assert first.anomaly[:4] == ("lost_range", 0, 9, 50)
    assert second.value == (0, 50, 60)
