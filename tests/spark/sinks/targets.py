"""What real processes publish to in `rounds`: how it is made, its sink, a job that is not guarded, and what a reader finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from sink_tools import Rows

from pares.fence import SqlFence
from pares.spark.sinks.base import Seat, Sink, Staged
from pares.spark.sinks.delta import DeltaSink
from pares.spark.sinks.extents import Extent
from pares.spark.sinks.kafka import KafkaSink
from pares.spark.sinks.postgres import PostgresSink

STALL: Final = 1.0


class Target(Protocol):
    """Known in each process by the same `url`."""

    def __init__(self, url: str) -> None: ...

    def make(self) -> None:
        """Anew, and empty."""
        ...

    def sink(self) -> Sink: ...

    def insert(self, first: int, upto: int) -> None:
        """What a job without a guard does: the rows of a batch in one transaction."""
        ...

    def rows(self) -> list[int]: ...


class Table:
    """The table `rows` of a PostgreSQL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def make(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute("DROP TABLE IF EXISTS rows, rows_staging, pares_fence, pares_fence_batches")
            connection.execute("CREATE TABLE rows (id bigint NOT NULL)")

    def sink(self) -> Sink:
        return PostgresSink(self.url, "rows", fence=SqlFence(stall=STALL))

    def insert(self, first: int, upto: int) -> None:
        with (
            psycopg.connect(self.url) as connection,
            connection.cursor() as cursor,
            cursor.copy("COPY rows (id) FROM STDIN") as copy,
        ):
            for id in range(first, upto):
                copy.write_row((id,))

    def rows(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute("SELECT id FROM rows").fetchall()]


class Delta:
    """A Delta table in the folder `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def make(self) -> None:
        Path(self.url).mkdir()
        DeltaTable.create(self.url, pa.schema([pa.field("id", pa.int64(), nullable=False)]))

    def sink(self) -> Sink:
        return DeltaSink(self.url)

    def insert(self, first: int, upto: int) -> None:
        fields = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        write_deltalake(self.url, pa.table({"id": range(first, upto)}, schema=fields), mode="append")

    def rows(self) -> list[int]:
        found = DeltaTable(self.url).to_pyarrow_table()
        return found.column("id").to_pylist()


class Topic:
    """A topic of Kafka, by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        host, _, self.topic = url.removeprefix("kafka://").partition("/")
        self.client: dict[str, Any] = {"bootstrap.servers": host}

    def make(self) -> None:
        """It is new, and empty."""

    def sink(self) -> Sink:
        return ValueSink(self.url, timeout=5.0, transaction_timeout=5.0)

    def insert(self, first: int, upto: int) -> None:
        producer = Producer(self.client)
        for id in range(first, upto):
            producer.produce(self.topic, str(id).encode(), partition=0)
        producer.flush(60)

    def rows(self) -> list[int]:
        settings = {"group.id": "rounds", "enable.partition.eof": True, "isolation.level": "read_committed"}
        consumer, found = Consumer({**self.client, **settings}), list[int]()
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                found.append(int(message.value() or b""))
            assert message is not None
            return found
        finally:
            consumer.close()


class ValueSink(KafkaSink):
    """Publishes ids as values."""

    def stage(self, df: Any, held: Seat, extent: Extent) -> Staged:
        parts = [pa.RecordBatch.from_pydict({"value": [str(id) for id in part["id"].to_pylist()]}) for part in df.parts]
        rows: Any = Rows(parts, ["value"])
        return super().stage(rows, held, extent)


TARGETS: Final[dict[str, type[Target]]] = {"postgres": Table, "delta": Delta, "kafka": Topic}
