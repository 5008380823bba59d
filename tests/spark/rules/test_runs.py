"""The runs of records: each record is in one, however they come, and a log in order has few of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from histories import key, table_of
from hypothesis import given
from hypothesis import strategies as st
from scribe import Scribe
from tests.spark.rules.compare import ALLOWED, FAULTS, judge

from pares.spark import tables
from pares.spark.facts.base import SCHEMA as SCHEMA_OF_FACTS
from pares.spark.facts.base import arrow_schema, batches
from pares.spark.facts.claims import history
from pares.spark.host import compiling
from pares.spark.host.compiling import Compiling
from pares.spark.rules import sifting
from pares.spark.rules.base import view
from pares.spark.rules.runs import of_table, runs
from pares.spark.rules.sifting import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pc: Any = import_module("pyarrow.compute")
Row = dict[str, Any]
FIELDS = [
    ("g", pa.string()),
    ("member", pa.string()),
    ("base", pa.int64()),
    ("counted", pa.bool_()),
    ("offset", pa.int64()),
]
SCHEMA = pa.schema([*FIELDS, ("n", pa.int64()), ("at_ms", pa.int64()), ("due_ms", pa.int64())])
SERIES = ("g", "member", "base")


def _records(draw: random.Random) -> list[Row]:
    """Of some members, numbered one by one as a rule; also without a number, a base, a word on what counted."""
    numbers: dict[Any, int] = {}
    rows: list[Row] = []
    at_ms = 1000
    for offset in range(draw.randrange(60)):
        series = draw.choice("gh"), draw.choice(["a", "b", None]), draw.choice([7, 7, 7, None])
        numbers[series] = numbers.get(series, 0) + draw.choice([1, 1, 1, 1, 1, 1, 0, 2])
        at_ms += draw.choice([0, 1, 1, 1, 900, -5])
        row = dict(zip(SERIES, series, strict=True))
        row |= {"counted": draw.choice([True, True, True, True, False, None]), "offset": offset, "at_ms": at_ms}
        rows.append(
            {**row, "n": draw.choice([None, *[numbers[series]] * 9]), "due_ms": draw.choice([None, 50, 50, 50])}
        )
    return rows


def _series(row: Row) -> str:
    return repr([row[name] for name in SERIES])


def _plainly(rows: list[Row]) -> list[Row]:
    """The same by walking through them."""
    found: list[Row] = []
    order = sorted(rows, key=lambda row: (_series(row), row["offset"]))
    for _, records in groupby(order, key=lambda row: _series(row)):
        run: list[Row] = []
        for row in records:
            if run and not _goes_on(run[-1], row):
                found.append(_run(run))
                run = []
            run.append(row)
        found.append(_run(run))
    return found


def _goes_on(one: Row, other: Row) -> bool:
    if one["n"] is None or other["n"] != one["n"] + 1 or bool(one["counted"]) != bool(other["counted"]):
        return False
    return one["due_ms"] is None or other["at_ms"] - one["at_ms"] <= one["due_ms"]


def _run(rows: list[Row]) -> Row:
    first, last = rows[0], rows[-1]
    run = {name: first[name] for name in SERIES} | {"counted": bool(first["counted"]), "many": len(rows)}
    run |= {"low": first["offset"], "high": last["offset"], "first": first["n"], "last": last["n"]}
    return run | {"from_ms": first["at_ms"], "to_ms": last["at_ms"], "due_ms": last["due_ms"]}


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (_series(row), row["low"]))


@given(st.integers(min_value=0), st.lists(st.integers(min_value=0, max_value=60), max_size=6))
def test_in_order_they_are_the_longest_that_there_are_however_batches_are_cut(seed: int, cuts: list[int]) -> None:
    rows = _records(random.Random(seed))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [pa.RecordBatch.from_pylist(rows[low:high], SCHEMA) for low, high in pairwise(bounds)]
    found = [row for batch in runs(parts) for row in batch.to_pylist()]
    assert _sorted(found) == _sorted(_plainly(rows))


@given(st.integers(min_value=0))
def test_out_of_order_each_record_is_in_one_run_all_the_same(seed: int) -> None:
    draw = random.Random(seed)
    rows = _records(draw)
    shuffled = draw.sample(rows, len(rows))
    parts = [pa.RecordBatch.from_pylist(shuffled[at : at + 7], SCHEMA) for at in range(0, len(rows), 7)]
    found = [row for batch in runs(parts) for row in batch.to_pylist()]
    assert sum(row["many"] for row in found) == len(rows)
    ends = {(_series(row), row[at]) for row in found for at in ("low", "high")}
    assert ends <= {(_series(row), row["offset"]) for row in rows}
    for row in found:
        inside = [one for one in rows if _series(one) == _series(row) and row["low"] <= one["offset"] <= row["high"]]
        numbers = {one["n"] for one in inside}
        assert row["first"] is None or numbers >= set(range(row["first"], row["last"] + 1))
        assert row["first"] is None or row["many"] == row["last"] - row["first"] + 1


def _lawful(members: int, beats: int) -> Scribe:
    log = Scribe(group="lawful")
    log.role("r")
    names = [log.join(f"m{number}") for number in range(members)]
    log.lead(log.claim(names[0], "r"))
    for _ in range(beats):
        log.sleep(200)
        for name in names:
            log.beat(name)
    return log


def _table(log: Scribe) -> pa.Table:
    return pa.Table.from_batches([*batches(log.group, history(log.group, log.entries))], arrow_schema())


def test_a_lawful_member_is_one_run() -> None:
    records = tables.divided(_table(_lawful(3, 400)))["records"]
    found = of_table(records).to_pylist()
    assert len(found) == len({row["member"] for row in found}) == 4, "three members, and the one that made the role"
    assert sum(row["many"] for row in found) == records.num_rows > 1200


@pytest.mark.spark
def test_a_lawful_log_is_gone_through_three_times(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """For what is no record, for records that are no beats, and for runs."""
    table = _table(_lawful(3, 400))
    seen = spark.sparkContext.accumulator(0)

    def counted(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in found:
            seen.add(batch.num_rows)
            yield batch

    facts = spark.createDataFrame(table).mapInArrow(counted, SCHEMA_OF_FACTS)
    none = spark.createDataFrame([], "at_ms bigint, member string, fault string")
    frames = tables.of_log(spark, facts, none, ALLOWED, short=False, engine="spark")
    assert frames["violations"].count() == frames["anomalies"].count() == 0
    assert frames["counting"].count() > 3
    assert seen.value == 3 * table.num_rows
    # Of a group all terms are not brought together in one task, to be joined with it.
    joined = view(spark, "SELECT * FROM {terms} t JOIN {groups} w ON w.g = t.g JOIN {members} m ON m.g = t.g", frames)
    joined.explain()
    assert capsys.readouterr().out.count("BroadcastHashJoin") == 2


@pytest.mark.spark
def test_in_whatever_order_records_come_the_same_is_said_of_them(spark: SparkSession) -> None:
    """Runs lie one within the other then, and all is walked through."""
    table = table_of(range(20))
    order = random.Random(1).sample(range(table.num_rows), table.num_rows)
    said = judge(spark, table, mutants=(), faults=FAULTS)
    found = judge(spark, table.take(order), mutants=(), faults=FAULTS)
    assert found.differences() == []
    for name in ("violations", "anomalies", "waits"):
        assert sorted(key(row) for row in found.by_sql[name]) == sorted(key(row) for row in said.by_sql[name])
    assert any(row["steady"] for row in said.by_sql["known"])
    assert not all(row["steady"] for row in said.by_sql["known"])


@pytest.mark.spark
def test_out_of_files_the_same_is_said(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tasks that each read a part of a file; also of one group of several, and with facts that are in no file."""
    monkeypatch.setattr(sifting, "_A_TASK", 300)
    table = table_of(range(12))
    ends = pc.is_in(table["kind"], pa.array(["seen", "first", "last"]))
    state = pa.Table.from_pylist([{"kind": sifting.STATE, "payload": b"no fact"}], arrow_schema())
    rest = pa.concat_tables([table.filter(pc.invert(ends)), state])
    at = rest.num_rows // 3
    paths = [str(tmp_path / "one.parquet"), str(tmp_path / "two.parquet")]
    pq.write_table(rest.slice(0, at), paths[0], row_group_size=100)
    other = rest.slice(at).rename_columns(["group" if name == "g" else name for name in rest.column_names])
    pq.write_table(other.append_column("batch", pa.nulls(other.num_rows, pa.int64())), paths[1], row_group_size=100)
    said = judge(spark, table, mutants=(), faults=FAULTS)
    found = judge(spark, table, mutants=(), faults=FAULTS, files=Files(paths, ends=table.filter(ends)))
    assert found.differences() == []
    for name in ("violations", "anomalies", "waits", "counting", "numbers"):
        assert sorted(map(key, found.by_sql[name])) == sorted(map(key, said.by_sql[name]))
    one = table.filter(pc.fill_null(pc.equal(table["g"], "h0003"), True))
    files = Files(paths, group="h0003", ends=one.filter(pc.is_in(one["kind"], pa.array(["seen", "first", "last"]))))
    of_one = judge(spark, one, mutants=(), faults=FAULTS, files=files)
    assert of_one.differences() == []
    mine = [row for row in said.by_sql["violations"] if row["g"] == "h0003"]
    assert sorted(map(key, of_one.by_sql["violations"])) == sorted(map(key, mine)) != []


_COMPILES = "spark.sql.codegen.wholeStage"
_PARTS = "spark.sql.shuffle.partitions"


@pytest.mark.spark
def test_few_rows_are_gone_through_without_the_compiler(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of however long a log; but where all records are looked at, and where the rows are many, queries are compiled. Afterwards
    the session is as before, and the same is said."""
    table, path = table_of(range(12)), str(tmp_path / "facts.parquet")
    pq.write_table(table, path)
    none = spark.createDataFrame([], "at_ms bigint, member string, fault string")
    before = spark.conf.get(_COMPILES)
    seen = set[str | None]()

    def settled(frame: DataFrame) -> DataFrame:
        seen.add(spark.conf.get(_COMPILES))
        return frame.localCheckpoint(eager=True)

    def asked(few: int) -> tuple[set[str | None], list[Any]]:
        monkeypatch.setattr(compiling, "FEW", few)
        monkeypatch.setattr(tables, "settled", settled)
        seen.clear()
        frames = tables.of_log(
            spark, spark.read.parquet(path), none, ALLOWED, short=False, engine="spark", files=Files([path])
        )
        assert 0 < frames.of_rows < 10**6
        assert spark.conf.get(_COMPILES) == before
        return {*seen}, sorted(key(row) for row in frames["violations"].toArrow().to_pylist())

    (of_few, said), (of_many, the_same) = asked(10**6), asked(0)
    assert of_few == {"false", before}
    assert of_many == {before}
    assert said == the_same != []


@pytest.mark.spark
def test_the_settings_of_a_session_that_was_not_started_here_stay(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "started_here", lambda _: False)
    before = spark.conf.get(_COMPILES)
    with Compiling(spark, rows=0) as how:
        assert spark.conf.get(_COMPILES) == before
        with how.many():
            assert spark.conf.get(_COMPILES) == before


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "parts"), [(0, "1"), (10**5, None), (10**6, "4"), (10**8, "400"), (math.inf, None)])
def test_many_rows_are_gone_through_in_more_parts(spark: SparkSession, rows: float, parts: str | None) -> None:
    before = spark.conf.get(_PARTS)
    with Compiling(spark, rows=rows) as how:
        assert spark.conf.get(_PARTS) == (parts or before)
        assert (spark.conf.get(_COMPILES) == "false") is (rows == 0)
        with how.many():
            assert spark.conf.get(_PARTS) == (before if rows == 0 else parts or before)
    assert spark.conf.get(_PARTS) == before


@pytest.mark.spark
@pytest.mark.parametrize("rows", [0, 10**6])
def test_the_last_of_several_audits_puts_the_settings_back(spark: SparkSession, rows: int) -> None:
    """Threads may audit at once in one session, and end in any order; and each sets what its log asks for."""
    before, parts = spark.conf.get(_COMPILES), spark.conf.get(_PARTS)
    one, two = Compiling(spark, rows=rows), Compiling(spark, rows=0)
    one.__enter__()
    two.__enter__()
    with two.many():
        assert spark.conf.get(_COMPILES) == before
    one.__exit__()
    assert spark.conf.get(_COMPILES) == "false"
    two.__exit__()
    assert (spark.conf.get(_COMPILES), spark.conf.get(_PARTS)) == (before, parts)
