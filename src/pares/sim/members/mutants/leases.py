"""Mutants of what a lease is counted from, of when it is over, and of whose barrier returned: R3, R4, R5."""

from __future__ import annotations

from typing import Any, Final

from pares.core.claims.outbox import Outbox
from pares.core.claims.protocol import Claims
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Phase, Tenures
from pares.core.lease import MS, Sent
from pares.sim.members.mutants.troubles import CALMLY, FROZEN
from pares.sim.mutant import Mutant, Patch


def _sent_when_acknowledged() -> list[Patch]:
    """What was acknowledged counts from then, and not from when it was handed over."""
    acked = Outbox.acked

    def late(self: Outbox, ticket: int, offset: int, position: int) -> bool:
        fresh = [n for n in self.sent._records if n > self._before]  # pyright: ignore[reportPrivateUsage]
        ours = acked(self, ticket, offset, position)
        now = self.__dict__.get("_clock", 0)
        if ours and now:
            records = self.sent._records  # pyright: ignore[reportPrivateUsage]
            records.update({n: (now, records[n][1]) for n in fresh})
        return ours

    return [(Outbox, "acked", late), *_clocked()]


def _clocked() -> list[Patch]:
    """The outbox is told what the stopwatch showed last."""
    expire = Tenures.expire
    boxes: dict[int, Outbox] = {}

    def told(self: Tenures, now: int) -> Any:
        box = boxes.get(id(self))
        if box is not None:
            box.__dict__["_clock"] = now
        return expire(self, now)

    made = Claims.__init__

    def make(self: Claims, *words: Any) -> None:
        made(self, *words)
        boxes[id(self.tenures)] = self.outbox

    return [(Tenures, "expire", told), (Claims, "__init__", make)]


def _newest_sent_counts() -> list[Patch]:
    """A lease counts from the newest record that was handed over, whichever was read back."""
    read_back = Sent.read_back

    def newest(self: Sent, n: int, payload: bytes) -> bool:
        latest = max((sent[0] for sent in self._records.values()), default=0)  # pyright: ignore[reportPrivateUsage]
        ours = read_back(self, n, payload)
        if ours:
            self.counted = latest
        return ours

    return [(Sent, "read_back", newest)]


def _no_expiry() -> list[Patch]:
    """Nobody looks whether the lease has run out."""
    return [(Tenures, "expire", lambda self, now: [])]


def _claimable_at_once() -> list[Patch]:
    """When a holder came by its seat does not matter: a standby that had been silent is challenged as it gets one."""

    def ignoring(self: Stopwatches, seat: Any, holder: Any) -> int:
        return self.silent_at(holder)

    return [(Stopwatches, "claimable_at", ignoring)]


def _barrier_of_any_term() -> list[Patch]:
    def any_term(self: Tenures, seat: Any, token: int) -> None:
        for tenure in self.by_seat.values():
            if tenure.phase is Phase.STOPPING:
                tenure.returned = True

    return [(Tenures, "barrier_returned", any_term)]


LEASES: Final = (
    Mutant(
        "sent-when-acknowledged",
        "R4",
        "a lease counts from when the record was acknowledged",
        _sent_when_acknowledged,
        {**FROZEN, "weather": {"slow": 0.3, "silent": 0.0}},
    ),
    Mutant(
        "newest-sent-counts",
        "R4",
        "a lease counts from the newest record that was handed over",
        _newest_sent_counts,
        {
            "faults": {"deaf": 1.0, "mute": 1.0},
            "acts": {},
            "overlap_ms": 0,
            "drift": 0.0,
            "rates": (1.0,) * 2,
            "members": 2,
            "roles": 1,
            "session_ms": 200,
            "sessions": (200, 200),
            "cut": 1.8,
            "pace": 3.0,
            "starving": 0.0,
            "proof": False,
            "weather": {**CALMLY, "timeout": 40 * MS},
        },
    ),
    Mutant(
        "no-expiry",
        "R4",
        "nobody looks whether a lease has run out",
        _no_expiry,
        {"faults": {"cut": 1.0, "mute": 1.0}, "acts": {}, "cut": 14.0, "pace": 0.3},
    ),
    Mutant(
        "claimable-at-once",
        "R3",
        "a holder is challenged for silence from before it was one",
        _claimable_at_once,
        {
            "faults": {"wall": 1.0},
            "acts": {"hand_over": 3.0},
            "members": 8,
            "roles": 1,
            "seats": 1,
            "session_ms": 20,
            "sessions": (20,) * 8,
            "storm": 100.0,
            "pace": 0.01,
        },
    ),
    Mutant(
        "barrier-of-any-term",
        "R5",
        "a barrier that returns counts for every term that is being given up",
        _barrier_of_any_term,
        {
            "faults": {"close": 2.0},
            "acts": {"step_down": 1.0},
            "barrier": 0.3,
            "members": 3,
            "roles": 4,
        },
    ),
)
