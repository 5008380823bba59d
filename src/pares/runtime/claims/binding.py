"""The claims protocol on one partition of a log: its incarnations, and the locks that prove deaths (R7)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from pares.core import events as ev
from pares.core.claims.chores.duties import EAGER, gather_ns
from pares.core.claims.protocol import Claims, Stage
from pares.core.errors import ClosedError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.wire.records import Lock
from pares.core.wire.world import World
from pares.ledger import Entry, Log
from pares.ledger.retention import Trimming
from pares.runtime.death.incarnation import Incarnation
from pares.runtime.driver.binding import Binding
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.logs import Attention, Logs, Times, appender, urgently
from pares.runtime.host import DeathLock, Deaths, Host

log: Final = logging.getLogger("pares.member")

LOCK_LOST: Final = "its death lock is gone"
SLOW: Final = "slow: its own records come back too late to lead by, so it has let its roles go and takes none for now"


class ClaimsBinding(Binding):
    """See `driver.binding.Binding`. `begin`: makes an incarnation; its argument is the largest token that the earlier ones
    saw."""

    def __init__(
        self, ledger: Log, partition: int, begin: Callable[[int], Incarnation], life: Life, host: Host
    ) -> None:
        self.ledger = ledger
        self.partitions = (partition,)
        self._partition = partition
        self._begin = begin
        self._life = life
        self._host = host
        self._standing: dict[type, ev.Event] = {}
        """By kind: what the user last asked for that holds for every incarnation."""
        self._drained = False
        """Set by the caller that drains it, on any task; nothing takes it back."""
        self._deaths: Deaths | None = None
        self._locks: dict[str, Lock] = {}
        self.trimming = Trimming(ledger, host.now, host.wall_us)
        self._trim_before = 0
        self.bells = host.bells(ledger, self.partitions)
        try:
            self._is(begin(0))
        except BaseException:
            self.bells.close()
            raise
        self._mine = {self.core.me}
        """The ids of all its incarnations so far."""
        self.source = Logs(ledger, self, host.now, self.core.config.session_ms)
        self._append = appender(ledger)
        can = ledger.capabilities
        self._eager = not (can.stamps or can.arrivals)
        self._attention = Attention(ledger, partition)
        self._rest = 0
        self._began: int | None = None
        """When this round began, in a large group."""
        self._away = 0
        """Nanoseconds of it in which the ledger had its appends."""

    def _is(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self.core: Claims = incarnation.claims
        self._attached = False
        if self._deaths is not None:
            self._deaths.close()
            self._deaths = None
        if incarnation.folder is not None:
            self._deaths = self._host.deaths(incarnation.folder, witness=incarnation.witness)
            self.bells.also(self._deaths.filenos())

    # What a view and health ask --------------------------------------------------------------------------------------

    @property
    def me(self) -> str:
        return self.core.me

    @property
    def world(self) -> World:
        return self.core.reader.world

    @property
    def bad_records(self) -> int:
        return sum(self.core.reader.bad.values())

    @property
    def uncounted_records(self) -> int:
        return self.core.reader.uncounted

    @property
    def lock(self) -> DeathLock | None:
        return self.incarnation.lock

    @property
    def no_proof(self) -> str | None:
        return self.incarnation.no_proof

    def now(self) -> int:
        return self._host.now()

    @property
    def session_ms(self) -> int:
        return self.core.config.session_ms

    @property
    def read_back_at(self) -> int | None:
        return self.core.outbox.sent.counted

    @property
    def problems(self) -> tuple[str, ...]:
        """One, while this member takes no roles because it is slow (R18)."""
        return () if self.core.slow_until is None else (SLOW,)

    @property
    def settled(self) -> bool:
        return self.core.settled

    @property
    def at_rest(self) -> bool:
        return self.core.at_rest

    @property
    def reads_later(self) -> bool:
        core, now = self.core, self.now()
        may_write = core.outbox.in_flight is None and now >= core.outbox.retry_at
        return core.stage is Stage.LIVE and may_write and core.living.beats_only(now)

    @property
    def unread(self) -> bool:
        return not self.core.outbox.quiet

    @property
    def rest_ns(self) -> int:
        return self._rest

    # From the user's tasks -------------------------------------------------------------------------------------------

    def ask(self, event: ev.Event) -> ev.Event:
        if isinstance(event, ev.Ready | ev.Close):
            self._standing[type(event)] = event
        if isinstance(event, ev.Ask) and event.drain in self._mine:
            self._drained = True
        return event

    # On the driver's task ----------------------------------------------------------------------------------------------

    def patience(self, now: int) -> float | None:
        return None if self._deaths is None else self._deaths.poll_interval(now)

    def look(self, *, thoroughly: bool) -> Sequence[ev.Event]:
        """Looks whether this incarnation still has its lock (A3). If not, any member may prove it dead at any moment: it stops
        believing, reports that, and begins anew with another lock. Unless `thoroughly`, looks whether others have died, too."""
        lock = self.incarnation.lock
        why = "" if lock is None else lock.lost(thoroughly=thoroughly)
        if why:
            text = f"the lock that shows that {self.me} lives is gone: {why}; let nobody close descriptors of others"
            self._life.carry(ev.Report("lock-lost", text))
            return [ev.Jumped(LOCK_LOST)]
        if not thoroughly and self.core.alive > EAGER:
            self._began = self._host.now()
        if thoroughly or self._deaths is None:
            return ()
        return [ev.Died(member) for member in self._deaths.check(self._host.now())]

    def hears(self, event: Any) -> Sequence[ev.Event]:
        if isinstance(event, ev.Ask) and event.drain in self._mine:
            return [ev.Ask(drain=self.me)]  # this member may have begun anew since the user asked
        return [event]

    def step(self, event: ev.Event, now: int) -> Sequence[Any]:
        return self.core.step(event, now)

    def carry(self, effect: Any) -> None:
        if isinstance(effect, ev.Watch):
            self._watch(effect)
        elif isinstance(effect, ev.Trim):
            self._trim(effect.before)
        else:
            if isinstance(effect, ev.Lead):
                self._life.measures.heard_before(effect.seat, self.core.watches.last_sign(effect.seat))
            self._life.carry(effect)

    def _watch(self, effect: ev.Watch) -> None:
        """Watches these locks from now on. Removes the lock files of members that were proven dead and are no longer in the
        group."""
        if self._deaths is None or self.incarnation.folder is None:
            return
        for member in self._deaths.proven - effect.locks.keys():
            if member not in self.world.members:
                self._host.forget(self.incarnation.folder, member, self._locks[member])
        self._locks = effect.locks
        self._deaths.watch(effect.locks)

    def append(self, puts: list[ev.Append]) -> Sequence[int]:
        """In a log that neither stamps its entries nor notes when they come, the beats of a small group wake its readers,
        because there silence counts from the reading (R21)."""
        if self._eager and len(self.world.members) <= EAGER:
            puts = urgently(puts)
        if self._began is None:
            return [self._append(put, self._partition) for put in puts]
        began = self._host.now()
        try:
            return [self._append(put, self._partition) for put in puts]
        finally:
            self._away += self._host.now() - began

    def after_round(self) -> None:
        worked = 0 if self._began is None else self._host.now() - self._began - self._away
        core = self.core
        self._rest = gather_ns(core.alive, self.session_ms, worked, late=core.living.looks.late)
        self._away, self._began = 0, None
        self._attention.pays(len(self.world.members))
        if self._trim_before:
            self._trim(self._trim_before)

    def _trim(self, before: int) -> None:
        if not self.trimming.due():
            return
        try:
            if self.trimming.trim(before, self._partition):
                self._trim_before = before
                self.trimming.hasten()
            else:
                self._trim_before = 0
        except (LedgerUnavailable, LedgerRewound, LedgerGap, ClosedError) as error:
            log.info("old entries stay for now: %s", error)

    # What `logs` asks --------------------------------------------------------------------------------------------------

    @property
    def whole_will_do(self) -> bool:
        return True

    def attached(self, partition: int) -> bool:
        return self._attached

    def position(self, partition: int) -> int:
        return self.core.position

    def anchor(self, partition: int) -> tuple[int, bytes] | None:
        return self.core.reader.anchor

    def enters(self, partition: int, start: int, end: int) -> ev.Event:
        self._attached = True
        return ev.Attached(start, end)

    def heeds_silence(self, partition: int, now: int) -> bool:
        """Always: the core acts only when it has read to the end, and learns that from a read that brings nothing."""
        return True

    def reads(
        self, partition: int, entries: list[Entry], read_at: int, began: int, times: Times
    ) -> tuple[ev.Event, int | None]:
        return ev.Read(list(entries), began=began, stamps=times.stamps, arrivals=times.arrivals), None

    def through(self, partition: int, entries: list[Entry]) -> bool:
        return not entries

    def jumps(self, partition: int, why: str) -> ev.Event:
        return ev.Jumped(why)

    # Beginning anew, and the end -----------------------------------------------------------------------------------------

    def restart(self, effect: ev.Restart, events: deque[Any]) -> None:
        """Begins the next incarnation. The old one's lock is let go, which proves that it is dead (R8)."""
        self.incarnation.abandon()
        unserved = [r for r in self.core.living.unserved() if not (isinstance(r, ev.Ask) and r.drain)]
        incarnation = self._begin(self.core.largest_token)
        self._mine.add(incarnation.claims.me)  # before a caller can ask to drain it
        self._is(incarnation)
        # The new incarnation knows nothing of what the old one was told.
        again = [*self._standing.values(), *([ev.Ask(drain=self.me)] if self._drained else []), *unserved]
        events.extendleft(reversed([r for r in again if r not in events]))

    def last_words(self, why: str) -> Sequence[ev.Event]:
        return [ev.Jumped(why)]

    def close(self, *, left: bool) -> None:
        if self._deaths is not None:
            self._deaths.close()
        self._attention.ends()
        self.bells.close()
        if left:
            self.incarnation.end()
        else:
            self.incarnation.abandon()
