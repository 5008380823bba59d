"""Members, terms and what drives them: the only part of pares with threads and clocks."""

from pares.runtime.admin import Admin
from pares.runtime.claims.witness import Witness, WitnessHealth
from pares.runtime.clock import stopwatch
from pares.runtime.config.protocols import AllCall, FastNeli, Nele, Neli
from pares.runtime.death.exit_hooks import leave_on_signals
from pares.runtime.events import Acquired, Event, Fenced, Joined, Left, Revoked
from pares.runtime.member import Member
from pares.runtime.observer import Observer
from pares.runtime.term import Term
from pares.runtime.views import Health, Holder, Peer

__all__ = [
    "Acquired",
    "Admin",
    "AllCall",
    "Event",
    "FastNeli",
    "Fenced",
    "Health",
    "Holder",
    "Joined",
    "Left",
    "Member",
    "Nele",
    "Neli",
    "Observer",
    "Peer",
    "Revoked",
    "Term",
    "Witness",
    "WitnessHealth",
    "leave_on_signals",
    "stopwatch",
]
