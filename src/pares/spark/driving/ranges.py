"""Topics of which a consumer claims ranges and executors read the records.

A consumer that fetches records to hand them to Spark brings all of them through one process. With a `RangedSource` in place of
a topic's name it fetches the first record of a range only, to learn where it begins, and is given that in place of all of them:
what it claims, takes and notes in the log is the range, and the executors read what is in it, from the topic itself.

The consumer's own rules hold unchanged: a range is a fetch with one record, whose `next` is the range's end. One thing follows:
what was done of a partition *above* its position is passed over record by record (C9), and here are none. Claimed work is done
in order, so nothing is noted there; a group whose topics are claimed by ranges has no consumers that do it otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ConfigError, LedgerGap
from pares.ledger.registry import path_of
from pares.ledger.sources import Fetched, Record, Source, open_source
from pares.runtime.config.numbers import whole

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = "topic string, partition int, offset bigint, timestamp_ms bigint, key binary, payload binary"
MOST: Final = 1_000_000_000
_RECORDS: Final = 10_000
_BYTES: Final = 8 * 1024 * 1024
_PATIENCE: Final = 30.0
"""Seconds that a task waits for records that its source has said are there."""


class Ranged(Record, frozen=True):
    """Stands for all records of a range: where to read them. Its own payload is empty."""

    url: str
    topic: str
    options: dict[str, Any]


class RangedSource:
    """The topic of a ledger, for a `pares.Consumer` whose claims are worked on by `pares.spark.work`.

        topic = RangedSource("kafka://localhost:9092", "orders", rows=1_000_000)
        with pares.Consumer(url, group="billing", topics=[topic]) as consumer: ...

    `url`, `topic`, `options`: as of `pares.ledger.sources.open_source`; executors open it too, by the same URL, so a file's
    path in it is an absolute one. `rows`: offsets in a range, at most. Close it after the consumer. Raises as `open_source`.
    """

    def __init__(self, url: str, topic: str, *, rows: int = 100_000, options: Mapping[str, Any] | None = None) -> None:
        self._rows = whole("rows", rows, 1, MOST)
        path = path_of(url)
        if path is not None and not Path(path).is_absolute():
            raise ConfigError(f"{url}: executors run elsewhere: name {path!r} by its absolute path")
        self._url, self._options = url, dict(options or {})
        self._source: Source = open_source(url, topic, **self._options)

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def identity(self) -> str:
        return self._source.identity

    def partitions(self) -> int:
        return self._source.partitions()

    def start(self, partition: int) -> int:
        return self._source.start(partition)

    def end(self, partition: int) -> int:
        return self._source.end(partition)

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        return self._source.ends(partitions)

    def changed(self, places: Mapping[int, int]) -> Collection[int]:
        return self._source.changed(places)

    def fetch(self, partition: int, offset: int, *, max_records: int, max_bytes: int, timeout: float) -> Fetched:
        found = self._source.fetch(partition, offset, max_records=1, max_bytes=max_bytes, timeout=timeout)
        if not found.records:
            return found
        first = found.records[0]
        upto = max(found.next, min(first.offset + self._rows, self._source.end(partition)))
        place = (self._url, self._source.name, self._options)
        return Fetched((Ranged(first.offset, first.timestamp_ms, None, b"", *place),), upto)

    def close(self) -> None:
        self._source.close()


def read(ranged: Ranged, partition: int, first: int, upto: int) -> Iterator[pa.RecordBatch]:
    """By an executor: the records of the range, in order. Raises `LedgerGap` if some are gone by now: a range that is claimed
    is read as a whole or not at all."""
    with closing(open_source(ranged.url, ranged.topic, **ranged.options)) as source:
        offset = first
        while offset < upto:
            found = source.fetch(partition, offset, max_records=_RECORDS, max_bytes=_BYTES, timeout=_PATIENCE)
            if found.next == offset:
                raise LedgerGap(
                    f"{ranged.topic}/{partition} brings nothing at {offset}, though it was claimed up to {upto - 1}"
                )
            offset = found.next
            records = [record for record in found.records if record.offset < upto]
            if records:
                yield table_of(ranged.topic, partition, records)


def table_of(topic: str, partition: int, records: list[Record]) -> pa.RecordBatch:
    """Records as rows of `COLUMNS`."""
    import pyarrow as pa

    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic] * len(records), pa.string()),
            "partition": pa.array([partition] * len(records), pa.int32()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp_ms": pa.array([record.timestamp_ms for record in records], pa.int64()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "payload": pa.array([record.payload for record in records], pa.binary()),
        }
    )
