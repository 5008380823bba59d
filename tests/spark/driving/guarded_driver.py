"""A guarded driver, for tests with real processes; it stands still where it is told.

    python guarded_driver.py LEDGER FOLDER SINK NAME BATCH

It reads the text files of FOLDER/source, one a batch, with the checkpoint FOLDER/checkpoint, and publishes the lines to the
table `lines` of SINK: a file of SQLite, or the URL of a PostgreSQL. When it has staged batch number BATCH, and is about to
publish it, it waits for a line on its standard input, once. [stopping itself by a signal: the thread that sends it may go on
for a while, into the transaction] A line on its standard output for each thing that happens.
"""

from __future__ import annotations

import sys
from typing import Any

import pares
from pares.core.errors import Stale
from pares.spark.driving.guard import guard
from pares.spark.session import session
from pares.spark.sinks.base import Staged
from pares.spark.sinks.extents import StreamExtent
from pares.spark.sinks.postgres import PostgresSink
from pares.spark.sinks.sqlite import SqliteSink


def say(*words: object) -> None:
    print(*words, flush=True)


class Freezes:
    """What is put before a sink."""

    freeze_at: int

    def publish(self, staged: Staged) -> bool:
        extent, token = staged.extent, staged.held.token
        assert isinstance(extent, StreamExtent)
        if extent.batch == self.freeze_at:
            self.freeze_at = -1
            say("staged", extent.batch, token)
            sys.stdin.readline()
        above: Any = super()
        try:
            published = above.publish(staged)
        except Stale as stale:
            say("refused", stale.token, stale.seen)
            raise
        say("published", extent.batch, token)
        return published


class FreezingSqlite(Freezes, SqliteSink):
    pass


class FreezingPostgres(Freezes, PostgresSink):
    pass


def main() -> None:
    url, folder, place, name, batch = sys.argv[1:]
    spark = session("guarded", master="local[2]")
    sink = FreezingPostgres(place, "lines") if place.startswith("postgresql") else FreezingSqlite(place, "lines")
    sink.freeze_at = int(batch)

    def make() -> Any:
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(f"{folder}/source")
        writer = lines.selectExpr("value AS line").writeStream
        return writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)

    with pares.Member(url, group="g", roles=["r"], name=name, session=2.0) as me, guard(me, "r", grace=None) as guarded:
        guarded.start(make, sink)
    say("ended")


main()
