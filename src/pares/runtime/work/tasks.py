"""Work that belongs to leadership: it runs only while this member leads, and its own failure can end the term."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, ParamSpec, Protocol, TypeVar

from pares.core.errors import ConfigError, ParesError
from pares.runtime.config.numbers import number
from pares.runtime.driver.beliefs import Beliefs
from pares.runtime.driver.requests import UnknownRole
from pares.runtime.host import Host
from pares.runtime.term import Term
from pares.runtime.work.barriers import Barriers
from pares.runtime.work.waits import Waits

log: Final = logging.getLogger("pares.work")

AFTER_ERROR: Final = 1.0
"""Seconds until a task that raised runs again."""
AT_ONCE: Final = 0.001
"""Seconds: a run that takes less has returned at once."""
PACE: Final = 0.01
"""Seconds from one such run to the next, where no `every` is said."""
WARN_AFTER: Final = 100
"""Such runs on end."""
MAX_STUCK: Final = 7 * 24 * 3600.0
FAILURES: Final = (Exception, SystemExit, KeyboardInterrupt)
"""What ends a piece of work by its own fault; a cancellation does not."""

P = ParamSpec("P")
R = TypeVar("R")


class Leader(Protocol):
    """A member, as far as this file is concerned."""

    @property
    def state(self) -> str: ...

    def term(self, role: str) -> Term | None: ...

    def wait(self, role: str, timeout: float | None = None) -> Term | None: ...

    def step_down(self, role: str | None = None) -> None: ...


@contextmanager
def body(
    member: Leader, barriers: Barriers, term: Term, give_up_on_error: bool, stuck_after: float | None
) -> Generator[None, None, None]:
    """One piece of work in a term: a handover waits for it, and a failure of it can end the term."""
    with ExitStack() as stack:
        if stuck_after is not None:
            stack.enter_context(barriers.watch.over(term.role, stuck_after, lambda: _give_up(member, term.role)))
        stack.callback(barriers.finish, barriers.begin(term.key))
        try:
            yield
        except FAILURES:
            if give_up_on_error and term:
                with suppress(ParesError):
                    member.step_down(term.role)
            raise


def _give_up(member: Leader, role: str) -> None:
    """Also a later term of that role: nobody would do its work."""
    if member.term(role) is not None:
        member.step_down(role)


def check_stuck_after(seconds: object) -> None:
    """Raises `ConfigError`."""
    if seconds is not None:
        number("stuck_after", seconds, 0.001, MAX_STUCK)


def check_every(seconds: object) -> None:
    """Raises `ConfigError`."""
    if seconds is not None:
        number("every", seconds, 0, MAX_STUCK)


def check_task(task: object) -> None:
    """Raises `ConfigError`."""
    if not callable(task):
        raise ConfigError(f"task is {task!r}: give a callable")


def only_while(
    member: Leader,
    barriers: Barriers,
    waits: Waits,
    role: str,
    give_up_on_error: bool,
    stuck_after: float | None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    waits.check_there(role)
    check_stuck_after(stuck_after)

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
            member.term(role)  # raises in a forked child
            term = waits.working(role)
            if term is None:
                waits.check_there(role)
                return None
            with body(member, barriers, term, give_up_on_error, stuck_after):
                # Looked at again: before `begin` nobody waited for this call.
                return function(*args, **kwargs) if term else None

        return guarded

    return decorate


class Pace:
    """When a task that runs again and again is to run next."""

    def __init__(self, every: float | None, role: str, host: Host) -> None:
        check_every(every)
        self._now = host.now
        self._every = every
        self._role = role
        self._began = 0
        self._at_once = 0
        """Runs on end that returned at once."""
        self._warned = False

    def begins(self) -> None:
        self._began = self._now()

    def rest(self) -> float:
        """Seconds until the next run, for a run that is through."""
        took = (self._now() - self._began) / 1e9
        if self._every is not None:
            return max(0.0, self._every - took)
        if took >= AT_ONCE:
            self._at_once = 0
            return 0.0
        self._at_once += 1
        if self._at_once == WARN_AFTER and not self._warned:
            self._warned = True
            text = (
                "the background task for %r returns at once: it runs %g times a second at most; give every= (seconds)"
            )
            log.warning(text, self._role, 1 / PACE)
        return PACE - took


class Background:
    """A task that runs again and again while its member leads. `stop()` ends it after the run that is under way.

    It ends by itself when its member is closed or fails; `error` says by which cause, `wait()` waits for it.
    """

    def __init__(
        self,
        member: Leader,
        barriers: Barriers,
        task: Callable[[], object],
        role: str,
        every: float | None,
        give_up_on_error: bool,
        stuck_after: float | None,
        beliefs: Beliefs,
        host: Host,
    ) -> None:
        check_task(task)
        check_stuck_after(stuck_after)
        self.error: ParesError | None = None
        """What ended it: the error by which its member failed. None while it goes on, and after a planned end."""
        self._pace = Pace(every, role, host)
        self._beliefs = beliefs
        self._host = host
        self._stopping = host.flag()
        self._how = (member, barriers, task, role, give_up_on_error, stuck_after)
        self.thread = host.spawn(self._run, f"pares background {role}")

    def stop(self, timeout: float | None = None) -> None:
        """No further run begins; waits `timeout` seconds (None: as long as it takes) for the one under way."""
        self._stopping.set()
        self._beliefs.notify()
        if self._host.task() is not self.thread:
            self.thread.join(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has come to its end, `timeout` seconds at most (None: as long as it takes). Whether it has; why says
        `error`."""
        if self._host.task() is not self.thread:
            self.thread.join(timeout)
        return not self.thread.is_alive()

    def _run(self) -> None:
        member, _, _, role, _, _ = self._how
        said = False
        while not self._stopping.is_set():
            try:
                term = member.wait(role, timeout=0.5)
            except ParesError as error:
                if isinstance(error, UnknownRole):  # it may come yet
                    if not said:
                        log.error("a background task waits for nothing: %s", error)
                    said = True
                    self._beliefs.wait_for(lambda: member.term(role) is not None or self._stopping.is_set(), 0.5)
                    continue
                self.error = error  # first: the error stands there before the end can be seen
                log.info("background task for %r ends: %s", role, error)
                return
            if term is None:
                if member.state in ("closed", "failed"):
                    return
                continue
            while term and not self._stopping.is_set():
                self._once(term)

    def _once(self, term: Term) -> None:
        member, barriers, task, role, give_up_on_error, stuck_after = self._how
        self._pace.begins()
        try:
            with body(member, barriers, term, give_up_on_error, stuck_after):
                if term:  # looked at again: before `begin` nobody waited for this run
                    task()
        except FAILURES:  # SystemExit too: it would end this thread without a word, and the member would go on leading
            log.exception("the background task for %r raised", role)
            self._rest(term, max(AFTER_ERROR, self._pace.rest()))
        else:
            self._rest(term, self._pace.rest())

    def _rest(self, term: Term, seconds: float) -> None:
        """Until the term is over or somebody stops this, so many seconds at most."""
        end = self._host.now() + int(seconds * 1e9)
        while term and not self._stopping.is_set() and (left := end - self._host.now()) > 0:
            # A lease that runs out tells nobody.
            self._beliefs.wait_for(
                lambda: not term or self._stopping.is_set(), min(left / 1e9, term.remaining() + 0.001)
            )
