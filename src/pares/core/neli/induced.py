"""What NELI and Fast NELI have in common: leadership is *induced* from partitions that a group shares out.

The group's word alone makes no leader: a member that can't hear the group goes on believing in an old word, and fetching is not
fenced by membership, so it would go on reading. [by goNELI's rule two lead, when the coordinator is cut off from one of them
and the partition's log from neither, until the client's own clock ends it: within a session, or five minutes in a rebalance]
Hence the announcing owner:

N1 A member that is given a partition *announces* itself in that partition's log. The token of the tenure is base + offset of
   that.
N2 It leads only after it has read its announcement back, and after every tenure that stands open before it can no longer be
   believed in (`partition_log`, `_ready_at`).
N3 An owner that reads an announcement after its own stops at once, whatever the group says, and yields. It announces itself
   again when the group gives it the partition anew; or, if the group never took it away, when that other tenure was yielded or
   has been silent for so long that nobody can believe in it.
N4 A belief rests on records that were read back (`_rearm`), and ends by this member's own stopwatch without them. What ended so
   is fenced for good; it begins again as a new tenure, by a fresh announcement that came back.
N5 Revoked is not lost. Revoked: the belief ends, the barrier runs, `yield` is written, and only then the group is let go on;
   all that within the barrier's limit. Lost: the belief ends, nobody is waiting, and `yield` only saves the next owner a wait.

N6 What a group works at stands in the log: each partition names its roles (`width`, `work`), whoever leads it leads all of
   them, and a role that is added or removed is so for everybody. With `seats`, a role belongs to as many partitions, each in a
   block of its own; of one role a member leads one seat.

N7 Members may share out different numbers of partitions, when a topic has grown: then one role belongs to two partitions. So
   everybody says its number in every partition (`width`), and leads only when that came back from each and nobody who shares
   out another number, and announced itself before, can be believed in any more. A member that reads a larger number than its
   own stops, and begins anew with the larger one. [the paper forbids M to grow]

Two owners never believe at once in exclusive mode, whatever the group does: of two announcements the later one is in the way of
the earlier owner's reading, so all records of its own that re-arm it stand before; and these the later owner waits out.
"""

from __future__ import annotations

from typing import Final

from pares.core import events as ev
from pares.core.coexistence import refusal
from pares.core.lease import MS
from pares.core.neli.appends import LOOKS, Writing
from pares.core.neli.config import Config
from pares.core.neli.partition import Part
from pares.core.neli.partition_log import Tenure
from pares.core.neli.phases import AT_BARRIER, BELIEVING, SEEKING, STANDING, On, Phase
from pares.core.reasons import CLOSED, LEASE_RAN_OUT, REVOKED, SUPERSEDED
from pares.core.wire.neli_records import (
    Announce,
    Beacon,
    InductionRecord,
    Number,
    PartitionCount,
    Place,
    Pulse,
    RolesChanged,
    Share,
)
from pares.core.wire.reader import EntryLike


class Induced(Writing):
    """One incarnation of a member. Feed it events, carry out its effects, in order."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._told: set[str] = set()

    def step(self, event: ev.Event, now: int) -> list[ev.Effect]:
        """What follows from `event` at `now` (ns on the stopwatch), as effects to be carried out in order."""
        if self.over:
            return []
        effects: list[ev.Effect] = []
        for part in self.parts:
            if now >= part.until:  # what can't be over is not looked at: this is done in every step
                self._expire(part, now, effects)
        getattr(self, HANDLERS[type(event)])(event, now, effects)
        return effects

    def position(self, partition: int) -> int:
        """Where to read that partition next."""
        return self.parts[partition].track.position

    def heeds_silence(self, partition: int, now: int) -> bool:
        """Whether it should hear (`Read`) that there is nothing new in a partition: while something is waited for there, and
        now and then."""
        part = self.parts[partition]
        waits = not self.live or part.phase in (*SEEKING, Phase.GRACE) or not part.quiet
        return waits or now >= part.heard_at + self.within_ms * MS // 4

    def leader(self, role: str) -> Tenure | None:
        """The owner of the partition of `role`, of its first seat that is led, as far as this member has read."""
        return next((tenure for _, tenure in self.leaders(role)), None)

    def leaders(self, role: str) -> list[tuple[int, Tenure]]:
        """The seats of `role` that are led, and who leads their partitions."""
        seats = range(self.config.seats)
        led = [(seat, self.parts[self.partition(role, seat)].track.leader()) for seat in seats]
        return [(seat, tenure) for seat, tenure in led if tenure is not None]

    @property
    def settled(self) -> bool:
        """Whether nothing is under way, owed, or to be read back."""
        return self.over or (
            not self.wishes
            and all(p.in_flight is None and p.owed is None and p.quiet and not p.add and not p.drop for p in self.parts)
        )

    # What each protocol says for itself --------------------------------------------------------------------------------

    def _rearm(self, part: Part, record: InductionRecord, entry: EntryLike, now: int, wall_us: int) -> None:
        """A record counted: does a belief of this member rest on it, and until when?"""
        raise NotImplementedError

    def _ready_at(self, part: Part, tenure: Tenure, stamp_ms: int, now: int) -> int:
        """When that tenure, which stands open before this member's announcement (appended at `stamp_ms`), can't be believed
        in any more."""
        raise NotImplementedError

    def _blind_ns(self) -> int:
        """How long to wait for owners of which the log has no trace left."""
        raise NotImplementedError

    # Time --------------------------------------------------------------------------------------------------------------

    def _tick(self, event: ev.Tick, now: int, effects: list[ev.Effect]) -> None:
        wakes: list[int] = []
        # When one beat is due, those that are nearly due go with it: then all partitions wake this member at once.
        due = any(p.in_flight is None and now >= p.last_at + self._interval_ns(p) for p in self.parts)
        self._early_ns = self.pace_ns // 4 if due else 0
        self._await_numbers(now, wakes)
        for part in self.parts:
            self._overdue_barrier(part, now, effects)
            self._advance(part, now, effects)
            if self.config.seats > 1:
                self._reseat(part, now, effects)
            self._retake(part, now, effects, wakes)
            if part.in_flight is None:
                if now < part.retry_at:
                    wakes.append(part.retry_at)
                else:
                    self._write(part, event.wall_us, now, effects, wakes)
            self._answer(part, effects)
            if part.phase in (*BELIEVING, *AT_BARRIER):
                wakes.append(part.until)
            if part.phase in AT_BARRIER:
                wakes.append(part.barrier_until)
            if part.phase in SEEKING and 0 < part.looks < LOOKS:
                wakes.append(now + MS)
            if part.phase is Phase.GRACE and self._waits_until(part) > now:
                wakes.append(self._waits_until(part))
        if self.closing and all(p.phase is Phase.IDLE and p.owed is None and p.in_flight is None for p in self.parts):
            self._end(ev.Closed(), CLOSED, now, effects)
        elif wakes:
            effects.append(ev.Wake(min(wakes)))

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
            if record.m == self.me and not part.sent.read_back(record.n, entry[2]):
                text = f"record {record.n} of {self.me} was not written by this process: it was forked or cloned; start it anew"
                self._end(ev.Stop("cloned", text), "cloned", now, effects)
                return
            self._take(part, record, entry, now, effects)
            self._rearm(part, record, entry, now, event.wall_us)
        self.largest = max(self.largest, track.top)
        if event.entries or not self.live:
            self._look_around(part, now, effects)
        if self.over:
            return
        if part.until > before and part.phase in BELIEVING and part.seats:
            effects.append(ev.Extend(part.until, tuple(part.seats)))
        self._advance(part, now, effects)

    def _take(self, part: Part, record: InductionRecord, entry: EntryLike, now: int, effects: list[ev.Effect]) -> None:
        mine = record.m == self.me
        if isinstance(record, Number) and part.number == 0:
            self._numbers_came(now, effects)
        elif isinstance(record, PartitionCount | RolesChanged | Place):
            self._roles_came(part, record, now, effects)
        if isinstance(record, PartitionCount | Share):
            if mine and not part.wide:
                part.wide = True
                shape = (self.config.partitions, self.numbered)
                others = [t for t in part.track.open.values() if (t.of, t.numbered) != shape and t.member != self.me]
                self._others |= {(part.number, t.token): self._ready_at(part, t, entry[1], now) for t in others}
            elif not mine:
                self._newcomer(part, record, entry[0], now, effects)
        elif isinstance(record, Announce):
            token = record.b + entry[0]
            if mine:
                self._announced(part, record.n, token, entry[1], now, effects)
            else:
                part.on(On.RIVAL, now, effects, f"{SUPERSEDED} by {record.m}")
        elif not mine and isinstance(record, Pulse | Beacon) and record.lead and record.term > part.token:
            part.on(On.RIVAL_LEADS, now, effects, f"{SUPERSEDED} by {record.m}")

    # Roles and their numbers ----------------------------------------------------------------------------------------------

    def _numbers_came(self, now: int, effects: list[ev.Effect]) -> None:
        if self.numbering.conflict:
            self._report("role-numbers", f"{self.numbering.conflict}: the first counts here", effects)
        self._place()
        for part in self.parts:
            self._settle_roles(part)
            self._reseat(part, now, effects)

    def _roles_came(
        self, part: Part, record: PartitionCount | RolesChanged | Place, now: int, effects: list[ev.Effect]
    ) -> None:
        if self.numbered and self.live and isinstance(record, RolesChanged) and part.phase in STANDING:
            # By somebody who knows no numbers, such as an older administrator.
            self.wishes |= {role: True for role in record.add if self.number(role) != part.track.roles.get(role)}
            self._place()
        self._settle_roles(part)
        self._reseat(part, now, effects)

    def _newcomer(
        self, part: Part, record: PartitionCount | Share, offset: int, now: int, effects: list[ev.Effect]
    ) -> None:
        """Somebody begins to share out, too, or says again that it does."""
        if not self.live:
            return
        if record.m.rpartition("~")[0] == self.config.name and offset >= part.track.end:
            text = f"{record.m} shares out under the name of this member ({self.me}); give each process its own"
            self._report("duplicate-name", text, effects)
        if isinstance(record, PartitionCount):
            return  # by the hash, as a restatement or by an older member
        if not self.numbered:
            part.wants_width = True  # whereupon it begins anew, and goes by the hash, too
        elif part.number == 0 and part.phase is Phase.LEADING and self.numbering.complete and not self._restating:
            self._restating = list(self.numbering.of)

    def _await_numbers(self, now: int, wakes: list[int]) -> None:
        """Of a log that has forgotten its beginning nobody may be left who knows the numbers."""
        part = self.parts[0]
        if not self.live or not self.numbered:
            return
        self._restate_numbers(part, now)
        if not self.numbering.complete:
            until = part.track.entered_at + max(self._blind_ns(), 2 * self.config.session_ms * MS)
            if now < until:
                wakes.append(until)
                return
            self.numbering.settle()
        if self.wishes:
            self._place()

    def _decide_numbers(self) -> None:
        """All logs have been read: whether somebody in the group knows the hash only."""
        self.numbered = self.numbered and not any(part.track.hashed for part in self.parts)
        self._place()

    def _announced(self, part: Part, n: int, token: int, stamp_ms: int, now: int, effects: list[ev.Effect]) -> None:
        """An announcement of this member has been read back, and counts."""
        part.stands = token
        late = SUPERSEDED if part.phase is Phase.SUPERSEDED else REVOKED
        claims = self._claims(now)
        if n != part.announced:  # one of unknown outcome that came late
            part.on(On.OUTDATED, now, effects, late)
        elif claims is not None and part.assigned:
            part.on(On.BESIDE_CLAIMS, now, effects, f"beside {claims}")
        else:
            part.on(On.ANNOUNCED, now, effects, late)
        if part.phase is not Phase.GRACE:
            return
        track = part.track
        others = [t for t in track.open.values() if t.token < token and t.member != self.me]
        part.before = {t.token: self._ready_at(part, t, stamp_ms, now) for t in others}
        blind_until = track.entered_at + self._blind_ns() if track.blind(self.me) else 0
        part.blind_until = max(part.broke_until, blind_until)

    def _look_around(self, part: Part, now: int, effects: list[ev.Effect]) -> None:
        """What the log says of others that can't be: another protocol, another number of partitions."""
        track = part.track
        claims = self._claims(now)
        other = str(claims) if claims is not None else self._other_protocol(part)
        announced = any(p.announced for p in self.parts)
        if other and not announced and (claims is None or claims.lives):
            self._end(ev.Stop("refused", refusal(self.config.group, other, self._runs())), "refused", now, effects)
            return
        if other and announced:
            text = f"in this group somebody runs {other}, and this member {self._runs()}"
            self._report("other-protocol", text, effects)
            if claims is not None and claims.lives:  # it has not been stopped by what stands here, or was here before
                self._end(ev.Restart(text), text, now, effects)
                return
        if track.width > self.config.partitions:
            text = f"group {self.config.group!r} shares out {track.width} partitions, and this member {self.config.partitions}"
            end = (
                ev.Restart(text)
                if all(p.wide for p in self.parts)
                else ev.Stop("refused", f"{text}: open the ledger with as many")
            )
            self._end(end, text, now, effects)
            return
        hashed = next((p.track.hashed for p in self.parts if p.track.hashed), "")
        if self.live and self.numbered and hashed:
            text = (
                f"{hashed} knows the roles of group {self.config.group!r} by the hash of their names only, as release 0.1 "
                "does: the group goes by that from now on"
            )
            self._end(ev.Restart(text), text, now, effects)
            return
        if not self.live and claims is None and all(p.attached and p.track.entered for p in self.parts):
            self.live = True
            self._decide_numbers()
            effects.append(ev.Live())

    def _other_protocol(self, part: Part) -> str:
        """The member that runs another protocol in this group, if there is one: waits are reckoned for members that run the
        same."""
        track = part.track
        others = [t for t in track.open.values() if t.member != self.me]
        for tenure in others:
            if tenure.protocol not in ("", self.mode):
                return f"{tenure.protocol!r} ({tenure.member})"
            if tenure.seats not in (0, self.config.seats):
                return f"{self.mode!r} with {tenure.seats} seats a role ({tenure.member})"
        return ""

    def _runs(self) -> str:
        return repr(self.mode) if self.config.seats == 1 else f"{self.mode!r} with {self.config.seats} seats a role"

    def _report(self, kind: str, text: str, effects: list[ev.Effect]) -> None:
        """Each kind once in this incarnation's life."""
        if kind not in self._told:
            self._told.add(kind)
            effects.append(ev.Report(kind, text))

    def _jumped(self, event: ev.Jumped, now: int, effects: list[ev.Effect]) -> None:
        part = self.parts[event.partition]
        names = list(self.numbering.of)
        part.on(On.REPLACED, now, effects, event.why)
        part.forget_log()
        part.broke_until = now + self._blind_ns()
        self._answer(part, effects)
        if part.number == 0 and self.numbered and self.live:
            self._numbers_broke(names, event.why, now, effects)

    def _numbers_broke(self, names: list[str], why: str, now: int, effects: list[ev.Effect]) -> None:
        """The numbers are gone with their log, and the new ones may be others: nobody leads anywhere by them before all who
        have not noticed can't believe any more. `names`: in their order, which is proposed again."""
        self._restating.clear()
        known = {role for part in self.parts for role in (*part.add, *part.track.roles)} | self.wishes.keys()
        ordered = [*(name for name in names if name in known), *sorted(known - set(names))]
        self.wishes = {role: self.wishes.get(role, True) for role in ordered}
        for part in self.parts:
            part.add.clear()
            if part.number == 0:
                continue
            part.broke_until = max(part.broke_until, self.parts[0].broke_until)
            part.on(On.RENUMBERED, now, effects, why, owed=LEASE_RAN_OUT)


HANDLERS: Final[dict[type, str]] = {
    ev.Attached: "_attached",
    ev.Read: "_read",
    ev.Jumped: "_jumped",
    ev.Assigned: "_assigned",
    ev.Revoked: "_revoked",
    ev.Lost: "_lost",
    ev.Acked: "_acked",
    ev.Failed: "_failed",
    ev.Lapsed: "_lapsed",
    ev.WorkOver: "_work_over",
    ev.ChangeRoles: "_set_roles",
    ev.Tick: "_tick",
    ev.Close: "_close",
}
"""By name, so that each protocol may have its own."""
