"""One thread a member, which drives ALLCALL over a bus.

What is heard comes from the bus' thread through a queue, what the user wants too; between two of them there is a tick, when the
protocol asked for one. The clock is read anew for each step. What can't be sent is not kept (H16): the next beat says it again,
if it is still true. While a publish is stuck nothing is lost but speed: every check of a belief looks at the stopwatch, and
needs no thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from pares.core.allcall.events import Event as CallEvent
from pares.core.allcall.events import Heard, Joined, Led, Lost, Missed, Publish, Settings
from pares.core.allcall.protocol import AllCall
from pares.core.errors import CapabilityError, ClosedError, ConfigError, ForkedError, LedgerUnavailable
from pares.core.events import (
    Ask,
    Close,
    Closed,
    Declare,
    Event,
    HandOver,
    Lapsed,
    Lead,
    Live,
    Moved,
    Ready,
    Report,
    StepDown,
    Stop,
    Tick,
    Wake,
)
from pares.core.neli.events import Extend, WorkOver
from pares.core.reasons import DRAINED
from pares.core.wire.changes import MemberJoined, MemberLeft
from pares.ledger import Bus
from pares.runtime.driver.answers import Answer, Answers
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.loop import OVER
from pares.runtime.host import Empty, Host, Mailbox, Task
from pares.runtime.work.barriers import Key

log: Final = logging.getLogger("pares.member")

MOST: Final = 65_536
"""Messages that wait for this thread; what comes beyond that is lost, as on any bus."""
MAX_REPORTS: Final = 1000
SECOND: Final = 1_000_000_000


def name_of(member: str) -> str:
    """The name in a member id (`name~incarnation`)."""
    return member.rpartition("~")[0] or member


class AllcallLoop:
    """Drives one member until it is closed. `life` is told the effects that concern the user, in order."""

    def __init__(self, bus: Bus, settings: Settings, life: Life, host: Host, *, away: bool) -> None:
        self._host = host
        self.now, self._wall_us = host.now, host.wall_us
        self.settings = settings
        self._bus = bus
        self._life = life
        self._came: Mailbox[bytes | Event | WorkOver | Lapsed | None] = host.mailbox()
        life.lapsed = self._came.put
        self._answers = Answers()
        self._drained = False
        """By what this thread has heard from its user: nothing takes it back."""
        self._abandoned = False
        self._wake = 0
        self._told_live = False
        self._reported: set[str] = set()
        self._epoch = getattr(bus, "epoch", 0)
        self.lost = 0
        """Messages that this thread was too slow for."""
        self.since: dict[str, float] = {}
        """Wall-clock seconds at which it was heard who leads a role now."""
        self.over: Closed | Stop | None = None
        self.failure: BaseException | None = None
        self.unreachable: str | None = None
        self.unwritten: str | None = None
        self.joined = True
        self.read_at = self.now()
        self.each_round: Callable[[], None] | None = None
        self.doorbell = self
        self.core = AllCall(settings, self.now(), self._wall_us())
        life.id = settings.id
        if away:
            self._came.put(Ready(False))
        # A group's name is its subject.
        self._stop_listening = bus.listen(settings.group, self._hear)
        self.thread: Task
        """Its own; there from `start` on."""

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, self._life.who)

    def close_in_child(self) -> None:
        """In a forked child: there is nothing to give back; the bus looks after itself."""

    # From other threads ----------------------------------------------------------------------------------------------

    def _hear(self, payload: bytes) -> None:
        if self._came.qsize() < MOST:
            self._came.put(payload)
        else:
            self.lost += 1

    def request(self, event: Event, answer: Answer | None = None) -> None:
        """What the user wants. Raises `CapabilityError` for what ALLCALL has not."""
        if isinstance(event, Declare):
            raise CapabilityError(
                "add_role and remove_role are not in protocol 'allcall': a member may lead the roles that it is made with; "
                "close it and make another, or use protocol='claims'"
            )
        if isinstance(event, HandOver | Ask | Ready | StepDown | Close):
            self._came.put(event)
        if answer is not None:
            self._answers.ask(answer)
        self._came.put(None)

    def read_first(self, answer: Answer) -> None:
        """There is nothing to read."""
        answer(True)

    def work_over(self, key: Key) -> None:
        """The barrier and the bodies of a term have come to their end."""
        self._came.put(WorkOver((key[0], key[1]), key[2]))

    def abandon(self) -> None:
        """Ends the thread without a word to the others: they wait for the lease."""
        self._abandoned = True
        self._came.put(None)

    # The thread ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """On the task that is its own from now on."""
        self.thread = self._host.task()
        try:
            while self.over is None and not self._abandoned:
                self._round()
        except BaseException as error:
            # No silent death: everybody who asks sees it, and no belief outlives the loop that renews it.
            self._life.beliefs.stop(OVER)
            log.critical("the loop of %s failed: %r", self.settings.id, error, exc_info=error)
            self.failure = error
            self._life.fail(error)
        finally:
            self._life.beliefs.stop(OVER)
            try:
                self._life.carry(self.over or Stop("abandoned", "closed before it could say goodbye"))
            finally:
                self._answers.end()  # last: whoever is told finds out why
            with contextlib.suppress(ClosedError, ForkedError):  # the bus was closed first
                self._stop_listening()

    def _round(self) -> None:
        events = self._next()
        epoch = getattr(self._bus, "epoch", 0)
        if epoch and epoch != self._epoch:
            self._epoch = epoch
            self._step(Missed())
        for event in events:
            self._step(event)
        asked = len(self._answers)
        if asked and self._came.empty() and not self.core.giving:
            self._answers.done(asked)
        if self.each_round is not None:
            self.each_round()

    def _next(self) -> list[CallEvent]:
        """What comes first: a message, a wish, or the time that the protocol asked for."""
        try:
            came = self._came.get(timeout=max(0.0, (self._wake - self.now()) / SECOND))
        except Empty:
            came = None
        if not self.core.live:
            self.read_at = self.now()  # there need be nothing to hear yet
        if came is None:
            return [Tick(self._wall_us())]
        if isinstance(came, bytes):
            self.read_at = self.now()
            return [Heard(came, self._wall_us())]
        return [came] if isinstance(came, WorkOver | Lapsed) else self._wish(came)

    def _wish(self, event: Event) -> list[CallEvent]:
        """What the user wants, as the protocol knows it."""
        match event:
            case HandOver(role) if self._life.beliefs.valid(role) is not None:
                return [event]
            case Ask():
                self._drained = True
                return [StepDown(None, DRAINED), Ready(False)]
            case Ready() if not self._drained:
                return [event]
            case StepDown() | Close():
                return [event]
            case _:
                return []

    def _step(self, event: CallEvent) -> None:
        if self.over is not None:
            return
        effects = self.core.step(event, self.now())
        if self.core.live and not self._told_live:  # first: whoever finds that it leads finds it live
            self._told_live = True
            self._life.carry(Live())
        for effect in effects:
            match effect:
                case Publish(payload):
                    self._publish(payload)
                case Wake(at):
                    self._wake = at
                case Lead(seat, _, until, "renewed"):
                    self._life.carry(Extend((seat,), until))
                case Lead(seat, _, _, why):
                    self._life.measures.gains(seat, why.partition(",")[0])
                    self._life.carry(effect)
                case Led(role, holder):
                    self._led(role, holder)
                case Joined(member):
                    peer = self.core.peers().get(member)
                    host = "" if peer is None else peer.host
                    self._life.carry(Moved([MemberJoined(0, member, name_of(member), host)]))
                case Lost(member, why):
                    self._life.carry(Moved([MemberLeft(0, member, name_of(member), why)]))
                case Report(kind, text):
                    self._report(kind, text)
                case Closed():
                    self.over = effect
                case _:
                    self._life.carry(effect)

    def _led(self, role: str, holder: str | None) -> None:
        if holder is None:
            self.since.pop(role, None)
        else:
            self.since[role] = self._wall_us() / 1e6
        self._life.beliefs.notify()

    def _report(self, kind: str, text: str) -> None:
        """Once: what is wrong is heard again with every call."""
        if text not in self._reported and len(self._reported) < MAX_REPORTS:
            self._reported.add(text)
            self._life.carry(Report(kind, text))

    @property
    def read_back_at(self) -> None:
        """Nothing is read back where there is no log."""
        return None

    def _publish(self, payload: bytes) -> None:
        began, done = self.now(), False
        try:
            self._bus.publish(self.settings.group, payload)
            self.unreachable, done = None, True
        except (LedgerUnavailable, ConfigError) as error:  # a server may take less than a call has
            if self.unreachable is None:
                log.warning("%s: the bus is out of reach: %s", self.settings.id, error)
            self.unreachable = str(error)
        except ClosedError:
            self._abandoned = True
            self._life.carry(Report("ledger-closed", "the ledger was closed while a member was using it"))
        self._life.measures.appended([payload], (self.now() - began) / SECOND, done)
