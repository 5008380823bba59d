"""The SQL: what is asked of the two tables, and the message that an append is.

**Order.** The row of a partition's log has the offset that the next append gets. An append raises it and inserts its entries in
one statement: the row's lock, which lasts until the commit, is what puts appends in order. So an offset can be read only when
all below it can (a sequence, which gives out numbers that others commit later, would let readers skip some), and one that was
rolled back is given out again, because nobody has seen it. The time is read inside the lock.

**No client is ever inside.** An append travels as one message of the simple protocol: its transaction begins, commits and ends
within the server, which acts on nothing less than the whole message. A client that is frozen at any moment, in the middle of
the message too, holds no lock.

**The bell** is rung by a second transaction of the same message. All transactions that notify queue up for one lock of the
whole server, which each keeps until it is on the disk: so this one has nothing to bring there, and what it can't do in time
is not done. Followers look for themselves as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pares.ledger.base import MAX_READ_BYTES
from pares.ledger.postgres.settings import Settings, stored

CHANNEL: Final = "pares_"
"""How the name of a log's channel begins; its id follows."""
_RUN: Final = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"
_SEEN: Final = f"{_RUN}, pg_backend_pid()::bigint"
"""Which run of which server answers, and which of its processes."""
APPEND: Final = "pares_append"
NOTIFY: Final = "pares_notify"
QUIET: Final = "quiet"
"""What a notice says of entries that are not urgent."""
MAX_ROWS: Final = 10_000


class Statements:
    """All that is asked about one ledger's tables. What a statement answers begins with what `_SEEN` says."""

    def __init__(self, settings: Settings) -> None:
        entries, logs = settings.entries, settings.logs
        self._hold = max(50, round(settings.timeout * 600))
        self.look: Final = (
            f"SELECT {_SEEN}, l.tableoid::bigint::text || '.' || l.id, "
            f"(SELECT count(*) FROM {logs} WHERE topic = $1::text) "
            f"FROM {logs} l WHERE l.topic = $1::text AND l.partition = 0"
        )
        """A log's mark and its partitions."""
        self.bounds: Final = (
            f"SELECT {_SEEN}, l.tableoid::bigint::text || '.' || l.id, l.first, l.next "
            f"FROM {logs} l WHERE l.topic = $1::text AND l.partition = $2::int"
        )
        self.all_bounds: Final = (
            f"SELECT {_SEEN}, l.tableoid::bigint::text || '.' || l.id, l.first, l.next, k.at::bigint "
            f"FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS k(topic, partition, at) "
            f"LEFT JOIN {logs} l ON l.topic = k.topic AND l.partition = k.partition"
        )
        self.read: Final = (
            f"SELECT {_SEEN}, l.tableoid::bigint::text || '.' || l.id, l.first, l.next, e.n, e.at, e.payload "
            f"FROM {logs} l LEFT JOIN LATERAL ("
            f"SELECT b.n, b.at, b.payload FROM ("
            f"SELECT a.n, a.at, a.payload, "
            f"sum(octet_length(a.payload)) OVER (ORDER BY a.n) - octet_length(a.payload) AS before "
            f"FROM (SELECT n, at, payload FROM {entries} WHERE log = l.log AND n >= $3::bigint ORDER BY n LIMIT $4::int) a"
            f") b WHERE b.before < {MAX_READ_BYTES}) e ON true "
            f"WHERE l.topic = $1::text AND l.partition = $2::int ORDER BY e.n"
        )
        """A log's bounds, and entries from a place on: both as they were at one moment."""
        self.append: Final = (
            f"WITH head AS (UPDATE {logs} SET next = next + cardinality($3::text[]) "
            f"WHERE topic = $1::text AND partition = $2::int "
            f"RETURNING log, next - cardinality($3::text[]) AS first, tableoid::bigint::text || '.' || id AS mark), "
            f"put AS (INSERT INTO {entries} (log, n, at, payload) "
            f"SELECT head.log, head.first + p.k - 1, clock_timestamp(), decode(p.x, 'hex') "
            f"FROM head, unnest($3::text[]) WITH ORDINALITY AS p(x, k)) "
            f"SELECT {_SEEN}, mark, first FROM head"
        )
        self.notify: Final = (
            f"SELECT pg_notify('{CHANNEL}' || id, $3::text) FROM {logs} WHERE topic = $1::text AND partition = $2::int"
        )
        self.trim: Final = (
            f"UPDATE {logs} SET first = $3::bigint "
            f"WHERE topic = $1::text AND partition = $2::int AND first < $3::bigint AND next >= $3::bigint"
        )
        self.forget: Final = (
            f"DELETE FROM {entries} WHERE n >= $3::bigint AND n < $4::bigint AND "
            f"log = (SELECT log FROM {logs} WHERE topic = $1::text AND partition = $2::int AND first >= $4::bigint)"
        )

    @property
    def hold(self) -> float:
        """Seconds that the server waits for a lock, or works on a statement, at most."""
        return self._hold / 1000

    def session(self, version: int) -> str:
        """What a connection of one's own is told once."""
        idle = "SET idle_session_timeout = 0; " if version >= 140_000 else ""
        return (
            f"SET synchronous_commit = on; SET lock_timeout = {self._hold}; SET statement_timeout = {self._hold}; "
            f"SET idle_in_transaction_session_timeout = {self._hold}; {idle}"
            "SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning"
        )

    def append_script(
        self, topic: str, partition: int, payloads: Sequence[bytes], *, urgent: bool, shared: bool
    ) -> str:
        """The message. `urgent`: whether followers wake their readers for it. `shared`: the connection is not one's own for
        longer than a transaction, so nothing that was set or prepared can be relied on."""
        key = f"'{stored(topic)}', {partition}"
        texts = "'{" + ",".join(f'"{payload.hex()}"' for payload in payloads) + "}'"
        limits = (
            f"SET LOCAL lock_timeout = {self._hold}; SET LOCAL statement_timeout = {self._hold}; " if shared else ""
        )
        safe = "SET LOCAL synchronous_commit = on; " if shared else ""
        put = f"EXECUTE {APPEND}({key}, {texts})"
        notice = "''" if urgent else f"'{QUIET}'"
        tell = f"EXECUTE {NOTIFY}({key}, {notice})"
        if shared:
            put = self.append.replace("$1::text", f"'{stored(topic)}'::text").replace("$2::int", f"{partition}::int")
            put = put.replace("$3::text[]", f"{texts}::text[]") if len(payloads) == 1 else self._given_once(put, texts)
            tell = self.notify.replace("$1::text", f"'{stored(topic)}'::text").replace("$2::int", f"{partition}::int")
            tell = tell.replace("$3::text", f"{notice}::text")
        text = f"BEGIN ISOLATION LEVEL READ COMMITTED; {limits}{safe}{put}; COMMIT"
        return f"{text}; BEGIN; {limits}SET LOCAL synchronous_commit = off; {tell}; COMMIT"

    def _given_once(self, put: str, texts: str) -> str:
        """The payloads as a part of the statement of their own: named three times, they would be sent three times."""
        put = put.replace("$3::text[]", "(SELECT texts FROM given)")
        return put.replace("WITH head AS (", f"WITH given AS (SELECT {texts}::text[] AS texts), head AS (", 1)


def array(values: Sequence[object]) -> str:
    """An array in SQL's text form."""
    return "{" + ",".join(f'"{value}"' for value in values) + "}"
