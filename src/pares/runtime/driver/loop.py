"""The driver: one task for each member, which runs any protocol on a real ledger (see `binding`).

Each round waits for whatever comes first, takes the requests of users and barriers, reads what is new, and only then ticks,
with the clock read again (R4): a read is judged by a time after the fetch, an append is decided by a time before it. Appends
are made here, one batch after the other. An append that is stuck costs only speed, because every check of a belief looks at the
stopwatch and needs no task. A ledger that is out of reach is tried again and again; beliefs end by themselves meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from pares.core import events as ev
from pares.core.errors import ClosedError, ConfigError, LedgerUnavailable
from pares.core.wire.changes import Change, MemberJoined, SeatChanged
from pares.runtime.driver.answers import Answer, Answers
from pares.runtime.driver.binding import Binding
from pares.runtime.driver.doorbell import Polling
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.host import Host, Task

log: Final = logging.getLogger("pares.member")

SECOND: Final = 1_000_000_000
SHORTEST: Final = 0.0005
"""The least seconds to wait when nothing rings, so that a defect in a core can't make this task spin."""
RETRY: Final = 0.1
"""Seconds after which overdue work is tried again while the ledger is out of reach."""
BREATH: Final = 0.00005
"""Seconds that this task sleeps when a term has begun, so that a task that waits for the term runs before this one has written
its next records."""
MOST_TICKS: Final = 100
"""The most ticks in one round."""
QUIET: Final = 10
"""Seconds for which it is not said again that the ledger is out of reach, if it was back in between."""
OVER: Final = "the member's loop has ended"


def _rings(change: Change) -> bool:
    """Whether an urgent record made this change. (`MemberLeft` and `DidChanged` may come with records that are not urgent.)"""
    return isinstance(change, SeatChanged | MemberJoined)


class Driver:
    """Drives one member's protocol, incarnation after incarnation, until it is closed or can't go on.

    `life` is told the effects that concern the user, on this task, in order. See `binding.Drives` for what users ask of it.
    """

    def __init__(self, binding: Binding, inbox: Inbox, life: Life, host: Host) -> None:
        self.binding = binding
        self._inbox = inbox
        self._life = life
        self._host = host
        self.now = host.now
        self._answers = Answers()
        self._polling = Polling(binding.bells.listens)
        self._rang = False
        """Whether the log's bell has rung in this round."""
        self._moved = False
        """Whether a change was read since the last wait for which the bell should have rung."""
        self._readers = Answers()
        """Callers that wait only until all that stands in the log by now was read."""
        self.over: ev.Closed | ev.Stop | None = None
        self.failure: BaseException | None = None
        self.unreachable: str | None = None
        self._unwritten: str | None = None
        """Why the last append failed."""
        self._quiet_until = self._unsaid = 0
        self.each_round: Callable[[], None] | None = None
        self._wake = 0
        self._rested_at = self.now()
        self._fresh = True
        """Whether this incarnation has read nothing yet."""
        self._abandoned = False
        life.id = binding.me
        self.thread: Task
        inbox.attach(binding.bells.ring)

    # For users, on any task --------------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> str | None:
        return self._unwritten or self.binding.unwritten

    @property
    def joined(self) -> bool:
        return self.binding.joined

    @property
    def read_at(self) -> int:
        return self.binding.source.read_at

    @property
    def read_back_at(self) -> int | None:
        return self.binding.read_back_at

    @property
    def problems(self) -> tuple[str, ...]:
        return self.binding.problems

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, self._life.who)

    def request(self, event: ev.Event, answer: Answer | None = None) -> None:
        asked = self.binding.ask(event)
        if asked is not None:
            self._inbox.events.append(asked)
        if answer is not None:
            self._answers.ask(answer)
        self.binding.bells.ring()

    def read_first(self, answer: Answer) -> None:
        self._readers.ask(self.binding.read_first(answer))
        self.binding.bells.ring()

    def abandon(self) -> None:
        self._abandoned = True
        self.binding.abandon()
        self.binding.bells.ring()

    def close_in_child(self) -> None:
        self.binding.bells.close_in_child()

    # The task ------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.thread = self._host.task()
        try:
            self.binding.begin()
            while self.over is None and not self._abandoned:
                self._round()
        except BaseException as error:
            self._failed(error)
        finally:
            self._life.beliefs.stop(OVER)  # before all else, and above all before any lock is let go
            for last in (self._end_terms, self._clean_up):
                try:
                    last()
                except BaseException as error:
                    self._failed(error)
            try:
                self._life.carry(self.over or ev.Stop("abandoned", "closed before it could leave the group"))
            finally:
                self._answers.end()  # last: a caller that is answered can read the reason
                self._readers.end()

    def _failed(self, error: BaseException) -> None:
        """The driver has failed: ends all beliefs, and keeps the error for every later call."""
        self._life.beliefs.stop(OVER)
        log.critical("the loop of %s failed: %r", self.binding.me, error, exc_info=error)
        self.failure = self.failure or error
        self._life.fail(self.failure)

    def _end_terms(self) -> None:
        """Reports the ends of the terms that the protocol knows. (The beliefs are over already.)"""
        if self.over is None:
            for event in self.binding.last_words(OVER):
                for effect in self.binding.step(event, self.now()):
                    if not isinstance(effect, ev.Restart):
                        self._life.carry(effect)

    def _clean_up(self) -> None:
        self.binding.close(left=isinstance(self.over, ev.Closed))

    def _round(self) -> None:
        self._rest()
        self._rang, self._moved = self.binding.bells.wait(self._patience()), False
        readers = len(self._readers)
        for event in self.binding.look(thoroughly=False):
            self._step(event)
        self._serve()
        written_first = not readers and self._may_read_later() and self._tick()
        if not written_first:
            self._read()
        self._polling.waited(rang=self._rang, found=self._moved)
        self._readers.done(readers)
        if not written_first:
            self._tick()
        asked = len(self._answers)
        if asked and self.over is None and not self._inbox.events and self.binding.settled:
            self._answers.done(asked)
        self.binding.after_round()
        if self.each_round is not None:
            self.each_round()

    def _may_read_later(self) -> bool:
        """Whether this round may read when it has written, and only then."""
        troubled = self._fresh or self.over is not None or self.unreachable is not None
        return not troubled and not self._inbox.events and self.binding.reads_later

    def _rest(self) -> None:
        """Rests before the next wait, so that several records are read in one round: on a topic that many groups share, each
        record would otherwise wake every member of every group."""
        now = self.now()
        rest = self._rested_at + self.binding.rest_ns - now
        if rest > 0 and not self._inbox.events:
            self.binding.bells.rest(min(rest, max(0, self._wake - now) if self._wake else rest) / SECOND)
        self._rested_at = self.now()

    def _patience(self) -> float:
        """The most seconds to wait."""
        if self._inbox.events or self._fresh:
            return 0.0
        now, seconds = self.now(), self._polling.patience(self.binding.session_ms, unread=self.binding.unread)
        if self._wake > now or (self._wake and self.unreachable is None):
            seconds = min(seconds, (self._wake - now) / SECOND)
        elif self._wake:
            seconds = min(seconds, RETRY)
        look = self.binding.patience(now)
        return max(seconds if look is None else min(seconds, look), SHORTEST)

    def _serve(self) -> None:
        events = self._inbox.events
        while events and self.over is None:
            for event in self.binding.hears(events.popleft()):
                self._step(event)

    def _read(self) -> None:
        """Reads all that is new, or notes why that failed."""
        if self.over is not None:
            return
        source, self._fresh = self.binding.source, False
        try:
            for event, now in source.new():
                self._step(event, now)
                if self.over is not None:
                    return
            if source.proves_reach:
                self.unreachable = None
        except LedgerUnavailable as error:
            self._out_of_reach(error)
        except ClosedError:
            self._ledger_closed()

    def _tick(self) -> bool:
        """Ticks until no append follows: a record is read back at once after its append, and may lead to the next one. Returns
        whether it has read."""
        has_read = False
        for _ in range(MOST_TICKS):
            if self.over is not None or self._abandoned:
                break
            self._wake = 0
            appended = self._step(ev.Tick(self._host.wall_us()))
            if not appended and not self._inbox.events:
                break
            # The bell that this task has rung itself is silenced: the record is read now, and need not wake this task again.
            if appended and self.binding.bells.wait(0):
                self._rang = True
                self._polling.waited(rang=True, found=False)
            self._serve()
            if appended:
                self._read()
                has_read = True
                if self.binding.at_rest:
                    break
        return has_read

    # Effects -------------------------------------------------------------------------------------------------------------

    def _step(self, event: Any, now: int | None = None) -> bool:
        """One step of the protocol, and its effects in order, but appends last, as they take time. `now`: the time to judge the
        event by, if it was read before. Returns whether there was an append."""
        if self.over is not None:
            return False
        binding, leads = self.binding, False
        me = binding.me
        puts: list[ev.Append] = []
        for effect in binding.step(event, self.now() if now is None else now):
            if isinstance(effect, ev.Append):
                puts.append(effect)
            elif isinstance(effect, ev.Publish):
                self._publish(effect)
            elif isinstance(effect, ev.Wake):
                self._wake = effect.at
            elif isinstance(effect, ev.Restart):
                self._restart(effect)
            elif isinstance(effect, ev.Closed | ev.Stop):
                self.over = effect
            else:
                leads = leads or isinstance(effect, ev.Lead)
                self._moved = self._moved or (isinstance(effect, ev.Moved) and any(map(_rings, effect.changes)))
                binding.carry(effect)
        if leads:
            self._host.sleep(BREATH)
        if binding.me == me:  # else the incarnation that wanted these appends is over
            for batch in binding.batches(puts) if puts else ():
                self._append(batch)
        return bool(puts)

    def _append(self, puts: list[ev.Append]) -> None:
        binding = self.binding
        if broken := binding.look(thoroughly=True):
            for event in broken:
                self._step(event)
            return  # the incarnation that wanted these appends is over
        began, answers, done = self.now(), list[ev.Event](), False
        try:
            offsets = binding.append(puts)
        except LedgerUnavailable as error:
            self._out_of_reach(error)
            self._unwritten = str(error)
            answers = [ev.Failed(put.ticket, error.unknown) for put in puts]
        except ClosedError:
            self._ledger_closed()
            answers = [ev.Failed(put.ticket, unknown=False) for put in puts]
        else:
            answers = [ev.Acked(put.ticket, offset) for put, offset in zip(puts, offsets, strict=False)]
            done, self._unwritten = True, None
        payloads = [payload for put in puts for payload in put.payloads]
        self._life.measures.appended(payloads, (self.now() - began) / SECOND, done)
        for answer in answers:
            self._step(answer)

    def _publish(self, message: ev.Publish) -> None:
        """Sends a message. One that can't be sent is not kept (H16): the next beat says the same, if it is still true."""
        began, done = self.now(), False
        try:
            self.binding.publish(message)
            self.unreachable, done = None, True
        except (LedgerUnavailable, ConfigError) as error:  # ConfigError: the message is larger than the server takes
            self._out_of_reach(error)
        except ClosedError:
            self._ledger_closed()
        self._life.measures.appended((message.payload,), (self.now() - began) / SECOND, done)

    def _restart(self, effect: ev.Restart) -> None:
        """A new incarnation of the same member; the old one is left for dead (R8)."""
        log.warning("%s begins anew: %s", self.binding.me, effect.why)
        self._life.carry(effect)
        self.binding.restart(effect, self._inbox.events)
        self.binding.source.begin_anew()
        self._life.id = self.binding.me
        self._fresh = True

    def _out_of_reach(self, error: Exception) -> None:
        self._life.unreached_at = now = self.now()
        if self.unreachable is None and self._unwritten is None:
            self._say_unreached(now, error)
        self.unreachable = str(error)
        self.binding.source.lost()

    def _say_unreached(self, now: int, error: Exception) -> None:
        """A ledger that comes and goes is told of once in a while, with a count."""
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} times since this was last said)" if self._unsaid else ""
        log.warning("%s: the ledger is out of reach: %s%s", self.binding.me, error, more)
        self._quiet_until, self._unsaid = now + QUIET * SECOND, 0

    def _ledger_closed(self) -> None:
        self._abandoned = True
        self._life.carry(ev.Report("ledger-closed", "the ledger was closed while a member was using it"))
