"""What the report draws is drawn from all rows, also where an audit holds only the first of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe

from pares.spark import reading
from pares.spark.audit import audit, audit_all
from pares.spark.page import pictures
from pares.spark.page.pictures import DOTS, dots
from pares.spark.report import render
from pares.spark.tables import ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000
HANDOVERS = 1200


def _busy_then_bad() -> Scribe:
    """More handovers than an audit holds, in the first hours; later on a long gap, and two that led at once."""
    log, dice = Scribe(session=20_000), random.Random(5)
    log.role("busy", "late")
    one, other = log.join("one"), log.join("other")
    term = log.claim(one, "busy")
    log.lead(term)
    for _ in range(HANDOVERS):
        log.sleep(3 * HOUR // HANDOVERS)
        log.beat(one)
        log.beat(other)
        log.stop(term, "asked")
        log.sleep(dice.randrange(1, 900))
        term = log.transfer(term, other if term.member == one else one, "asked", "handover")
        log.lead(term)
    first = log.claim(one, "late")
    log.lead(first)
    log.stop(first, "asked")
    log.release(first, "asked", "handover")
    log.sleep(2 * HOUR)
    second = log.claim(one, "late")
    log.lead(second)
    log.sleep(20_200)
    log.beat(other)
    log.lead(log.claim(other, "late"))
    log.sleep(444)
    log.stop(second, at=log.now - 4)
    log.beat(other)
    return log


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_worst_and_the_map_are_of_all_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _busy_then_bad().save(tmp_path / "l.db")
    plain = audit(url, "g", engine="python")
    short = audit(url, "g", spark=spark)
    monkeypatch.setattr(reading, "SMALL", 0)
    long = audit(url, "g", spark=spark, engine="python")
    (each,) = audit_all(url, spark, engine="python")
    for table in ("terms", "takeovers", "gaps"):
        assert long.cut(table)
        assert all(row["role"] == "busy" or row["cause"] == "start" for row in long.rows(table)), "not the bad ones"
        assert plain.tables[table].num_rows > ROWS
    assert long.picture == short.picture == plain.picture
    picture = long.picture
    assert picture is not None
    assert [m["to_ms"] - m["from_ms"] for m in picture.moments if m["what"] == "overlap"] == [440]
    assert {m["role"] for m in picture.moments if m["what"] != "takeover"} == {"late"}
    (slowest, *_) = [m for m in picture.moments if m["what"] == "takeover"]
    assert (slowest["role"], slowest["to_ms"] - slowest["from_ms"]) == ("late", 2 * HOUR)
    assert set(slowest["offsets"]) <= {row["offset"] for row in picture.around}
    assert slowest["offsets"]
    assert 0 in picture.heat.cells["late"]
    longest = max(row["ms"] for row in plain.rows("takeovers"))
    assert longest == max(row["ms"] for row in picture.dots) == 2 * HOUR
    assert each.picture is None
    assert f"{2 * HOUR} ms from" in render(each), "a result of many groups is drawn from its frames"
    assert len(render(long)) < 5 << 20


def test_the_takeovers_that_are_drawn_stand_evenly_among_all() -> None:
    dice = random.Random(1)
    rows: list[dict[str, Any]] = [
        {
            "cause": cause,
            "ms": dice.randrange(100_000),
            "at_ms": n,
            "role": "r",
            "seat": 0,
            "token": n,
            "to_member": "a",
        }
        for cause, many in (("crash", 10 * DOTS), ("drain", DOTS), ("join", 1))
        for n in range(many)
    ]
    drawn = dots(rows)
    assert Counter(row["cause"] for row in drawn) == {"crash": DOTS + 1, "drain": DOTS, "join": 1}
    crash = sorted(row["ms"] for row in rows if row["cause"] == "crash")
    shown = [row["ms"] for row in drawn if row["cause"] == "crash"]
    assert (shown[0], shown[-1]) == (crash[0], crash[-1])
    for share in (0.1, 0.5, 0.9):
        assert abs(shown[int(share * len(shown))] - crash[int(share * len(crash))]) < 1000


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_of_however_many_takeovers_spark_draws_the_same(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no task is given all of a cause."""
    dice = random.Random(2)
    rows: list[dict[str, Any]] = [
        {
            "cause": cause,
            "ms": dice.choice(lengths),
            "at_ms": n // 3,
            "role": "r",
            "seat": 0,
            "token": n,
            "to_member": "a",
        }
        for cause, many, lengths in (
            ("crash", 5 * DOTS + 7, range(100_000)),
            ("drain", DOTS, range(50)),
            ("join", 1, [5]),
            ("leave", 3 * DOTS, [0]),
            ("pause", DOTS + 1, [0, 1, 2]),
            ("step", 2, [0]),
            ("lapse", 2 * DOTS, [None, *range(300)]),
        )
        for n in range(many)
    ]
    frame = spark.createDataFrame(
        rows, "cause string, ms bigint, at_ms bigint, role string, seat int, token bigint, to_member string"
    )
    asked = pictures._DOTS  # pyright: ignore[reportPrivateUsage]
    found = spark.sql(asked, takeovers=frame)
    assert [row.asDict() for row in found.collect()] == dots(rows)
    found.explain()
    assert "WindowGroupLimit" in capsys.readouterr().out
