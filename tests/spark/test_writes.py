"""The sink's rows: against an oracle that walks through them, in every form that they may come in."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from histories import key

from pares.core.errors import ConfigError
from pares.spark.rows import check_unit, faults_of, load_writes
from pares.spark.rules.base import Allowed
from pares.spark.rules.sink.findings import findings, seated
from pares.spark.rules.sink.walk import ORACLES
from pares.spark.session import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]
BELIEVED = pa.schema(
    [
        ("role", pa.string()),
        ("seat", pa.int32()),
        ("token", pa.int64()),
        ("member", pa.string()),
        ("from_offset", pa.int64()),
        ("a_early", pa.int64()),
        ("b_late", pa.int64()),
    ]
)
MEMBERS = pa.schema([("member", pa.string()), ("name", pa.string())])
FLOOR = 10
ALLOWED = Allowed(error_ms=5)


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
                "a_early": t * 8,
                "b_late": t * 10,
            }
            for t in tokens
        ]
        terms += mine
        for seq in range(dice.randrange(0, 12)):
            for _ in range(dice.choice([0, 1, 1, 1, 1, 2])):
                token = dice.choice([*tokens, *tokens, dice.randrange(0, 70)]) if dice.random() < 0.4 else tokens[-1]
                key = dice.choice(["k", "k", None])
                told = {"seat": dice.choice([None, 0, 1]), "member": dice.choice([None, f"m{token}", f"n{token}", "x"])}
                if dice.random() < 0.03:
                    token = None
                writes.append(
                    {"role": role, "token": token, "at_ms": dice.randrange(900), "key": key, "seq": seq, **told}
                )
    dice.shuffle(writes)
    return terms, writes


@pytest.fixture(scope="module")
def cases() -> tuple[list[Row], list[Row]]:
    return _cases(random.Random(5))


def _seated(spark: SparkSession, writes: DataFrame, terms: list[Row], floor: int) -> DataFrame:
    members = [{"member": t["member"], "name": t["member"].replace("m", "n")} for t in terms]
    frames = {
        "believed": spark.createDataFrame(pa.Table.from_pylist(terms, schema=BELIEVED)),
        "members": spark.createDataFrame(pa.Table.from_pylist(members, schema=MEMBERS)),
    }
    return seated(spark, writes, frames, floor)


@pytest.fixture(scope="module")
def rows(
    spark: SparkSession, cases: tuple[list[Row], list[Row]], tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    path = tmp_path_factory.mktemp("sink") / "sink.db"
    _sqlite(path, cases[1])
    return _seated(spark, load_writes(spark, path), cases[0], FLOOR).localCheckpoint()


def _sqlite(path: Path, rows: list[Row]) -> None:
    names = list(rows[0])
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(names)})")
        connection.executemany(f"INSERT INTO rows VALUES ({', '.join(':' + name for name in names)})", rows)
    connection.close()


def _found(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in frame.toArrow().to_pylist()), key=repr)


def test_each_write_is_given_its_term(cases: tuple[list[Row], list[Row]], rows: DataFrame) -> None:
    given = {(t["role"], t["token"]): t for t in cases[0]}
    expected = []
    for place, row in enumerate(cases[1], 1):
        term = given.get((row["role"], row["token"]), {})
        unknown = None if row["token"] is None else not term and row["token"] >= FLOOR
        name = term["member"].replace("m", "n") if term else None
        expected.append(
            (place, term.get("seat"), term.get("member"), name, term.get("a_early"), term.get("b_late"), unknown)
        )
    names = ("position", "held", "holder", "holder_name", "a_early", "b_late", "unknown")
    found = [tuple(bool(v) if k == 6 and v is not None else v for k, v in enumerate(r)) for r in _found(rows, *names)]
    # Not matched and not known to be unknown is the same to all rules.
    assert [(*r[:6], bool(r[6])) for r in found] == sorted([(*r[:6], bool(r[6])) for r in expected], key=repr)


def test_each_rule_of_the_sink_finds_what_its_oracle_finds(spark: SparkSession, rows: DataFrame) -> None:
    plain = rows.toArrow().to_pylist()
    found = findings(spark, rows, ALLOWED).toArrow().to_pylist()
    for rule, oracle in ORACLES.items():
        by_sql = Counter(key({**row, "rule": rule}) for row in found if row["rule"] == rule)
        by_oracle = Counter(key({**row, "rule": rule}) for row in oracle(plain, ALLOWED))
        assert by_sql == by_oracle, rule
        assert len(by_oracle) > 15, rule


def test_a_token_of_nobody_makes_no_other_stale(spark: SparkSession, tmp_path: Path) -> None:
    """One damaged row with a high token is one finding, and not a thousand."""
    term = {"role": "r", "seat": 0, "token": 20, "member": "m", "from_offset": 1, "a_early": 0, "b_late": 10**6}
    path = _jsonl(
        tmp_path / "w.jsonl",
        [{"role": "r", "token": 2**52, "at_ms": 5}, *({"role": "r", "token": 20, "at_ms": at} for at in range(50))],
    )
    frame = _seated(spark, load_writes(spark, path), [term], FLOOR)
    assert _found(findings(spark, frame, Allowed()), "rule", "token") == [("unknown", 2**52)]


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


def test_the_order_that_rows_say_themselves_counts_in_a_folder_too(spark: SparkSession, tmp_path: Path) -> None:
    """A zombie's write has an early time, and was taken late."""
    for part in range(4):
        _parquet(tmp_path / f"part-{part}.parquet", [{**row, "ord": row["seq"]} for row in ROWS[part::4]])
    rows = load_writes(spark, tmp_path).orderBy("ord").toArrow().to_pylist()
    assert [row["seq"] for row in rows] == list(range(40))


def test_times_without_a_zone_and_in_doubles_are_converted(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 'r' AS role, 5.0D AS token, TIMESTAMP_NTZ '1970-01-01 00:00:01.007' AS at_ms, 2.0D AS seq"
    )
    assert _found(load_writes(spark, frame), "token", "at_ms", "seq") == [(5, 1007, 2)]
    frame = spark.sql("SELECT 'r' AS role, 5 AS token, 1700000000007.4D AS at_ms")
    assert _found(load_writes(spark, frame), "token", "at_ms") == [(5, 1_700_000_000_007)]


@pytest.mark.parametrize(
    ("at", "unit"), [("1700000000.5D", "seconds"), ("1700000000000000L", "microseconds"), ("DATE '2026-01-01'", "date")]
)
def test_a_column_in_another_unit_is_refused_by_name(spark: SparkSession, at: str, unit: str) -> None:
    with pytest.raises(ConfigError, match=f"the column at_ms .*{unit}"):
        check_unit(load_writes(spark, spark.sql(f"SELECT 'r' AS role, 5 AS token, {at} AS at_ms")), "w.parquet")


def test_what_is_no_number_is_counted_and_not_fatal(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("token,role,at_ms\n1,r,2\nx,r,3\n,,\n99999999999999999999,r,4\n")
    found = findings(spark, _seated(spark, load_writes(spark, path), [], 5), Allowed()).toArrow().to_pylist()
    assert [row["rule"] for row in found] == ["unreadable"] * 3


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
        faults_of(spark, path)


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
        assert _found(_struck(spark, source), "at_ms", "member", "fault") == expected
    assert _struck(spark, None).count() == 0


def _struck(spark: SparkSession, source: Any) -> DataFrame:
    told = faults_of(spark, source)
    return frame_of(spark, told) if isinstance(told, pa.Table) else told
