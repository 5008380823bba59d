"""`DeltaSink` and what is Delta's alone: other writers, old log files, columns, tables that ask for more. No Spark here, but in
the last tests."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from full_disk import files_of_at_most
from rounds import play
from sink_tools import ROLE, Query, Rows, SteppedDelta, Steps, frame, publish_one_batch_twice

from pares.core.errors import CapabilityError, ConfigError, ParesError, Stale
from pares.spark.driving.guard import guard
from pares.spark.sinks import delta_log
from pares.spark.sinks.base import Seat, deliver
from pares.spark.sinks.delta import NOTES, DeltaSink
from pares.spark.sinks.delta_log import DeltaLog
from pares.spark.sinks.extents import StreamExtent
from pares.testing import FakeMember

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, SECOND = StreamExtent("q", 0, None, "4"), StreamExtent("q", 1, "4", "8")
HELD = Seat(ROLE, 0, 1)


def made(folder: Path, *fields: pa.Field, **settings: Any) -> DeltaSink:
    DeltaTable.create(str(folder), pa.schema(fields), **settings)
    return DeltaSink(folder)


def one_row(row: dict[str, Any], schema: pa.Schema | None = None) -> Any:
    batch = pa.RecordBatch.from_pylist([row], schema=schema)
    return Rows([batch], batch.schema.names)


def test_two_that_publish_a_batch_of_one_term_at_the_same_time_publish_it_once(tmp_path: Path) -> None:
    """As when a query was started twice: the other one publishes before any step of this one's publishing."""
    publish_one_batch_twice(SteppedDelta, tmp_path, HELD, FIRST, points=20)


def test_others_may_write_to_the_table_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append of somebody else's is no reason to fail, and none to publish by what was seen before it."""

    commit, commits = DeltaLog.commit, list[bool]()

    def busy(self: DeltaLog, *given: Any) -> bool:
        if len(commits) % 2 == 0:
            write_deltalake(str(self.folder), pa.table({"id": [100]}), mode="append")
        commits.append(commit(self, *given))
        return commits[-1]

    monkeypatch.setattr(DeltaLog, "commit", busy)
    sink, query = SteppedDelta(tmp_path, Steps()), Query()
    assert query.run(sink, 1) == "done"
    assert [id for id in sink.rows() if id != 100] == list(range(12))
    assert [one.number for one in sink.published(HELD)] == [0, 1, 2]
    assert commits == [False, True] * 4


def test_a_compacted_table_keeps_the_files_of_its_older_versions(tmp_path: Path) -> None:
    sink, query = SteppedDelta(tmp_path, Steps()), Query()
    assert query.run(sink, 1) == "done"
    before = DeltaTable(str(tmp_path)).version()
    DeltaTable(str(tmp_path)).optimize.compact()
    sink.stage(frame(range(4)), HELD, SECOND)
    staged = len(list(tmp_path.glob("pares/**/*.parquet")))
    sink.open(Seat(ROLE, 0, 2))
    assert staged - len(list(tmp_path.glob("pares/**/*.parquet"))) == 2, "only what was staged and never published"
    assert sink.rows() == list(range(12))
    assert sorted(DeltaTable(str(tmp_path), version=before).to_pyarrow_table()["id"].to_pylist()) == list(range(12))


def test_a_seat_knows_where_to_go_on_when_the_log_of_its_commits_is_gone(tmp_path: Path) -> None:
    sink, query = SteppedDelta(tmp_path, Steps()), Query()
    assert query.run(sink, 1) == "done"
    table = DeltaTable(str(tmp_path))
    table.create_checkpoint()
    write_deltalake(str(tmp_path), pa.table({"id": [99]}), mode="append")
    for file in (tmp_path / "_delta_log").glob("*.json"):
        if int(file.stem) <= table.version():
            file.unlink()
    assert sink.published(HELD) == []
    later = Seat(ROLE, 0, 2)
    sink.open(later)
    assert not deliver(sink, frame(range(8, 12)), later, query.extent(2)), "it is there already"
    with pytest.raises(Stale):
        sink.open(HELD)
    query.borders.append((12, 16))
    query.committed = 2
    assert query.run(sink, 3) == "done"
    assert sink.rows() == [*range(16), 99]


def test_a_commit_that_is_there_though_an_error_came_after_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when delta-rs can't write the checkpoint of its log."""
    made = DeltaTable.create_write_transaction

    def fails(self: DeltaTable, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        raise DeltaError("no checkpoint")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails)
    sink, query = SteppedDelta(tmp_path, Steps()), Query()
    assert query.run(sink, 1) == "done"
    query.check(sink)


def test_a_lost_note_is_told_of_and_an_administrator_can_go_on(tmp_path: Path) -> None:
    sink = SteppedDelta(tmp_path, Steps())
    sink.open(HELD)
    assert deliver(sink, frame(range(4)), HELD, FIRST)
    for file in (tmp_path / NOTES).glob("**/*.json"):
        file.unlink()
    for step in (lambda: sink.open(HELD), lambda: sink.last(HELD)):
        with pytest.raises(ParesError, match=r"json is missing, which says what was published last"):
            step()
    with pytest.raises(Stale):
        sink.forget(Seat(ROLE, 0, 0))
    sink.forget(HELD)
    assert deliver(sink, frame(range(4, 8)), HELD, SECOND)
    assert sink.rows() == list(range(8))


def test_groups_are_apart(tmp_path: Path) -> None:
    made(tmp_path, pa.field("id", pa.int64()))
    sinks = [DeltaSink(tmp_path, group=group) for group in (None, "a", "a/b")]
    for token, sink in enumerate(sinks):
        held = Seat("r/1", 0, 9 - token)
        sink.open(held)
        assert deliver(sink, frame(range(4)), held, FIRST)
    assert len(DeltaTable(str(tmp_path)).to_pyarrow_table()) == 12
    assert [[one.token for one in sink.published(Seat("r/1", 0, 0))] for sink in sinks] == [[9], [8], [7]]


# A full disk ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [100, 350])
def test_a_commit_without_room_publishes_nothing(tmp_path: Path, most: int) -> None:
    """100 bytes: too few for the note; 350: for the commit."""
    sink = SteppedDelta(tmp_path, Steps())
    sink.open(HELD)
    staged = sink.stage(frame(range(4)), HELD, FIRST)
    with (
        files_of_at_most(most),
        pytest.raises(CapabilityError, match=r"no room left at .*(?i:too large).*: make some, and start"),
    ):
        sink.publish(staged)
    assert sink.rows() == []
    assert sink.publish(staged)
    assert sink.rows() == [0, 1, 2, 3]


# Bad input -----------------------------------------------------------------------------------------------------------


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match="is no Delta table: make it before"):
            DeltaSink(folder).open(HELD)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"partition_by": ["day"]}, "partitioned by day"),
        ({"configuration": {"delta.setTransactionRetentionDuration": "interval 7 days"}}, "setTransactionRetention"),
    ],
)
def test_tables_that_ask_for_more(tmp_path: Path, settings: dict[str, Any], says: str) -> None:
    sink = made(tmp_path, pa.field("id", pa.int64()), pa.field("day", pa.string()), **settings)
    with pytest.raises(ConfigError, match=says):
        sink.open(HELD)


def test_a_table_with_a_constraint(tmp_path: Path) -> None:
    sink = made(tmp_path, pa.field("id", pa.int64()))
    DeltaTable(str(tmp_path)).alter.add_constraint({"low": "id < 10"})
    with pytest.raises(ConfigError, match=r"asks of its writers what a sink does not do \(delta\.constraints\.low"):
        sink.open(HELD)


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    sink = made(
        tmp_path,
        pa.field("id", pa.int32(), nullable=False),
        pa.field("at", pa.timestamp("us")),
        pa.field("n", pa.int64()),
    )
    sink.open(HELD)
    wrong: list[tuple[Any, str]] = [
        (one_row({"id": 1, "x": 2}), r"has no column x \(it has id, at, n\)"),
        (one_row({"n": 1}), "has no column id, which may not be null"),
        (one_row({"id": None}, pa.schema([("id", pa.int32())])), "1 rows have no id"),
        (one_row({"id": "1"}), "column id is string in the query and int32 in the table: cast it"),
        (one_row({"id": 2**40}), "its values don't fit int32"),
        (one_row({"id": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}), "column at is timestamp"),
        (Rows([], ["id", "id"]), "several columns id"),
    ]
    for df, says in wrong:
        with pytest.raises(ConfigError, match=says):
            deliver(sink, df, HELD, FIRST)
    assert deliver(sink, one_row({"id": 1}), HELD, FIRST), "a column that the query has not is null"
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == [{"id": 1, "at": None, "n": None}]


def test_columns_that_changed_after_a_batch_was_staged(tmp_path: Path) -> None:
    sink = SteppedDelta(tmp_path, Steps())
    sink.open(HELD)
    staged = sink.stage(frame(range(4)), HELD, FIRST)
    write_deltalake(str(tmp_path), pa.table({"id": ["a"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConfigError, match="other columns by now"):
        sink.publish(staged)


def test_no_deltalake_and_one_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in ("1.5.1", "0.25.5"):
        monkeypatch.setattr(delta_log, "version", lambda name, found=found: found)
        with pytest.raises(CapabilityError, match=r"deltalake .* is too old: pip install 'pares\[delta\]'"):
            DeltaSink(tmp_path)

    def missing(name: str) -> str:
        raise delta_log.PackageNotFoundError(name)

    monkeypatch.setattr(delta_log, "version", missing)
    with pytest.raises(CapabilityError, match=r"deltalake is not installed here .*: pip install 'pares\[delta\]'"):
        DeltaSink(tmp_path)


# Real processes, and Spark -------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_processes_that_are_killed_and_frozen_publish_each_row_once(tmp_path: Path) -> None:
    found = play(str(tmp_path / "table"), 3, 3, naive=False, to="delta")
    assert (found.doubled, found.lost) == (0, 0)
    assert found.batches >= 4


@pytest.mark.spark
def test_rows_of_all_kinds_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    fields = "id long, text string, number float, exact decimal(10,2), at timestamp, local timestamp_ntz, day date, raw binary"
    fields += ", yes boolean, many array<bigint>, more struct<a: string>, named map<string, int>"
    moment = datetime(2026, 11, 23, 12, 0, 0, 123456)
    row = {"id": 1, "text": "a\n", "number": 0.5, "exact": Decimal("1.25"), "at": moment.replace(tzinfo=UTC)}
    row |= {"local": moment, "day": date(2026, 11, 23), "raw": b"\x00\xff", "yes": True, "many": [1, 2]}
    row |= {"more": {"a": "b"}, "named": {"k": 1}}
    df = spark.createDataFrame([tuple(row.values())], fields).repartition(2)
    kinds = [pa.int64(), pa.string(), pa.float32(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.timestamp("us")]
    kinds += [pa.date32(), pa.binary(), pa.bool_(), pa.list_(pa.int64()), pa.struct([("a", pa.string())])]
    kinds += [pa.map_(pa.string(), pa.int32())]
    sink = made(tmp_path, *(pa.field(name, kind) for name, kind in zip(row, kinds, strict=True)))
    sink.open(HELD)
    assert deliver(sink, df, HELD, FIRST)
    with pytest.raises(ConfigError, match="column id is string in the query and int64 in the table"):
        deliver(sink, df.selectExpr("text AS id"), HELD, SECOND)
    found = DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert found == [row | {"named": [("k", 1)]}]
    properties = CommitProperties(max_commit_retries=0)
    DeltaTable(str(tmp_path)).delete("id = 1", commit_properties=properties)
    assert not deliver(sink, df, HELD, FIRST), "what was published counts, whatever became of its rows"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_guarded_query_over_two_terms(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    sink, lines = made(tmp_path / "table", pa.field("line", pa.string())), list[str]()

    def query() -> Any:
        read = spark.readStream.format("text").load(str(tmp_path / "source")).selectExpr("value AS line")
        return read.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)

    with FakeMember(["r"]) as member:
        for name in ("apples", "pears"):
            lines.append(name)
            (tmp_path / "source" / f"{name}.txt").write_text(f"{name}\n")
            member.lead(ROLE)
            with guard(member, ROLE, grace=None) as running:
                running.start(query, sink)
            member.fence(ROLE)
            found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["line"].to_pylist()
            assert sorted(found) == sorted(lines)
    tokens = [one.token for one in sink.published(Seat(ROLE, 0, 0))]
    assert len(set(tokens)) == 2
    assert tokens == sorted(tokens)
