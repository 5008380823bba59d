"""The tables of the source, and what it says of what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe, story

from pares.ledger import open as open_ledger
from pares.spark.facts.claims import history
from pares.spark.source import LedgerSource, batch
from pares.spark.source.columns import FOLDED
from pares.spark.source.ledger import PUSHDOWN, make_known, register
from pares.spark.source.options import Options, options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log() -> Scribe:
    log = story(2, roles=4, steps=60)
    log.raw(b"\xff no record")
    other = Scribe("other")
    for _, _, payload in other.entries:
        log.raw(payload)
    return log


@pytest.fixture(scope="module")
def url(log: Scribe, tmp_path_factory: pytest.TempPathFactory) -> str:
    return log.save(tmp_path_factory.mktemp("tables") / "work.db")


def load(spark: SparkSession, url: str, **given: Any) -> DataFrame:
    register(spark)
    reader = spark.read.format("pares").option("url", url)
    for name, value in given.items():
        reader = reader.option(name, str(value))
    return reader.load()


def trimmed(url: str, before: int) -> str:
    """The ledger's log, without what stood before an offset; returns which log it is."""
    with closing(open_ledger(url)) as ledger:
        ledger.trim(before)
        return ledger.identity()


def test_records_are_named_and_what_is_none_says_why(spark: SparkSession, url: str, log: Scribe) -> None:
    rows = load(spark, url, table="records").toArrow().to_pylist()
    assert [row["offset"] for row in rows] == [offset for offset, _, _ in log.entries]
    assert {row["log"] for row in rows} == {trimmed(url, 0)}
    assert (rows[0]["kind"], rows[0]["group"], rows[0]["member"], rows[0]["base"]) == (
        "genesis",
        "g",
        "admin~0",
        1_000_000,
    )
    did = next(row for row in rows if row["kind"] == "did")
    assert did["token"] is not None
    assert did["role"].startswith("r")
    (bad,) = (row for row in rows if row["reason"] is not None)
    assert (bad["kind"], bad["group"], bad["payload"]) == (None, None, b"\xff no record")
    others = load(spark, url, table="records", groups="other").toArrow().to_pylist()
    assert [row["kind"] for row in others] == ["genesis", "join"]


def test_facts_are_those_of_the_fold(spark: SparkSession, url: str, log: Scribe) -> None:
    rows = load(spark, url, table="facts", groups="g").toArrow().to_pylist()
    names = [part.split()[0].strip("`") for part in FOLDED.split(", ")][3:]
    known = [fact._asdict() for fact in history("g", log.entries)]
    found = [{name: row[name] for name in names} for row in rows if row["group"] == "g"]
    assert sorted(map(repr, found)) == sorted(repr(row) for row in known if row["kind"] != "bad")


def test_a_lost_start_names_the_range_or_marks_it(spark: SparkSession, tmp_path: Path) -> None:
    own = story(4, roles=2, steps=30).save(tmp_path / "cut.db")
    identity = trimmed(own, 20)
    with pytest.raises(Exception, match=r"LedgerGap: offsets 5 to 19 of partition 0 are no longer in"):
        load(spark, own, start=5).count()
    rows = load(spark, own, start=5, end=22, onLoss="mark").toArrow().to_pylist()
    assert [row["offset"] for row in rows] == [5, 20, 21]
    assert rows[0]["anomaly"] == {
        "kind": "lost_range",
        "from_offset": 5,
        "to_offset": 20,
        "detail": f"offsets 5 to 19 of partition 0 are no longer in {own}",
    }
    assert (rows[0]["payload"], rows[1]["anomaly"]) == (None, None)
    assert load(spark, own, identity=identity, end=21).count() == 1


def test_another_log_is_an_error_or_a_mark(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match=r"LedgerRewound: .* is another log now .*before sqlite:gone"):
        load(spark, url, identity="sqlite:gone").count()
    (row,) = load(spark, url, identity="sqlite:gone", onLoss="mark", table="records", start=7).toArrow().to_pylist()
    assert (row["anomaly"]["kind"], row["anomaly"]["from_offset"]) == ("another_log", 7)
    assert (row["kind"], row["group"], row["offset"]) == (None, None, 7)


def test_conditions_cut_what_is_read(spark: SparkSession, tmp_path: Path, log: Scribe) -> None:
    """In a session of its own settings: the tests' one has them as Spark does."""
    tally = str(tmp_path / "tally")
    url = f"sqlite:///{tmp_path}/p.db?partitions=3"
    with closing(open_ledger(url)) as ledger:
        for partition in range(3):
            ledger.append_many([payload for _, _, payload in log.entries], partition)

    class Reader(batch.PushingReader):
        """Counts what is read of the log, and what leaves the reader."""

        def read(self, partition: Any) -> Iterator[Any]:
            for rows in super().read(partition):
                with open(tally, "a") as file:
                    file.write(f"{partition.partition}:{partition.low}-{partition.high} {rows.num_rows}\n")
                yield rows

    class Source(LedgerSource):
        _pushes = True

        def reader(self, schema: Any) -> Reader:
            return Reader(self._told())

    register(spark)
    spark.createDataFrame([(1,)], "a int").count()
    own = spark.newSession()
    own.conf.set(PUSHDOWN, "true")
    # Beside a session that knows the name and is the active one.
    make_known(own, Source)
    frame = own.read.format("pares").option("partitions", "all").load(url.partition("?")[0])
    rows = frame.where("partition = 1 AND offset >= 10 AND offset < 14").select("offset").toArrow().to_pylist()
    assert [row["offset"] for row in rows] == [10, 11, 12, 13]
    assert Path(tally).read_text().splitlines() == ["1:10-14 4"]
    Path(tally).unlink()
    assert frame.where("g = 'other' AND partition IN (0, 2)").count() == 4
    assert sorted(Path(tally).read_text().splitlines()) == [f"{p}:0-{len(log.entries)} 2" for p in (0, 2)]
    assert spark.conf.get(PUSHDOWN, "false") == "false"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "rows"}, "give one of entries, records, facts"),
        ({"onLoss": "ignore"}, "give one of error, mark"),
        ({"table": "facts", "splits": "2"}, "in order"),
        ({"maxRecordsPerTrigger": "0"}, "never read anything"),
        ({"onloose": "mark"}, "has no option onloose"),
    ],
)
def test_options_that_can_not_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        options({"url": "sqlite:///a.db", **given})


def test_partitions_by_table() -> None:
    assert options({"url": "u"}).numbers(4, 2) == [2]
    assert options({"url": "u", "table": "records"}).numbers(3, 2) == [0, 1, 2]
    assert options({"url": "u", "table": "facts", "partitions": "1,3"}).numbers(4, 0) == [1, 3]
    assert isinstance(options({"url": "u"}), Options)
