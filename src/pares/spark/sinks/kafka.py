"""A topic of Kafka: a batch is one transaction of the driver's, with the mark that says where to go on.

Executors pack rows and hand them to the driver, which is the only one that writes: a transaction belongs to one producer, and
the brokers know no way to join several. So a batch passes through the driver's memory.

The producer is a `KafkaFence`'s, whose `transactional.id` is the seat: a term that passes the fence ends whatever earlier ones
have open, and shuts them out for good. What was published last is read inside the transaction, and then it can't change:

1. The transaction begins with a mark of its own, and the brokers say where it stands.
2. All marks before that are read. Whatever an earlier producer of this seat has committed is among them, as the brokers have
   ended its transactions before they let this one begin.
3. By the last of them the batch is judged, and its rows are written, and the new mark.
4. It commits, unless another producer of the seat has come meanwhile: then the brokers refuse.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from pares.core.errors import ConfigError, Stale
from pares.fence.base import Held, check_held
from pares.fence.kafka import KafkaFence, Transaction
from pares.ledger.address import Options
from pares.ledger.kafka.settings import take
from pares.ledger.registry import parse, scheme_of
from pares.spark.sinks.base import Incomplete, Seat, Staged, collected
from pares.spark.sinks.extents import Extent, Published, follows
from pares.spark.sinks.kafka_marks import Mark, Marks, key

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message
    from pyspark.sql import DataFrame

TIMEOUT: Final = 60.0
_COLUMNS: Final = ("key", "value", "headers", "partition")
_PACKED: Final = "part string, rows bigint, body binary"
_MORE: Final = 5.0
"""Seconds beyond its timeout until the brokers have ended a transaction."""


class KafkaSink:
    """Publishes batches as transactions to a topic of Kafka, behind a fence. See `pares.spark.sinks.base.Sink` for what is
    promised; here it is promised to consumers with `isolation.level=read_committed`, and to no others.

        sink = KafkaSink("kafka://localhost:9092/prices")
        g.start(lambda: quotes.selectExpr("symbol AS key", "to_json(struct(*)) AS value").writeStream.option(...), sink)

    `url`: brokers, and a topic that is there already. The query's columns are `value`, and if you like `key` (both text or
    binary), `headers` (an array of structures of `key` text and `value` binary) and `partition` (an integer); without that the
    client goes by the key (as librdkafka does; `options={"partitioner": "murmur2_random"}`: as Java's clients do). Records of
    one partition of the query keep their order. `group` keeps groups that write to one topic apart. `transaction_timeout`:
    seconds that publishing a batch may take before the brokers abort it; also how long the last transaction of a driver that
    died holds read_committed consumers back if nobody succeeds it. `options` are those of a `kafka://` ledger: `timeout`,
    `replication`, `config`, `options`.

    Beside the topic the sink keeps `TOPIC.pares-fence` (tokens) and `TOPIC.pares-batches` (what was published last), compacted,
    and makes them if they are missing. Its producers have ids that begin with `pares.fence/TOPIC`. A batch is held in the
    driver's memory, compressed. Threads may share a sink; roles and seats that publish to one topic take turns.

    Not promised: that the driver of the right term is never disturbed; one that was frozen right before it began to write may
    abort a transaction when it wakes up, and the query then ends with `LedgerUnavailable`; started again, it goes on without a
    loss. That rows outlast the loss of acknowledged records, or of the topics beside. Anything in a consumer's own
    transactions.

    Raises `CapabilityError` without confluent-kafka; `ConfigError` for a URL that is no Kafka's, a topic that is missing, and
    columns that are none of these; `LedgerUnavailable`, where with `unknown` the batch may have been published: the next `last`
    tells. Close it at the end.
    """

    def __init__(
        self, url: str, *, group: str | None = None, transaction_timeout: float = TIMEOUT, **options: object
    ) -> None:
        address = parse(url)
        if not scheme_of(url).kafka_client:
            raise ConfigError(f"{url} is no Kafka: a KafkaSink needs kafka://HOST:PORT[,HOST:PORT...]/TOPIC")
        given = {**address.query, **options}
        settings = take(address, Options(url, given))
        self.topic: Final = settings.topic
        self.group: Final = group
        self._staged: dict[tuple[str, int], dict[str, bytes]] = {}
        self._lock = threading.Lock()
        self._marks = Marks(settings, f"{self.topic}.pares-batches", transaction_timeout + _MORE)
        try:
            self._marks.connect(self.topic)
            # A role's queries may write to several topics at once: the producers of each are apart.
            apart = self.topic if group is None else f"{self.topic}/{group}"
            fence = f"kafka://{settings.servers}/{self.topic}.pares-fence"
            self._fence = KafkaFence(fence, apart, transaction_timeout=transaction_timeout, **given)
        except BaseException:
            self._marks.close()
            raise

    # What a sink does ------------------------------------------------------------------------------------------------

    def open(self, held: Seat) -> None:
        self._fence.check(held)
        with self._lock:
            self._staged.pop((held.role, held.seat), None)

    def last(self, held: Seat) -> Published | None:
        return self._marks.last(self.group, held)

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        _check_columns(df.columns)
        found = collected(df, _pack, _PACKED)
        parts = {str(row["part"]): bytes(row["body"]) for row in found}
        with self._lock:
            self._staged[held.role, held.seat] = parts  # what an earlier attempt has staged is not asked for any more
        return Staged(held, extent, tuple(df.columns), tuple(parts), sum(row["rows"] for row in found))

    def publish(self, staged: Staged) -> bool:
        held = staged.held
        with self._lock:
            bodies = self._staged.get((held.role, held.seat), {})
        with self._fence.transaction(held) as out:
            last = self._marks.last(self.group, held, self._begin(out, held))
            if last is not None and last.token > held.token:
                # Before it is asked where the batch begins: it begins too early by now.
                raise Stale(held.token, last.token)
            new = follows(staged.extent, last)
            if new:
                rows = sum(_write(out, self.topic, bodies[part]) for part in staged.parts if part in bodies)
                if rows != staged.rows:
                    raise Incomplete(rows, staged)
                number = 0 if last is None else last.number + 1
                last = Published(number, held.token, staged.extent, rows, time.time_ns() // 1_000_000)
            self._mark(out, Mark(self.group, *held, last))
        with self._lock:
            if self._staged.get((held.role, held.seat)) is bodies:
                del self._staged[held.role, held.seat]
        return new

    def forget(self, held: Held) -> None:
        role, seat, token = check_held(held)
        with self._fence.transaction(held) as out:
            self._mark(out, Mark(self.group, role, seat, token, None))

    # Beside it -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the producers, once the transactions that are open in other threads have ended."""
        self._fence.close()
        self._marks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, out: Transaction, held: Seat) -> int:
        """The offset of this transaction's first mark. [where a topic ends says only a leader that may be deposed and not know;
        where a record stands that was acknowledged is certain]"""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        mark = Mark(self.group, *held, None, begun=True)
        out.produce(
            self._marks.topic, msgspec.json.encode(mark), key(self.group, held), partition=0, on_delivery=delivered
        )
        out.flush()
        return offsets[0]

    def _mark(self, out: Transaction, mark: Mark) -> None:
        seat = Seat(mark.role, mark.seat, mark.token)
        out.produce(self._marks.topic, msgspec.json.encode(mark), key(self.group, seat), partition=0)


def _check_columns(columns: list[str]) -> None:
    strange = [name for name in columns if name not in _COLUMNS]
    if strange or "value" not in columns or len(set(columns)) < len(columns):
        raise ConfigError(
            f"the query has the columns {', '.join(columns)}: a KafkaSink takes {', '.join(_COLUMNS)}, each once, and needs "
            "value; make one of the others, by to_json(struct(*)) AS value, say"
        )


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In an executor: the rows as compressed Arrow, a piece for each batch."""
    import secrets

    import pyarrow as pa

    for batch in batches:
        if not batch.num_rows:
            continue
        _check_types(batch.schema)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
        piece = {
            "part": pa.array([secrets.token_hex(16)]),
            "rows": pa.array([batch.num_rows], pa.int64()),
            "body": pa.array([out.getvalue().to_pybytes()], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(piece)


def _check_types(schema: pa.Schema) -> None:
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_null)
    for field in schema:
        if field.name in ("key", "value"):
            fits, wanted = any(kind(field.type) for kind in texts), "text or binary"
        elif field.name == "partition":
            fits, wanted = types.is_integer(field.type), "an integer"
        else:
            inner = field.type.value_type if types.is_list(field.type) else None
            names = [one.name for one in inner] if inner is not None and types.is_struct(inner) else []
            fits, wanted = names == ["key", "value"], "an array of structures of key and value"
        if not fits:
            raise ConfigError(
                f"column {field.name} is {field.type}, and a KafkaSink takes {wanted}: cast it in the query"
            )


def _write(out: Transaction, topic: str, body: bytes) -> int:
    import pyarrow as pa

    rows = 0
    with pa.ipc.open_stream(body) as reader:
        for batch in reader:
            for row in batch.to_pylist():
                _produce(out, topic, row)
            rows += batch.num_rows
    return rows


def _produce(out: Transaction, topic: str, row: dict[str, Any]) -> None:
    partition, headers = row.get("partition"), row.get("headers")
    named = None if headers is None else [(header["key"], header["value"]) for header in headers]
    at = -1 if partition is None else partition
    out.produce(topic, row["value"], row.get("key"), partition=at, headers=named)
