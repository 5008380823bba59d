"""What can go wrong, named by whose matter it is.

Each message says what happened, which value it happened with, and what to do about it.
"""


class ParesError(Exception):
    """The root of everything that pares raises on purpose: `except pares.ParesError` catches all of it."""


class ConfigError(ParesError, ValueError):
    """A value given to pares can't work: a name, a URL, a number out of its range. Trying again changes nothing."""


class CapabilityError(ParesError):
    """The ledger, file system or platform lacks what was asked of it; the message says what would work."""


class LedgerUnavailable(ParesError):
    """The ledger did not do what it was asked to, or not in time. Try again later.

    Members do so by themselves, and say meanwhile what the matter is (`health().unreachable`).

    `unknown` is True when an append may have happened all the same, now or at any later time; False when it certainly
    did not and never will.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class LedgerGap(ParesError):
    """The log no longer has the record that was asked for: it starts later (retention, or a trim).

    Only who reads a ledger itself meets it, and goes on at its `start`; members and observers begin anew by themselves.

    `lost` is the range of offsets, from the one that was asked for to the log's start, that can't be read any more. None where
    nobody can say.
    """

    def __init__(self, message: str, *, lost: range | None = None) -> None:
        super().__init__(message)
        self.lost = lost


class LedgerRewound(ParesError):
    """The log ends before a position that was once in it: it is another log, or it lost its tail.

    Only who reads a ledger itself meets it; members drop their beliefs (`Fenced`) and begin anew by themselves.
    """


class LeadershipLost(ParesError):
    """The term is over (`Term.check`): stop what was done in its name. The message says why it ended."""


class DuplicateName(ParesError):
    """Two live processes of one group use one name; give each a name of its own.

    No member raises this: each reports it (a warning, `health().problems`, `pares doctor`), and nothing changes hands by it.
    """


class ClosedError(ParesError):
    """The member, observer or ledger was closed, so it can't be used any more: make a new one."""


class ForkedError(ParesError):
    """A member made before a fork is used in the child, where it is dead; make a new one after the fork."""


class Stale(ParesError):
    """A fence refused a write: a higher token has been seen for that seat, so the writer no longer leads.

    `token` is the one that was refused, `seen` the highest that the fence has seen. Drop the work, and roll back what belongs
    to it.
    """

    def __init__(self, token: int, seen: int, message: str | None = None) -> None:
        super().__init__(
            message
            or f"stale token {token}: the fence has already seen {seen} for this seat; "
            "another member leads now, so drop the work of this term"
        )
        self.token = token
        self.seen = seen
