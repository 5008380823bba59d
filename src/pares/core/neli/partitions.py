"""What a member holds of the partitions that a group shares out, and how that begins and ends (see `induced` for the rules).

The phases are those of `partition`. What the group says comes in here; what the log says leads here too, from `induced`.
"""

from __future__ import annotations

from typing import Final

from pares.core import events as ev
from pares.core.coexistence import Other
from pares.core.lease import MS
from pares.core.neli.config import Config
from pares.core.neli.numbering import Numbering
from pares.core.neli.partition import Part
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import AT_BARRIER, BELIEVING, SEEKING, On, Phase, Table
from pares.core.neli.role_mapping import partition_of_number, role_number, seat_of_partition
from pares.core.reasons import BARRIER_TIMED_OUT, CLOSED, LEASE_RAN_OUT, LOST, REVOKED, ROLE_ADDED, ROLE_REMOVED
from pares.core.wire.records import Seat

SILENT: Final = "silent"
"""Why a tenure leads whose predecessor is gone without a word."""


class Holding:
    """The part of `induced.Induced` that neither reads nor writes records."""

    table: Table

    def __init__(self, config: Config) -> None:
        self.config = config
        self.me = config.id
        numbers = range(config.partitions)
        self.parts = [Part(number, config.group, self.table, config.barrier_ms) for number in numbers]
        self.closing = False
        self.over = False
        self.live = False
        """Everything that stood in the logs when they were attached to has been read."""
        self.numbered = config.numbered
        """Roles go by the numbers that the log gives to names; else by their hashes, as somebody in the group does. Decided
        when the logs have been read, and for good."""
        self.wishes: dict[str, bool] = dict.fromkeys(config.roles, True)
        """Roles that the group is to have (False: is to have no more), as this member wants it, and that have yet to be told
        to their partitions."""
        self._others: dict[tuple[int, int], int] = {}
        """Tenures, by partition and token, of members that share out another number: when they are over at the latest."""

    # What each protocol says for itself --------------------------------------------------------------------------------

    def _good(self, part: Part, now: int) -> bool:
        """Whether the lease will do to begin with: a quarter of it is left, or a fresh beat is to come back first."""
        raise NotImplementedError

    def _silence_ns(self, tenure: Tenure) -> int:
        """How long after its last record a tenure must have ended."""
        raise NotImplementedError

    def _claims(self, now: int) -> Other | None:
        """A member of this group that runs the claims protocol and may still believe, as far as this one has read."""
        found = [p.track.others.present(now, self.config.drift) for p in self.parts]
        return max((o for o in found if o is not None), key=lambda o: o.lives, default=None)

    # Time --------------------------------------------------------------------------------------------------------------

    def _expire(self, part: Part, now: int, effects: list[ev.Effect]) -> None:
        """Without records read back a belief ends by itself; a barrier that still runs is told that nothing waits for it."""
        if self.closing and part.phase is Phase.LINGERING:
            part.on(On.UNFOLLOWED, now, effects, CLOSED)
        elif part.phase in BELIEVING:
            part.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT, at=part.until)
        elif part.phase in AT_BARRIER:
            part.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT)

    def _advance(self, part: Part, now: int, effects: list[ev.Effect]) -> None:
        """From waiting to leading."""
        if part.phase is Phase.GRACE and now >= self._waits_until(part) and self._good(part, now):
            part.seats = self._seats_of(part)
            part.on(On.READY, now, effects, SILENT if self._follows_silence(part, now) else "assigned")

    def _follows_silence(self, part: Part, now: int) -> bool:
        """Whether a tenure before this one was never closed. To be told, no more: nothing is decided by it."""
        return any(self._is_silent(tenure, now) for tenure in self._before(part))

    def _before(self, part: Part) -> list[Tenure]:
        """Others' tenures that stood open before this member's own, and stand open still."""
        found = [part.track.open[token] for token in part.before if token in part.track.open]
        return [tenure for tenure in found if tenure.member != self.me]

    def last_sign(self, seat: Seat) -> int | None:
        """Of a seat that this member has just come to lead: when it read the last record of the owner that went in silence;
        None if nobody did."""
        return max((tenure.read_at for tenure in self._before(self.parts[self.partition(*seat)])), default=None)

    def could_lead(self) -> dict[Seat, int]:
        """The seats of partitions that the group gives to this member, that it does not lead, and that nothing but itself keeps
        it from leading, and since when, by the stopwatch: who came before is waited for no more, no barrier runs, and nobody
        else has announced itself there."""
        found: dict[Seat, int] = {}
        for part in self.parts:
            if not self.live or self.closing or part.phase not in (*SEEKING, Phase.GRACE):
                continue
            since = max(part.wanted_at, self._waits_until(part) if part.phase is Phase.GRACE else 0)
            found |= dict.fromkeys(self._seats_of(part), since)
        return found

    def _is_silent(self, tenure: Tenure, now: int) -> bool:
        """Of an open one before this member's own, when that begins to lead: what it waited for was its silence."""
        return True

    def _waits_until(self, part: Part) -> int:
        others = [at for (number, token), at in list(self._others.items()) if token in self.parts[number].track.open]
        return max([part.ready_at, *others])

    def _retake(self, part: Part, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        """The group still gives this member what another has announced itself for: the other may be gone."""
        if part.phase is not Phase.SUPERSEDED:
            return
        rival = part.track.open.get(part.track.newest)
        at = now if rival is None or rival.member == self.me else rival.read_at + self._silence_ns(rival)
        if now >= at:
            part.on(On.RIVAL_SILENT, now, effects)
        else:
            wakes.append(at)

    def _overdue_barrier(self, part: Part, now: int, effects: list[ev.Effect]) -> None:
        """A barrier has a limit of its own: the term is fenced, and the group is let go on."""
        if part.phase in AT_BARRIER and now >= part.barrier_until:
            part.on(On.OVERDUE, now, effects, BARRIER_TIMED_OUT)

    # The group -----------------------------------------------------------------------------------------------------------

    def _assigned(self, event: ev.Assigned, now: int, effects: list[ev.Effect]) -> None:
        if self.closing:
            return
        for part in self._parts(event.partitions):
            part.on(On.ASSIGNED, now, effects)
            self._reseat(part, now, effects)  # it may have come back before anybody else had announced itself

    def _revoked(self, event: ev.Revoked, now: int, effects: list[ev.Effect]) -> None:
        for part in self._parts(event.partitions):
            part.answer = True
            part.on(On.REVOKED, now, effects, REVOKED)
            self._answer(part, effects)
        effects += [ev.Yielded(number) for number in event.partitions if number >= len(self.parts)]

    def _lost(self, event: ev.Lost, now: int, effects: list[ev.Effect]) -> None:
        for part in self._parts(event.partitions):
            part.on(On.LOST, now, effects, LOST)
            self._answer(part, effects)

    def _lapsed(self, event: ev.Lapsed, now: int, effects: list[ev.Effect]) -> None:
        """The belief ran out before its renewal could be carried out: as in `_expire`."""
        part = self.parts[self.partition(*event.seat)]
        if part.phase in BELIEVING and part.token == event.token:
            part.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT)

    def _work_over(self, event: ev.WorkOver, now: int, effects: list[ev.Effect]) -> None:
        part = self.parts[self.partition(*event.seat)]
        if part.phase in AT_BARRIER and part.token == event.token:
            part.returning.discard(event.seat)
            if not part.returning:
                part.on(On.RETURNED, now, effects, part.why)

    def _close(self, event: ev.Close, now: int, effects: list[ev.Effect]) -> None:
        self.closing = True
        for part in self.parts:
            part.on(On.REVOKED, now, effects, CLOSED)
            self._answer(part, effects)

    # Roles ---------------------------------------------------------------------------------------------------------------

    @property
    def roles(self) -> tuple[str, ...]:
        """The group's, as far as this member has read: those that belong to the partition that names them."""
        found = {role for part in self.parts for role in list(part.track.roles) if self._belongs(role, part)}
        return tuple(sorted(found))

    def _set_roles(self, event: ev.ChangeRoles, now: int, effects: list[ev.Effect]) -> None:
        for role in (*event.add, *event.drop):
            self.wishes.pop(role, None)
            self.wishes[role] = role in event.add
        self._place()

    def wanted(self, *, there: bool) -> set[str]:
        """Roles that this member would have the group have (or not have), and that the log does not say yet."""
        told = {role for part in self.parts for role in list(part.add if there else part.drop)}
        return told | {role for role, add in list(self.wishes.items()) if add is there}

    @property
    def numbering(self) -> Numbering:
        """The numbers of names, as partition 0 gives them."""
        return self.parts[0].track.numbering

    def number(self, role: str) -> int | None:
        """The j of a role; None while the log has yet to give it one."""
        return self.numbering.number(role) if self.numbered else role_number(role)

    def _place(self) -> None:
        """Wishes go to the partitions that they concern, as soon as their numbers say which."""
        if not self.live:
            return
        for role, add in list(self.wishes.items()):
            if self.number(role) is None:
                if not add and self.numbering.complete:
                    del self.wishes[role]  # nobody has ever named it
                continue
            del self.wishes[role]
            for seat in range(self.config.seats):
                part = self.parts[self.partition(role, seat)]
                (part.drop if add else part.add).pop(role, None)
                if add is not self._said_already(role, part):
                    (part.add if add else part.drop)[role] = None

    def _said_already(self, role: str, part: Part) -> bool:
        number = part.track.roles.get(role)
        return number is not None and number == self.number(role)

    def _settle_roles(self, part: Part) -> None:
        """What the log says already need not be said."""
        for role in [role for role in part.add if self._said_already(role, part)]:
            del part.add[role]
        for role in [role for role in part.drop if role not in part.track.roles]:
            del part.drop[role]

    def _restate(self, part: Part, now: int) -> None:
        """An owner writes down anew, now and then, what the group works at: the log may forget the first record of it."""
        if not self.config.restate_ms or part.phase is not Phase.LEADING:
            return
        if now >= part.restated_at + self.config.restate_ms * MS:
            part.restated_at = now
            part.restating = list(part.track.roles)

    def _reseat(self, part: Part, now: int, effects: list[ev.Effect]) -> None:
        """What is led where roles have come or gone, or where this member's other seat of a role is free now."""
        if part.phase not in BELIEVING:
            return
        seats = self._seats_of(part)
        if not part.ended.isdisjoint(seats):
            # Its next term needs a token above that of the last one: so the tenure ends by plan, with all roles of the
            # partition, and another one is announced. In NELE there is a moment without a leader.
            part.on(On.ROLE_BACK, now, effects, ROLE_ADDED)
            return
        for seat in part.seats:
            if seat not in seats:
                part.ended.add(seat)
                follow = ev.Follow(seat, part.token, ROLE_REMOVED, False, now)
                effects += [follow, ev.Barrier(seat, part.token, ROLE_REMOVED)]
        effects += [ev.Lead(s, part.token, part.until, ROLE_ADDED) for s in seats if s not in part.seats]
        part.beat_now = part.beat_now or seats != part.seats  # which tells the log since when
        part.seats = seats

    # Ends ----------------------------------------------------------------------------------------------------------------

    def _answer(self, part: Part, effects: list[ev.Effect]) -> None:
        if part.answer and part.phase in (Phase.IDLE, Phase.LINGERING) and part.owed is None:
            part.answer = False
            effects.append(ev.Yielded(part.number))

    def _end(self, end: ev.Closed | ev.Restart | ev.Stop, why: str, now: int, effects: list[ev.Effect]) -> None:
        for part in self.parts:
            part.on(On.ENDED, now, effects, why)
            part.owed = None
            self._answer(part, effects)
        self.over = True
        effects.append(end)

    def _seats_of(self, part: Part) -> list[Seat]:
        """All of the group's roles that belong to it; but of one role a member leads one seat."""
        index = seat_of_partition(part.number, self.config.partitions, self.config.seats)
        mine = {role for role in list(part.track.roles) if self._belongs(role, part)}
        if self.config.seats > 1:
            for other in self.parts:
                if other is not part and other.phase in (*BELIEVING, *AT_BARRIER):
                    mine -= {role for role, _ in other.seats}
        return [(role, index) for role in sorted(mine)]

    def _belongs(self, role: str, part: Part) -> bool:
        """Also of a log in which others once shared out another number of partitions."""
        index = seat_of_partition(part.number, self.config.partitions, self.config.seats)
        here = index < self.config.seats and self.partition(role, index) == part.number
        return here and self._said_already(role, part)

    def partition(self, role: str, seat: int = 0) -> int:
        """The partition of a seat of `role`: by its number, and by the hash of its name while it has none."""
        number = self.number(role)
        number = role_number(role) if number is None else number
        return partition_of_number(number, self.config.partitions, self.config.seats, seat)

    def _parts(self, numbers: tuple[int, ...]) -> list[Part]:
        """A topic that has grown has more partitions than this member shares out; they are nobody's here."""
        return [self.parts[number] for number in numbers if number < len(self.parts)]
