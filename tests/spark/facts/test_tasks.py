"""What a task of Spark's tells of its range, in this process."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scribe import story
from tests.spark.facts.test_tenures import NeliLog

from pares.core.errors import LedgerRewound
from pares.core.wire.records import Beat, Genesis, Join, encode
from pares.ledger import open as open_ledger
from pares.spark.facts.base import EntryLike
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import thaw
from pares.spark.facts.joined import Joined
from pares.spark.facts.tasks import EACH, MOST, STATE, Task, perform, portions
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


def test_a_task_that_is_over_leaves_the_collector_as_it_was(tmp_path: Path) -> None:
    usual = gc.get_threshold()
    rows = perform(planned(claims(tmp_path)))
    next(rows)
    assert gc.get_threshold()[0] > usual[0]
    rows.close()  # type: ignore[attr-defined]
    assert gc.get_threshold() == usual


def test_portions_grow_with_the_groups_and_lose_nothing() -> None:
    """One group is fed each read as it comes; of many groups reads are put together, but never without an end."""

    def sizes(groups: int) -> list[int]:
        fold, given = Partition(None, 0, 0, claims=True), list(_of_groups(groups))
        reads = [given[at : at + 40] for at in range(0, len(given), 40)]
        fed: list[list[EntryLike]] = []
        for portion in portions(reads, fold):
            fed.append(portion)
            assert list(fold.feed(portion)) is not None
        assert [entry for portion in fed for entry in portion] == given
        return [len(portion) for portion in fed]

    assert set(sizes(1)) == {40}
    many = sizes(100)
    assert many[0] == 40
    assert sum(many[1:-1]) / len(many[1:-1]) >= 40 * EACH
    assert max(many) <= MOST + 40


def _of_groups(many: int) -> Iterator[EntryLike]:
    envelope: dict[str, Any] = {"v": 1, "b": 1, "s": 0}
    for turn in range(200):
        for number in range(many):
            who = {**envelope, "g": f"g{number}", "m": "a~0", "n": turn + 1}
            record = (
                Beat(**who) if turn > 1 else Join(**who, name="a", session=1000) if turn else Genesis(**who, base=1)
            )
            yield turn * many + number, turn, encode(record)


def test_another_log_under_the_url_is_refused(tmp_path: Path) -> None:
    task = planned(claims(tmp_path))
    (tmp_path / "claims.db").unlink()
    claims(tmp_path)
    with pytest.raises(LedgerRewound, match="another log"):
        list(perform(task))
