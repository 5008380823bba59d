"""`PostgresSink` on a real server: types, privileges, and what a frozen transaction holds up. No Spark here, but in
the last test."""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import drivers
import psycopg
import pyarrow as pa
import pytest
from rounds import play
from sink_tools import ROLE, Query, Rows, frame

from pares.core.errors import Stale
from pares.fence import SqlFence
from pares.spark.sinks.base import Incomplete, Seat, deliver
from pares.spark.sinks.extents import StreamExtent
from pares.spark.sinks.postgres import PostgresSink

if TYPE_CHECKING:
    from pares.dev import Postgres

FIRST = StreamExtent("q", 0, None, "4")


class Place:
    """A schema of one test's own."""

    def __init__(self, server: Postgres) -> None:
        schema = f"test_{uuid.uuid4().hex[:12]}"
        self.url = f"{server.url}?options=-csearch_path%3D{schema}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        self.ask("CREATE TABLE rows (serial bigserial PRIMARY KEY, id bigint NOT NULL)")

    def ask(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


class Seen(PostgresSink):
    def __init__(self, place: Place, **settings: Any) -> None:
        super().__init__(place.url, "rows", **settings)
        self.place = place

    def rows(self) -> list[int]:
        return [row[0] for row in self.place.ask("SELECT id FROM rows ORDER BY id")]

    def leftovers(self) -> int:
        return self.place.ask("SELECT count(*) FROM rows_staging")[0][0]


@pytest.fixture
def place(postgres: Postgres) -> Place:
    return Place(postgres)


def test_a_query_over_two_terms(place: Place) -> None:
    query, sink = Query(), Seen(place, group="g")
    assert query.run(sink, 1) == "done"
    query.borders.append((12, 16))
    assert query.run(sink, 2) == "done"
    query.check(sink)
    assert Query().run(sink, 1) == "stale"
    assert place.ask("SELECT count(*) FROM pares_fence_batches")[0][0] == 4


def test_a_frozen_transaction_is_ended_by_the_server_and_the_next_term_publishes(place: Place) -> None:
    sink = Seen(place, fence=SqlFence(stall=0.5))
    old, new = Seat(ROLE, 0, 1), Seat(ROLE, 0, 2)
    sink.open(old)
    staged = sink.stage(frame(range(4)), old, FIRST)
    with contextlib.closing(sink.connect()) as frozen:
        sink.fence.check(frozen, old)
        frozen.execute("INSERT INTO rows (id) VALUES (99)")  # and here it stands still
        sink.open(new)
        assert deliver(sink, frame(range(4)), new, FIRST)
        with pytest.raises(psycopg.Error):
            frozen.commit()
    with pytest.raises(Stale):
        sink.publish(staged)
    assert sink.rows() == [0, 1, 2, 3]
    assert sink.leftovers() == 0


def test_a_server_that_lost_what_was_staged_is_found_out(place: Place) -> None:
    sink, held = Seen(place), Seat(ROLE, 0, 1)
    sink.open(held)
    staged = sink.stage(frame(range(4)), held, FIRST)
    place.ask("TRUNCATE rows_staging")  # as a crash does to an unlogged table
    with pytest.raises(Incomplete):
        sink.publish(staged)
    assert sink.rows() == []


def test_values_of_all_kinds(place: Place) -> None:
    place.ask(
        "CREATE TABLE kinds (text text, number double precision, exact numeric(10, 2), at timestamptz, day date, raw bytea, "
        "yes boolean, many bigint[], more jsonb, named jsonb, nested jsonb, nothing text)"
    )
    moment = datetime(2026, 11, 23, 12, 0, 0, 123456, tzinfo=UTC)
    row: dict[str, Any] = {"text": "a\tb\\n\n", "number": 0.5, "exact": Decimal("1.25"), "at": moment}
    row |= {
        "day": date(2026, 11, 23),
        "raw": b"\x00\xff",
        "yes": True,
        "many": [1, 2],
        "more": {"a": "b"},
        "named": {"k": 1},
        "nested": [{"at": moment, "m": {"x": 2}}],
        "nothing": None,
    }
    inner = pa.struct([("at", pa.timestamp("us", "UTC")), ("m", pa.map_(pa.string(), pa.int64()))])
    found = pa.RecordBatch.from_pylist([row]).schema
    for name, kind in (("named", pa.map_(pa.string(), pa.int64())), ("nested", pa.list_(inner))):
        found = found.set(found.get_field_index(name), pa.field(name, kind))
    pairs = row | {"named": [("k", 1)], "nested": [{"at": moment, "m": [("x", 2)]}]}
    batch = pa.RecordBatch.from_pylist([pairs], schema=found)
    row["nested"] = [{"at": "2026-11-23 12:00:00.123456+00:00", "m": {"x": 2}}]
    sink, held = PostgresSink(place.url, "kinds"), Seat(ROLE, 0, 1)
    sink.open(held)
    given: Any = Rows([batch], batch.schema.names)
    assert deliver(sink, given, held, FIRST)
    assert place.ask(f"SELECT {', '.join(row)} FROM kinds") == [tuple(row.values())]


@pytest.mark.processes
def test_processes_that_are_killed_and_frozen_publish_each_row_once(postgres: Postgres) -> None:
    place = Place(postgres)
    place.ask("DROP TABLE rows")
    found = play(place.url, 2, 2, naive=False)
    assert (found.doubled, found.lost) == (0, 0)
    assert found.batches >= 4


@pytest.mark.spark
@pytest.mark.brokers
@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["guard", "work"])
def test_spark_drivers_that_are_killed_and_frozen_publish_each_row_once(what: str) -> None:
    """On servers of their own: a group's log on a Kafka, and a PostgreSQL."""
    found = drivers.run(what, "postgres", 1, 1)
    assert (found.doubled, found.lost) == (0, 0)
    assert found.rows > 2 * drivers.ROWS
