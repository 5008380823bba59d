"""Partitions that a log gets while it is followed: a stream begins them at their origin. The reader alone, without a query."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyspark
import pytest
from scribe import story

from pares.ledger import open as open_ledger
from pares.spark.source.options import options

OLD = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2)
pytestmark = [pytest.mark.spark, pytest.mark.skipif(OLD, reason="Spark before 4.2 has no admission control in Python")]


def test_a_partition_that_was_added_is_followed_from_its_origin(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from pares.spark.source.stream import LedgerStream

    log, place = story(3, roles=3, steps=40), f"sqlite:///{tmp_path}/p.db"
    payloads = [payload for _, _, payload in log.entries]
    with closing(open_ledger(f"{place}?partitions=2")) as ledger:
        ledger.append_many(payloads[:9], 0)
    stream = LedgerStream(options({"url": place, "table": "records"}))
    begin = stream.initialOffset()
    assert begin["offsets"] == {"0": 0, "1": 0}
    first = stream.latestOffset(begin, ReadAllAvailable())
    assert first["offsets"] == {"0": 9, "1": 0}
    with closing(open_ledger(f"{place}?partitions=4")) as ledger:
        ledger.append_many(payloads[:5], 3)
        ledger.append_many(payloads[9:11], 0)
    some = stream.latestOffset(first, ReadMaxRows(4))
    assert set(some["offsets"]) == {"0", "1", "2", "3"}
    assert sum(some["offsets"].values()) == 9 + 4
    rest = stream.latestOffset(some, ReadAllAvailable())
    assert rest["offsets"] == {"0": 11, "1": 0, "2": 0, "3": 5}
    found: list[tuple[int, int]] = []
    for low, high in ((begin, first), (first, some), (some, rest)):
        for part in stream.partitions(low, high):
            for batch in stream.read(part):
                found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
    assert sorted(found) == [*((0, at) for at in range(11)), *((3, at) for at in range(5))]
