"""pares: leaders, roles and claims, agreed on by processes that already share a log.

    with pares.Member("sqlite:///work.db", group="pricing", roles=["AAPL", "MSFT"]) as me:
        for term in me.terms("AAPL"):
            while term:                      # true while this process provably leads
                publish(quote(), token=term.token)

What is promised, and what is not, stands in the documentation of `Member` and `Term`.
"""

from pares import fence
from pares.core.errors import (
    CapabilityError,
    ClosedError,
    ConfigError,
    DuplicateName,
    ForkedError,
    LeadershipLost,
    LedgerGap,
    LedgerRewound,
    LedgerUnavailable,
    ParesError,
    Stale,
)
from pares.ledger import Entry, Ledger, open
from pares.runtime import (
    Acquired,
    Admin,
    Event,
    Fenced,
    Health,
    Holder,
    Joined,
    Left,
    Member,
    Observer,
    Peer,
    Revoked,
    Term,
    aio,
    leave_on_signals,
)

__version__ = "0.1.0"

__all__ = [
    "Acquired",
    "Admin",
    "CapabilityError",
    "ClosedError",
    "ConfigError",
    "DuplicateName",
    "Entry",
    "Event",
    "Fenced",
    "ForkedError",
    "Health",
    "Holder",
    "Joined",
    "LeadershipLost",
    "Ledger",
    "LedgerGap",
    "LedgerRewound",
    "LedgerUnavailable",
    "Left",
    "Member",
    "Observer",
    "ParesError",
    "Peer",
    "Revoked",
    "Stale",
    "Term",
    "__version__",
    "aio",
    "fence",
    "leave_on_signals",
    "open",
]
