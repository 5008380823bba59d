"""Stopwatches over the other members: who is silent (R3), who is overdue (R16), who has settled (R13), who survives (R20).

What is known here is when *this* member read something, by its own stopwatch, or when it had come to its process, where the
ledger notes that; or when it was written, where its writer shares that stopwatch and the ledger has stamped it (R21). It is
kept out of the world on purpose: no two members agree on it, and nothing that all must agree on may depend on it.

Beats wake nobody where they are stamped or noted, so what was read last may be old. That a member is silent is found only by
a look at the log that began after its time was over (`looked_at`): [a member that reads seldom claims what its holder has
long beaten for] a claim would fail, by R3, but it would be written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pares.core.claims.chores.duties import EAGER
from pares.core.claims.comebacks import Comebacks
from pares.core.claims.fitness.pace import NEVER
from pares.core.lease import MS, challenge_ns, shared_ns
from pares.core.wire.changes import Change, DidChanged, MemberJoined, RoleChanged, SeatChanged
from pares.core.wire.records import AT_ONCE, Seat
from pares.core.wire.states import MemberState
from pares.core.wire.world import World

NEVER_SEEN: Final = -NEVER
NO_TIMES: Final[Mapping[int, int | None]] = {}
Made: TypeAlias = tuple[int, int | None]
"""When a record had come, or else was read, and its stamp if there is one."""


class Watched:
    """One other member: its last counted record, when this member had it, and when it was written, if that is known."""

    __slots__ = (
        *("at", "back_at", "challenge", "dated", "due_ms", "had_at", "late_at", "offset"),
        *("overdue", "shared", "silent_at", "was_overdue", "watched", "words"),
    )

    def __init__(self, member: MemberState, drift: float, now: int, stamp: int | None, came: int | None) -> None:
        self.due_ms = -1
        self.waits(member, drift)
        self.heard(member, now, stamp, came)
        self.back_at = now
        """When it was first read of, or came back after having been overdue."""
        self.was_overdue = False
        self.watched = False
        """It held seats, and was not silent, when that was looked at last."""
        self.words = 1
        """How often something new of it was read since it was first read of, or since it was overdue; 2 stands for more. With
        the second word it is known to live, and to read: it says so only after a round trip of its own (`records.AT_ONCE`). The
        first may be old: a join, what stood in the log before, or an append of long ago that has landed only now."""

    def waits(self, member: MemberState, drift: float) -> None:
        """How long it is out-waited, by one who allows for such a drift: from its last record's stamp on, or else from having
        that (`lease`). What these follow from no record of a member changes."""
        self.shared = shared_ns(member.session_ms, member.drift)
        self.challenge = challenge_ns(member.session_ms, member.drift, drift)

    def heard(self, member: MemberState, now: int, stamp: int | None, came: int | None) -> None:
        """It has a new last record. A time of the future is no reading of this stopwatch, whatever the ledger says."""
        self.offset = member.offset
        noted = came is not None and came <= now
        self.had_at = came if came is not None and noted else now
        """When it had come to this process, or else was read."""
        if stamp is None or stamp > now:
            self.at, self.dated, self.silent_at = self.had_at, noted, self.had_at + self.challenge
        else:
            self.at, self.dated, self.silent_at = stamp, True, stamp + self.shared
        """When it was written, or else had; whether that does not depend on how soon it was read; and when it is out-waited."""
        if self.due_ms != member.due_ms:
            self.due_ms, self.overdue = member.due_ms, overdue_ms(member.due_ms, member.session_ms) * MS
        self.late_at = self.at + self.overdue
        """When it is overdue, if nothing more is read of it."""


class Stopwatches:
    """Kept by one member over all the others of its group."""

    def __init__(self, me: str, drift: float, settle_ns: int) -> None:
        self.me = me
        self._drift = drift
        self._settle = settle_ns
        self._members: dict[str, Watched] = {}
        self._seats: dict[Seat, Made] = {}
        """When the record was written or read that last gave or freed a seat."""
        self._signs: dict[Seat, int] = {}
        """When the last record was read of the holder before: nobody may have led the seat since then."""
        self._pauses: dict[int, int] = {}
        self._crew: frozenset[str] = frozenset()
        self._crew_since = 0
        self.looked_at = 0
        """When the last fetch began that found nothing more: all that stood in the log by then is known."""
        self.next_silent = NEVER
        """When the silence of some holder runs out next, if nothing of it is read before; or earlier."""
        self.look_every = 0
        """How far apart looks at the log may be, for there are holders whose silence counts from looks; 0: there are none."""
        self._alive: frozenset[str] = frozenset()
        self._silent: frozenset[str] = frozenset()
        self._stale = self._stale_silence = True
        """Something was read since that was found out, and in a large group something that may change it. [what each of a
        hundred says four times a session has all others look at the hundred]"""
        self.returns = 0
        """How often somebody came, or came back: `unsettled` is the same until then, and until `next_settled`."""
        self._turns = 0
        """How often somebody began, or ceased, to be known to live."""
        self._of: World | None = None
        """The world that was read last."""
        self._heard: tuple[object, int, frozenset[str]] = (None, -1, frozenset())
        self.joined_at = self.declared_at = 0
        """When the last join was read, and the last role that somebody declared, of those that are new."""
        self._roll: tuple[Iterable[str], int, frozenset[str]] | None = None
        """Of members that were asked for: when the one was heard of that was heard of longest ago, and who they are."""
        self._comebacks = Comebacks()
        self._late_until = 0
        self.next_overdue = NEVER
        """When somebody will be overdue next, if nothing is read of it before; or earlier."""
        self.next_settled = 0
        """When the rank of somebody will count that does not yet."""

    def read(
        self,
        world: World,
        changes: Iterable[Change],
        now: int,
        *,
        past: bool = False,
        stamps: Mapping[int, int | None] = NO_TIMES,
        arrivals: Mapping[int, int | None] = NO_TIMES,
    ) -> None:
        """What was read up to here has been folded; `now` was read from the stopwatch after the fetch returned. `past`: it is
        what stood in the log before this member came. `stamps` and `arrivals`: by their offsets, of what was read."""
        members, self._roll = self._members, None
        changes = list(changes)
        if (
            world is not self._of
            or len(world.members) <= EAGER
            or any(type(change) is not DidChanged for change in changes)
        ):
            self._stale = self._stale_silence = True
        if world is not self._of:
            self._of = world
            for id in members.keys() & world.members.keys():
                members[id].waits(world.members[id], self._drift)
        # What is read makes both later as a rule. [each look finds them out anew, and looks at all members for it]
        next_overdue = next_silent = NEVER
        for id, member in world.members.items():
            seen = members.get(id)
            if seen is None:
                times = stamps.get(member.offset), arrivals.get(member.offset)
                seen = members[id] = Watched(member, self._drift, now, *times)
                if not past and member.offset != member.joined:
                    seen.words = 2
                self._stale = self._stale_silence = True
                self.returns += 1
            elif seen.offset != member.offset:
                dated = seen.dated
                if self.looked_at >= seen.late_at and not past:
                    self._comebacks.note(self.looked_at - seen.had_at, now, member.session_ms)
                seen.heard(member, now, stamps.get(member.offset), arrivals.get(member.offset))
                if seen.words < 2 and not past:
                    seen.words += 1
                    self._turns += seen.words == 2
                if seen.was_overdue:
                    seen.was_overdue, seen.back_at = False, now
                    self._stale = self._stale_silence = True
                    self.returns += 1
                if member.due_ms <= AT_ONCE or dated != seen.dated:
                    self._stale = self._stale_silence = True
            if not seen.was_overdue and seen.late_at < next_overdue:
                next_overdue = seen.late_at
            if seen.watched and seen.silent_at < next_silent:
                next_silent = seen.silent_at
        self.next_overdue, self.next_silent = next_overdue, next_silent
        for change in changes:
            if type(change) is MemberJoined:
                self._doubt_namesakes(world, change)
                self.joined_at = self.joined_at if past else now
            elif type(change) is RoleChanged:
                self.declared_at = self.declared_at if past else now
            elif type(change) is SeatChanged:
                came = _past(arrivals.get(change.offset), now)
                self._seats[change.seat] = (now if came is None else came, _past(stamps.get(change.offset), now))
                if change.before is not None and change.before in members:
                    self._signs[change.seat] = members[change.before].at
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
        for id in world.names.get(joined.name, ()):
            if id != joined.member and id in self._members:
                self._members[id].words = 0
                self._turns += 1

    def alive(self, world: World, now: int) -> frozenset[str]:
        """The members that are not overdue: the next record of each is no later than it said itself, with as much again for
        delays (R16). A member that says that it is due at once is taken for overdue from the start: it asks for nothing.

        Safety never depends on this; a member wrongly left out is left out of placement for a while.
        """
        if not self._stale and now < self.next_overdue:
            return self._alive
        found: list[str] = []
        members, self.next_overdue = self._members, NEVER
        for id, member in world.members.items():
            seen = members.get(id)
            if id == self.me or seen is None:
                found.append(id)
            elif now < seen.late_at and not seen.was_overdue and member.due_ms > AT_ONCE:
                found.append(id)
                if seen.late_at < self.next_overdue:
                    self.next_overdue = seen.late_at
            else:
                if now >= seen.late_at and not seen.was_overdue:
                    seen.words = 0
                    self._turns += 1
                seen.was_overdue = True
        self._alive, self._stale = frozenset(found), False
        return self._alive

    def late_until(self, world: World, now: int) -> int:
        """Up to when this member can't tell the late from the dead: after its own record was overdue, for as long as nothing of
        it was written, half a session at least and four at most. In that time the others write, if they are no later. [on a
        machine that is too slow for all of them each finds itself alone, and claims everything]"""
        me, seen = world.members[self.me], self._members.get(self.me)
        # By what it said itself: [each that is handed its first seat has not written for as long as holders may]
        if seen is not None and now >= seen.at + overdue_ms(max(me.due_ms, me.session_ms // 4), me.session_ms) * MS:
            session = me.session_ms * MS
            self._late_until = now + min(max(session // 2, now - seen.at), 4 * session)
        return self._late_until

    def heard(self, alive: Iterable[str]) -> frozenset[str]:
        """Those of `alive` that are known to live now, and to read, and may be handed something (R6). [after a cut, who writes
        again but does not read yet is given its share, and does not know of it]"""
        if self._heard[0] is not alive or self._heard[1] != self._turns:
            found = frozenset(id for id in alive if id == self.me or ((it := self._members.get(id)) and it.words > 1))
            self._heard = (alive, self._turns, found)
        return self._heard[2]

    def survivors(self, holders: Iterable[MemberState], among: Iterable[str]) -> frozenset[str]:
        """Those that have written something after each of these silent holders' next record was due: they have outlived them
        (R20). A member that died with them has not. What is read seldom, and is not dated, may be older by the time from one
        look to the next."""
        after, late = NEVER_SEEN, NEVER_SEEN
        for holder in holders:
            seen = self._members.get(holder.id)
            if seen is None:
                return frozenset()
            quarter = holder.session_ms // 4 * MS
            due = seen.at + min(holder.due_ms * MS, quarter)
            after, late = max(after, due), max(late, due + (quarter if len(self._members) > EAGER else 0))
        if self._roll is None or self._roll[0] is not among:
            known = {id: it.at for id in among if (it := self._members.get(id))}
            self._roll = (among, min(known.values(), default=0), frozenset(known))
        if self._roll[1] > late:
            return self._roll[
                2
            ]  # all of them, as after most deaths. [each of the dead costs a look at each of the living]
        found = ((id, self._members.get(id)) for id in among)
        return frozenset(id for id, it in found if it and it.at > (after if it.dated else late))

    def wrote_since(self, member: str, at: int) -> bool:
        """Whether something of it was written, or read, after `at`."""
        seen = self._members.get(member)
        return seen is not None and seen.at > at

    def seen_until(self, now: int) -> int:
        """All that stood in the log at this time is known: what has run out by then has run out (R21)."""
        return self.looked_at

    def silent_at(self, member: MemberState) -> int:
        """From when on its seats may be claimed, as far as its last record is concerned (R3, R21)."""
        seen = self._members.get(member.id)
        return challenge_ns(member.session_ms, member.drift, self._drift) if seen is None else seen.silent_at

    def claimable_at(self, seat: Seat, holder: MemberState) -> int:
        """From when on this seat may be claimed: when the holder's last record is out-waited, and the record that made it the
        holder (R3)."""
        return max(self.silent_at(holder), self._out_waited(holder, *self._seats.get(seat, (0, None))))

    def _out_waited(self, holder: MemberState, had_at: int, stamp: int | None) -> int:
        """A session after having a record; or the holder's lease after its stamp, on the stopwatch of both (`lease`)."""
        if stamp is not None:
            return stamp + shared_ns(holder.session_ms, holder.drift)
        return had_at + challenge_ns(holder.session_ms, holder.drift, self._drift)

    def last_sign(self, seat: Seat) -> int | None:
        """When the last record was read of the one that held the seat before; None if nobody is known to have held it."""
        return self._signs.get(seat)

    def silent(self, world: World, now: int, beat_ms: int, since: int) -> list[tuple[int, str]]:
        """The members without seats that have been silent for twice as long as their records said, for their session at least,
        and for twice as long as any that came back of late (`Comebacks`); each with the time since when that is so, the first
        one first. `beat_ms`: how far apart a standby's records are here, for those that say that the next one is due at once.
        `since`: what it did not hear before that says nothing. [a ledger that takes nothing for a while makes all who wait
        silent, and who writes again first takes them for dead]

        One of them may live: it is forgotten then, and begins anew (R20)."""
        found, least = list[tuple[int, str]](), 2 * self._comebacks.longest(now)
        for id, member in world.members.items():
            seen = self._members.get(id)
            if id == self.me or seen is None or world.held[id]:
                continue
            wait = overdue_ms(max(member.due_ms, member.session_ms, beat_ms), member.session_ms)
            at = max(self.silent_at(member), max(seen.had_at, since) + max(wait * MS, least))
            if self.seen_until(now) >= at:
                found.append((at, id))
        return sorted(found)

    def silence(self, world: World, now: int) -> frozenset[str]:
        """Holders that have been silent for their session: a member that would say that the seats are theirs names the
        dead. They count as overdue until something new of them is read, whatever they had said about their next record."""
        until = self.seen_until(now)
        if not self._stale_silence and until < self.next_silent:
            return self._silent
        found: list[str] = []
        self.next_silent, self.look_every, self._stale_silence = NEVER, 0, False
        for seen in self._members.values():
            seen.watched = False
        for id, seats in world.held.items():
            if not seats or id == self.me:
                continue
            holder, seen = world.members[id], self._members.get(id)
            if seen is None or not seen.dated:
                quarter = holder.session_ms * MS // 4
                self.look_every = min(self.look_every or quarter, quarter)
            at = self.silent_at(holder)
            if until >= at:
                at = min(self.claimable_at(seat, holder) for seat in seats)
            if until < at:
                self.next_silent = min(self.next_silent, at)
                if seen is not None:
                    seen.watched = True
                continue
            found.append(id)
            if seen is not None:
                self._stale = self._stale or not seen.was_overdue
                self._turns += seen.words != 0
                seen.was_overdue, seen.words = True, 0
        self._silent = frozenset(found)
        return self._silent

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


def _past(at: int | None, now: int) -> int | None:
    return at if at is not None and at <= now else None


def overdue_ms(due_ms: int, session_ms: int) -> int:
    """After how long a member is overdue that said that its next record is due in `due_ms`: as much again, and a quarter of its
    session (R16)."""
    return 2 * due_ms + session_ms // 4
