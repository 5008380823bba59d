"""The peers that one member hears, and whether the member is heard itself.

H5   A member knows that others can hear it as long as its own calls come back to it: they take the same way.
H15  A member that hears no peer is alone.
H16  A call that is not new (`freshness`) is no sign of life.
H17  A member that stood still gives all others a beat to be heard in, before it takes them for lost.

A peer is gone after `WINDOW` silent beats, or when it says goodbye.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.allcall.config import Settings
from pares.core.allcall.freshness import Hearing
from pares.core.allcall.messages import Call, Phase
from pares.core.events import Effect, PeerJoined, PeerLost, Report
from pares.core.lease import MS

WINDOW: Final = 2.5
"""Beats for which a peer is taken to be there after it was heard."""


class Peer(Struct, gc=False):
    """Another member, as it was heard last."""

    rank: int
    phase: Phase
    roles: frozenset[str]
    views: dict[str, str]
    """The member that it takes for the holder of each role."""
    heard: int
    host: str


class Company:
    """The peers, and whether calls pass between them and this member."""

    def __init__(self, settings: Settings) -> None:
        self.window = int(WINDOW * settings.heartbeat_ms * MS)
        self.peers: dict[str, Peer] = {}
        self._settings = settings
        self._beat = settings.heartbeat_ms * MS
        self._hearing = Hearing(settings.lease_ms * MS, self.window)
        self._last_heard: int | None = None
        self._n = 0
        self._sent: dict[int, tuple[int, int]] = {}
        """For each recent call of this member, by number: when it was sent, and the wall-clock time in it."""
        self._loop: int | None = None
        """When the newest of this member's own calls that have come back was sent (H5)."""

    # One's own calls -------------------------------------------------------------------------------------------------

    def number(self, now: int, said: int) -> int:
        """The number of a call that is sent now, with the wall-clock time `said` (ms) in it."""
        self._n += 1
        self._sent = {n: sent for n, sent in self._sent.items() if now < sent[0] + self.window}
        self._sent[self._n] = (now, said)
        return self._n

    def come_back(self, call: Call) -> list[Effect]:
        """This member's own call has come back: others can hear it too."""
        sent = self._sent.get(call.n)
        if call.n > self._n or (sent is not None and sent[1] != call.s):
            return [Report("cloned", f"somebody else sends as {call.m}: give each member an id of its own")]
        if sent is not None:
            self._loop = max(sent[0], self._loop if self._loop is not None else sent[0])
        return []

    def loops(self, now: int) -> bool:
        """Whether this member's own calls come back (H5)."""
        return self._loop is not None and now < self._loop + self.window

    # Others' calls ---------------------------------------------------------------------------------------------------

    def news(self, call: Call, now: int, wall_ms: int) -> bool:
        """Whether a call of another member counts (H16)."""
        if not self._hearing.news(call, now, wall_ms):
            return False
        self._last_heard = now
        return True

    def welcome(self, call: Call, now: int, wall_ms: int) -> list[Effect]:
        """The sender of a call that counts is there, or says that it goes."""
        if call.p == "gone":
            return [] if self.peers.pop(call.m, None) is None else [PeerLost(call.m, "left")]
        effects: list[Effect] = []
        if call.m not in self.peers:
            effects = [PeerJoined(call.m), *self._warnings(call, wall_ms)]
        views = {claim.role: claim.holder for claim in call.c if claim.ttl}
        self.peers[call.m] = Peer(call.r, call.p, frozenset(call.e), views, now, call.h)
        return effects

    def _warnings(self, call: Call, wall_ms: int) -> list[Effect]:
        """Reports what a person should put right about a newcomer."""
        effects: list[Effect] = []
        me = self._settings.id
        if "~" in call.m and call.m.partition("~")[0] == me.partition("~")[0]:
            text = f"{call.m} has the name of this member, {me}: give each its own"
            effects.append(Report("duplicate-name", text))
        off = self._hearing.off_s(call, wall_ms)
        if off:
            text = f"the wall clock of {call.m} is {off} s ahead of this member's, {me}: set it"
            effects.append(Report("clock", text))
        return effects

    def forget_the_silent(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for member, peer in [*self.peers.items()]:
            if now >= peer.heard + self.window:
                del self.peers[member]
                effects.append(PeerLost(member, "not heard"))
        return effects

    def give_a_beat(self, now: int) -> None:
        """Gives each peer a beat to be heard in: this member heard none while it stood still, and they may be there (H17)."""
        for peer in self.peers.values():
            peer.heard = max(peer.heard, now + self._beat - self.window)

    # What follows ----------------------------------------------------------------------------------------------------

    def alone(self, now: int) -> bool:
        """Whether no peer was heard lately (H15)."""
        return self._last_heard is None or now >= self._last_heard + self.window

    def better(self, role: str) -> str | None:
        """A better ranked peer that was heard lately and may lead the role; None if there is none."""
        me = (self._settings.rank, self._settings.id)
        for member, peer in self.peers.items():
            if peer.phase == "ping" and role in peer.roles and (peer.rank, member) < me:
                return member
        return None

    def could_lead(self, role: str) -> bool:
        """Whether a peer is there that may lead the role."""
        return any(role in peer.roles and peer.phase == "ping" for peer in self.peers.values())

    def moments(self) -> list[int]:
        """When a peer is lost, or this member's own calls have not come back for too long, if nothing is heard meanwhile."""
        loop = [] if self._loop is None else [self._loop + self.window]
        return loop + [peer.heard + self.window for peer in self.peers.values()]
