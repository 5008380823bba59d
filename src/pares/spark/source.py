"""The Spark source `pares`: any ledger with a log, by its URL, as rows.

    spark.dataSource.register(LedgerSource)
    spark.read.format("pares").option("url", "sqlite:////var/lib/app/work.db").load()

Rule: a log partition is one Spark partition, in the order of its offsets, unless the reader asks for more. Whatever depends
on order (a fold) can then run without a shuffle; whatever does not (counting, searching) may split a log partition into
ranges of offsets by `splits`. The ranges are fixed when the read is planned, so that a task that runs twice reads the same,
and records that arrive meanwhile are in none of them.

A ledger is opened read-only here, where it can be: an audit must not be able to change what it judges.

Kafka is read by this source too, and not by Spark's own connector. That one would have to be downloaded, in exactly the
version of this Spark, and it takes Java's client settings: whoever has told pares how to reach the brokers (TLS, SASL) would
have to say it again, in other words, for the audit. So what a member can read, an audit can, with nothing more
installed and nothing more to say. It costs no more than it must: for the fold every entry has to pass through Python anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pares.core.errors import ConfigError
from pares.core.wire.records import Unknown
from pares.spark.logs import entries_of, first_and_end, open_to_read

if TYPE_CHECKING:
    import pyarrow as pa

    from pares.ledger.base import Entry

_PLAIN: Final = "offset bigint, partition int, timestamp_ms bigint, payload binary"
_CLIENT: Final = "kafka."
_ENVELOPE: Final = "v bigint, k string, g string, m string, n bigint, b bigint, s bigint"
_envelope = msgspec.json.Decoder(Unknown)


class LedgerSource(DataSource):
    """Batch reads of a ledger.

    Options: `url`, or the path given to `load`; `partition`: a number, several (`0,2`), or `all`; without it the one
    that the URL
    names; `start` and `end`: offsets, the end exclusive, one for all partitions or one for each (default: all there is;
    a `start` that is no longer in the log is an error,
    `LedgerGap`, and not a shorter answer); `splits`: into how many Spark partitions each log
    partition is cut (default 1, which keeps its order); `envelope`: `false` leaves the decoded columns out; `kafka.NAME`: the
    setting NAME of a Kafka ledger's clients (librdkafka's names), beside those in the file that the URL's `config` names.
    Spark redacts options of its own accord where they look like secrets; nothing here repeats their values.

    Columns: offset, partition, timestamp_ms, payload; and, for records of pares, v, k, g, m, n, b, s (see the records'
    envelope), NULL for a payload that has none.
    """

    @classmethod
    def name(cls) -> str:
        return "pares"

    def schema(self) -> str:
        return f"{_PLAIN}, {_ENVELOPE}" if _flag(self.options) else _PLAIN

    def reader(self, schema: Any) -> DataSourceReader:
        return LedgerReader(dict(self.options), _flag(self.options))


class OffsetRange(InputPartition):
    """Offsets `low` to before `high` of one log partition."""

    def __init__(self, partition: int, low: int, high: int) -> None:
        super().__init__((partition, low, high))
        self.partition, self.low, self.high = partition, low, high


class LedgerReader(DataSourceReader):
    def __init__(self, options: dict[str, str], envelope: bool) -> None:
        url = options.get("url") or options.get("path")
        if not url:
            raise ConfigError("the source pares needs the ledger's URL: .option('url', 'sqlite:///work.db')")
        self._url = url
        self._envelope = envelope
        self._partition = options.get("partition")
        self._start, self._end = _numbers(options, "start"), _numbers(options, "end")
        self._splits = _number(options, "splits") or 1
        self._client = {name.removeprefix(_CLIENT): text for name, text in options.items() if name.startswith(_CLIENT)}

    def partitions(self) -> Sequence[InputPartition]:
        ranges: list[InputPartition] = []
        with open_to_read(self._url, self._client) as opened:
            log = opened.log
            wanted = opened.partition if self._partition is None else self._partition
            numbers = range(log.partitions) if wanted == "all" else [int(number) for number in str(wanted).split(",")]
            for place, partition in enumerate(numbers):
                low, high = first_and_end(log, partition)
                low = self._start[min(place, len(self._start) - 1)] if self._start else low
                high = min(high, self._end[min(place, len(self._end) - 1)]) if self._end else high
                step = max(1, -(-(high - low) // self._splits))
                ranges += [OffsetRange(partition, at, min(at + step, high)) for at in range(low, high, step)]
        return ranges or [OffsetRange(0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        if partition.low >= partition.high:
            return
        with open_to_read(self._url, self._client) as opened:
            for entries in entries_of(opened.log, partition.partition, partition.low, partition.high):
                yield _batch(entries, partition.partition, self._envelope)


def _batch(entries: list[Entry], partition: int, envelope: bool) -> pa.RecordBatch:
    import pyarrow as pa

    offsets, times, payloads = zip(*entries, strict=True)
    columns: dict[str, Any] = {
        "offset": pa.array(offsets, pa.int64()),
        "partition": pa.array([partition] * len(entries), pa.int32()),
        "timestamp_ms": pa.array(times, pa.int64()),
        "payload": pa.array(payloads, pa.binary()),
    }
    if envelope:
        heads = [_head(payload) for payload in payloads]
        for name, values in zip("vkgmnbs", zip(*heads, strict=True), strict=True):
            columns[name] = pa.array(values, pa.string() if name in "kgm" else pa.int64())
    return pa.RecordBatch.from_pydict(columns)


_NONE: Final = (None,) * 7


def _head(payload: bytes) -> tuple[Any, ...]:
    try:
        record = _envelope.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NONE
    return (record.v, record.k, record.g, record.m, record.n, record.b, record.s)


def _flag(options: Any) -> bool:
    return str(options.get("envelope", "true")).lower() != "false"


def _numbers(options: dict[str, str], name: str) -> list[int]:
    return [_number({name: text}, name) or 0 for text in options[name].split(",")] if name in options else []


def _number(options: dict[str, str], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not value.isdigit():
        raise ConfigError(f"{name}={value!r} is no offset or number: give a whole number of 0 or more")
    return int(value)
