"""What simulated members do, by the code that ships, is lawful: the audit of their logs finds nothing that is certain.

Members of every protocol crash and freeze, in virtual time; their wall clocks agree, their stopwatches do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.rules.compare import Judged, judge

from pares.sim.members.play import Play
from pares.sim.members.protocols import PROTOCOLS
from pares.sim.members.stage import GROUP
from pares.spark.facts.base import arrow_schema, batches
from pares.spark.facts.folding import Partition
from pares.spark.rules.base import Allowed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
PLAYED = [(protocol, seed) for protocol in ("claims", "consume", "neli", "fast-neli") for seed in range(3)]
BIAS: dict[str, Any] = {"faults": {"crash": 1.0, "freeze": 1.0}, "acts": {}, "wall_spread": 0.0}
HORIZON = 2**62


def _played(protocol: str, seed: int) -> list[pa.RecordBatch]:
    """The facts of one play, under a group's name of its own."""
    play = Play(PROTOCOLS[protocol].draw(seed, BIAS))
    outcome = play.play()
    assert not outcome.broken, outcome.what
    found: list[pa.RecordBatch] = []
    for log in play.stage.world.logs.values():
        for number, partition in enumerate(log.partitions):
            entries = partition.read(0, HORIZON, 10**6)
            fold = Partition(GROUP, number, partition.start, claims=number == 0, error_ms=1)
            for told in (fold.feed(entries), fold.finish()):
                for name, facts in told:
                    found += batches(None if name is None else f"{protocol} {seed}", facts)
    return found


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    import pyarrow as pa

    parts = [batch for case in PLAYED for batch in _played(*case)]
    return judge(spark, pa.Table.from_batches(parts, arrow_schema()), Allowed(error_ms=1), mutants=())


@pytest.mark.parametrize(("protocol", "seed"), PLAYED)
def test_nothing_certain_is_found(protocol: str, seed: int, judged: Judged) -> None:
    group = f"{protocol} {seed}"
    rows = [row for row in judged.by_sql["violations"] if row["g"] == group and row["verdict"] == "certain"]
    assert rows == []
    assert [row for row in judged.inputs["terms"] if row["g"] == group and row["from_ms"] is not None]


def test_both_engines_say_the_same(judged: Judged) -> None:
    assert judged.differences() == []
