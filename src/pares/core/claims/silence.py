"""Stopwatches over the other members: who is silent (R3), who is overdue (R16), who has settled (R13), who survives (R20).

What is known here is when *this* member read something, by its own stopwatch. It is kept out of the world on purpose: no two
members agree on it, and nothing that all must agree on may depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pares.core.lease import MS, challenge_ns
from pares.core.wire.changes import Change, MemberJoined, SeatChanged
from pares.core.wire.records import AT_ONCE, Seat
from pares.core.wire.states import MemberState
from pares.core.wire.world import World


class Watched:
    """One other member: its last counted record, and when this member read it."""

    __slots__ = ("back_at", "offset", "read_at", "was_overdue", "words")

    def __init__(self, offset: int, now: int) -> None:
        self.offset = offset
        self.read_at = now
        self.back_at = now
        """When it was first read of, or came back after having been overdue."""
        self.was_overdue = False
        self.words = 1
        """How often something new of it was read since it was first read of, or since it was overdue. With the second word
        it is
        known to live, and to read: it says so only after a round trip of its own (`records.AT_ONCE`). The first may be old: a
        join, what stood in the log before, or an append of long ago that has landed only now."""


class Stopwatches:
    """Kept by one member over all the others of its group."""

    def __init__(self, me: str, drift: float, settle_ns: int) -> None:
        self.me = me
        self._drift = drift
        self._settle = settle_ns
        self._members: dict[str, Watched] = {}
        self._seats: dict[Seat, int] = {}
        """When the record was read that last gave or freed a seat."""
        self._signs: dict[Seat, int] = {}
        """When the last record was read of the holder before: nobody may have led the seat since then."""
        self._pauses: dict[int, int] = {}
        self._crew: frozenset[str] = frozenset()
        self._crew_since = 0
        self.next_overdue = 0
        """When somebody will be overdue next, if nothing is read of it before."""
        self.next_settled = 0
        """When the rank of somebody will count that does not yet."""

    def read(self, world: World, changes: Iterable[Change], now: int, *, past: bool = False) -> None:
        """What was read up to here has been folded; `now` was read from the stopwatch after the fetch returned. `past`: it is
        what stood in the log before this member came."""
        members = self._members
        for id, member in world.members.items():
            seen = members.get(id)
            if seen is None:
                seen = members[id] = Watched(member.offset, now)
                if not past and member.offset != member.joined:
                    seen.words = 2
            elif seen.offset != member.offset:
                seen.offset, seen.read_at = member.offset, now
                if not past:
                    seen.words += 1
                if seen.was_overdue:
                    seen.was_overdue, seen.back_at = False, now
        for change in changes:
            if type(change) is MemberJoined:
                self._doubt_namesakes(world, change)
            elif type(change) is SeatChanged:
                self._seats[change.seat] = now
                if change.before is not None and change.before in members:
                    self._signs[change.seat] = members[change.before].read_at
        if len(members) > len(world.members):
            for id in [id for id in members if id not in world.members]:
                del members[id]
        for offset in world.pauses:
            self._pauses.setdefault(offset, now)
        if len(self._pauses) > len(world.pauses):
            self._pauses = {offset: at for offset, at in self._pauses.items() if offset in world.pauses}
        if len(self._seats) > 2 * len(world.seats) + 16:
            self._seats = {seat: at for seat, at in self._seats.items() if seat in world.seats}
            self._signs = {seat: at for seat, at in self._signs.items() if seat in world.seats}

    def _doubt_namesakes(self, world: World, joined: MemberJoined) -> None:
        """A process that starts again under its name was over before: what its earlier incarnations have said is no sign that
        they live. [a process that crashes again and again is handed things as each of its dead, and each is out-waited]"""
        for id, seen in self._members.items():
            member = world.members.get(id)
            if member is not None and member.name == joined.name and id != joined.member:
                seen.words = 0

    def alive(self, world: World, now: int) -> frozenset[str]:
        """The members that are not overdue: the next record of each is no later than it said itself, with as much again for
        delays (R16). A member that says that it is due at once is taken for overdue from the start: it asks for nothing.

        Safety never depends on this; a member wrongly left out is left out of placement for a while.
        """
        found: list[str] = []
        self.next_overdue = 0
        for id, member in world.members.items():
            seen = self._members.get(id)
            if id == self.me or seen is None:
                found.append(id)
                continue
            late = seen.read_at + (2 * member.due_ms + member.session_ms // 4) * MS
            if now >= late and not seen.was_overdue:
                seen.words = 0
            if now < late and not seen.was_overdue and member.due_ms > AT_ONCE:
                found.append(id)
                self.next_overdue = min(self.next_overdue or late, late)
            else:
                seen.was_overdue = True
        return frozenset(found)

    def heard(self, alive: Iterable[str]) -> frozenset[str]:
        """Those of `alive` that are known to live now, and to read, and may be handed something (R6). [after a cut, who writes
        again but does not read yet is given its share, and does not know of it]"""
        return frozenset(id for id in alive if id == self.me or ((seen := self._members.get(id)) and seen.words > 1))

    def survivors(self, holder: MemberState, among: Iterable[str]) -> frozenset[str]:
        """Those of whom something was read after the silent holder's next record was due: they have outlived it (R20). Of a
        member that died with it nothing was."""
        seen = self._members.get(holder.id)
        if seen is None:
            return frozenset()
        after = seen.read_at + min(holder.due_ms, holder.session_ms // 4) * MS
        return frozenset(id for id in among if (other := self._members.get(id)) and other.read_at > after)

    def wrote_since(self, member: str, at: int) -> bool:
        """Whether something of it was read after `at`."""
        seen = self._members.get(member)
        return seen is not None and seen.read_at > at

    def silent_at(self, member: MemberState) -> int:
        """From when on its seats may be claimed, as far as its last record is concerned (R3)."""
        seen = self._members.get(member.id)
        read_at = 0 if seen is None else seen.read_at
        return read_at + challenge_ns(member.session_ms, member.drift, self._drift)

    def claimable_at(self, seat: Seat, holder: MemberState) -> int:
        """From when on this seat may be claimed: a session after reading the holder's last record, or the record that made
        it the holder, whichever was read later (R3)."""
        made = self._seats.get(seat, 0) + challenge_ns(holder.session_ms, holder.drift, self._drift)
        return max(self.silent_at(holder), made)

    def last_sign(self, seat: Seat) -> int | None:
        """When the last record was read of the one that held the seat before; None if nobody is known to have held it."""
        return self._signs.get(seat)

    def silent(self, world: World, now: int, beat_ms: int) -> list[tuple[int, str]]:
        """The members without seats that have been silent for twice as long as their records said, and for their session at
        least; each with the time since when that is so, the first one first. `beat_ms`: how far apart a standby's records are
        here, for those that say that the next one is due at once.

        One of them may live: it is forgotten then, and begins anew (R20)."""
        found: list[tuple[int, str]] = []
        for id, member in world.members.items():
            seen = self._members.get(id)
            if id == self.me or seen is None or world.held[id]:
                continue
            wait = 2 * max(member.due_ms, member.session_ms, beat_ms) + member.session_ms // 4
            at = max(self.silent_at(member), seen.read_at + wait * MS)
            if now >= at:
                found.append((at, id))
        return sorted(found)

    def silence(self, world: World, now: int) -> frozenset[str]:
        """Holders that have been silent for their session: whoever would say that the seats are theirs names the dead. They
        count as overdue until something new of them is read, whatever they had said about their next record."""
        found: list[str] = []
        for id, seats in world.held.items():
            if not seats or id == self.me or now < self.silent_at(world.members[id]):
                continue
            if any(now >= self.claimable_at(seat, world.members[id]) for seat in seats):
                found.append(id)
                if id in self._members:
                    self._members[id].was_overdue, self._members[id].words = True, 0
        return frozenset(found)

    def paused_until(self, pause: int, ms: int) -> int:
        """When this member's stopwatch has measured the pause's whole length since reading it (R14)."""
        return self._pauses.get(pause, 0) + ms * MS

    def unsettled(self, alive: Iterable[str], now: int) -> frozenset[str]:
        """The members that came, or came back, less than `settle` ago: their rank does not count yet (R13)."""
        found = {id: seen.back_at + self._settle for id in alive if (seen := self._members.get(id)) is not None}
        young = {id: at for id, at in found.items() if now < at}
        self.next_settled = min(young.values(), default=0)
        return frozenset(young)

    def settled_at(self, crew: frozenset[str], now: int) -> int:
        """When the group will have been stable for `settle`: the same members alive that may hold seats (R13)."""
        if crew != self._crew:
            self._crew, self._crew_since = crew, now
        return self._crew_since + self._settle
