"""The sink of the demo: a table of quotes, and beside it what was refused and what was done to whom.

An instrument has a tick every `TICK_MS`, counted from the start of the demo by the wall clock, so the number of a tick does
not depend on who publishes it. That makes both kinds of damage visible in the table itself: a tick that nobody published is
a gap, a tick that is there twice is a duplicate. (A counter that each leader carried on from the last row would close over
every gap.)

Exclusive mode writes behind the fence: check and insert are one transaction, so a leader that was frozen between its look
at the term and its write can't land a quote after its successor has. Non-exclusive mode writes without one: there, two
leaders for a moment are what was asked for.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pares.core.errors import Stale
from pares.fence.sql import SqlFence

if TYPE_CHECKING:
    from pares.runtime.term import Term

TICK_MS: Final = 100
STEP: Final = 0.0004
"""The standard deviation of one step of the random walk, as a part of the price."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS quotes (
    id INTEGER PRIMARY KEY, role TEXT NOT NULL, token INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    key TEXT NOT NULL, seq INTEGER NOT NULL, price REAL NOT NULL, member TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS quotes_key ON quotes (key, seq);
CREATE TABLE IF NOT EXISTS refused (
    role TEXT NOT NULL, token INTEGER NOT NULL, seen INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    key TEXT NOT NULL, seq INTEGER NOT NULL, member TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS faults (at_ms INTEGER NOT NULL, member TEXT NOT NULL, fault TEXT NOT NULL);
"""


class Last(NamedTuple):
    """The newest quote of an instrument."""

    price: float
    before: float | None
    at_ms: int
    seq: int
    member: str


class Count(NamedTuple):
    """What the table says about gaps and duplicates, counted without Spark."""

    quotes: int
    duplicates: int
    missing: int
    longest_gap_ms: int
    refused: int
    stale: int
    """Rows that landed behind a row of a higher token of their role: none, where a fence stands."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Quotes:
    """One process' connection to the table. Not for several threads at once: callers hold a lock of their own."""

    def __init__(self, path: Path, *, fenced: bool, seed: int = 0) -> None:
        self.connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.executescript(SCHEMA)
        self._seed = seed
        self._fence = SqlFence() if fenced else None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def begin(self, term: Term) -> int:
        """The newest tick of the term's instrument, -1 if there is none; from here on the fence knows the term.

        One transaction for both: whatever a predecessor still wants to write is either in that answer or refused.
        """
        with self.transaction():
            if self._fence is not None:
                self._fence.check(self.connection, term)
            return self.connection.execute(
                "SELECT coalesce(max(seq), -1) FROM quotes WHERE key = ?", (term.role,)
            ).fetchone()[0]

    def publish(self, term: Term, seq: int, member: str) -> None:
        """Writes tick `seq` of the term's instrument. Raises `Stale`, having written nothing, if the term is over there."""
        key = term.role
        with self.transaction():
            if self._fence is not None:
                self._fence.check(self.connection, term)
            row = self.connection.execute(
                "SELECT price FROM quotes WHERE key = ? ORDER BY seq DESC LIMIT 1", (key,)
            ).fetchone()
            price = self._walk(key, seq, None if row is None else row[0])
            self.connection.execute(
                "INSERT INTO quotes (role, token, at_ms, key, seq, price, member) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (term.role, term.token, now_ms(), key, seq, price, member),
            )

    def refuse(self, role: str, seq: int, member: str, stale: Stale) -> None:
        """Notes that the fence has refused a write."""
        with self.transaction():
            self.connection.execute(
                "INSERT INTO refused (role, token, seen, at_ms, key, seq, member) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (role, stale.token, stale.seen, now_ms(), role, seq, member),
            )

    def fault(self, member: str, fault: str) -> None:
        """Notes what was done to a member, for the audit's pictures."""
        with self.transaction():
            self.connection.execute("INSERT INTO faults VALUES (?, ?, ?)", (now_ms(), member, fault))

    def _walk(self, key: str, seq: int, last: float | None) -> float:
        dice = random.Random(f"{self._seed}/{key}/{seq}")
        if last is None:
            return round(dice.uniform(20, 400), 2)
        return max(0.01, round(last * (1 + dice.gauss(0, STEP)), 3))

    # What the screen and the summary read ----------------------------------------------------------------------------

    def last(self) -> dict[str, Last]:
        """The newest quote of each instrument, with the price before it."""
        rows = self.connection.execute(
            "SELECT key, price, at_ms, seq, member, nth FROM ("
            " SELECT *, row_number() OVER (PARTITION BY key ORDER BY id DESC) AS nth FROM quotes"
            " WHERE at_ms > ?) WHERE nth <= 2 ORDER BY key, nth",
            (now_ms() - 60_000,),
        ).fetchall()
        before = {row[0]: row[1] for row in rows if row[5] == 2}
        return {row[0]: Last(row[1], before.get(row[0]), row[2], row[3], row[4]) for row in rows if row[5] == 1}

    def refusals(self) -> list[tuple[str, str, int, int, int]]:
        """(role, member, token, seen, at_ms) of every write that the fence has refused."""
        return self.connection.execute("SELECT role, member, token, seen, at_ms FROM refused ORDER BY rowid").fetchall()

    def count(self) -> Count:
        """Gaps and duplicates, per instrument between its first and its last tick."""
        one = self.connection.execute
        quotes, ticks = one("SELECT count(*), count(DISTINCT key || '/' || seq) FROM quotes").fetchone()
        expected = one("SELECT coalesce(sum(n), 0) FROM (SELECT max(seq) - min(seq) + 1 AS n FROM quotes GROUP BY key)")
        longest = one(
            "SELECT coalesce(max(gap), 0) FROM (SELECT at_ms - lag(at_ms) OVER (PARTITION BY key ORDER BY at_ms) AS gap"
            " FROM quotes)"
        ).fetchone()[0]
        stale = one(
            "SELECT count(*) FROM (SELECT token, max(token) OVER (PARTITION BY role ORDER BY id"
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM quotes) WHERE token < seen"
        ).fetchone()[0]
        refused = one("SELECT count(*) FROM refused").fetchone()[0]
        return Count(quotes, quotes - ticks, expected.fetchone()[0] - ticks, longest, refused, stale)

    def writable(self) -> bool:
        """Whether a write transaction can begin now, within a moment: False while somebody stands still inside one."""
        self.connection.execute("PRAGMA busy_timeout = 60")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            self.connection.execute("PRAGMA busy_timeout = 30000")
        return True

    def close(self) -> None:
        self.connection.close()
