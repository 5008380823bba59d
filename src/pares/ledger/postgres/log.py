"""PostgreSQL as a ledger: `postgresql://USER@HOST:PORT/DATABASE?table=pares`. Two tables are all logs of a ledger.

What it promises is `Log`'s, and how:

- one total order, without holes: a partition's next offset stands in a row, which an append locks, raises and commits together
  with its entries (see `postgres.statements`);
- acknowledged records stay: `synchronous_commit` is on for every append, whatever the user's default is. Where the server fails
  over to a standby, they stay if `synchronous_standby_names` names it; else what was lost is noticed by everybody who had read
  it (see `postgres.anchors`, R12), and `pares doctor` says so beforehand;
- all or nothing: `append_many` is one transaction;
- **an append whose outcome is unknown** (`LedgerUnavailable` with `unknown=True`) may still happen: see `postgres.append`;
- a log that is gone (a server that comes back without its data, tables that were dropped) is made anew when a member looks
  which log it is, and is another one; an append never makes one;
- no client holds others up, frozen or not: a transaction of a ledger is one message, which the server carries out by itself.
  What locks the rows otherwise (somebody's `psql`) is waited for, at most for six tenths of `timeout`; then nothing was
  appended;
- a reader is told of appends: the server notifies (see `postgres.tail`). An empty answer of `read` is at most 0.6 s old, and
  only if a notice was lost: it never misses what this ledger has appended, or what an `end` of it has told of.

Each ledger needs two connections; `max_connections` is 100 in a stock server.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.address import Address, Options
from pares.ledger.base import Entry, Log, check_name, check_partitions, grown_partitions
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.postgres.anchors import Anchors
from pares.ledger.postgres.append import append
from pares.ledger.postgres.checks import checks
from pares.ledger.postgres.link import Link
from pares.ledger.postgres.schema import Schema
from pares.ledger.postgres.settings import Settings, log, stored, take
from pares.ledger.postgres.statements import MAX_ROWS, Statements
from pares.ledger.postgres.tail import Tails
from pares.ledger.postgres.wire import Row, Wire, number
from pares.ledger.service_log import Gone, Known, TailedLog
from pares.ledger.window import Window

_EPOCH: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from where the server counts."""
_SLICE: Final = 5_000
"""Entries that one statement of a trim deletes."""
_LARGE: Final = 4.0
"""Seconds that reading the most that a read may return may take, beyond any other request."""

Key = tuple[str, int]


class _Shared:
    """What a ledger and its topics have in common: the connections, and what is done over them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lifetime = Lifetime(settings.url)
        self.statements = Statements(settings)
        self.link = Link(settings, self.statements, self.lifetime)
        self.schema = Schema(settings, self.link)
        self.anchors = Anchors(self.statements)
        self.tails = Tails(settings, self.link, self.statements, self)
        self.known = Known()
        keep_after_fork(self)

    # What every answer tells ----------------------------------------------------------------------------------------

    def heed(self, wire: Wire, rows: list[Row], deadline: float) -> None:
        """Which server has answered: raises `LedgerUnavailable` if it is one that lost what was read, or another process of it
        than the connection's own."""
        if rows and not wire.shared and number(rows[0][1]) != wire.pid:
            raise self.link.lent()
        self.lost(self.anchors.heed(wire, rows, deadline))

    def lost(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self.replaced(topic)
            self.tails.forget(topic)
        if topics:
            raise LedgerUnavailable(
                f"{self.settings.where}: the server lacks entries that were read here: it was restored from an older copy, or "
                "a standby was promoted that had not received them; it is another log from now on"
            )

    def _ask(self, sql: str, values: Sequence[object], doing: str, name: str = "") -> list[Row]:
        with self.link.wire(doing) as (wire, deadline):
            rows = wire.query(sql, values, deadline, name)
            self.heed(wire, rows, deadline)
            return rows

    # Service ---------------------------------------------------------------------------------------------------------

    def look(self, topic: str) -> tuple[str, int]:
        asked = time.monotonic()
        rows = self._ask(self.statements.look, [stored(topic)], "look at the log", "pares_look")
        if not rows:
            raise self._gone(topic)
        identity, partitions = self.anchors.identity(topic, (rows[0][2] or b"").decode()), number(rows[0][3])
        self.known.put(topic, identity, partitions, asked)
        return identity, partitions

    def replaced(self, topic: str) -> None:
        self.known.doubt(topic)

    def refresh(self, topic: str) -> None:
        """Nothing is kept of a log that could be old but is not noticed."""

    def ends(self, topic: str, partition: int, least: int = 0) -> tuple[int, int]:
        """By the primary, now: there is one server that decides, so `least` needs no thought."""
        asked = time.monotonic()
        values = [stored(topic), partition]
        rows = self._ask(self.statements.bounds, values, "ask for the log's bounds", "pares_ends")
        if not rows:
            raise self._gone(topic)
        (row,) = rows
        known = self.known.get(topic)
        if partition == 0 and known is not None:
            self.known.put(topic, self.anchors.identity(topic, (row[2] or b"").decode()), known[1], asked)
        return number(row[3]), number(row[4])

    def fetch(self, topic: str, partition: int, offset: int, end: int, max_records: int) -> list[Entry]:
        doing = f"read at offset {offset}"
        with self.link.wire(doing, self.settings.timeout + _LARGE) as (wire, deadline):
            found = self.read(wire, (topic, partition), offset, max_records, deadline)
        if found is None:
            raise self._gone(topic)
        return found[3]

    def read(
        self, wire: Wire, key: Key, offset: int, most: int, deadline: float
    ) -> tuple[str, int, int, list[Entry]] | None:
        topic, partition = key
        values = [stored(topic), partition, offset, min(most, MAX_ROWS)]
        rows = wire.query(self.statements.read, values, deadline, "pares_read")
        self.heed(wire, rows, deadline)
        if not rows:
            return None
        mark = (rows[0][2] or b"").decode()
        entries = [
            Entry(number(row[5]), (number(row[6]) + _EPOCH) // 1000, bytes(row[7] or b"")) for row in rows if row[5]
        ]
        if entries:
            self.anchors.saw(key, mark, entries[-1].offset, entries[-1].payload)
        return mark, number(rows[0][3]), number(rows[0][4]), entries

    def append(self, topic: str, payloads: Sequence[bytes], partition: int, urgent: bool) -> list[int]:
        """Tails hear of each, urgent or not: what they bring would else be as late as their next look. What is not urgent they
        bring without ringing for it."""
        done = append(self.link, self.statements, topic, partition, payloads, urgent=urgent)
        if done is None:
            raise self._gone(topic)
        self.anchors.saw((topic, partition), done.mark, done.offsets[-1], payloads[-1])
        return done.offsets

    def catch_up(self, window: Window) -> bool:
        """No window is lazy here: a notice tells of every append."""
        return False

    def stuck(self, window: Window) -> None:
        """The tail looks by itself twice a second."""

    def trim(self, topic: str, partition: int, before: int) -> None:
        first = self.ends(topic, partition)[0]
        key = [stored(topic), partition]
        # First out of everybody's sight, then off the disk, in short transactions: a long one would keep appends waiting.
        self.link.ask(self.statements.trim, [*key, before], "trim")
        low = 0
        while low < before:
            high = min(before, max(first, low + _SLICE))
            self.link.ask(self.statements.forget, [*key, low, high], "trim")
            low = high

    def window(self, topic: str, partition: int) -> Window:
        return self.tails.window(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        self.tails.follow(window, offset)

    def follows(self, topic: str) -> bool:
        return self.tails.follows(topic)

    # Making ----------------------------------------------------------------------------------------------------------

    def remake(self, topic: str, partitions: int) -> bool:
        made = self.schema.settle(1 if topic else partitions)
        return self.schema.add(topic, partitions) if topic else made

    def found(self, topic: str) -> None:
        """Raise `ConfigError` unless the log is there."""
        if not self.schema.there(topic):
            raise ConfigError(
                f"{self.settings.url}: there is no topic {topic!r}, and readonly makes nothing: start a member first"
            )

    def _gone(self, topic: str) -> LedgerUnavailable:
        self.known.forget(topic)
        self.anchors.forget(topic)
        what = f"the topic {topic!r}" if topic else "the log"
        return Gone(f"{self.settings.where}: {what} is gone; a member that looks for it makes it anew")

    def close(self) -> None:
        if self.lifetime.end():
            self.link.close(self.tails.close)


class PostgresLog(TailedLog):
    """One topic as a log."""

    kind = "postgresql"
    teller = log
    notes = True

    def __init__(self, shared: _Shared, topic: str, url: str) -> None:
        super().__init__(shared, topic, url)
        self._shared = shared

    def broker_time(self) -> bool:
        """Entries carry the server's time, read while the log's row is locked. Clients can't set it by an append."""
        return True


class PostgresLedger(PostgresLog):
    """A database of PostgreSQL 13 or newer, and in it the tables TABLE and TABLE_logs; made when they are missing.

    Options: `table` (`pares`, or with its schema), `partitions` (grows an existing log), `retention` (seconds, or "none"),
    `timeout` (seconds that a request may take before it is given up; 1), `readonly` (to look on only: it makes nothing, and
    needs no right to write), `config` (a properties file with client settings) and `options` (the same as a dictionary):
    `user`, `password`, `passfile`, `sslmode`, `sslrootcert` and others of libpq's. What none of these says libpq looks for
    itself: in PGPASSWORD, in ~/.pgpass.

    Several servers may be named, with commas: the one that is the primary is used, and looked for again when it is lost.
    Opening waits longer for an answer, 5 seconds, unless `timeout` is given: then so long.
    """

    def __init__(self, address: Address, options: Options) -> None:
        settings = take(address, options)
        shared = _Shared(settings)
        super().__init__(shared, "", settings.url)
        try:
            if settings.readonly:
                shared.schema.found()
                shared.found("")
                shared.look("")
                return
            shared.schema.settle(settings.partitions or 1)
            there = shared.look("")[1]
            if (wanted := grown_partitions(self.url, there, settings.partitions)) > there:
                shared.schema.grow(wanted)
                shared.look("")
        except BaseException:
            self.close()
            raise

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there: asking makes none."""
        self._open()
        check_name(name, "a topic's name")
        return self._shared.schema.there(name)

    def topic(self, name: str, partitions: int = 4) -> Log:
        self._open()
        check_name(name, "a topic's name")
        check_partitions(partitions, f"topic {name!r}")
        if self._shared.settings.readonly:
            self._shared.found(name)
        elif not self._shared.schema.there(name):
            self._shared.schema.add(name, partitions)
        self._shared.look(name)
        return PostgresLog(self._shared, name, f"{self.url}#{quote(name, safe='')}")

    @property
    def ddl(self) -> str:
        """The statements that make the tables, for migrations. The first to open the ledger adds the rows of its log."""
        return self._shared.schema.ddl

    def checks(self) -> list[tuple[str, str]]:
        """What `pares doctor` is to say of the server and the tables: (good, note, warning or problem, and the text)."""
        self._open()
        return [*checks(self._shared.link, self._shared.schema, self._shared.settings)]

    def close(self) -> None:
        super().close()
        self._shared.close()
