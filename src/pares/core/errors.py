"""What can go wrong, named by whose matter it is.

Each message says what happened, which value it happened with, and what to do about it.
"""


class ParesError(Exception):
    """The root of everything that pares raises on purpose."""


class ConfigError(ParesError, ValueError):
    """A value given to pares can't work: a name, a URL, a number out of its range."""


class CapabilityError(ParesError):
    """The ledger, file system or platform lacks what was asked of it; the message says what would work."""


class LedgerUnavailable(ParesError):
    """The ledger did not do what it was asked to.

    `unknown` is True when an append may have happened all the same, now or at any later time; False when it certainly
    did not and never will.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class LedgerGap(ParesError):
    """The log no longer has the record that was asked for: it starts later (retention, or a trim)."""


class LedgerRewound(ParesError):
    """The log ends before a position that was once in it: it is another log, or it lost its tail."""


class LeadershipLost(ParesError):
    """The term is over: stop what was done in its name."""


class DuplicateName(ParesError):
    """Two live processes of one group use one name; give each a name of its own."""


class ClosedError(ParesError):
    """The member, observer or ledger was closed, so it can't be used any more."""


class ForkedError(ParesError):
    """A member made before a fork is used in the child, where it is dead; make a new one after the fork."""


class Stale(ParesError):
    """A fence refused a write: a higher token has been seen for that seat, so the writer no longer leads."""

    def __init__(self, token: int, seen: int, message: str | None = None) -> None:
        super().__init__(
            message
            or f"stale token {token}: the fence has already seen {seen} for this seat; "
            "another member leads now, so drop the work of this term"
        )
        self.token = token
        self.seen = seen
