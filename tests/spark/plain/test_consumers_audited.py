"""What real consumers have written is lawful, by both engines: partitions that move, ranges, keys, either delivery."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runtime_tools import until

import pares
from pares.spark.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

RECORDS = 400
HANG = 60.0


def _works(consumer: pares.Consumer, seen: list[int]) -> threading.Thread:
    def work() -> None:
        for batch in consumer.batches():
            seen.extend(record.offset for record in batch.records)
            batch.done()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("claim", ["partitions", "ranges", "keys"])
@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_both_engines_find_nothing_wrong(tmp_path: Path, spark: SparkSession, claim: Any, delivery: Any) -> None:
    url = f"file:{tmp_path}/log"
    with closing(pares.open(url)) as ledger:
        topic: Any = ledger.topic("orders", partitions=2)
        for number in range(RECORDS):
            topic.append(b"x", number % 2, key=b"%d" % (number % 7))
    given: dict[str, Any] = {"group": "g", "topics": ["orders"], "claim": claim, "delivery": delivery}
    given |= {"batch": 10, "settle": 0.05} | ({} if claim == "partitions" else {"slots": 4})
    seen: list[int] = []
    with pares.Consumer(url, name="a", session=5.0, **given) as one:
        threads = [_works(one, seen)]
        until(lambda: len(seen) > 50, "one works")
        with pares.Consumer(url, name="b", session=5.0, **given) as two:
            threads.append(_works(two, seen))
            until(lambda: two.claims() or len(seen) >= RECORDS, "the other one has some")
        until(lambda: one.lag() == 0 and len(one.claims()) >= 2, "all is done")
    for thread in threads:
        thread.join(HANG)
    results = [audit(url, "g", engine="python"), audit(url, "g", spark=spark, engine="spark")]
    for result in results:
        assert result.rows("violations") == []
        assert {promise.verdict for promise in result.promises} <= {"kept", "not checked"}
        assert len(result.rows("terms")) >= 2
    plain, by_spark = results
    assert plain.summary == by_spark.summary
    for name in plain.tables:
        assert sorted(map(repr, plain.rows(name))) == sorted(map(repr, by_spark.rows(name))), name
