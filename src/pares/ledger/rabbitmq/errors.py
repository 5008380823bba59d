"""What RabbitMQ's codes mean for a ledger, and what anybody can do.

A server that answers with a code did not do what it was asked for. A publish that is not answered is of unknown
outcome.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import LedgerUnavailable

OK: Final = 1
NO_STREAM: Final = 2
THERE: Final = 5
NOT_AVAILABLE: Final = 6
BAD_LOGIN: Final = 8
NOT_FROM_HERE: Final = 11
NO_VHOST: Final = 12
NO_RIGHT: Final = 16
PRECONDITION: Final = 17
NO_PUBLISHER: Final = 18
NO_OFFSET: Final = 19

WORDS: Final = {
    NO_STREAM: "the stream is not there",
    NOT_AVAILABLE: "the stream is not available: its node or its leader is down, or it is being deleted",
    7: "the server does not take user and password (PLAIN is off): enable it",
    BAD_LOGIN: "the server refuses this user and password: check USER@ in the URL and the password in options= or config=",
    NOT_FROM_HERE: "the server lets this user in from its own host only (guest): use another user",
    NO_VHOST: "the user may not use this vhost, or there is none: check ?vhost=, or give the user permissions in it",
    14: "the frame is larger than the server takes: raise stream.frame_max",
    15: "the server had an internal error: look at its log",
    NO_RIGHT: "the user lacks a right; docs/security.md has the permissions that a member needs",
    PRECONDITION: "the server refuses the stream's settings, or its plugin for streams is too old",
    NO_PUBLISHER: "the stream is gone, or has another leader now",
}


class Refused(Exception):
    """The server's answer is a code: what was asked for did not happen."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(WORDS.get(code, f"the server refused (code {code})"))


class Lost(Exception):
    """The connection ended, or no answer came in time."""


def unavailable(where: str, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(f"{where}: could not {doing}{outcome}: {why}", unknown=unknown)
