"""Roles that other members may lead and this one may not: it still knows who leads them."""

from __future__ import annotations

from typing import Final

from pares.core.allcall.config import Settings
from pares.core.allcall.election import Election
from pares.core.allcall.messages import Claim
from pares.core.lease import MS

MAX_WATCHED: Final = 10_000
"""The most such roles whose leaders are remembered."""


class Others(dict[str, Election]):
    """By role: the claims to it, as far as they were heard."""

    def __init__(self, settings: Settings, now: int) -> None:
        super().__init__()
        self._settings = settings
        self._beat = settings.heartbeat_ms * MS
        self._swept = now - self._beat
        """When room was last made."""

    def hear(self, claim: Claim, now: int) -> None:
        if claim.role not in self:
            if len(self) >= MAX_WATCHED:
                self._make_room(now)
            if len(self) >= MAX_WATCHED:
                return
            settings = self._settings
            self[claim.role] = Election(claim.role, "", 0, settings.order, settings.skew_ms * MS)
        self[claim.role].hear(claim, now)

    def _make_room(self, now: int) -> None:
        """Forgets the roles that no member leads any more. At most once a beat, as it looks at all of them, and one call may
        name a hundred roles for which there is no room. A role that is left out now comes again: a holder repeats its claim
        with each beat."""
        if now >= self._swept + self._beat:
            self._swept = now
            for role in [role for role, known in self.items() if known.best(now) is None]:
                del self[role]
