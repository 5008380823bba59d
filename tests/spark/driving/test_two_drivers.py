"""Two real drivers on one checkpoint: one is frozen in the middle of a batch, the other one killed there. Each row comes
once."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pares.spark.sinks.base import Seat
from pares.spark.sinks.extents import StreamExtent
from pares.spark.sinks.postgres import PostgresSink
from pares.spark.sinks.sqlite import SqliteSink
from standstill import stop_between_writes

PROGRAM = Path(__file__).with_name("guarded_driver.py")
PATIENCE = 120.0
BATCHES, LINES = 7, 5
pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]


class Driver:
    def __init__(self, group: Path, *arguments: str) -> None:
        self.group = group
        command = [sys.executable, str(PROGRAM), f"sqlite:///{group}", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def until(self, word: str) -> list[str]:
        """Waits until it says this, and returns the other words of that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.split()[:1] == [word]:
                return line.split()[1:]
        raise AssertionError(f"it ended without saying {word}")

    def frozen(self) -> int:
        """Freezes it when it has staged; the token by which it has."""
        token = int(self.until("staged")[1])
        stop_between_writes(self.process, self.group)  # its member beats in a thread of its own
        return token

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


def play(folder: Path, place: str, sink: SqliteSink | PostgresSink, look: Callable[[str], list[Any]]) -> None:
    source = folder / "source"
    source.mkdir()
    for batch in range(BATCHES):
        file = source / f"{batch}.txt"
        file.write_text("".join(f"{batch}-{line}\n" for line in range(LINES)))
        os.utime(file, (10**9 + batch, 10**9 + batch))  # the source reads them in this order
    group, arguments = folder / "group.db", (str(folder), place)
    with contextlib.ExitStack() as stack:
        first = Driver(group, *arguments, "first", "2")
        stack.callback(first.kill)
        old = first.frozen()
        second = Driver(group, *arguments, "second", "4")
        stack.callback(second.kill)
        new = second.frozen()
        assert new > old, "it has taken over, has done batches 2 and 3, and stands before it publishes batch 4"
        rows = [f"{batch}-{line}" for batch in range(4) for line in range(LINES)]
        assert sorted(look("SELECT line FROM lines")) == rows, "batch 4 is staged, and nobody sees it"

        first.thaw()
        assert list(map(int, first.until("refused"))) == [old, new]
        assert sorted(look("SELECT line FROM lines")) == rows

        assert look("SELECT count(*) FROM lines_staging") != [0], "what the second one has staged"
        second.kill()
        first.until("ended")
        assert first.process.wait(PATIENCE) == 0
    expected = [f"{batch}-{line}" for batch in range(BATCHES) for line in range(LINES)]
    assert sorted(look("SELECT line FROM lines")) == expected
    assert look("SELECT count(*) FROM lines_staging") == [0]
    published = sink.published(Seat("r", 0, 0))
    extents = [one.extent for one in published if isinstance(one.extent, StreamExtent)]
    assert [extent.batch for extent in extents] == list(range(BATCHES))
    assert [extent.start for extent in extents] == [None, *(extent.end for extent in extents[:-1])]
    tokens = [one.token for one in published]
    assert tokens[:4] == [old, old, new, new]
    assert len(set(tokens[4:])) == 1
    assert tokens[4] > new


def test_one_is_frozen_and_one_is_killed_between_staging_and_publishing(tmp_path: Path) -> None:
    place = tmp_path / "sink.db"

    def look(query: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(place)) as connection:
            return [row[0] for row in connection.execute(query)]

    with contextlib.closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE lines (line TEXT)")
    play(tmp_path, str(place), SqliteSink(place, "lines"), look)


@pytest.mark.brokers
def test_the_same_on_postgres(postgres: Any, tmp_path: Path) -> None:
    import psycopg

    def look(query: str) -> list[Any]:
        with psycopg.connect(postgres.url) as connection:
            return [row[0] for row in connection.execute(query.encode()).fetchall()]

    with psycopg.connect(postgres.url) as connection:
        connection.execute("DROP TABLE IF EXISTS lines, lines_staging, pares_fence, pares_fence_batches")
        connection.execute("CREATE TABLE lines (id bigserial PRIMARY KEY, line text NOT NULL)")
    play(tmp_path, postgres.url, PostgresSink(postgres.url, "lines"), look)
