"""Audits of long logs, rules over a history beside DuckDB on the same Parquet, and updates of a long history."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bench.cases import Row
from bench.history.logs import GROUP, written
from pares.ledger.base import Ledger
from pares.spark.audit import audit, audit_all, load
from pares.spark.facts.cuts import Cut, cuts
from pares.spark.facts.tasks import Task, perform
from pares.spark.histories import history
from pares.spark.histories.updating import SMALL
from pares.spark.session import session

FROM_A_LEDGER: Final = 10_000_000 / 25
"""Records a second."""
RULES: Final = 1_500_000
UPDATE_S: Final = 5.0
UPDATED: Final = 10_000
GROUPS: Final = 1000
BY_GROUPS: Final = 1.3
"""Times the cost of one group."""
TASKS: Final = 16
EFFICIENCY: Final = 0.8
IN_TASKS: Final = 4_000_000
A_DECADE: Final = 1.15
LEAST: Final = 1_000_000
BOTH: Final = """
WITH n AS (SELECT member, base, n, "offset", lag(n) OVER (PARTITION BY member, base ORDER BY "offset") AS before
           FROM {records} WHERE counted),
 t AS (SELECT role, seat, token, member, min(CASE WHEN kind = 'gained' THEN at_ms END) AS gained_ms,
              min(CASE WHEN kind = 'lost' THEN at_ms END) AS lost_ms
       FROM {facts} WHERE kind IN ('gained', 'lost', 'lead', 'stop') GROUP BY role, seat, token, member),
 h AS (SELECT role, seat, token, lost_ms, lead(gained_ms) OVER (PARTITION BY role, seat ORDER BY token) AS next_ms FROM t)
SELECT (SELECT count(*) FROM n WHERE n > before + 1) AS lost_numbers,
       (SELECT count(*) FROM n WHERE n <= before) AS fell,
       (SELECT count(*) FROM h WHERE next_ms < lost_ms) AS two_holders
"""
"""Of the rules what both engines can say in the same words: numbers that are missing, and seats that were given twice."""
Say = Callable[[str], None]


def from_a_ledger(say: Say, records: int, memory: str) -> Iterator[Row]:
    """A whole audit of a log of so many records, by Spark."""
    with tempfile.TemporaryDirectory(prefix="bench-audit-") as folder:
        url = f"sqlite:///{folder}/log.db"
        written(url, records, say).close()
        spark = session("pares-bench", memory=memory, long=True)
        say(f"audits {records} records")
        began = time.monotonic()
        result = audit(url, GROUP, spark=spark, engine="spark")
        took = time.monotonic() - began
        broken = [promise.verdict for promise in result.promises if promise.verdict == "broken"]
        met = records / took >= FROM_A_LEDGER if records >= 10_000_000 else None
        figures = f"{took:.1f} s, {records / took:.0f} records/s" + (f", {len(broken)} BROKEN" if broken else "")
        yield Row(f"audit of {records} records from a SQLite ledger", figures, "10 M <= 25 s", met)


def over_a_history(say: Say, records: int, memory: str) -> Iterator[Row]:
    """All rules over the tables of a history, by Spark; and one query that both engines can run, beside DuckDB."""
    with tempfile.TemporaryDirectory(prefix="bench-rules-") as folder:
        spark, kept = _kept(Path(folder), records, say, memory)
        say("asks all rules")
        began = time.monotonic()
        count = kept.violations.count()
        took = time.monotonic() - began
        met = records / took >= RULES if records >= 10_000_000 else None
        figures = f"{took:.1f} s, {records / took:.0f} records/s, {count} violations"
        yield Row(f"all rules over a history of {records} records", figures, ">= 1.5 M/s", met)
        frames = {name: kept.table(name) for name in ("records", "facts")}
        say("asks one query of both")
        took, answer = _timed(lambda: spark.sql(BOTH.replace('"offset"', "`offset`"), **frames).collect())
        yield Row(f"one query over {records} records, Spark", f"{took:.2f} s, {records / took:.0f} records/s")
        yield from _by_duckdb(Path(folder) / "kept", records, tuple(answer[0]))


def _by_duckdb(folder: Path, records: int, expected: tuple[Any, ...]) -> Iterator[Row]:
    what = f"one query over {records} records, DuckDB on the same files"
    try:
        import duckdb  # type: ignore[import-not-found]
    except ImportError:
        yield Row(what, "not measured: pip install duckdb")
        return
    tables = {name: f"read_parquet('{folder}/{name}/*.parquet')" for name in ("records", "facts")}
    took, answer = _timed(lambda: duckdb.sql(BOTH.format(**tables)).fetchall())
    yield Row(what, f"{took:.2f} s, {records / took:.0f} records/s", "the same answer", tuple(answer[0]) == expected)


def update(say: Say, records: int, memory: str) -> Iterator[Row]:
    """A first update of so many records, and 10,000 more on that history."""
    with tempfile.TemporaryDirectory(prefix="bench-update-") as folder:
        url = f"sqlite:///{folder}/log.db"
        with closing(written(url, records, say)) as writer:
            kept = history(session("pares-bench", memory=memory, long=True), Path(folder) / "kept")
            say("updates the history")
            took, _ = _timed(lambda: _update(kept, url, say))
            yield Row(f"first update, of {records} records", f"{took:.1f} s, {records / took:.0f} records/s")
            for turn in range(3):
                writer.append(UPDATED)
                took, _ = _timed(lambda: kept.update(url))
                what = f"update {turn + 1} of {UPDATED} records on a history of {records}"
                met = took <= UPDATE_S if records >= 100_000_000 else None
                yield Row(what, f"{took:.2f} s", "<= 5 s on 100 M", met)


def groups(say: Say, records: int, memory: str) -> Iterator[Row]:
    """So many records of one group, and of a thousand: all groups audited in one pass."""
    spark, took = session("pares-bench", memory=memory, long=True), dict[int, float]()
    load(spark)
    for many in (1, GROUPS):
        with tempfile.TemporaryDirectory(prefix="bench-groups-") as folder:
            url = f"sqlite:///{folder}/log.db"
            written(url, records, say, groups=many, moves=10).close()
            say(f"audits {records} records of {many} groups")
            took[many], found = _timed(lambda url=url: audit_all(url, spark, engine="spark"))
            what = f"audit of {records} records of {len(found)} groups"
            figures = f"{took[many]:.1f} s, {records / took[many]:.0f} records/s"
            if many == 1:
                yield Row(what, figures)
            else:
                times = took[many] / took[1]
                met = times <= BY_GROUPS if records >= LEAST else None
                yield Row(what, f"{figures}, {times:.2f} times as long", f"<= {BY_GROUPS:g} times", met)


def decade(say: Say, records: int, memory: str) -> Iterator[Row]:
    """What a record costs in a log ten times as long, from a million on (or from a tenth of the records, if they are fewer)."""
    spark, before = session("pares-bench", memory=memory, long=True), 0.0
    load(spark)
    size = min(LEAST, records // 10)
    while size <= records:
        with tempfile.TemporaryDirectory(prefix="bench-decade-") as folder:
            url = f"sqlite:///{folder}/log.db"
            written(url, size, say).close()
            say(f"audits {size} records")
            took, _ = _timed(lambda url=url: audit(url, GROUP, spark=spark, engine="spark"))
        each = took / size
        figures = f"{took:.1f} s, {1e6 * each:.1f} us a record"
        if before:
            met = each / before <= A_DECADE if size > LEAST else None
            yield Row(f"audit of {size} records", f"{figures}, {each / before:.2f} times", f"<= {A_DECADE} times", met)
        else:
            yield Row(f"audit of {size} records", figures)
        before, size = each, size * 10


def in_tasks(say: Say, records: int) -> Iterator[Row]:
    """What the processor does for the fold of one log as one range and as many: of each task by itself, in this process, so
    that it is not the machine's cores that are measured."""
    records = min(records, IN_TASKS)
    with tempfile.TemporaryDirectory(prefix="bench-tasks-") as folder:
        url = f"sqlite:///{folder}/log.db"
        with closing(written(url, records, say)) as writer:
            log, end = writer.ledger, writer.ledger.end()
            whole = 0.0
            _by_itself(log, Cut(0, 0), min(end, UPDATED))  # what is loaded once
            for many in (1, TASKS):
                places = [Cut(0, 0), *(cuts(log, 0, 0, end, many) if many > 1 else ())]
                ends = [*(place.at for place in places[1:]), end]
                say(f"folds {records} records in {len(places)} ranges")
                took = sum(_by_itself(log, place, high) for place, high in zip(places, ends, strict=True))
                whole = whole or took
                what = f"fold of {records} records in {len(places)} tasks, their processor"
                figures = f"{took:.1f} s, {1e6 * took / records:.2f} us a record"
                if many == 1:
                    yield Row(what, figures)
                else:
                    met = whole / took >= EFFICIENCY if len(places) == TASKS else None
                    yield Row(what, f"{figures}: efficiency {whole / took:.2f}", f">= {EFFICIENCY:g}", met)


def _by_itself(log: Ledger, place: Cut, high: int) -> float:
    task = Task(
        part=0, url=log.url, client={}, identity=log.identity(), partition=0, origin=0, since=place.since, low=place.at,
        high=high, group=GROUP, claims=True, error_ms=0, bus=False,
    )  # fmt: skip
    began = time.process_time()
    for _ in perform(task):
        pass
    return time.process_time() - began


def _kept(folder: Path, records: int, say: Say, memory: str) -> tuple[Any, Any]:
    url = f"sqlite:///{folder}/log.db"
    written(url, records, say).close()
    spark = session("pares-bench", memory=memory, long=True)
    kept = history(spark, folder / "kept")
    say("updates the history")
    _update(kept, url, say)
    return spark, kept


def _update(kept: Any, url: str, say: Say) -> None:
    most = max(SMALL, 2_000_000)
    while (batch := kept.update(url, max_records=most)) is not None:
        say(f"batch {batch.batch}")


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    found = work()
    return time.monotonic() - began, found
