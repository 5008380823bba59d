"""Work that belongs to leadership: it runs only while this member leads, and its own failure can end the term."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, ParamSpec, Protocol, TypeVar

from pares.core.errors import ConfigError, ParesError
from pares.runtime.barriers import Barriers
from pares.runtime.numbers import number
from pares.runtime.term import Term

log: Final = logging.getLogger("pares.work")

AFTER_ERROR: Final = 1.0
"""Seconds until a task that raised runs again."""
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


def check_task(task: object) -> None:
    """Raises `ConfigError`."""
    if not callable(task):
        raise ConfigError(f"task is {task!r}: give a callable")


def only_while(
    member: Leader,
    barriers: Barriers,
    working: Callable[[str], Term | None],
    role: str,
    give_up_on_error: bool,
    stuck_after: float | None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """`working`: the current term of a role, if its work may begin."""
    check_stuck_after(stuck_after)

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
            member.term(role)  # raises in a forked child
            term = working(role)
            if term is None:
                return None
            with body(member, barriers, term, give_up_on_error, stuck_after):
                # Looked at again: before `begin` nobody waited for this call.
                return function(*args, **kwargs) if term else None

        return guarded

    return decorate


class Background:
    """A task that runs again and again while its member leads. `stop()` ends it after the run that is under way."""

    def __init__(
        self,
        member: Leader,
        barriers: Barriers,
        task: Callable[[], object],
        role: str,
        give_up_on_error: bool,
        stuck_after: float | None,
        check_there: Callable[[str], None],
    ) -> None:
        check_task(task)
        check_stuck_after(stuck_after)
        self._check_there = check_there
        self._stopping = threading.Event()
        self._how = (member, barriers, task, role, give_up_on_error, stuck_after)
        self.thread = threading.Thread(target=self._run, name=f"pares background {role}", daemon=True)
        self.thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """No further run begins; waits `timeout` seconds (None: as long as it takes) for the one under way."""
        self._stopping.set()
        if threading.current_thread() is not self.thread:
            self.thread.join(timeout)

    def _run(self) -> None:
        member, _, _, role, _, _ = self._how
        looked = False
        while not self._stopping.is_set():
            try:
                term = member.wait(role, timeout=0.5)
            except ParesError as error:
                log.info("background task for %r ends: %s", role, error)
                return
            if term is None:
                if member.state in ("closed", "failed"):
                    return
                if not looked and member.state == "live":
                    looked = True
                    self._look()
                continue
            while term and not self._stopping.is_set():
                self._once(term)

    def _look(self) -> None:
        """Whether there is such a role could not be said before this member had read its group's log. It may come yet."""
        try:
            self._check_there(self._how[3])
        except ConfigError as error:
            log.error("a background task waits for nothing: %s", error)

    def _once(self, term: Term) -> None:
        member, barriers, task, role, give_up_on_error, stuck_after = self._how
        try:
            with body(member, barriers, term, give_up_on_error, stuck_after):
                if term:  # looked at again: before `begin` nobody waited for this run
                    task()
        except FAILURES:  # SystemExit too: it would end this thread without a word, and the member would go on leading
            log.exception("the background task for %r raised", role)
            term.wait_lost(AFTER_ERROR)
