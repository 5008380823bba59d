"""One thread a member, which drives NELI or Fast NELI against a real ledger; a second one has the group (`assignment`).

Each round: wait for whatever comes first, hear the group and the user, read what is new in every partition, and only then tick,
with the clock read again: as `loop` does for the claims protocol, and for the same reasons.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pares.core.errors import ClosedError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.events import (
    Ask,
    Close,
    Closed,
    Declare,
    Event,
    HandOver,
    Lead,
    Live,
    PauseFor,
    Ready,
    Report,
    Restart,
    ResumeNow,
    StepDown,
    Stop,
    Tick,
    Wake,
)
from pares.core.neli.classic import Neli
from pares.core.neli.events import Broke, Config, Entered, Heard, Landed, Missed, Put, Roles, WorkOver, Yielded
from pares.core.neli.events import Event as ShareEvent
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced
from pares.core.neli.partition import BELIEVING, STANDING, Part
from pares.core.neli.partitions import SILENT
from pares.core.reasons import STEPPED_DOWN
from pares.ledger import Ledger, expire
from pares.runtime.driver.answers import Answer, Answers
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.loop import CHUNK, LOOK_EVERY, OVER, SECOND, SHORTEST, TRIM_AT_ONCE, TRIM_EVERY
from pares.runtime.host import Host, Task
from pares.runtime.neli.assignment import GRACE, Assignment, Callbacks, Join
from pares.runtime.neli.claims_group import ClaimsMembership
from pares.runtime.neli.idle import group_members, uneven
from pares.runtime.neli.settings import check_barrier
from pares.runtime.work.barriers import Key

log: Final = logging.getLogger("pares.member")

Make = Callable[[float, int], tuple[str, Config]]
"""The protocol and the settings of an incarnation, for the group's bound in seconds and the largest token seen."""
SHARES_EVERY: Final = 3
"""Of the group's sessions, or seconds if they are shorter, between two looks at whether members or partitions are idle."""
ROUNDS: Final = 20
"""Rounds between two beats, at the most, for what others write."""
PROTOCOLS: Final[dict[str, type[Induced]]] = {"fast-neli": Fast, "neli": Neli, "nele": Neli}


class InductionLoop:
    """Drives one member until it is closed or can't go on. `life` is told the effects that concern the user, in order."""

    def __init__(
        self, ledger: Ledger, make: Make, join: Join, life: Life, host: Host, *, away: bool, native: bool = False
    ) -> None:
        self._host = host
        self.now, self._wall_us = host.now, host.wall_us
        self.ledger = ledger
        self._life = life
        self._make = make
        self._join = join
        self._events: deque[ShareEvent] = deque()
        life.lapsed = self._events.append
        self._answers = Answers()
        self._readers = Answers()
        """The callers that wait until this thread has read what stands in the logs."""
        self.over: Closed | Stop | None = None
        self.failure: BaseException | None = None
        self.unreachable: str | None = None
        self.read_at = self.now()
        self.each_round: Callable[[], None] | None = None
        self._unready = away
        """What its `ready=` check said last. Written by whoever tells that, alone."""
        self._drained = False
        """Set by users, on any thread; nothing takes it back."""
        self._closing = False
        self.native = native
        """The ledger's own service decides who has which partition, and nobody else has a say in it."""
        self._trimmed_at = self._rested_at = self.now()
        self._shares_at = 0
        self._looked_at_shares = False
        self._told_of_shares: set[str] = set()
        self._wake = 0
        self._abandoned = False
        self._append_each: Callable[[list[tuple[int, bytes]]], list[int]] | None = getattr(ledger, "append_each", None)
        """Appends to several partitions at once, where a ledger has that: it costs as much as one append does."""
        self._changed: Callable[[list[int]], list[int]] | None = getattr(ledger, "changed", None)
        """Says which partitions are worth reading, where a ledger has that: one look for all of them."""
        self.doorbell = host.bells(ledger, range(ledger.partitions))
        try:
            self._begin(0, ())
        except BaseException:
            self.doorbell.close()
            raise
        self.linger = 0.0 if self.core.config.exclusive else self.core.config.threshold_ms / 1000
        self.thread: Task
        """Its own; there from `start` on."""

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, self._life.who)

    def _begin(self, seen: int, roles: tuple[str, ...], after: Assignment | None = None) -> None:
        """A new incarnation, in the group under as many partitions as the ledger has now. `roles`: what an earlier one knew of
        the group's, which may belong to other partitions now."""
        self._callbacks = callbacks = Callbacks(self._hear, self._life.barrier_limit + GRACE, self._host)
        left, changed = (lambda: self._left(callbacks)), (lambda: self.doorbell.ring())
        wanted = lambda: not (self._unready or self._drained)  # noqa: E731
        self.assignment = Assignment(self._join, callbacks, self._life.who, wanted, left, changed, self._host, after)
        self._live: Live | None = None
        """The logs have been read: it is live when the group has let it in, too."""
        self._told: set[str] = set()
        """What the user was told of why it is not in its group."""
        try:
            protocol, config = self._make(self.assignment.bound, seen)
            if config.exclusive:
                check_barrier(self._life.barrier_limit, GRACE, self.assignment.callback_limit)
            self.core: Induced = PROTOCOLS[protocol](replace(config, roles=roles) if seen or roles else config)
        except BaseException:
            self.assignment.give_up()
            raise
        self._life.id = self.core.me
        self._identity: str = ""
        self._looked_at = 0
        self._broken = [False] * config.partitions
        """Which partitions' last entry is to be read again before going on."""

    def _left(self, callbacks: Callbacks) -> None:
        """The group was left, for good; unless that was an earlier incarnation's."""
        if callbacks is self._callbacks:
            self._hear(Close())

    def _restart(self, effect: Restart) -> None:
        log.warning("%s begins anew: %s", self.core.me, effect.why)
        self._life.carry(effect)
        self._callbacks.end()
        self.assignment.leave()
        asked = [self._events.popleft() for _ in range(len(self._events))]
        wanted, unwanted = self.core.wanted(there=True), self.core.wanted(there=False)
        roles = (*self.core.roles, *sorted(wanted - set(self.core.roles)))
        self._begin(self.core.largest, roles, after=self.assignment)
        # Of what was heard only the user's own wishes are true of this incarnation, too; what comes by now is behind them.
        wishes = [Roles(drop=tuple(sorted(unwanted))), *(event for event in asked if isinstance(event, Roles))]
        self._events.extendleft(reversed([wish for wish in wishes if wish != Roles()]))
        if self._closing:
            self.assignment.leave()
        self.assignment.start()

    # From other threads --------------------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> str | None:
        """Why the group that shares the partitions out does not answer."""
        return self.assignment.unreachable

    @property
    def joined(self) -> bool:
        """Whether its group has let it in (or it stays away on purpose)."""
        return self.assignment.joined

    def request(self, event: Event, answer: Answer | None = None) -> None:
        """What the user wants. The group does what is the group's; the rest is the protocol's."""
        if isinstance(event, Close):
            self._closing = True
            self.assignment.leave()
        elif isinstance(event, StepDown):
            if self.native or event.role is None:
                self.assignment.stay_away(2 * self.assignment.bound)
            else:
                # Handed over, it stays away: given up, it would come back with the next balancing.
                self._steer().hand_over(self._number(event.role), None, event.why or STEPPED_DOWN)
        elif isinstance(event, HandOver):
            to = None if event.to is None else event.to.rpartition("~")[0] or event.to
            self._steer().hand_over(self._number(event.role), to, event.why)
        elif isinstance(event, PauseFor):
            self._steer().pause(None if event.scope is None else self._number(event.scope), event.ms / 1000)
        elif isinstance(event, ResumeNow):
            self._steer().resume(None if event.scope is None else self._number(event.scope))
        elif isinstance(event, Ready):
            self._unready = not event.ready
            self.assignment.look()
        elif isinstance(event, Ask):
            self._drained = True
            self.assignment.look()
        elif isinstance(event, Declare):
            self._events.append(Roles(drop=(event.name,)) if event.removed else Roles(add=(event.name,)))
        if answer is not None:
            self._answers.ask(answer)
        self.doorbell.ring()

    def _steer(self) -> ClaimsMembership:
        """Raises `LedgerUnavailable` while this member is out of its group."""
        membership = self.assignment.membership
        if not isinstance(membership, ClaimsMembership):
            raise LedgerUnavailable(f"{self.core.me} is out of its group, and has nothing to move or to pause there")
        return membership

    def _number(self, role: str) -> int:
        """The partition of this role's seat that this member leads, or of its first one."""
        config = self.core.config
        parts = [self.core.partition(role, seat) for seat in range(config.seats)]
        return next((n for n in parts if self.core.parts[n].phase in BELIEVING), parts[0])

    def work_over(self, key: Key) -> None:
        """The barrier and the bodies of a term have come to their end."""
        self._hear(WorkOver((key[0], key[1]), key[2]))

    def read_first(self, answer: Answer) -> None:
        """As `Loop.read_first`, of the partitions' logs and then of the group that shares them out: its members are who can be
        given one."""

        def then(done: bool) -> None:
            membership = self.assignment.membership
            if done and isinstance(membership, ClaimsMembership):
                membership.read_first(answer)
            else:
                answer(done)

        self._readers.ask(then)
        self.doorbell.ring()

    def abandon(self) -> None:
        """Ends the thread without leaving the group."""
        self._abandoned = True
        self.assignment.stop()
        self.doorbell.ring()

    def _hear(self, event: ShareEvent) -> None:
        self._events.append(event)
        self.doorbell.ring()

    # The thread ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """On the task that is its own from now on."""
        self.thread = self._host.task()
        self.assignment.start()
        try:
            while self.over is None and not self._abandoned:
                self._round()
        except BaseException as error:
            self._failed(error)
        finally:
            self._life.beliefs.stop(OVER)  # first of all, whatever the protocol says
            for last in (self._end_terms, self._clean_up):
                try:
                    last()
                except BaseException as error:
                    self._failed(error)
            try:
                self._life.carry(self.over or Stop("abandoned", "closed before it could leave the group"))
            finally:
                self._readers.end()
                self._answers.end()  # last: whoever is told finds out why

    def _failed(self, error: BaseException) -> None:
        """No silent death: everybody who asks sees it, and no belief outlives the loop that renews it."""
        self._life.beliefs.stop(OVER)
        log.critical("the loop of %s failed: %r", self.core.me, error, exc_info=error)
        self.failure = self.failure or error
        self._life.fail(self.failure)

    def _end_terms(self) -> None:
        """Tells of the terms that the protocol knows of. (The beliefs are over already.)"""
        if self.over is None:
            for number in range(len(self.core.parts)):
                for effect in self.core.step(Broke(number, OVER), self.now()):
                    self._life.carry(effect)

    def _clean_up(self) -> None:
        self.assignment.stop()
        if not isinstance(self.over, Closed):
            self.assignment.leave()
        self.doorbell.close()

    def _round(self) -> None:
        self._rest()
        self.doorbell.wait(self._patience())
        readers = len(self._readers)
        self._serve()
        self._read()
        self._readers.done(readers)
        for _ in range(100):
            if self.over is not None or self._abandoned:
                return
            self._wake = 0
            appended = self._step(Tick(self._wall_us()))
            if not appended and not self._events:
                break
            self.doorbell.wait(0)  # what this member has just written is read now, and need not wake it once more
            self._serve()
            self._read()
        asked = len(self._answers)
        if asked and self.over is None and not self._events and self.core.settled:
            self._answers.done(asked)
        self._trim()
        self._look_at_shares()
        if self.each_round is not None:
            self.each_round()

    def _rest(self) -> None:
        """What others write soon after a round is read together with what follows: on a topic that many groups share, each
        record would wake every member of each. The more there are, the slower they beat, and the longer the rest is."""
        now = self.now()
        rest = self._rested_at + self.core.pace_ns // ROUNDS - now
        if rest > 0 and not self._events:
            self.doorbell.rest(min(rest, max(0, self._wake - now) if self._wake else rest) / SECOND)
        self._rested_at = self.now()

    def _patience(self) -> float:
        """Seconds to wait at most."""
        if self._events:
            return 0.0
        seconds, now = self.doorbell.patience, self.now()
        if self._wake > now or (self._wake and self.unreachable is None):
            seconds = min(seconds, (self._wake - now) / SECOND)
        return max(seconds, SHORTEST)

    def _serve(self) -> None:
        while self._events and self.over is None:
            self._step(self._events.popleft())

    def _step(self, event: ShareEvent, now: int | None = None) -> bool:
        """One step, and its effects. `now`: of a stopwatch that was read for this event before. Whether something was
        appended."""
        puts: list[Put] = []
        self._look_at_group()
        for effect in self.core.step(event, self.now() if now is None else now):
            if isinstance(effect, Put):
                puts.append(effect)
            elif isinstance(effect, Wake):
                self._wake = effect.at
            elif isinstance(effect, Live):
                self._live = effect
            elif isinstance(effect, Yielded):
                self._callbacks.yielded(effect.partition)
            elif isinstance(effect, Restart):
                self._restart(effect)
            elif isinstance(effect, Closed | Stop):
                self.over = effect
            else:
                if isinstance(effect, Lead) and effect.why == SILENT:
                    self._life.measures.gains(effect.seat, SILENT)
                    self._life.measures.heard_before(effect.seat, self.core.last_sign(effect.seat))
                self._life.carry(effect)
        if len(puts) > 1 and self._append_each is not None:
            self._put(puts, self._append_each)
        else:
            for put in puts:
                self._put([put], lambda one: [self.ledger.append(one[0][1], one[0][0])])
        return bool(puts)

    def _look_at_group(self) -> None:
        if self.assignment.joined:
            self._told.clear()
            live, self._live = self._live, None
            if live is not None:
                self._life.carry(live)
        else:
            why = self.assignment.trouble
            if why is not None and why not in self._told:
                self._told.add(why)
                self._life.carry(Report("not-in-its-group", why))

    def _put(self, puts: list[Put], append: Callable[[list[tuple[int, bytes]]], list[int]]) -> None:
        answers: list[ShareEvent]
        began = self.now()
        try:
            offsets = append([(put.partition, put.payload) for put in puts])
        except LedgerUnavailable as error:
            self._out_of_reach(error)
            answers = [Missed(put.ticket, error.unknown) for put in puts]
        except ClosedError:
            self._ledger_closed()
            answers = [Missed(put.ticket, unknown=False) for put in puts]
        else:
            answers = [Landed(put.ticket, offset) for put, offset in zip(puts, offsets, strict=True)]
        payloads, seconds = [put.payload for put in puts], (self.now() - began) / 1e9
        self._life.measures.appended(payloads, seconds, isinstance(answers[0], Landed))
        for answer in answers:
            self._step(answer)

    @property
    def read_back_at(self) -> int | None:
        """When the newest of its own records that was read back was handed over, in the partition where that is longest ago.
        With Fast NELI only owners beat. None before the first."""
        everywhere = isinstance(self.core, Neli)
        parts = [part for part in self.core.parts if everywhere or part.phase in STANDING]
        return min((part.sent.counted for part in parts if part.sent.counted is not None), default=None)

    # Reading -------------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Everything that is new in each partition, in chunks."""
        try:
            self._look()
            core = self.core
            if self._changed is None:
                news = range(len(core.parts))
            else:
                news = self._changed([part.track.position for part in core.parts])
            for part in core.parts:
                if core is self.core:
                    self._read_part(part, part.number in news)
            self.unreachable = None
        except LedgerUnavailable as error:
            self._out_of_reach(error)
        except ClosedError:
            self._ledger_closed()

    def _read_part(self, part: Part, new: bool) -> None:
        """`new`: there may be something to read."""
        core, number = self.core, part.number
        try:
            if not part.attached:
                self._step(Entered(number, self.ledger.start(number), self.ledger.end(number)))
                self._broken[number] = False
            elif self._broken[number]:
                self._check_anchor(number)
            while self.over is None and part.attached and core is self.core:
                entries = self.ledger.read(core.position(number), number, CHUNK) if new else []
                self.read_at = self.now()
                if not entries and not core.heeds_silence(number, self.read_at):
                    break
                before = part.sent.counted
                shown = self._wall_us()
                now = self.now()
                # Of what passes between the looks a belief loses, by a stopwatch that may be slow, and gains nothing.
                shown += int((now - self.read_at) / (1 - core.config.drift)) // 1000 + 1
                self._step(Heard(number, list(entries), shown), now)
                if part.sent.counted is not None and part.sent.counted != before:
                    self._life.measures.read_backs.note((self.now() - part.sent.counted) / 1e9)
                if not entries or (len(entries) < CHUNK and part.track.entered):
                    break
        except (LedgerGap, LedgerRewound) as error:
            self._step(Broke(number, str(error)))

    def _look(self) -> None:
        """Whether this is still the log that was read so far (R12)."""
        if self.now() < self._looked_at + LOOK_EVERY:
            return
        identity = self.ledger.identity()
        if self._identity and identity != self._identity:
            for part in self.core.parts:
                self._step(Broke(part.number, "the log was replaced by another one"))
        self._identity, self._looked_at = identity, self.now()

    def _check_anchor(self, number: int) -> None:
        """After it was out of reach: the last entry that was read is to be there, byte for byte."""
        self._broken[number] = False
        anchor = self.core.parts[number].track.anchor
        if anchor is None or anchor[0] < self.ledger.start(number):
            return
        entries = self.ledger.read(anchor[0], number, 1)
        if not entries or entries[0].offset != anchor[0] or entries[0].payload != anchor[1]:
            why = f"entry {anchor[0]} of partition {number} is not what it was: it is another log, or it lost its tail"
            self._step(Broke(number, why))

    def _out_of_reach(self, error: LedgerUnavailable) -> None:
        self._life.unreached_at = self.now()
        if self.unreachable is None:
            log.warning("%s: the ledger is out of reach: %s", self.core.me, error)
        self.unreachable = str(error)
        self._broken = [True] * len(self._broken)

    def _ledger_closed(self) -> None:
        self._abandoned = True
        self._life.carry(Report("ledger-closed", "the ledger was closed while a member was using it"))

    def _look_at_shares(self) -> None:
        """Whether somebody has nothing to do because of how many partitions there are, once all have had time to come."""
        now = self.now()
        if not self.core.live or self.core.closing or now < self._shares_at or not self.joined:
            return
        self._shares_at = now + SHARES_EVERY * int(max(1.0, self.assignment.bound) * SECOND)
        if not self._looked_at_shares:
            self._looked_at_shares = True
            return
        members = len(group_members(self.core, self.assignment.membership, now))
        config = self.core.config
        for kind, text in uneven(config.partitions, config.seats, len(self.core.roles), members):
            if kind not in self._told_of_shares:
                self._told_of_shares.add(kind)
                self._life.carry(Report(kind, f"group {config.group!r}: {text}"))

    def _trim(self) -> None:
        """The owner of a partition has its log forget what is older than the retention; beats say all that is needed."""
        now = self.now()
        if self.ledger.retention is None or now < self._trimmed_at + TRIM_EVERY:
            return
        self._trimmed_at = now
        for part in self.core.parts:
            if part.phase in BELIEVING:
                with contextlib.suppress(LedgerUnavailable, LedgerRewound, LedgerGap, ClosedError):
                    start = self.ledger.start(part.number)
                    now_ms = self._host.wall_us() // 1000
                    expire(self.ledger, min(part.track.position, start + TRIM_AT_ONCE), part.number, now_ms=now_ms)
