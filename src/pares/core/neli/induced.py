"""What NELI and Fast NELI have in common: leadership is *induced* from partitions that a group shares out.

The group's word alone makes no leader: a member that can't hear the group goes on believing in an old word, and fetching is not
fenced by membership, so it would go on reading. [by goNELI's rule two lead, when the coordinator is cut off from one of them
and the partition's log from neither, until the client's own clock ends it: within a session, or five minutes in a rebalance]
Hence the announcing owner:

N1 A member that is given a partition *announces* itself in that partition's log. The token of the tenure is base + offset of
   that.
N2 It leads only after it has read its announcement back, and after every tenure that stands open before it can no longer be
   believed in (`partition_log`, `ready_at`).
N3 An owner that reads an announcement after its own stops at once, whatever the group says, and yields. It announces itself
   again when the group gives it the partition anew; or, if the group never took it away, when that other tenure was yielded or
   has been silent for so long that nobody can believe in it.
N4 A belief rests on records that were read back (`rests_until`), and ends by this member's own stopwatch without them. What
   ended so is fenced for good; it begins again as a new tenure, by a fresh announcement that came back.
N5 Revoked is not lost. Revoked: the belief ends, the barrier runs, `yield` is written, and only then the group is let go on;
   all that within the barrier's limit. Lost: the belief ends, nobody is waiting, and `yield` only saves the next owner a wait.

N6 What a group works at stands in the log: each partition names its roles (`width`, `work`), whoever leads it leads all of
   them, and a role that is added or removed is so for everybody. With `seats`, a role belongs to as many partitions, each in a
   block of its own; of one role a member leads one seat.

N7 Members may share out different numbers of partitions, when a topic has grown (`conflicts`).

Two owners never believe at once in exclusive mode, whatever the group does: of two announcements the later one is in the way of
the earlier owner's reading, so all records of its own that re-arm it stand before; and these the later owner waits out.
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
"""Why a tenure leads whose predecessor is gone without a word."""


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
            if now >= part.until:  # what can't be over is not looked at: this is done in every step
                part.expire(now, effects, closing=self.closing)
        getattr(self, HANDLERS[type(event)])(event, now, effects)
        return effects

    # What a driver and a view ask ----------------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Everything that stood in the logs when they were attached to has been read."""
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
        """Whether it should hear (`Read`) that there is nothing new in a partition: while something is waited for there, and
        now and then."""
        part = self.parts[partition]
        waits = not self.live or part.phase in (*SEEKING, Phase.GRACE) or not part.quiet
        return waits or now >= part.heard_at + self.rules.within_ms * MS // 4

    def leaders(self, role: str) -> list[tuple[int, Tenure]]:
        """The seats of `role` that are led, and who leads their partitions, as far as this member has read."""
        seats = range(self.config.seats)
        led = [(seat, self.parts[self.roles.partition(role, seat)].track.leader()) for seat in seats]
        return [(seat, tenure) for seat, tenure in led if tenure is not None]

    def last_sign(self, seat: Seat) -> int | None:
        """Of a seat that this member has just come to lead: when it read the last record of the owner that went in silence;
        None if nobody did."""
        return max((tenure.read_at for tenure in self._before(self._part_of(seat))), default=None)

    def could_lead(self) -> dict[Seat, int]:
        """The seats of partitions that the group gives to this member, that it does not lead, and that nothing but itself keeps
        it from leading, and since when, by the stopwatch: who came before is waited for no more, no barrier runs, and nobody
        else has announced itself there."""
        found: dict[Seat, int] = {}
        for part in self.parts:
            if self.live and part.phase in (*SEEKING, Phase.GRACE):
                since = max(part.wanted_at, self._waits_until(part) if part.phase is Phase.GRACE else 0)
                found |= dict.fromkeys(self.roles.seats_of(part), since)
        return found

    # Time ----------------------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick, now: int, effects: list[ev.Effect]) -> None:
        wakes: list[int] = []
        # When one beat is due, those that are nearly due go with it: then all partitions wake this member at once.
        beats = [p.outbox.last_at + self.rules.interval_ns(p) for p in self.parts if p.outbox.in_flight is None]
        early_ns = self.rules.share.interval_ns // 4 if any(now >= due for due in beats) else 0
        self.roles.await_numbers(now, self.rules.blind_ns(), wakes)
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
            return  # or a fresh beat is to come back first
        # To be told, no more: nothing is decided by it.
        silent = any(self.rules.is_silent(tenure, now) for tenure in self._before(part))
        part.seats = self.roles.seats_of(part)
        part.on(On.READY, now, effects, SILENT if silent else "assigned")

    def _waits_until(self, part: Partition) -> int:
        return max(part.ready_at, self.conflicts.over_at())

    def _before(self, part: Partition) -> list[Tenure]:
        """Others' tenures that stood open before this member's own, and stand open still."""
        return [tenure for tenure in part.others(self.me) if tenure.token in part.before]

    def _retake(self, part: Partition, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        """The group still gives this member what another has announced itself for: the other may be gone."""
        if part.phase is not Phase.SUPERSEDED:
            return
        rival = part.track.open.get(part.track.newest)
        at = now if rival is None or rival.member == self.me else rival.read_at + self.rules.silence_ns(rival)
        if now >= at:
            part.on(On.RIVAL_SILENT, now, effects)
        else:
            wakes.append(at)

    def _reseat(self, part: Partition, now: int, effects: list[ev.Effect]) -> None:
        """What is led where roles have come or gone, or where this member's other seat of a role is free now."""
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
        part.beat_now = part.beat_now or seats != part.seats  # which tells the log since when
        part.seats = seats

    # The group and users -------------------------------------------------------------------------------------------------

    def _assigned(self, event: ev.Assigned, now: int, effects: list[ev.Effect]) -> None:
        if self.closing:
            return
        for part in self._parts(event.partitions):
            part.on(On.ASSIGNED, now, effects)
            self._reseat(part, now, effects)  # it may have come back before anybody else had announced itself

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
        """A topic that has grown has more partitions than this member shares out; they are nobody's here."""
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
            self.roles.numbers_came()
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
            if isinstance(record, records.Share):  # else by the hash, as a restatement or by an older member
                self.roles.newcomer(part)

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
            # It joined before that: now it goes on, or takes its join back.
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
        """After a read: what others are about, whether all has been read, and how often to beat."""
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
            # The numbers may be others now: nobody leads anywhere by them before all who have not noticed can't believe any
            # more.
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
