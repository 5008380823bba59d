"""What a task of Spark's tells of its range, in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from scribe import story
from tests.spark.facts.test_tenures import NeliLog

from pares.core.errors import LedgerRewound
from pares.ledger import open as open_ledger
from pares.spark.facts.frozen import thaw
from pares.spark.facts.joined import Joined
from pares.spark.facts.tasks import STATE, Task, perform
from pares.spark.reading import Reading


def planned(url: str) -> Task:
    with closing(open_ledger(url)) as ledger:
        end, identity, url = ledger.end(0), ledger.identity(), ledger.url
    return Task(
        part=3, url=url, client={}, identity=identity, partition=0, origin=0, since=0, low=0, high=end, group=None,
        claims=True, error_ms=0, bus=False,
    )  # fmt: skip


def neli(path: Path) -> str:
    log = NeliLog(path)
    token = log.lead("a~0", 1000, 3000)
    log.yield_("a~0", token, 3010, 1000, "asked")
    log.ledger.close()
    return log.url


def claims(path: Path) -> str:
    log = story(3, roles=6, steps=100)
    log.raw(b"\xff no record")
    return log.save(path / "claims.db")


@pytest.mark.parametrize("made", [neli, claims])
def test_a_task_tells_what_a_reading_here_tells(made: Callable[[Path], str], tmp_path: Path) -> None:
    url = made(tmp_path)
    rows = [row for batch in perform(planned(url)) for row in batch.to_pylist()]
    assert {row.pop("part") for row in rows} == {3}
    (state,), told = [row for row in rows if row["kind"] == STATE], [row for row in rows if row["kind"] != STATE]
    ends = [(group, fact) for group, facts in Joined(thaw(state["payload"])).finish() for fact in facts]
    told += [{"g": group, **fact._asdict()} for group, fact in ends]
    here = Reading(None, url, 0, {}).rows("g", induced=True, error_ms=0, most=100_000).to_pylist()
    assert sorted(map(repr, told)) == sorted(map(repr, here))


def test_another_log_under_the_url_is_refused(tmp_path: Path) -> None:
    task = planned(claims(tmp_path))
    (tmp_path / "claims.db").unlink()
    claims(tmp_path)
    with pytest.raises(LedgerRewound, match="another log"):
        list(perform(task))
