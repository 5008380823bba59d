"""What the answers of a broker mean for a ledger: did it happen, and what can anybody do.

A broker that answers with an error did not do what it was asked for. No answer to an append leaves its outcome unknown.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import LedgerUnavailable

BAD_LOGIN: Final = "AuthenticationError"
NO_RIGHT: Final = "AuthorizationError"
NO_TOPIC: Final = "TopicNotFound"
TOO_BIG: Final = "MessageTooBig"
_LOGIN: Final = (
    "the broker refuses this login: look whether the token is right and has not expired (options= or config=)"
)
_RIGHT: Final = "the role lacks a right; docs/security.md has those that a member needs"
_WORDS: Final = {
    BAD_LOGIN: _LOGIN,
    "ErrorGettingAuthenticationData": "the client's credentials can't be read: look at options= or config=",
    NO_RIGHT: _RIGHT,
    NO_TOPIC: "the topic is not there",
    TOO_BIG: "the broker takes no messages of that size: raise its maxMessageSize to 5 MiB, as stock has it",
    "TopicTerminated": "the topic was terminated, so nobody can write to it any more: name another one",
    "NotAllowedError": "the broker does not allow it; perhaps the namespace requires encryption, which pares has not",
    "ProducerBusy": "the broker takes no more producers for this topic (maxProducersPerTopic)",
    "ConsumerBusy": f"the broker takes no more consumers for this topic, or the subscription {'pares'!r} is another's",
    "ProducerBlockedQuotaExceededError": "the backlog quota is exceeded: raise it, the log needs what is in its topic",
    "ProducerBlockedQuotaExceededException": "the backlog quota is exceeded: raise it, the log needs what is in its topic",
    "IncompatibleSchema": "the topic has a schema, so it is somebody else's: name another one",
    "UnsupportedVersionError": "the broker is too old",
}
"""By the client's name for an error. With any of these the broker has answered."""
_NOT_SENT: Final = ("ConnectError", "NotConnected", "ProducerNotInitialized", "ServiceUnitNotReady", "LookupError")


class Refused(Exception):
    """What was asked for did not happen, and never will."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Broken(Exception):
    """No answer. `sent`: the broker may have, or get, all of what was asked."""

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


_SILENT: Final = "the broker does not answer in time"
_NO_CONNECTION: Final = "no connection (ConnectError)"


def meaning(code: str, said: str = "", *, sent: bool = False) -> Refused | Broken:
    """What the client's error of this name says; `sent`: it may have sent something before."""
    if code in _WORDS:
        return Refused(code, _WORDS[code])
    if code in ("Timeout", "TimeOut"):
        return Broken(_SILENT, sent=sent)
    if code in _NOT_SENT:
        return Broken(f"no connection ({code})", sent=sent)
    if code == "AlreadyClosed":
        return Broken("the connection was closed", sent=sent)
    return Broken(f"the client failed ({said or code})", sent=sent)


def by_status(status: int, said: str) -> Refused | Broken:
    """What an answer of HTTP says that is none of success."""
    if status == 401 and not said:
        return Refused(BAD_LOGIN, _LOGIN)
    if status in (401, 403):  # a login that is good, and may not do this, gets a reason
        return Refused(NO_RIGHT, f"{_RIGHT} ({said})" if said else _RIGHT)
    if status == 404:
        return Refused(NO_TOPIC, said or _WORDS[NO_TOPIC])
    if 400 <= status < 500:
        return Refused(str(status), f"the broker refused ({said or status})")
    return Broken(f"the broker failed ({said or status})", sent=True)


def unavailable(where: str, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(f"{where}: could not {doing}{outcome}: {why}", unknown=unknown)


def raised(where: str, doing: str, error: Refused | Broken, *, unknown: bool = False) -> LedgerUnavailable:
    why = str(error)
    if why in (_SILENT, _NO_CONNECTION) and where.startswith("pulsar+ssl:"):
        # The client tries again, or gives up, and tells neither way what failed.
        why += "; look whether it speaks TLS at that port, and whether tls_trust_certs_file_path names who signed its "
        why += "certificate"
    return unavailable(where, doing, why, unknown=unknown)
