"""An ALLCALL group as a listener hears it that says nothing: which members are there, which claims live, and whether all agree.

Each member calls once a beat, and says whom it takes for the leader. So a listener knows the group as its members do after a
beat or two, and sees each member's view beside the others'. It tells what it has heard, by its own stopwatch; it sees a split
only if it hears both sides.

    changes = overheard.hear(payload, now, wall_ms)
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pares.core.allcall.election import Election, Known, Order
from pares.core.allcall.messages import Bad, Call, Phase, decode, token
from pares.core.allcall.peers import WINDOW
from pares.core.lease import MS
from pares.core.wire.changes import Change, MemberJoined, MemberLeft, SeatChanged

_USUAL: Final = (1000, 10_000, 1000)
"""Heartbeat, lease and skew of a member that does not tell its own; milliseconds."""
MAX_MEMBERS: Final = 10_000
MAX_ROLES: Final = 10_000


class Speaker(Struct, gc=False):
    """A member, as it was heard last."""

    id: str
    host: str
    rank: int
    phase: Phase
    roles: tuple[str, ...]
    """The roles that it would lead now."""
    views: dict[str, str]
    """The member that it takes for the leader of each role."""
    heard: int
    n: int
    ahead_ms: int
    """By how much its wall clock is ahead of the listener's, at least: the delay of the message makes it look less."""
    heartbeat_ms: int
    lease_ms: int
    skew_ms: int
    order: Order

    @property
    def name(self) -> str:
        return self.id.rpartition("~")[0] or self.id


class Overheard:
    """One group. `now` is nanoseconds on the listener's stopwatch, `wall_ms` its wall clock."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.messages = 0
        """Calls of this group heard so far."""
        self.bad: dict[str, int] = {}
        """How many messages were no calls, by the reason."""
        self.others: set[str] = set()
        """The other groups that were heard."""
        self._speakers: dict[str, Speaker] = {}
        self._elections: dict[str, Election] = {}
        self._led: dict[str, tuple[str | None, int]] = {}

    def hear(self, payload: bytes, now: int, wall_ms: int) -> list[Change]:
        """Takes a message in, of any sender. Returns what it changes."""
        call = decode(payload)
        if isinstance(call, Bad):
            self.bad[call.reason] = self.bad.get(call.reason, 0) + 1
            return []
        if call.g != self.group:
            if len(self.others) < MAX_ROLES:
                self.others.add(call.g)
            return []
        self.messages += 1
        changes = self.pass_time(now)
        before = self._speakers.get(call.m)
        if before is not None and call.n <= before.n:
            return changes
        for claim in call.c:
            election = self._election(claim.role, call)
            if election is not None:
                election.hear(claim, now)
        if call.p == "gone":
            if self._speakers.pop(call.m, None) is not None:
                changes.append(self._left(call.m, "left"))
        elif before is not None or len(self._speakers) < MAX_MEMBERS:
            speaker = self._speakers[call.m] = _speaker(call, now, wall_ms)
            if before is None:
                changes.append(MemberJoined(self.messages, call.m, speaker.name, call.h))
        return changes + self._turns(now, call.m)

    def pass_time(self, now: int) -> list[Change]:
        """Forgets members that were not heard for two and a half of their beats, and claims that have ended."""
        changes: list[Change] = []
        for speaker in [*self._speakers.values()]:
            if now >= speaker.heard + int(WINDOW * speaker.heartbeat_ms * MS):
                del self._speakers[speaker.id]
                changes.append(self._left(speaker.id, "not heard"))
        return changes + self._turns(now, "")

    # What there is to see --------------------------------------------------------------------------------------------

    def members(self) -> list[Speaker]:
        """The members heard lately, the lowest rank first."""
        return sorted(self._speakers.values(), key=lambda speaker: (speaker.rank, speaker.id))

    def roles(self) -> list[str]:
        """The roles that a member leads, or would lead."""
        wanted = {role for speaker in self._speakers.values() for role in speaker.roles}
        return sorted(wanted | {role for role, (holder, _) in self._led.items() if holder is not None})

    def claims(self, role: str, now: int) -> list[Known]:
        """Live claims to the role: the one that counts, then others, which there are only while messages don't pass."""
        election = self._elections.get(role)
        if election is None:
            return []
        best, live = election.best(now), election.others(now)
        return [] if best is None else [best, *(claim for claim in live if claim is not best)]

    def views(self, role: str) -> dict[str | None, list[str]]:
        """For each leader that members name, the members that name it; under None those that know of no leader."""
        found: dict[str | None, list[str]] = {}
        for speaker in self.members():
            if role in speaker.roles or role in speaker.views:
                found.setdefault(speaker.views.get(role), []).append(speaker.id)
        return found

    def disagreement(self, now: int) -> dict[str, dict[str | None, list[str]]]:
        """The roles with several live claims, or whose leader is not the same for all members; with the `views` of each
        role."""
        return {
            role: views
            for role in self.roles()
            if len(views := self.views(role)) > 1 or len(self.claims(role, now)) > 1
        }

    # -----------------------------------------------------------------------------------------------------------------

    def _election(self, role: str, call: Call) -> Election | None:
        election = self._elections.get(role)
        if election is None and len(self._elections) < MAX_ROLES:
            election = self._elections[role] = Election(role, "", 0, _order(call), _times(call)[2] * MS)
        return election

    def _turns(self, now: int, by: str) -> list[Change]:
        """Changes for the roles whose leader is another one than before."""
        changes: list[Change] = []
        for role, election in self._elections.items():
            best = election.best(now)
            held = (None, 0) if best is None else (best.holder, token(best.term, best.holder))
            before = self._led.get(role, (None, 0))
            if held != before:
                self._led[role] = held
                cause = "release" if best is None else "claim"
                changes.append(SeatChanged(self.messages, (role, 0), *held, *before, cause, "", by))
        return changes

    def _left(self, member: str, why: str) -> MemberLeft:
        return MemberLeft(self.messages, member, member.rpartition("~")[0] or member, why)


def _times(call: Call) -> tuple[int, int, int]:
    return (call.t[0], call.t[1], call.t[2]) if len(call.t) == 3 else _USUAL


def _order(call: Call) -> Order:
    return "rank" if call.o == "rank" else "lease"


def _speaker(call: Call, now: int, wall_ms: int) -> Speaker:
    views = {claim.role: claim.holder for claim in call.c if claim.ttl}
    ahead = call.s - wall_ms
    return Speaker(
        call.m, call.h, call.r, call.p, tuple(call.e), views, now, call.n, ahead, *_times(call), _order(call)
    )
