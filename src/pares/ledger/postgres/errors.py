"""What PostgreSQL's errors mean for a ledger: whether an append happened, and what to do.

An append is one message that holds a whole transaction. The server acts on a message only when all of it has come, so one that
was not sent to its end never happens. An `ERROR` of the server before the commit is answered means that the transaction was
rolled back. Everything else is of unknown outcome: a connection that ends, an answer that does not come in time, and a `FATAL`,
with which a server process may end after it has committed.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import LedgerUnavailable

GONE: Final = ("42P01", "3F000")
"""No such table, no such schema."""
NO_RIGHT: Final = "42501"
NOT_PREPARED: Final = "26000"
"""A statement that was prepared is not there: the server behind the connection is another one."""
_HELD: Final = ("55P03", "57014")
_ADVICE: Final = {
    NO_RIGHT: "the user lacks a right; docs/security.md has the GRANTs that a member needs",
    "25006": "the server takes no writes: it is a read replica, or default_transaction_read_only is on; name the primary",
    "23505": "there is an entry already at the log's end, which the row of its log does not know of: somebody has altered or "
    "restored a part of the tables; use another table",
    "53100": "the server's disk is full; it goes on once there is room",
    "53200": "the server is out of memory",
    "53300": "the server has no connection left: a member needs two; raise max_connections",
    "57P01": "the server is being shut down",
    "57P02": "a process of the server has crashed",
    "57P03": "the server is starting up, or shutting down",
    "57P05": "idle_session_timeout has ended the connection; set it to 0 for this user",
}


class Refused(Exception):
    """The server's answer is an error. `certain`: what was asked for did not happen, and never will."""

    def __init__(self, state: str, severity: str, text: str) -> None:
        super().__init__(text)
        self.state = state
        self.text = text
        self.certain = severity == "ERROR"


class Broken(Exception):
    """The connection ended, or no answer came in time. `sent`: the server may have all of what was asked last."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent


def advice(error: Refused, seconds: float) -> str:
    """What happened, and what to do about it."""
    if error.state in _HELD:
        return (
            f"somebody has kept the log's row locked for over {seconds:g} s: look in pg_stat_activity for a transaction that "
            f"stands still ({error.state}: {error.text})"
        )
    known = _ADVICE.get(error.state)
    return f"{known} ({error.state}: {error.text})" if known else f"the server refused ({error.state}: {error.text})"


def unavailable(where: str, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(f"{where}: could not {doing}{outcome}: {why}", unknown=unknown)
