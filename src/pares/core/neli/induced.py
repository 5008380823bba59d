"""What NELI and Fast NELI have in common: leadership is *induced* from partitions that a group shares out.

The group's word alone makes no leader: a member that can't hear the group goes on believing in an old assignment, and as
reading is not fenced by membership, it goes on reading. [by goNELI's rule two members lead when one of them is cut off from the
coordinator and both reach the partition's log, until the client's own clock ends it: a session, in a rebalance five minutes] So
an owner announces itself:

N1 A member that is given a partition *announces* itself in that partition's log. The token of the tenure is base + offset of
   the announcement.
N2 It leads only after it has read its announcement back, and after every tenure that stands open before it must have ended
   (`partition_log`, `ready_at`).
N3 An owner that reads another member's announcement after its own stops at once, whatever the group says, and yields. It
   announces itself again when the group gives it the partition anew; or, if the group never took the partition away, when that
   other tenure was yielded, or has been silent for so long that it must have ended.
N4 A belief rests on records that were read back (`rests_until`), and ends by this member's own stopwatch without them. A belief
   that has ended does not resume: the owner announces itself anew, reads that back, and begins a new tenure.
N5 Revoked is not lost. Revoked: the belief ends, the barrier runs, `yield` is written, and only then the group is let go on;
   all that within the barrier's limit. Lost: the belief ends, nothing waits, and the `yield` only saves the next owner a wait.

N6 A group's roles stand in the log: each partition names its own (`width`, `work`, `place`), its leader leads all of them, and
   a role that is added or removed is so for every member. With `seats`, a role belongs to as many partitions, each in a block
   of its own; of one role a member leads one seat.

N7 Members may share out different numbers of partitions, when a topic has grown (`conflicts`).

Two owners never believe at once in exclusive mode, whatever the group does. The earlier owner reads the log in order, so it
comes to the later announcement before any record behind it: all records that its belief can rest on stand before that
announcement, and the later owner waits them out.
"""

from __future__ import annotations

from typing import Final

from pares.core import events as ev
from pares.core.lease import MS
from pares.core.neli.appends import LOOKS, Writer
from pares.core.neli.classic import Neli
from pares.core.neli.conflicts import Conflicts
from pares.core.neli.fast import Fast
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import AT_BARRIER, BELIEVING, GIVEN, SEEKING, On, Phase
from pares.core.neli.roles import Roles
from pares.core.reasons import CLOSED, LEASE_RAN_OUT, LOST, REVOKED, ROLE_ADDED, ROLE_REMOVED, SUPERSEDED
from pares.core.wire import neli_records as records
from pares.core.wire.reader import EntryLike
from pares.core.wire.records import Seat

SILENT: Final = "silent"
"""Why a tenure begins to lead whose predecessor went silent without a `yield`."""


class Induced:
    """One incarnation of a member, by the rules of one protocol. Feed it events, carry out its effects, in order."""

    def __init__(self, rules: Neli | Fast) -> None:
        self.rules = rules
        self.config = rules.config
        self.me = rules.config.id
        self.parts = [Partition(number, self.config, rules.table) for number in range(self.config.partitions)]
        self.roles = Roles(self.config, self.parts)
        self.conflicts = Conflicts(self.config, rules.mode, self.parts)
        self.writer = Writer(rules, self.parts, self.roles, self.conflicts)
        self.closing = False
        self.over = False

    def step(self, event: ev.Event, now: int) -> list[ev.Effect]:
        """What follows from `event` at `now` (ns on the stopwatch), as effects to be carried out in order."""
        if self.over:
            return []
        effects: list[ev.Effect] = []
        for part in self.parts:
            if now >= part.until:  # asked first, as this runs in every step: a belief that still lasts can't expire
                part.expire(now, effects, closing=self.closing)
        getattr(self, HANDLERS[type(event)])(event, now, effects)
        return effects

    # What a driver and a view ask ----------------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether all that stood in the logs when they were attached to has been read, and no member of claims is in the
        way."""
        return self.roles.known

    @property
    def settled(self) -> bool:
        """Whether nothing is under way, owed, or to be read back."""
        quiet = all(p.outbox.in_flight is None and p.owed is None and p.quiet for p in self.parts)
        return self.over or (quiet and self.roles.settled())

    def position(self, partition: int) -> int:
        """Where to read that partition next."""
        return self.parts[partition].track.position

    def heeds_silence(self, partition: int, now: int) -> bool:
        """Whether the core wants a `Read` that says that a partition has nothing new: while it waits for something there, and
        otherwise now and then."""
        part = self.parts[partition]
        waits = not self.live or part.phase in (*SEEKING, Phase.GRACE) or not part.quiet
        return waits or now >= part.heard_at + self.rules.within_ms * MS // 4

    def leaders(self, role: str) -> list[tuple[int, Tenure]]:
        """The seats of `role` that are led, and who leads their partitions, as far as this member has read."""
        seats = range(self.config.seats)
        led = [(seat, self.parts[self.roles.partition(role, seat)].track.leader()) for seat in seats]
        return [(seat, tenure) for seat, tenure in led if tenure is not None]

    def last_sign(self, seat: Seat) -> int | None:
        """For a seat that this member has just come to lead: when it read the last record of an owner that went silent; None if
        no owner did."""
        return max((tenure.read_at for tenure in self._before(self._part_of(seat))), default=None)

    def could_lead(self) -> dict[Seat, int]:
        """The seats that only this member itself keeps it from leading, and since when, by the stopwatch. The group gives it
        their partition, no earlier owner is waited for, no barrier runs, and no other member has announced itself there."""
        found: dict[Seat, int] = {}
        for part in self.parts:
            if self.live and part.phase in (*SEEKING, Phase.GRACE):
                since = max(part.wanted_at, self._waits_until(part) if part.phase is Phase.GRACE else 0)
                found |= dict.fromkeys(self.roles.seats_of(part), since)
        return found

    # Time ----------------------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick, now: int, effects: list[ev.Effect]) -> None:
        wakes: list[int] = []
        # When one beat is due, those that are nearly due go with it: so this member wakes once for all partitions.
        beats = [p.outbox.last_at + self.rules.interval_ns(p) for p in self.parts if p.outbox.in_flight is None]
        early_ns = self.rules.share.interval_ns // 4 if any(now >= due for due in beats) else 0
        if self.roles.await_numbers(now, self.rules.blind_ns(), wakes):
            for part in self.parts:  # one may lead already, without the roles that had no number
                self._reseat(part, now, effects)
        for part in self.parts:
            part.overdue(now, effects)
            self._advance(part, now, effects)
            if self.config.seats > 1:
                self._reseat(part, now, effects)
            self._retake(part, now, effects, wakes)
            self.writer.write(part, event.wall_us, now, early_ns, effects, wakes)
            part.answer(effects)
            if part.phase in (*BELIEVING, *AT_BARRIER):
                wakes.append(part.until if part.phase in BELIEVING else min(part.until, part.barrier_until))
            if part.phase in SEEKING and 0 < part.looks < LOOKS:
                wakes.append(now + MS)
            if part.phase is Phase.GRACE and self._waits_until(part) > now:
                wakes.append(self._waits_until(part))
        idle = all(p.phase is Phase.IDLE and p.owed is None and p.outbox.in_flight is None for p in self.parts)
        if self.closing and idle:
            self._end(ev.Closed(), CLOSED, now, effects)
        elif wakes:
            effects.append(ev.Wake(min(wakes)))

    def _advance(self, part: Partition, now: int, effects: list[ev.Effect]) -> None:
        """From waiting to leading."""
        if part.phase is not Phase.GRACE or now < self._waits_until(part) or not self.rules.fresh(part.until, now):
            return  # in the last case, a fresh beat has to come back first
        # Only told to the user: nothing is decided by it.
        silent = any(self.rules.is_silent(tenure, now) for tenure in self._before(part))
        part.seats = self.roles.seats_of(part)
        part.on(On.READY, now, effects, SILENT if silent else "assigned")

    def _waits_until(self, part: Partition) -> int:
        return max(part.ready_at, self.conflicts.over_at())

    def _before(self, part: Partition) -> list[Tenure]:
        """Others' tenures that stood open before this member's own, and stand open still."""
        return [tenure for tenure in part.others(self.me) if tenure.token in part.before]

    def _retake(self, part: Partition, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        """Announces itself again where the group still gives this member a partition and the other owner has gone silent."""
        if part.phase is not Phase.SUPERSEDED:
            return
        rival = part.track.open.get(part.track.newest)
        at = now if rival is None or rival.member == self.me else rival.read_at + self.rules.silence_ns(rival)
        if now >= at:
            part.on(On.RIVAL_SILENT, now, effects)
        else:
            wakes.append(at)

    def _reseat(self, part: Partition, now: int, effects: list[ev.Effect]) -> None:
        """Adapts what is led to roles that have come or gone, and to a role whose other seat this member no longer leads."""
        if part.phase not in BELIEVING:
            return
        seats = self.roles.seats_of(part)
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
        part.beat_now = part.beat_now or seats != part.seats  # tells the log since when these are led
        part.seats = seats

    # The group and users -------------------------------------------------------------------------------------------------

    def _assigned(self, event: ev.Assigned, now: int, effects: list[ev.Effect]) -> None:
        if self.closing:
            return
        for part in self._parts(event.partitions):
            part.on(On.ASSIGNED, now, effects)
            self._reseat(part, now, effects)  # the partition may have come back before another member announced itself

    def _revoked(self, event: ev.Revoked, now: int, effects: list[ev.Effect]) -> None:
        for part in self._parts(event.partitions):
            part.revoked = True
            part.on(On.REVOKED, now, effects, REVOKED)
            part.answer(effects)
        effects += [ev.Yielded(number) for number in event.partitions if number >= len(self.parts)]

    def _lost(self, event: ev.Lost, now: int, effects: list[ev.Effect]) -> None:
        for part in self._parts(event.partitions):
            part.on(On.LOST, now, effects, LOST)
            part.answer(effects)

    def _parts(self, numbers: tuple[int, ...]) -> list[Partition]:
        """The partitions of these numbers. A topic that has grown has more than this member shares out: those are left out."""
        return [self.parts[number] for number in numbers if number < len(self.parts)]

    def _part_of(self, seat: Seat) -> Partition:
        return self.parts[self.roles.partition(*seat)]

    def _lapsed(self, event: ev.Lapsed, now: int, effects: list[ev.Effect]) -> None:
        """The belief ran out before its renewal could be carried out."""
        part = self._part_of(event.seat)
        if part.phase in BELIEVING and part.token == event.token:
            part.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT)

    def _work_over(self, event: ev.WorkOver, now: int, effects: list[ev.Effect]) -> None:
        self._part_of(event.seat).returned(event.seat, event.token, now, effects)

    def _close(self, event: ev.Close, now: int, effects: list[ev.Effect]) -> None:
        self.closing = self.writer.closing = True
        for part in self.parts:
            part.on(On.REVOKED, now, effects, CLOSED)
            part.answer(effects)

    def _change_roles(self, event: ev.ChangeRoles, now: int, effects: list[ev.Effect]) -> None:
        self.roles.change(event)

    def _append_over(self, event: ev.Acked | ev.Failed, now: int, effects: list[ev.Effect]) -> None:
        self.writer.over(event, now, effects)

    # Reading -------------------------------------------------------------------------------------------------------------

    def _attached(self, event: ev.Attached, now: int, effects: list[ev.Effect]) -> None:
        part = self.parts[event.partition]
        part.attached = True
        part.track.enter(event.start, event.end, now)

    def _read(self, event: ev.Read, now: int, effects: list[ev.Effect]) -> None:
        part = self.parts[event.partition]
        track = part.track
        part.heard_at, before = now, part.until
        part.looks += 1
        if not event.entries:
            track.nothing_more(now)
        for entry in event.entries:
            record = track.feed(entry, now)
            if record is None:
                continue
            if record.m == self.me and not part.outbox.sent.read_back(record.n, entry[2]):
                text = f"record {record.n} of {self.me} was not written by this process: it was forked or cloned; start it anew"
                self._end(ev.Stop("cloned", text), "cloned", now, effects)
                return
            self._take(part, record, entry, now, effects)
            part.until = max(part.until, self.rules.rests_until(part, record, entry, now, event.wall_us))
        self.writer.largest = max(self.writer.largest, track.top)
        if event.entries or not self.live:
            self._look_around(part, now, effects)
        if self.over:
            return
        if part.until > before and part.phase in BELIEVING and part.seats:
            effects.append(ev.Extend(part.until, tuple(part.seats)))
        self._advance(part, now, effects)

    def _take(
        self, part: Partition, record: records.InductionRecord, entry: EntryLike, now: int, effects: list[ev.Effect]
    ) -> None:
        mine = record.m == self.me
        if isinstance(record, records.Number) and part.number == 0:
            if self.roles.numbering.conflict:
                text = f"{self.roles.numbering.conflict}: the first counts here"
                effects += self.conflicts.once(ev.Report("role-numbers", text))
            self.roles.numbers_came(record)
            for other in self.parts:
                self._reseat(other, now, effects)
        elif isinstance(record, records.PartitionCount | records.RolesChanged | records.Place):
            self.roles.came(part, record)
            self._reseat(part, now, effects)
        if isinstance(record, records.PartitionCount | records.Share):
            self._shared_out(part, record, entry, now, effects)
        elif isinstance(record, records.Announce):
            if mine:
                self._announced(part, record, entry, now, effects)
            else:
                part.on(On.RIVAL, now, effects, f"{SUPERSEDED} by {record.m}")
        elif (
            not mine and isinstance(record, records.Pulse | records.Beacon) and record.lead and record.term > part.token
        ):
            part.on(On.RIVAL_LEADS, now, effects, f"{SUPERSEDED} by {record.m}")

    def _shared_out(
        self,
        part: Partition,
        record: records.PartitionCount | records.Share,
        entry: EntryLike,
        now: int,
        effects: list[ev.Effect],
    ) -> None:
        """A member says how many partitions there are: this one, or one that has come."""
        if record.m == self.me and not part.wide:
            part.wide = True
            others = self.conflicts.by_another_number(part, numbered=self.roles.numbered)
            self.conflicts.await_end({(part.number, t.token): self.rules.ready_at(t, entry[1], now) for t in others})
        elif record.m != self.me and self.live:
            double = self.conflicts.duplicate(record.m)
            if double is not None and entry[0] >= part.track.end:
                effects += self.conflicts.once(double)
            if isinstance(record, records.Share):  # a `width` goes by hashes: a restatement, or an older member
                self.roles.newcomer(part, self.me, now)

    def _announced(
        self, part: Partition, record: records.Announce, entry: EntryLike, now: int, effects: list[ev.Effect]
    ) -> None:
        """An announcement of this member has been read back, and counts."""
        part.stands = record.b + entry[0]
        late = SUPERSEDED if part.phase is Phase.SUPERSEDED else REVOKED
        claims = self.conflicts.claims(now)
        if record.n != part.outbox.announced:  # one of unknown outcome that came late
            part.on(On.OUTDATED, now, effects, late)
        elif claims is not None and part.phase in GIVEN:
            # That member joined before this announcement: it goes on, or takes its join back.
            part.on(On.BESIDE_CLAIMS, now, effects, f"beside {claims}")
        else:
            part.on(On.ANNOUNCED, now, effects, late)
        if part.phase is not Phase.GRACE:
            return
        track = part.track
        others = [tenure for tenure in part.others(self.me) if tenure.token < part.token]
        part.before = {tenure.token: self.rules.ready_at(tenure, entry[1], now) for tenure in others}
        blind_until = track.entered_at + self.rules.blind_ns() if track.blind(self.me) else 0
        part.blind_until = max(part.broke_until, blind_until)

    def _look_around(self, part: Partition, now: int, effects: list[ev.Effect]) -> None:
        """After a read: looks for conflicts with others, whether all has been read, and how often to beat."""
        for found in self.conflicts.found(part, now, live=self.live, numbered=self.roles.numbered):
            if not isinstance(found, ev.Report):
                self._end(found, found.kind if isinstance(found, ev.Stop) else found.why, now, effects)
                break
            effects += self.conflicts.once(found)
        read = not self.live and not self.over and all(p.entered for p in self.parts)
        if read and self.conflicts.claims(now) is None:
            self.roles.all_read()
            effects.append(ev.Live())
        me = (self.config.group, self.me)
        self.rules.share.reckon([p.track for p in self.parts], me, self.rules.everywhere, now)
        for report in self.rules.reports():
            effects += self.conflicts.once(report)

    def _jumped(self, event: ev.Jumped, now: int, effects: list[ev.Effect]) -> None:
        part, names = self.parts[event.partition], list(self.roles.numbering.of)
        self.roles.log_replaced(part)
        part.replaced(now, effects, event.why)
        part.broke_until = now + self.rules.blind_ns()
        part.answer(effects)
        if part.number == 0 and self.roles.numbered and self.live:
            # The numbers may have changed: this member leads nowhere by the new ones until every owner that has not noticed
            # must have stopped believing.
            self.roles.numbers_replaced(names)
            for other in self.parts[1:]:
                other.broke_until = max(other.broke_until, part.broke_until)
                other.on(On.RENUMBERED, now, effects, event.why, owed=LEASE_RAN_OUT)
        elif self.roles.numbered and self.live:
            self.roles.place_again(part)

    def _end(self, end: ev.Closed | ev.Restart | ev.Stop, why: str, now: int, effects: list[ev.Effect]) -> None:
        for part in self.parts:
            part.on(On.ENDED, now, effects, why)
            part.owed = None
            part.answer(effects)
        self.over = True
        effects.append(end)


HANDLERS: Final[dict[type, str]] = {
    ev.Attached: "_attached",
    ev.Read: "_read",
    ev.Jumped: "_jumped",
    ev.Assigned: "_assigned",
    ev.Revoked: "_revoked",
    ev.Lost: "_lost",
    ev.Acked: "_append_over",
    ev.Failed: "_append_over",
    ev.Lapsed: "_lapsed",
    ev.WorkOver: "_work_over",
    ev.ChangeRoles: "_change_roles",
    ev.Tick: "_tick",
    ev.Close: "_close",
}
