"""How often an audit reads a log: once, however many groups, and whoever folds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scribe import Scribe, story

from pares.core.errors import ConfigError
from pares.spark import reading
from pares.spark.audit import audit, audit_all
from pares.spark.facts import cuts, spread, tasks
from pares.spark.together import audit_together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_log_is_read_once_by_sparks_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = str(tmp_path / "tally")

    def counted(task: tasks.Task) -> Iterator[Any]:
        from pares.spark.facts.tasks import perform

        with open(tally, "a") as file:
            file.write(f"{task.since} {task.low} {task.high}\n")
        yield from perform(task)

    log = story(5, roles=5, steps=60)
    url = log.save(tmp_path / "l.db")
    here = audit(url, "g", spark=spark)
    monkeypatch.setattr(reading, "SMALL", 0)
    monkeypatch.setattr(tasks, "perform", counted)
    settings = {name: spark.conf.get(name) for name in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")}
    there = audit(url, "g", spark=spark, engine="python")
    assert Path(tally).read_text().splitlines() == [f"0 0 {len(log.entries)}"]
    assert {name: spark.conf.get(name) for name in settings} == settings
    assert there.summary == here.summary
    assert {name: there.rows(name) for name in there.tables} == {name: here.rows(name) for name in here.tables}


def test_spark_is_asked_nothing_of_a_short_log_until_its_frames_are(spark: SparkSession, tmp_path: Path) -> None:
    url = story(5, roles=5, steps=60).save(tmp_path / "l.db")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    before = set(jobs())
    result = audit(url, "g", faults=[(1, "a", "crash")], spark=spark)
    assert set(jobs()) == before
    assert result.engine == result.to_json()["engine"] == "python"
    for name, table in result.tables.items():
        assert result.frames[name].count() == table.num_rows, name
    assert set(jobs()) - before, "Spark forgets its oldest jobs, so the others need not be there any more"


def long_log() -> Scribe:
    """A log of two groups, one of which writes snapshots, and one of them is false; beside it something that is no record."""
    log = story(7, roles=5, steps=220)
    other = Scribe("quiet", entries=log.entries)
    other.role("r")
    other.lead(other.claim(other.join("q"), "r"))
    for steps in range(1, 40):
        member = next(term.member for term in log.truths if term.end is None)
        for _ in range(25):
            log.sleep(20)
            log.beat(member)
        if steps % 6 == 0:
            log.snapshot(member, wrong=steps == 18)
        if steps == 20:
            log.raw(b"\xff no record")
            other.beat("q~0")
    return log


def test_ranges_are_folded_at_once_and_say_what_one_fold_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = long_log()
    url = log.save(tmp_path / "l.db")
    here = {result.group: result for result in audit_all(url, spark)}
    monkeypatch.setattr(reading, "SMALL", 0)
    monkeypatch.setattr(reading, "PER_RANGE", len(log.entries) // 8)
    monkeypatch.setattr(cuts, "LEAD_IN", 30)
    made: list[list[tasks.Task]] = []

    def counted(session: SparkSession, given: list[tasks.Task]) -> Any:
        made.append(given)
        return run(session, given)

    run = spread.run
    monkeypatch.setattr(spread, "run", counted)
    there = {result.group: result for result in audit_all(url, spark, engine="python")}
    first, *again = made
    assert len(first) >= 3
    assert [task.low for task in first] == [0, *(task.high for task in first[:-1])]
    assert all(task.since < task.low for task in first[1:])
    # The range that began with the false snapshot, and where the other group has a word without a snapshot of its own.
    assert again
    assert all(len(tasks) == 1 and tasks[0].state for tasks in again)
    assert here.keys() == there.keys() == {"g", "quiet"}
    for group in here:
        assert there[group].summary == here[group].summary
        mine, theirs = (
            {name: sorted(map(repr, one.rows(name))) for name in one.tables} for one in (here[group], there[group])
        )
        assert mine == theirs
    assert [row["kind"] for row in there["g"].rows("anomalies")].count("defect") == 1


def test_a_short_log_is_read_once_here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    entries_of = reading.entries_of

    def counted(log: Any, partition: int, low: int, high: int) -> Iterator[Any]:
        reads.append((low, high))
        return entries_of(log, partition, low, high)

    monkeypatch.setattr(reading, "entries_of", counted)
    log = story(5, roles=5, steps=60)
    audit_all(log.save(tmp_path / "l.db"), spark)
    assert reads == [(0, len(log.entries))]


def test_several_groups_that_are_audited_together_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--also` has it; each group's audit is what it would be by itself."""
    log = _of_groups(4)
    url = log.save(tmp_path / "l.db")
    alone = {name: audit(url, name, spark=spark) for name in ("g1", "g3", "g0")}
    reads: list[tuple[int, int]] = []
    entries_of = reading.entries_of

    def counted(log: Any, partition: int, low: int, high: int) -> Iterator[Any]:
        reads.append((low, high))
        return entries_of(log, partition, low, high)

    monkeypatch.setattr(reading, "entries_of", counted)
    found = audit_together(url, list(alone), spark=spark)
    assert reads == [(0, len(log.entries))]
    assert [one.group for one in found.groups] == list(alone)
    for one in found.groups:
        assert one.summary == alone[one.group].summary
        assert one.promises == alone[one.group].promises
        assert {name: one.rows(name) for name in one.tables} == {
            name: alone[one.group].rows(name) for name in one.tables
        }
    assert {gap["role"] for gap in found.gaps} <= {"r"}
    with pytest.raises(ConfigError, match="there is no group 'g9' in"):
        audit_together(url, ["g1", "g9"], spark=spark)


def _of_groups(many: int) -> Scribe:
    """Groups in one log, each with a role and two terms."""
    log = Scribe(group="g0")
    for number in range(many):
        one = Scribe(group=f"g{number}", now=log.now)
        one.role("r")
        a, b = one.join("a"), one.join("b")
        term = one.claim(a, "r")
        one.lead(term)
        one.sleep(100 + number)
        one.stop(term, "asked")
        one.lead(one.transfer(term, b, "asked", "handover"))
        start = len(log.entries) if number else 0
        log.entries[start:] = [(start + at, at_ms, payload) for at, at_ms, payload in one.entries]
    return log
