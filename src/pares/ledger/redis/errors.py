"""What Redis' errors mean for a ledger: did it happen, and what can anybody do.

A script runs on the server by itself, from its first line to its last, and the server begins with it only when all of the
request has come. The scripts write nothing before all that can fail has been tried (see `redis.scripts`), so an error of the
server means that nothing happened. A connection that ends, and an answer that does not come in time, are of unknown outcome.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import LedgerUnavailable

FOREIGN: Final = "WRONGTYPE"
NO_SCRIPT: Final = "NOSCRIPT"
NO_RIGHT: Final = "NOPERM"
ELSEWHERE: Final = ("READONLY", "MASTERDOWN", "LOADING", "MOVED", "CLUSTERDOWN", "MASTER", "UNBLOCKED")
"""Another server may do it: it is looked for anew."""
_ADVICE: Final = {
    NO_RIGHT: "the user lacks a right; docs/security.md has the ACL that a member needs",
    "NOAUTH": "the server wants a password: put it into REDISCLI_AUTH, or give options={'password': ...} or config=FILE",
    "WRONGPASS": "the server refuses this user and password",
    "OOM": "the server is at its maxmemory: raise that, or free memory; it goes on once there is room",
    "MISCONF": "the server can't save to its disk, and takes no writes until it can: look at its disk and its log",
    "NOREPLICAS": "too few replicas follow the server (min-replicas-to-write): bring them back",
    "READONLY": "the server takes no writes: it is a replica by now",
    "LOADING": "the server is still loading its data",
    "BUSY": "the server has been busy with somebody's script for too long: SCRIPT KILL ends it",
    FOREIGN: "a key under the ledger's name is none of a pares ledger; it was left as it is: name another ?stream=",
}
_ADDED: Final = "equal or smaller than the target stream top item"


class Refused(Exception):
    """The server's answer is an error: what was asked for did not happen, and never will."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Broken(Exception):
    """The connection ended, or no answer came in time. `sent`: the server may have all of what was asked last."""

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent


def advice(error: Refused) -> str:
    """What happened, and what to do about it."""
    if _ADDED in error.text:
        return (
            "somebody else has added entries to the stream, at places that pares has not come to yet: delete them (XDEL, then "
            f"XSETID), or name another ?stream= ({error.text})"
        )
    known = _ADVICE.get(error.code)
    return f"{known} ({error.text})" if known else f"the server refused ({error.text})"


def unavailable(where: str, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(f"{where}: could not {doing}{outcome}: {why}", unknown=unknown)
