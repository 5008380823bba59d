"""A worker by pares: whole partitions at least once or at most once, ranges, keys."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import pares
from bench.consume.plan import AHEAD, Plan
from bench.consume.work import Work
from bench.part import tell
from bench.worker import Blind
from pares import Consumer  # here, and not when it is first used: that is not part of what is measured
from pares.ledger import open_source
from pares.ledger.sources import Fetched
from pares.runtime.clock import stopwatch


class Watched:
    """A source that tells when a partition's records are asked for: the consumer has the partition, and goes on with it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._last: dict[int, int] = {}

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        for partition in places:
            self._asked(partition)
        return self._source.changed(places)

    def _asked(self, partition: int) -> None:
        now = stopwatch()
        # An idle consumer looks 20 times a second: after a longer pause the partition was somebody else's.
        if now - self._last.get(partition, 0) > 300_000_000:
            tell("lead", partition, now)
        self._last[partition] = now

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        self._asked(partition)
        return self._source.fetch(partition, offset, max_records=max_records, max_bytes=max_bytes, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def consume(plan: Plan, work: Work) -> None:
    ledger: Any = pares.open(plan.log)
    source: Any = open_source(plan.source, plan.topic)
    work.ready()
    claim: Any = plan.way if plan.way in ("ranges", "keys") else "partitions"
    order: Any = "partition" if plan.concurrency == 1 else "key"
    seen: Any = ledger if plan.proof else Blind(ledger)
    watched: Any = Watched(source) if plan.first_fetch else source
    consumer = Consumer(
        seen,
        group=plan.group,
        topics=[watched],
        name=plan.name,
        claim=claim,
        delivery="at-most-once" if plan.way in AHEAD else "at-least-once",
        ahead=AHEAD.get(plan.way, 0),
        batch=plan.batch,
        concurrency=plan.concurrency,
        order=order,
        session=plan.session,
    )
    work.holding = consumer.load
    work.go.wait()
    closing = threading.Thread(target=lambda: work.over.wait() and consumer.close(), daemon=True)
    closing.start()
    if plan.concurrency > 1:
        consumer.run(lambda record: work.one((record.offset, record.timestamp_ms, record.key, record.payload)))
    elif plan.handler_ms:
        for record in consumer.records():
            work.one((record.offset, record.timestamp_ms, record.key, record.payload))
            record.done()
    else:
        for batch in consumer.batches():
            work.batch((record.offset, record.timestamp_ms, record.key, record.payload) for record in batch.records)
            batch.done()
    closing.join()
    source.close()
    ledger.close()
