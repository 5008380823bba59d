"""What a member that is in the group does at a tick, in this order:

    give up    releases and transfers of terms whose time is over: always first, also when the lease has run out
    decide     only when everything written so far has been read back: say whether it is ready, give terms up by plan, bury
               the dead, forget the silent, claim seats, declare roles, end pauses, write a snapshot
    tell       what it did, for people (R17)
    beat       if nothing else was written and a record is due (R16)

A deaf member stops after the first of these (R2).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pares.core import events as ev
from pares.core import reasons
from pares.core.claims.chores.deaths import Deaths
from pares.core.claims.chores.declaring import Declaring
from pares.core.claims.chores.duties import EAGER, beat_ms
from pares.core.claims.chores.snapshotting import Snapshotting
from pares.core.claims.config import Config
from pares.core.claims.decisions import Moves
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.fitness.readiness import Readiness
from pares.core.claims.looks import Looks
from pares.core.claims.outbox import Outbox
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Phase, Tenure, Tenures
from pares.core.errors import ConfigError
from pares.core.lease import MS, lease_ns
from pares.core.wire import records
from pares.core.wire.changes import Change
from pares.core.wire.forgetting import superseded
from pares.core.wire.reader import Reader
from pares.core.wire.records import AT_ONCE, Seat

TELL_MS: Final = 5
"""How long the news of a planned end waits for its barrier: one that returns at once lets it go in one append with the release
or transfer. [each handover waits for an append that nobody needs]"""
LATE: Final = 32
"""Parts of a session in which a beat goes along with a look that has a reason: later than that it goes first. [where each round
takes long, most of a lease is over by the time that all has been read, looked at, and written]"""
MARKS: Final = 50
"""Marks in one record: also with the longest names they fit."""


class Living:
    """The part of `protocol.Claims` that acts: it decides and writes, at a tick."""

    deciding: ClassVar[type[Moves]] = Moves
    """What says which seats this member should claim, or give up."""

    def __init__(self, config: Config, reader: Reader, outbox: Outbox, tenures: Tenures, watches: Stopwatches) -> None:
        self.config = config
        self.me = config.id
        self.reader = reader
        self.outbox = outbox
        self.tenures = tenures
        self.watches = watches
        heard = lease_ns(config.session_ms, config.drift)
        self.pace = Pace(config.session_ms, tenures.lease_ns, self._longest_ms, self._wanted, heard)
        self.readiness = Readiness(config, outbox, self.pace)
        self.moves = self.deciding(config.id, config.session_ms, watches, tenures, self.pace)
        self.snapshotting = Snapshotting(config, reader, outbox, self.moves)
        self.deaths = Deaths(config, reader, outbox, self.moves, watches, self.pace, self.readiness)
        self.looks = Looks(config.session_ms)
        self.closing = False
        self.ending: ev.Effect = ev.Closed()
        """What a leave leads to: the end, or a new incarnation."""
        self._requests: list[ev.Event] = []
        self._served: list[ev.Event] = []
        """Requests written in the append that is under way: if it fails they are written again, which does no harm."""
        self._told: list[tuple[Seat, int, str, int, str]] = []
        self._marks: dict[Seat, tuple[int, int]] = {}
        """(token, mark) that the world does not show yet."""
        self._wall_us = 0
        self.declaring = Declaring(config, reader, outbox, self.moves, watches)
        self.routine = False
        """All that was written at the last tick is beats that were due, and nothing waits for them to come back."""

    def begin(self, now: int) -> None:
        """The join has counted."""
        self.declaring.begin(now)
        self.snapshotting.begin(now)

    @property
    def busy(self) -> bool:
        """Whether requests wait for a tick that may write."""
        return bool(self._requests)

    def request(self, event: ev.Event) -> None:
        """Keeps what the user, or the runtime, wants, until a tick may write."""
        if type(event) is ev.Close:
            self.closing, self.ending = True, ev.Closed()
        elif type(event) is ev.Died:
            self.deaths.died(event.member)
        elif type(event) is ev.Marked:
            self._marks[event.seat] = (event.token, event.mark)
        elif type(event) is ev.Ready:
            self._ready(event.ready)
        else:
            self._requests.append(event)

    def _ready(self, ready: bool) -> None:
        self.readiness.ready = ready
        self.tenures.able = self.readiness.able
        if ready and self.readiness.drained and not self.closing:
            self.closing, self.ending = True, ev.Restart("ready again")

    def read(self, event: ev.Read, changes: list[Change], now: int, *, past: bool) -> None:
        """What was read up to here has been folded (`Stopwatches.read`)."""
        stamps, arrivals = (
            {entry[0]: at for entry, at in zip(event.entries, times, strict=False)}
            for times in (event.stamps, event.arrivals)
        )
        self.watches.read(self.reader.world, changes, now, past=past, stamps=stamps, arrivals=arrivals)
        self.moves.read(self.reader.world, changes)
        self.declaring.read(changes, now)

    def came_back(self, sent_at: int, now: int) -> None:
        """A record of this member's, handed over at `sent_at`, was read back."""
        tenures = self.tenures
        held = bool(tenures.by_seat) or (tenures.held_at is not None and tenures.held_at >= sent_at)
        for_lost = tenures.lost_unled is not None and sent_at >= tenures.lost_unled
        self.pace.came_back(sent_at, now, held=held, for_lost=for_lost)
        if self.pace.slow:
            tenures.lost_unled = None
        tenures.able = self.readiness.able

    def ran_out(self, now: int) -> None:
        """The lease ran out under a term of this member's."""
        self.pace.ran_out(now)
        self.tenures.able = self.readiness.able

    def _longest_ms(self) -> int:
        return max((m.session_ms for m in self.reader.world.members.values() if not m.administrator), default=0)

    def _wanted(self) -> bool:
        return self.moves.wanted(self.reader.world)

    def unserved(self) -> list[ev.Event]:
        """Requests that are not known to stand in the log."""
        return [*self._served, *self._requests]

    def acked(self) -> None:
        """What this member has written last stands in the log."""
        self._served, self._told = [], []

    def failed(self, now: int) -> None:
        """It may not stand there."""
        self.pace.failed(now)
        self._requests, self._served = self._served + self._requests, []
        self.tenures.history[:0] = self._told
        self._told = []

    def act(self, wall_us: int, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        """One tick. Writes into the outbox; adds effects, and when to be called again."""
        world = self.reader.world
        self._wall_us, self.routine = wall_us, False
        self.snapshotting.judge(now, wakes)
        if self._can_wait(now):
            self.outbox.due_ms = self._said_ms(now)
            self._speak(now, wakes)
            # What was written is read back first, and the tick after that says when.
            if self.outbox.quiet and self.outbox.idle:
                wakes += [*self.looks.wakes(world.shape), *self.moves.reads_at()]
            return
        self.moves.look(world, now)
        self.pace.needed = self.pace.slow and not self.moves.replaceable(world)
        self.outbox.due_ms = self._said_ms(now)
        if self.outbox.doubtful(now):
            self._probe(now, wakes)
            return
        if not self.tenures.left:
            self._give_up(now)
        if self.outbox.deaf(now, self.tenures.until):
            return
        if self.tenures.left:
            self._write(records.Leave, now)
            return
        if self.outbox.quiet:
            shape, named = world.shape, list[int]()
            self._decide(now, effects, named)
            wakes += named
            self.looks.looked(now, shape, [*named, *self.moves.wakes], late=self.moves.hurried(world, now))
        wakes += [*self.moves.wakes, *self.moves.reads_at()]
        if not self.tenures.left:
            self._speak(now, wakes)
        self.deaths.watch(now, effects, wakes)
        self.snapshotting.report(effects)

    def _can_wait(self, now: int) -> bool:
        """Whether a member of a large group does without a look, for now: nobody waits for what it would do."""
        world, outbox = self.reader.world, self.outbox
        if len(world.members) <= EAGER or self._requests or self.deaths.proven or self.closing or self.tenures.left:
            return False
        if outbox.doubtful(now) or outbox.deaf(now, self.tenures.until) or self.tenures.ready_to_give():
            return False
        return not outbox.quiet or self._beat_first(now) or not self.looks.due(now, world.shape, outbox.said_at)

    def _beat_first(self, now: int) -> bool:
        """Whether a beat is due, and goes before a look (`Looks.lets_beat`); not after one that failed, or a session without
        any: what has become of this member is looked at first then."""
        outbox, session = self.outbox, self.config.session_ms * MS
        at = outbox.beat_at(self._due_ms())
        if now < at or now >= outbox.last_at + session or not outbox.quiet or outbox.said_at != outbox.last_at:
            return False
        late = now >= at + session // LATE
        return self.looks.lets_beat(now, self.reader.world.shape, outbox.said_at, late=late)

    def beats_only(self, now: int) -> bool:
        """Whether a beat is due, and is all that a member of a large group would write now, whatever stands in the log that it
        has not read."""
        return not self.tenures.ends(now) and self._can_wait(now) and self._beat_first(now)

    def _write(self, kind: type[records.Record], now: int, /, **fields: Any) -> None:
        self.outbox.write(self.reader.world, kind, now, **fields)

    def _probe(self, now: int, wakes: list[int]) -> None:
        """All that a doubtful member writes: each release once, and then one append, of what is left to release or of a beat,
        more seldom than its session. It says that its next record is due at once, so that nobody hands it anything."""
        if not self.tenures.left:
            self._give_up(now, again=False)
        at = self.outbox.probe_at()
        if now < at:
            wakes.append(at)
            return
        self.outbox.due_ms = AT_ONCE
        if not self.tenures.left:
            self._give_up(now)
        if self.outbox.idle:
            self._write(records.Leave if self.tenures.left else records.Beat, now)

    # Giving up -------------------------------------------------------------------------------------------------------

    def _give_up(self, now: int, *, again: bool = True) -> None:
        world = self.reader.world
        for tenure in self.tenures.ready_to_give():
            if not self.outbox.room():
                break
            if tenure.tried and not again:
                continue
            tenure.tried, seat, mark = True, tenure.seat, self._mark_of(tenure)
            heir = self.moves.heir(world, tenure, now)
            fields: dict[str, Any] = {"seat": seat, "token": tenure.token, "mark": mark, "down": tenure.down}
            if heir is None:
                self._write(records.Release, now, **fields, why=tenure.why)
            else:
                self._write(records.Transfer, now, **fields, to=heir, pin=tenure.pin, why=tenure.why)
            tenure.sent_to = self.outbox.next_ticket

    def _mark_of(self, tenure: Tenure) -> int | None:
        mark = self._marks.get(tenure.seat)
        return mark[1] if mark is not None and mark[0] == tenure.token else None

    # Deciding --------------------------------------------------------------------------------------------------------

    def _decide(self, now: int, effects: list[ev.Effect], wakes: list[int]) -> None:
        world = self.reader.world
        me = world.members[self.me]
        self._serve(now, effects)
        if not self.closing:
            self.readiness.say(world, now)
        closing = reasons.CLOSED if self.closing else self.readiness.why_not
        for give in self.moves.gives(world, now, closing=closing):
            how: dict[str, Any] = {"to": give.to, "pin": give.pin, "release_only": give.release_only}
            effects += self.tenures.stop(give.tenure, give.why, now, **how)
        self._give_up(now)
        if self.closing:
            self._leave(now)
            return
        self.deaths.bury(now, closing=self.closing)
        self.deaths.forget(now)
        if self.readiness.able and not me.draining:
            self._claim(now)
        self.declaring.act(now, effects)
        self._end_pauses(now)
        self.snapshotting.act(now, wakes)

    def _leave(self, now: int) -> None:
        """Leaves when every term is given up; until then it drains, so that nobody hands it more."""
        if all(t.phase is Phase.GIVEN and t.sent_to is not None for t in self.tenures.by_seat.values()):
            self._tell(now)  # a leave is the last word
            if not self.tenures.history:
                self._write(records.Leave, now)
                self.tenures.left = True
        elif not self.reader.world.members[self.me].draining:
            self._write(records.Ask, now, drain=self.me)

    def _serve(self, now: int, effects: list[ev.Effect]) -> None:
        """What the user asked for. Requests about seats take effect here, the others become records."""
        requests, self._requests = self._requests, []
        for request in requests:
            if not self.outbox.room():
                self._requests.append(request)
                continue
            if not isinstance(request, ev.HandOver | ev.StepDown):
                self._served.append(request)
            try:
                self._serve_one(request, now, effects)
            except ConfigError as error:
                effects.append(ev.Report("refused-request", str(error)))

    def _serve_one(self, request: ev.Event, now: int, effects: list[ev.Effect]) -> None:
        if isinstance(request, ev.HandOver | ev.StepDown):
            self._move_out(request, now, effects)
        elif isinstance(request, ev.ResumeNow):
            for pause in list(self.reader.world.pauses.values()):
                if pause.scope == request.scope:
                    self._write(records.Resume, now, pause=pause.offset)
        elif isinstance(request, ev.Declare):
            fields: dict[str, Any] = {"seats": request.seats, "weight": request.weight, "spread": request.spread}
            self._write(records.Role, now, name=request.name, removed=request.removed, **fields)
        elif isinstance(request, ev.PauseFor):
            self._write(records.Pause, now, ms=request.ms, scope=request.scope)
        elif isinstance(request, ev.Ask):
            self._write(records.Ask, now, seat=request.seat, to=request.to, drain=request.drain)
        elif isinstance(request, ev.RewindTo):
            for i in range(0, len(request.marks), MARKS):
                self._write(records.Rewind, now, marks=request.marks[i : i + MARKS])

    def _move_out(self, request: ev.HandOver | ev.StepDown, now: int, effects: list[ev.Effect]) -> None:
        world = self.reader.world
        target = self.moves.others(world, now)
        to = request.to if isinstance(request, ev.HandOver) else None
        why = request.why or (reasons.HANDED_OVER if isinstance(request, ev.HandOver) else reasons.STEPPED_DOWN)
        for tenure in list(self.tenures.by_seat.values()):
            if request.role is None or tenure.seat[0] == request.role:
                heir = to or target.get(tenure.seat)
                able = heir is not None and self.moves.takes_it(world, heir, tenure.seat)
                if isinstance(request, ev.HandOver) and not able:
                    reason = f"{to} {self.moves.refuses(world, to, tenure.seat)}" if to else "nobody else could take it"
                    text = f"{tenure.seat[0]!r} stays with {self.me}: {reason}"
                    effects.append(ev.Report("not-handed-over", text))
                else:
                    effects += self.tenures.stop(tenure, why, now, to=heir, pin=to is not None, down=True)

    def _claim(self, now: int) -> None:
        for take in self.moves.takes(self.reader.world, now):
            if not self.outbox.room():
                break
            self._write(records.Claim, now, seat=take.seat, over=take.over, free=take.free)

    # For the group ---------------------------------------------------------------------------------------------------

    def _end_pauses(self, now: int) -> None:
        """A pause ends when this member's own stopwatch has measured its length since reading it (R14)."""
        for pause in list(self.reader.world.pauses.values()):
            if self.moves.in_line(self.watches.paused_until(pause.offset, pause.ms), now):
                self._write(records.Resume, now, pause=pause.offset)

    # Telling and beating ---------------------------------------------------------------------------------------------

    def _speak(self, now: int, wakes: list[int]) -> None:
        stopped = self.tenures.stopped_at() if self.tenures.history else None
        if stopped is None or now >= stopped + TELL_MS * MS:
            self._tell(now)
        else:  # barriers run that began just now
            wakes.append(stopped + TELL_MS * MS)
        self._beat(now, wakes)

    def _tell(self, now: int) -> None:
        history = self.tenures.history
        while history and self.outbox.room():
            self._told.append(history.pop(0))
            seat, token, what, at, why = self._told[-1]
            wall_ms = (self._wall_us - (now - at) // 1000) // 1000
            self._write(records.Did, now, seat=seat, token=token, what=what, at=max(0, wall_ms), why=why)

    def _due_ms(self) -> int:
        return beat_ms(self.reader.world, self.me, self.config.session_ms, self.moves.alive, hurry=self.pace.needed)

    def _said_ms(self, now: int) -> int:
        """What records say of when the next one is due: the truth; or that it is due at once, by a member that does not know
        that it could lead: also by one that takes itself for a holder, for it may not have read that it is none (R6, R18)."""
        due, world = self._due_ms(), self.reader.world
        leads = bool(world.held.get(self.me)) and now < self.tenures.until
        if leads or world.members[self.me].administrator or self.me in world.unready:
            return due
        shown = self.pace.shown(now, max(due, self.config.session_ms)) and not self.pace.slow
        return due if shown else AT_ONCE

    def _beat(self, now: int, wakes: list[int]) -> None:
        """Due by the clock. At once for who was given a seat and has no good lease (R16); for who can show now that it could
        lead, and has not yet (R6); and for whom the group would forget else: a slow member in a busy group (R13), and one
        that has a successor under its name (R20)."""
        world, me = self.reader.world, self.reader.world.members[self.me]
        due_ms = self._due_ms()
        promised, at = self.outbox.promised_ms, self.outbox.beat_at(due_ms)
        waiting = any(t.phase is Phase.WAITING for t in self.tenures.by_seat.values()) and not self.tenures.good(now)
        shown = self.outbox.due_ms > AT_ONCE and not me.administrator
        shows = shown and (promised <= AT_ONCE or me.offset == me.joined)
        fading = world.count - me.count > world.memory() // 4 or superseded(world, me)
        if self.outbox.idle and (now >= at or ((waiting or shows or fading) and self.outbox.quiet)):
            known = promised > AT_ONCE and self.outbox.due_ms > AT_ONCE
            looked = len(world.members) <= EAGER  # else a look may follow, when the beat was read back
            self.routine = self.outbox.quiet and known and looked and not (waiting or shows or fading or self.pace.slow)
            self._write_marks(now)
            self.outbox.urgent |= shows
            at = now + due_ms * MS
        wakes.append(at)

    def _write_marks(self, now: int, least: int = 1) -> None:
        marks = self._new_marks()
        for i in range(0, max(least, len(marks)), MARKS):
            self._write(records.Beat, now, marks=tuple(marks[i : i + MARKS]) or None)

    def _new_marks(self) -> list[tuple[str, int, int, int]]:
        """The marks of terms that last, as far as the world does not show them; the others are forgotten here (R15)."""
        seats = self.reader.world.seats
        for seat, (token, mark) in list(self._marks.items()):
            state = seats.get(seat)
            if state is None or state.holder != self.me or state.token != token or state.mark >= mark:
                del self._marks[seat]
        return [(*seat, token, mark) for seat, (token, mark) in sorted(self._marks.items())]
