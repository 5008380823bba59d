"""Appending: one message, sent once, and what its answer says.

**An append of unknown outcome** may still happen, as long as the server works off what it has been sent: that is at most the
time for which a statement may wait (see `Statements.hold`), unless the server itself is frozen, or the network holds the
message back. It is never sent again from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pares.core.errors import LedgerUnavailable
from pares.ledger.postgres.errors import Broken, Refused
from pares.ledger.postgres.link import Link
from pares.ledger.postgres.statements import APPEND, NOTIFY, Statements
from pares.ledger.postgres.wire import Row, Wire, rows

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_DOING = "append"


class Appended(NamedTuple):
    """What the server answered."""

    mark: str
    offsets: list[int]
    seen: Row
    """Which run of the server, and which of its processes."""


def append(
    link: Link, statements: Statements, topic: str, partition: int, payloads: Sequence[bytes], *, urgent: bool
) -> Appended | None:
    """Append all of them or none; None: there is no such log. `urgent`: followers wake their readers.

    Raises `LedgerUnavailable`, with `unknown` unless the server has said that it did not happen, or never got the whole
    message.
    """
    with link.wire(_DOING) as (wire, deadline):
        if not wire.shared:
            wire.prepare(APPEND, statements.append, deadline)
            wire.prepare(NOTIFY, statements.notify, deadline)
        text = statements.append_script(topic, partition, payloads, urgent=urgent, shared=wire.shared)
        try:
            wire.script(text, deadline)
        except Refused as error:
            if not _committed(wire):
                if error.certain:
                    raise
                raise _Unsure(link.refused(_DOING, error, unknown=True)) from None
            # It is in the log, whatever becomes of the connection; the bell was not rung, and followers look for themselves.
            answer = wire.done, wire.warnings
            try:
                if wire.connection.transaction_status:
                    wire.script("ROLLBACK", deadline)
            except (Broken, Refused):
                wire.abort()
            return _answer(link, *answer, len(payloads))
        except Broken as error:
            if not _committed(wire):
                if not error.sent:
                    raise
                raise _Unsure(link.unavailable(_DOING, error.why, unknown=True)) from None
            wire.abort()
        return _answer(link, wire.done, wire.warnings, len(payloads))


def _committed(wire: Wire) -> bool:
    """Whether the server has said that the append's transaction is committed."""
    return any(result.command_status == b"COMMIT" for result in wire.done)


def _answer(link: Link, done: list[PGresult], warnings: list[str], count: int) -> Appended | None:
    """The first rows that the message brought. A server that warns in the middle of a commit has given up waiting for its
    standbys: the entries are in its log, and a failover may lose them."""
    found = next((row for result in done for row in rows(result)), None)
    if found is None:
        return None
    if warnings:
        raise _Unsure(link.unavailable(_DOING, f"the server warns: {warnings[0]}", unknown=True))
    first = int(found[3] or b"")
    return Appended((found[2] or b"").decode(), list(range(first, first + count)), found)


class _Unsure(LedgerUnavailable):
    """Passes through `Link.wire`, which drops the connection."""

    def __init__(self, error: LedgerUnavailable) -> None:
        super().__init__(str(error), unknown=error.unknown)
