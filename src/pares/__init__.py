"""pares: leaders, roles and claims, agreed on by processes that already share a log.

    with pares.Member("sqlite:///work.db", group="pricing", roles=["AAPL", "MSFT"]) as me:
        for term in me.terms("AAPL"):
            while term:                      # true while this process provably leads
                publish(quote(), token=term.token)

What is promised, and what is not, stands in the documentation of `Member` and `Term`. Beside them: `Admin` steers a group and
`Observer` looks on, `aio` has the same for asyncio, `fence` refuses late writes where they land, `Slots` shares out keys,
`health_app` and `metrics` are for probes and dashboards, `leave_on_signals` is for deploys, `open` gives a ledger, and
`dev` starts real servers to try it on. Everything raised on purpose is a `ParesError`. `pares.testing` is for users' tests.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError(
        "pares does not run on Windows itself: it stands on flock, fork handlers, named pipes and signals; run it in WSL 2 "
        "or in a Linux container"
    )

if TYPE_CHECKING:
    from pares import dev, fence, metrics
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
        AllCall,
        Event,
        FastNeli,
        Fenced,
        Health,
        Holder,
        Joined,
        Left,
        Member,
        Nele,
        Neli,
        Observer,
        Peer,
        Revoked,
        Term,
        Witness,
        WitnessHealth,
        leave_on_signals,
    )
    from pares.runtime import aio as aio
    from pares.runtime.consume.consumer import Consumer
    from pares.runtime.probes import health_app
    from pares.runtime.work.slots import Slots

__version__ = "0.2.0.dev0"

__all__ = [
    "Acquired",
    "Admin",
    "AllCall",
    "CapabilityError",
    "ClosedError",
    "ConfigError",
    "Consumer",
    "DuplicateName",
    "Entry",
    "Event",
    "FastNeli",
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
    "Nele",
    "Neli",
    "Observer",
    "ParesError",
    "Peer",
    "Revoked",
    "Slots",
    "Stale",
    "Term",
    "Witness",
    "WitnessHealth",
    "__version__",
    "aio",
    "dev",
    "fence",
    "health_app",
    "leave_on_signals",
    "metrics",
    "open",
]

_HOMES = {
    "pares.ledger": ("Entry", "Ledger", "open"),
    "pares.core.errors": (
        "CapabilityError",
        "ClosedError",
        "ConfigError",
        "DuplicateName",
        "ForkedError",
        "LeadershipLost",
        "LedgerGap",
        "LedgerRewound",
        "LedgerUnavailable",
        "ParesError",
        "Stale",
    ),
    "pares.runtime.probes": ("health_app",),
    "pares.runtime.work.slots": ("Slots",),
    "pares.runtime.consume.consumer": ("Consumer",),
}
_MODULES = {"aio": "pares.runtime.aio", "dev": "pares.dev", "fence": "pares.fence", "metrics": "pares.metrics"}
"""Where names come from; those that stand in neither list come from `pares.runtime`."""


def __getattr__(name: str) -> Any:
    """Imported when first asked for: a command line that only says what it can do need not load a database driver."""
    if name not in __all__:
        raise AttributeError(f"module 'pares' has no attribute {name!r}")
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    else:
        home = next((home for home, names in _HOMES.items() if name in names), "pares.runtime")
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
