"""A member whose ledger may be away when it is made (`connect="background"`): it is there at once, and keeps trying.

Until the ledger is opened, a `Connecting` stands in for the driver, and a `NoView` raises an error that says why the log can't
be read yet. Then it hands over the requests that have come, and its thread becomes the driver's, so that a caller that joins
the one waits for the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable, ParesError
from pares.core.events import Close, Closed, Declare, Event, Stop
from pares.runtime.driver.answers import Answer, Answers
from pares.runtime.driver.kit import Engine, Medium
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.view import View
from pares.runtime.host import Empty, Host, Mailbox, Task
from pares.runtime.views import Holder, Peer

log: Final = logging.getLogger("pares.member")

FIRST_PAUSE: Final = 0.1
"""Seconds from one attempt to the next; twice as long each time."""
LONGEST_PAUSE: Final = 5.0


class Connecting:
    """Tries to open the ledger, again and again, until that succeeds or the member is closed.

    `opens`: opens it. `build`: puts the protocol together on it, or closes it. `adopt`: gives the member what was built. All
    three are called on threads of this. An error other than `LedgerUnavailable` ends the member as failed.
    """

    def __init__(
        self,
        life: Life,
        name: str,
        opens: Callable[[], Medium],
        build: Callable[[Medium], Engine],
        adopt: Callable[[Medium, Engine], None],
        host: Host,
    ) -> None:
        self._host = host
        self._life = life
        self._opens, self._build, self._adopt = opens, build, adopt
        self._lock = host.lock()
        """Held while the driver is put in place, so that a request comes either before it or after it, and none is lost."""
        self._asked: list[tuple[Event, Answer | None]] = []
        self._engine: Engine | None = None
        self._told: Mailbox[Medium | BaseException | None] = host.mailbox()
        """The outcome of an attempt; None: the member is to end."""
        self._answers = Answers()
        self._closing = False
        life.id = name
        self.unreachable: str | None = "the ledger is being opened"
        self.unwritten: str | None = None
        self.failure: BaseException | None = None
        self.joined = False
        self.read_back_at: int | None = None
        self.read_at = host.now()
        self.each_round: Callable[[], None] | None = None
        self.problems: tuple[str, ...] = ()
        self.thread: Task
        """The thread of this, and later of the driver; there from `start` on."""

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, self._life.who)

    # In the place of a driver ----------------------------------------------------------------------------------------

    def request(self, event: Event, answer: Answer | None = None) -> None:
        with self._lock:
            if self._engine is None:
                self._asked.append((event, answer))
                if isinstance(event, Close):
                    self._end()
                if answer is not None and self._closing:
                    self._answers.ask(answer)
                return
        self._engine.loop.request(event, answer)

    def read_first(self, answer: Answer) -> None:
        answer(True)

    def abandon(self) -> None:
        with self._lock:
            if self._engine is None:
                self._end()
                return
        self._engine.loop.abandon()

    def close_in_child(self) -> None:
        """Does nothing: before the ledger is opened there are no descriptors to close."""

    def _end(self) -> None:
        self._closing = True
        self._told.put(None)

    def run(self) -> None:
        self.thread = self._host.task()
        engine: Engine | None = None
        try:
            engine = self._connect()
        except ParesError as error:
            log.error("%s can't begin: %s", self._life.who, error)
            misconfigured, cannot = isinstance(error, ConfigError), isinstance(error, CapabilityError)
            kind = "misconfigured" if misconfigured else "cannot" if cannot else "refused"
            self._life.carry(Stop(kind, str(error)))
        except BaseException as error:
            log.critical("%s can't begin: %r", self._life.who, error, exc_info=error)
            self.failure = error
            self._life.fail(error)
            self._life.carry(Stop("failed", repr(error)))
        else:
            if engine is None:
                self._life.carry(Closed())
        if engine is None:
            with self._lock:
                self._closing = True
                for _, answer in self._asked:
                    if answer is not None:
                        self._answers.ask(answer)
            self._answers.end()
        else:
            engine.loop.run()

    def _connect(self) -> Engine | None:
        """The member's engine; None if the member was closed first."""
        pause = FIRST_PAUSE
        while not self._closing:
            self._host.spawn(self._attempt, f"{self._life.who}: opening")
            came = self._told.get()
            try:
                if isinstance(came, Medium):
                    return self._begin(came)
                if came is not None:
                    raise came
            except LedgerUnavailable as error:
                if self.unreachable != str(error):
                    log.warning("%s: the ledger is out of reach: %s", self._life.who, error)
                self.unreachable = str(error)
                try:
                    self._told.get(timeout=pause)
                except Empty:
                    pause = min(2 * pause, LONGEST_PAUSE)
        return None

    def _attempt(self) -> None:
        """On a thread of its own: a client may take its time, and the member may be closed at any time."""
        try:
            medium = self._opens()
        except BaseException as error:
            self._told.put(error)
            return
        with self._lock:
            if not self._closing:
                self._told.put(medium)
                return
        medium.close()

    def _begin(self, medium: Medium) -> Engine:
        engine = self._build(medium)
        engine.loop.thread = self._host.task()
        # No fork in between: a child must have either this or the driver, and know which.
        with self._host.without_forks(), self._lock:
            self._adopt(medium, engine)
            self._engine, asked = engine, self._asked
        for event, answer in asked:
            try:
                if isinstance(event, Declare) and not event.removed:
                    engine.view.check_role(event.seats, event.weight, event.spread)
                engine.loop.request(event, answer)
            except ParesError as error:
                log.warning("%s: %s", self._life.who, error)
        return engine


class NoView(View):
    """What a member tells of its group before its ledger is opened: see `driver.view.View`."""

    def __init__(self, loop: Connecting, name: str) -> None:
        self._loop = loop
        self._name = name

    @property
    def id(self) -> str:
        return self._name

    def members(self) -> list[Peer]:
        return []

    def leaders(self, role: str) -> list[Holder]:
        return []

    def roles(self) -> dict[str, int]:
        return {}

    def partition(self, role: str, seat: int) -> int:
        raise self._unavailable()

    def known(self, role: str) -> bool:
        raise self._unavailable()

    def resolve(self, member: str, group: str) -> str:
        raise self._unavailable()

    def check(self, what: str) -> None:
        raise self._unavailable()

    def _unavailable(self) -> LedgerUnavailable:
        return LedgerUnavailable(f"{self._loop.thread.name} has no ledger yet: {self._loop.unreachable}")


def connecting(
    life: Life,
    name: str,
    eligible: tuple[str, ...] | None,
    session: float,
    opens: Callable[[], Medium],
    build: Callable[[Medium], Engine],
    adopt: Callable[[Medium, Engine], None],
    host: Host,
) -> Engine:
    """What drives a member until its ledger is opened. `eligible`, `session`: as the user gave them."""
    loop = Connecting(life, name, opens, build, adopt, host)
    return Engine(loop, NoView(loop, name), eligible, session)
