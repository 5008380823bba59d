"""Portions that Spark's tasks read and fold are those that this process reads and folds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from histories import broken
from tests.spark.follow.growing import Growing

from pares.core.errors import LedgerRewound
from pares.spark.follow.by_spark import SparkFeed
from pares.spark.follow.feeds import LogFeed, Portion
from pares.spark.follow.judge import Judge
from pares.spark.logs import open_to_read
from pares.spark.rules.base import Allowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_tasks_say_what_this_process_says_and_go_on_from_a_state(spark: SparkSession, tmp_path: Path) -> None:
    play, dice = broken(3), random.Random(3)
    log = Growing(tmp_path / "log.db")
    low, judge = 0, Judge(Allowed(), 10**12)
    alarms: list[object] = []
    with open_to_read(log.url) as (opened, _):
        here = LogFeed(opened, 0, frozenset((play.group,)), 0)
        there = SparkFeed(spark, opened, tmp_path / "worlds", 0, frozenset((play.group,)), 0)
        for turn in range(3):
            high = dice.randrange(low + 1, len(play.entries)) if turn < 2 else len(play.entries)
            log.append(play.entries[low:high])
            low = high
            found, expected = there.read(), here.read()
            assert _plain(found) == _plain(expected)
            for portion in found:
                judge.feed(portion.shares)
                judge.at_end(portion.partition, portion.ends)
            alarms += judge.alarms(float(turn))
            if turn == 1:
                states = there.states()
                there = SparkFeed(spark, opened, tmp_path / "others", 0, frozenset((play.group,)), 0)
                there.resume(here.identity, here.positions, states)
        assert there.read() == []
        assert there.positions == here.positions == {0: len(play.entries)}
        assert alarms
        with pytest.raises(LedgerRewound):
            there.resume("another", there.positions, {})
    log.close()


def _plain(portions: list[Portion]) -> list[object]:
    return [
        (
            portion.partition,
            portion.upto,
            portion.entries,
            portion.stamp_ms,
            [(group, fact) for group, facts in portion.shares for fact in facts],
            [(group, fact) for group, facts in portion.ends for fact in facts],
        )
        for portion in portions
    ]
