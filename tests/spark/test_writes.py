"""The sink's rows: against an oracle that walks through them, in every form that they may come in."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pares.core.errors import ConfigError
from pares.spark import writes as sink
from pares.spark.rows import load_faults, load_writes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]
TERMS = pa.schema(
    [
        ("role", pa.string()),
        ("seat", pa.int32()),
        ("token", pa.int64()),
        ("member", pa.string()),
        ("from_offset", pa.int64()),
        ("to_ms", pa.int64()),
    ]
)
FLOOR = 10


def _cases(dice: random.Random) -> tuple[list[Row], list[Row]]:
    """Hundreds of roles: their terms, on one or two seats, and their writes, some in disorder, doubled, lost or strange."""
    terms: list[Row] = []
    writes: list[Row] = []
    for case in range(300):
        role, seats = f"case{case:03}", dice.choice([1, 1, 2])
        tokens = sorted(dice.sample(range(FLOOR, 60), dice.randrange(1, 6)))
        mine = [
            {
                "role": role,
                "seat": dice.randrange(seats),
                "token": t,
                "member": f"m{t}",
                "from_offset": t,
                "to_ms": t * 10,
            }
            for t in tokens
        ]
        terms += mine
        for seq in range(dice.randrange(0, 12)):
            for _ in range(dice.choice([0, 1, 1, 1, 1, 2])):
                token = dice.choice([*tokens, *tokens, dice.randrange(0, 70)]) if dice.random() < 0.4 else tokens[-1]
                key = dice.choice(["k", "k", None])
                writes.append({"role": role, "token": token, "at_ms": dice.randrange(900), "key": key, "seq": seq})
    dice.shuffle(writes)
    return terms, writes


@pytest.fixture(scope="module")
def cases() -> tuple[list[Row], list[Row]]:
    return _cases(random.Random(5))


@pytest.fixture(scope="module")
def seated(
    spark: SparkSession, cases: tuple[list[Row], list[Row]], tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    path = tmp_path_factory.mktemp("sink") / "sink.db"
    _sqlite(path, cases[1])
    terms = spark.createDataFrame(pa.Table.from_pylist(cases[0], schema=TERMS))
    return sink.seated(load_writes(spark, path), terms, FLOOR).cache()


def _sqlite(path: Path, rows: list[Row]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (role TEXT, token INTEGER, at_ms INTEGER, key TEXT, seq INTEGER)")
        connection.executemany("INSERT INTO rows VALUES (:role, :token, :at_ms, :key, :seq)", rows)
    connection.close()


def _found(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in frame.toArrow().to_pylist()), key=repr)


def test_a_token_that_falls_is_stale(cases: tuple[list[Row], list[Row]], seated: DataFrame) -> None:
    seat = {(t["role"], t["token"]): t["seat"] for t in cases[0]}
    highest: dict[tuple[str, int], int] = {}
    expected: list[tuple[Any, ...]] = []
    for row in cases[1]:
        place = (row["role"], seat.get((row["role"], row["token"]), 0))
        seen = highest.get(place, -1)
        if row["token"] < seen:
            expected.append((row["role"], row["token"], seen, row["key"], row["at_ms"]))
        highest[place] = max(seen, row["token"])
    assert _found(sink.stale(seated), "role", "token", "seen", "key", "at_ms") == sorted(expected, key=repr)
    assert len(expected) > 100


def test_a_token_of_nobody_is_unknown(cases: tuple[list[Row], list[Row]], seated: DataFrame) -> None:
    """Unless it is from before all that the log shows: then nothing can be said."""
    given = {(t["role"], t["token"]) for t in cases[0]}
    expected = [
        (row["role"], row["token"], row["key"], row["at_ms"])
        for row in cases[1]
        if (row["role"], row["token"]) not in given and row["token"] >= FLOOR
    ]
    assert _found(sink.unknown(seated), "role", "token", "key", "at_ms") == sorted(expected, key=repr)
    assert len(expected) > 20


def test_doubles_and_holes(cases: tuple[list[Row], list[Row]], seated: DataFrame) -> None:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in cases[1]:
        groups[row["role"], row["key"], row["seq"]].append(row)
    doubled = [(*place, len(rows), len({r["token"] for r in rows})) for place, rows in groups.items() if len(rows) > 1]
    assert _found(sink.duplicates(seated), "role", "key", "seq", "writes", "tokens") == sorted(doubled, key=repr)
    numbers: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for role, key, seq in groups:
        numbers[role, key].append(seq)
    holes = [
        (*place, a, b, b - a - 1)
        for place, seqs in numbers.items()
        for a, b in zip(sorted(seqs), sorted(seqs)[1:], strict=False)
        if b > a + 1
    ]
    found = _found(sink.missing(seated), "role", "key", "after_seq", "before_seq", "missing")
    assert found == sorted(holes, key=repr)
    assert len(doubled) > 100
    assert len(holes) > 100


def test_what_came_after_the_end_of_its_term_is_counted(cases: tuple[list[Row], list[Row]], seated: DataFrame) -> None:
    ends = {(t["role"], t["token"]): t["to_ms"] for t in cases[0]}
    late = sum(row["at_ms"] > ends.get((row["role"], row["token"]), row["at_ms"]) + 10 for row in cases[1])
    (row,) = sink.counts(seated, 5).toArrow().to_pylist()
    assert row == {"writes": len(cases[1]), "unreadable": 0, "late": late}


ROWS: list[Row] = [{"role": "r", "token": 20 + i // 3, "at_ms": 1000 - i, "key": f"k{i}", "seq": i} for i in range(40)]


def _csv(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _jsonl(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def _parquet(path: Path, rows: list[Row]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
    return path


def _db(path: Path, rows: list[Row]) -> Path:
    _sqlite(path, rows)
    return path


def _wal(path: Path, rows: list[Row]) -> Path:
    """As a sink that has ended leaves it: the file says that it has a write-ahead log, and there is none beside it."""
    _sqlite(path, rows)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    return path


@pytest.mark.parametrize(
    ("name", "write"),
    [("w.csv", _csv), ("w.jsonl", _jsonl), ("w.parquet", _parquet), ("noname", _db), ("wal.db", _wal)],
)
def test_every_form_keeps_the_order_of_the_sink(spark: SparkSession, tmp_path: Path, name: str, write: Any) -> None:
    """Times fall from row to row, tokens rise: only the sink's own order shows that none is stale."""
    frame = load_writes(spark, write(tmp_path / name, ROWS))
    rows = frame.orderBy("ord").drop("ord").toArrow().to_pylist()
    assert rows == [{**row, "seat": None, "member": None} for row in ROWS]


def test_a_sink_that_is_still_written_to(spark: SparkSession, tmp_path: Path) -> None:
    """What is committed is seen, also while it stands in the write-ahead log only, and the writer is not disturbed."""
    path = _wal(tmp_path / "sink.db", ROWS)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("INSERT INTO rows VALUES ('late', 1, 2, 'k', 3)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO rows VALUES ('not yet', 1, 2, 'k', 3)")
    assert load_writes(spark, path).count() == len(ROWS) + 1
    writer.execute("COMMIT")
    assert load_writes(spark, path).count() == len(ROWS) + 2
    writer.close()


def test_a_folder_is_in_the_order_of_its_clocks(spark: SparkSession, tmp_path: Path) -> None:
    for part in range(4):
        _parquet(tmp_path / f"part-{part}.parquet", ROWS[part::4])
    rows = load_writes(spark, tmp_path).orderBy("ord").toArrow().to_pylist()
    assert [row["seq"] for row in rows] == list(range(39, -1, -1))


def test_what_is_no_number_is_counted_and_not_fatal(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("token,role,at_ms\n1,r,2\nx,r,3\n,,\n99999999999999999999,r,4\n")
    terms = spark.createDataFrame(pa.Table.from_pylist([], schema=TERMS))
    seated = sink.seated(load_writes(spark, path), terms, 5)
    (row,) = sink.counts(seated).toArrow().to_pylist()
    assert (row["writes"], row["unreadable"]) == (4, 3)


def test_a_dataframe_of_the_users_own(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 'r' AS role, 5 AS token, timestamp_millis(7) AS at_ms, 2 AS ord UNION ALL SELECT 'r', 6, null, 1"
    )
    rows = load_writes(spark, frame).orderBy("ord").toArrow().to_pylist()
    assert [(row["token"], row["at_ms"]) for row in rows] == [(6, None), (5, 7)]


def test_rows_that_can_not_be_used_say_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file or folder"):
        load_writes(spark, tmp_path / "none.csv")
    with pytest.raises(ConfigError, match=r"has no column at_ms \(it has role, token\)"):
        load_writes(spark, _csv(tmp_path / "w.csv", [{"role": "r", "token": 1}]))
    (tmp_path / "w.bin").write_bytes(b"\x00\x01")
    with pytest.raises(ConfigError, match="neither SQLite nor Parquet"):
        load_writes(spark, tmp_path / "w.bin")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").touch()
    (tmp_path / "mixed" / "a.parquet").touch()
    with pytest.raises(ConfigError, match="give one of"):
        load_writes(spark, tmp_path / "mixed")
    path = _db(tmp_path / "two.db", ROWS)
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "more; rows" AS SELECT * FROM rows LIMIT 2')
    connection.close()
    with pytest.raises(ConfigError, match=r"several do: more; rows, rows; write .*two\.db#TABLE"):
        load_writes(spark, path)
    assert load_writes(spark, f"{path}#more; rows").count() == 2
    with pytest.raises(ConfigError, match="one table with the columns at_ms, member, fault, but its tables are"):
        load_faults(spark, path)


def test_faults_come_in_the_words_of_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    words = {
        "kill -9": "crash",
        "SIGSTOP": "freeze",
        "thaw": "thaw",
        "Drain": "drain",
        "add": "join",
        "cut reads": "cut",
    }
    given = [(at, "m", word) for at, word in enumerate(words)]
    expected = [(at, "m", word) for at, word in enumerate(words.values())]
    path = tmp_path / "demo.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE faults (at_ms INTEGER, member TEXT, fault TEXT)")
        connection.executemany("INSERT INTO faults VALUES (?, ?, ?)", given)
    connection.close()
    for source in (given, path, iter(given)):
        assert _found(load_faults(spark, source), "at_ms", "member", "fault") == expected
    assert load_faults(spark, None).count() == 0
