"""One thread a member, which drives a protocol against a real ledger.

Each round: wait for whatever comes first, read what is new, and only then tick, with the clock read again (R4): reads are
judged by a time after the fetch, appends by one before it. Appends are made here, one after the other; while one is stuck
nothing is lost but speed, because every check of a belief looks at the stopwatch and needs no thread.

A ledger that is out of reach is tried again and again; beliefs end by themselves meanwhile. Before going on with a log that
was out of reach, or from time to time anyway, it is looked at whether it is still the same one: its identity, its ends, and the
last entry that was read, byte for byte (R12).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from pares.core.claims.protocol import Claims
from pares.core.errors import ClosedError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.events import (
    Acked,
    Append,
    Ask,
    Attached,
    Close,
    Closed,
    Died,
    Event,
    Failed,
    Jumped,
    Lead,
    Read,
    Ready,
    Report,
    Restart,
    Stop,
    Tick,
    Trim,
    Wake,
    Watch,
)
from pares.core.wire.records import Lock
from pares.ledger import Log, expire
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.answers import Answer, Answers
from pares.runtime.driver.lifecycle import Life
from pares.runtime.host import Deaths, Host, Task

log: Final = logging.getLogger("pares.member")

CHUNK: Final = 1000
SECOND: Final = 1_000_000_000
LOOK_EVERY: Final = SECOND // 2
"""How often to look whether the log is still the same one."""
SHORTEST: Final = 0.0005
"""Seconds between two rounds when nothing rings: no mistake of anybody's makes this thread spin."""
BREATH: Final = 0.00005
"""Seconds for which this thread stands back when a term has begun: whoever waits for it runs at once, and not when this thread
has written its next records."""
LOCK_LOST: Final = "its death lock is gone"
OVER: Final = "the member's loop has ended"
TRIM_EVERY: Final = 60 * SECOND
TRIM_AT_ONCE: Final = 5_000
"""Entries trimmed in one go."""


class Loop:
    """Drives one member's protocol, incarnation after incarnation, until it is closed or can't go on.

    `life` is told the effects that concern the user, on this thread, in order.
    """

    def __init__(
        self, ledger: Log, partition: int, begin: Callable[[int], Incarnation], life: Life, host: Host
    ) -> None:
        self._host = host
        self.now = host.now
        self.ledger = ledger
        self.partition = partition
        self._begin = begin
        self._carry = life.carry
        self._life = life
        self._requests: deque[Event] = deque()
        life.lapsed = self._requests.append
        self._standing: dict[type, Event] = {}
        """What the user wants of this member in whatever incarnation."""
        self._drained = False
        """Set by whoever drains it, on any thread; nothing takes it back."""
        self._answers = Answers()
        self._readers = Answers()
        """They wait for nothing but that everything was read that stands in the log by now."""
        self.doorbell = host.bells(ledger, (partition,))
        self.incarnation = begin(0)
        self.claims: Claims = self.incarnation.claims
        life.id = self.claims.me
        self._mine = {self.claims.me}
        """The ids of all its incarnations so far."""
        self.over: Closed | Stop | None = None
        self.unreachable: str | None = None
        """Why the ledger is out of reach; None while it is in reach."""
        self.unwritten: str | None = None
        """Why the last append failed: it may be that this user can read the ledger, and not write it."""
        self.joined = True
        """Always true: only the log admits a claims member."""
        self.failure: BaseException | None = None
        self.read_at = self.now()
        """When the ledger was last read."""
        self._deaths: Deaths | None = None
        self._locks: dict[str, Lock] = {}
        self._watch_deaths()
        self._attached = False
        self._wake = 0
        self._looked_at = 0
        self._identity = ""
        self._trimmed_at = self.now()
        self._trim_before = 0
        self._abandoned = False
        self.each_round: Callable[[], None] | None = None
        self.thread: Task
        """Its own; there from `start` on."""

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, self._life.who)

    # From other threads ----------------------------------------------------------------------------------------------

    def request(self, event: Event, answer: Answer | None = None) -> None:
        """Hands `event` to the protocol. `answer` is called once what follows from it stands in the log and was read, or the
        loop has ended before."""
        if isinstance(event, Ready | Close):
            self._standing[type(event)] = event
        if isinstance(event, Ask) and event.drain in self._mine:
            self._drained = True
        self._requests.append(event)
        if answer is not None:
            self._answers.ask(answer)
        self.doorbell.ring()

    def read_first(self, answer: Answer) -> None:
        """`answer` is called when everything was read that stood in the log before this call, or the ledger is out of reach;
        with False when the loop has ended."""
        self._readers.ask(answer)
        self.doorbell.ring()

    def abandon(self) -> None:
        """Ends the thread without leaving the group: the ledger is out of reach, or the caller has no more time."""
        self._abandoned = True
        self.doorbell.ring()

    # The thread ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """On the task that is its own from now on."""
        self.thread = self._host.task()
        try:
            while self.over is None and not self._abandoned:
                self._round()
        except BaseException as error:
            self._failed(error)
        finally:
            self._life.beliefs.stop(OVER)  # first of all, whatever the protocol says: before any lock is let go
            for last in (self._end_terms, self._clean_up):
                try:
                    last()
                except BaseException as error:
                    self._failed(error)
            try:
                self._carry(self.over or Stop("abandoned", "closed before it could leave the group"))
            finally:
                self._answers.end()  # last: whoever is told finds out why
                self._readers.end()

    def _failed(self, error: BaseException) -> None:
        """No silent death: everybody who asks sees it, and no belief outlives the loop that renews it."""
        self._life.beliefs.stop(OVER)
        log.critical("the loop of %s failed: %r", self.claims.me, error, exc_info=error)
        self.failure = self.failure or error
        self._life.fail(self.failure)

    def _end_terms(self) -> None:
        """Tells of the terms that the protocol knows of. (The beliefs are over already.)"""
        if self.over is None:
            for effect in self.claims.step(Jumped(OVER), self.now()):
                if not isinstance(effect, Restart):
                    self._carry(effect)

    def _clean_up(self) -> None:
        if self._deaths is not None:
            self._deaths.close()
        self.doorbell.close()
        if isinstance(self.over, Closed):
            self.incarnation.end()
        else:
            self.incarnation.abandon()

    def _round(self) -> None:
        self.doorbell.wait(self._patience())
        self._keeps_lock(thoroughly=False)
        readers = len(self._readers)
        self._serve()
        self._check_deaths()
        self._read()
        self._readers.done(readers)
        if self.over is None:
            self._tick()
        if self._trim_before:
            self._trim(Trim(self._trim_before))
        if self.each_round is not None:
            self.each_round()

    def _serve(self) -> None:
        while self._requests:
            event = self._requests.popleft()
            if isinstance(event, Ask) and event.drain in self._mine:
                event = Ask(drain=self.claims.me)  # it may have begun anew since that was asked
            self._step(event)

    def _patience(self) -> float:
        """Seconds to wait at most."""
        if self._requests or (not self._attached and self.unreachable is None):
            return 0.0
        now = self.now()
        seconds = self.doorbell.patience
        if self._wake > now or (self._wake and self.unreachable is None):
            seconds = min(seconds, (self._wake - now) / SECOND)
        if self._deaths is not None:
            interval = self._deaths.poll_interval(now)
            if interval is not None:
                seconds = min(seconds, interval)
        return max(seconds, SHORTEST)

    def _tick(self) -> None:
        """Ticks until nothing more follows: an append that was made is read back at once, and may lead to the next."""
        for _ in range(100):
            if self._abandoned:
                return
            self._wake = 0
            appended = self._step(Tick(self._host.wall_us()))
            if self.over is not None:
                return
            if appended or self._requests:
                self._serve()
                if appended:
                    self._read()
                continue
            break
        asked = len(self._answers)
        if asked and not self._requests and self.claims.settled:
            self._answers.done(asked)

    # Effects ---------------------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> bool:
        """One step, and its effects. Whether something was appended."""
        appended = leads = False
        for effect in self.claims.step(event, self.now()):
            if isinstance(effect, Append):
                self._append(effect)
                appended = True
            elif isinstance(effect, Wake):
                self._wake = effect.at
            elif isinstance(effect, Watch):
                self._watch(effect)
            elif isinstance(effect, Trim):
                self._trim(effect)
            elif isinstance(effect, Restart):
                self._restart(effect)
            else:
                if isinstance(effect, Closed | Stop):
                    self.over = effect
                if isinstance(effect, Lead):
                    leads = True
                    self._life.measures.heard_before(effect.seat, self.claims.watches.last_sign(effect.seat))
                if not isinstance(effect, Closed | Stop):
                    self._carry(effect)
        if leads:
            self._host.sleep(BREATH)
        return appended

    @property
    def read_back_at(self) -> int | None:
        """When the newest of its own records that was read back, and counted, was handed over; None before the first."""
        return self.claims.outbox.sent.counted

    def _keeps_lock(self, *, thoroughly: bool) -> bool:
        """Whether this incarnation's lock still speaks for it (A3). If not, anybody may take it for dead at any moment: it
        stops believing, says so, and begins anew with a lock of its own."""
        lock = self.incarnation.lock
        why = "" if lock is None else lock.lost(thoroughly=thoroughly)
        if not why:
            return True
        text = f"the lock that shows that {self.claims.me} lives is gone: {why}; let nobody close descriptors of others"
        self._carry(Report("lock-lost", text))
        self._step(Jumped(LOCK_LOST))
        return False

    def _append(self, append: Append) -> None:
        if not self._keeps_lock(thoroughly=True):
            return  # what it would have said nobody has to hear any more
        began = self.now()
        try:
            offsets = self.ledger.append_many(append.payloads, self.partition)
        except LedgerUnavailable as error:
            self._out_of_reach(error)
            self.unwritten = str(error)
            answer: Event = Failed(append.ticket, error.unknown)
        except ClosedError:
            self._ledger_closed()
            answer = Failed(append.ticket, unknown=False)
        else:
            answer, self.unwritten = Acked(append.ticket, offsets[-1]), None
        seconds, done = (self.now() - began) / 1e9, isinstance(answer, Acked)
        self._life.measures.appended(append.payloads, seconds, done)
        self._step(answer)

    def _restart(self, effect: Restart) -> None:
        """A new incarnation of the same member; the old one is left for dead, with its lock to prove it (R8)."""
        log.warning("%s begins anew: %s", self.claims.me, effect.why)
        self._carry(effect)
        self.incarnation.abandon()
        unserved = [r for r in self.claims.living.unserved() if not (isinstance(r, Ask) and r.drain)]
        self.incarnation = self._begin(self.claims.largest_token)
        self._mine.add(self.incarnation.claims.me)  # before anybody can ask for it to be drained
        self.claims = self.incarnation.claims
        self._life.id = self.claims.me
        self._watch_deaths()
        self._attached = False
        # The new incarnation knows nothing of what the old one was told.
        again = [*self._standing.values(), *([Ask(drain=self.claims.me)] if self._drained else []), *unserved]
        self._requests.extendleft(reversed([r for r in again if r not in self._requests]))

    def _watch_deaths(self) -> None:
        if self._deaths is not None:
            self._deaths.close()
            self._deaths = None
        if self.incarnation.folder is not None:
            self._deaths = self._host.deaths(self.incarnation.folder)
            self.doorbell.also(self._deaths.filenos())

    def _watch(self, effect: Watch) -> None:
        """Watches these from now on. A member that was proven dead and is no longer in the group needs its lock file no
        more."""
        if self._deaths is None or self.incarnation.folder is None:
            return
        for member in self._deaths.proven - effect.locks.keys():
            if member not in self.claims.reader.world.members:
                self._host.forget(self.incarnation.folder, member, self._locks[member])
        self._locks = effect.locks
        self._deaths.watch(effect.locks)

    def _check_deaths(self) -> None:
        if self._deaths is not None:
            for member in self._deaths.check(self.now()):
                self._step(Died(member))

    def _trim(self, effect: Trim) -> None:
        now = self.now()
        if self.ledger.retention is None or now < self._trimmed_at + TRIM_EVERY:
            return
        self._trimmed_at = now
        try:
            # A part of it: while this thread trims, nobody beats. The rest goes next time.
            start = self.ledger.start(self.partition)
            now_ms = self._host.wall_us() // 1000
            left = expire(self.ledger, min(effect.before, start + TRIM_AT_ONCE), self.partition, now_ms=now_ms)
            if left >= start + TRIM_AT_ONCE:
                self._trim_before, self._trimmed_at = effect.before, now - TRIM_EVERY + SECOND // 10
            else:
                self._trim_before = 0
        except (LedgerUnavailable, LedgerRewound, LedgerGap, ClosedError) as error:
            log.info("old entries stay for now: %s", error)

    # Reading ---------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Everything that is new, in chunks; or what came of trying."""
        try:
            if not self._attached:
                self._attach()
            elif self.unreachable is not None or self.now() >= self._looked_at + LOOK_EVERY:
                self._look()
            while self.over is None and self._attached:
                entries = self.ledger.read(self.claims.position, self.partition, CHUNK)
                self.read_at, self.unreachable = self.now(), None
                self._step(Read(list(entries)))
                if not entries:
                    break
        except LedgerUnavailable as error:
            self._out_of_reach(error)
        except (LedgerGap, LedgerRewound) as error:
            self._step(Jumped(str(error)))
        except ClosedError:
            self._ledger_closed()

    def _ledger_closed(self) -> None:
        self._abandoned = True
        self._carry(Report("ledger-closed", "the ledger was closed while a member was using it"))

    def _attach(self) -> None:
        self._identity = self.ledger.identity()
        self._step(Attached(self.ledger.start(self.partition), self.ledger.end(self.partition)))
        self._attached, self._looked_at = True, self.now()

    def _look(self) -> None:
        """Whether this is still the log that was read so far (R12)."""
        self._looked_at = self.now()
        identity = self.ledger.identity()
        if identity != self._identity:
            self._step(Jumped("the log was replaced by another one"))
            return
        anchor = self.claims.reader.anchor
        if self.unreachable is None or anchor is None:
            return
        offset, payload = anchor
        if offset < self.ledger.start(self.partition):
            return  # gone by retention: that says nothing; a gap shows when reading on
        entries = self.ledger.read(offset, self.partition, 1)
        if not entries or entries[0].offset != offset or entries[0].payload != payload:
            self._step(Jumped(f"entry {offset} of the log is not what it was: it is another log, or it lost its tail"))

    def _out_of_reach(self, error: LedgerUnavailable) -> None:
        self._life.unreached_at = self.now()
        if self.unreachable is None and self.unwritten is None:
            log.warning("%s: the ledger is out of reach: %s", self.claims.me, error)
        self.unreachable = str(error)
