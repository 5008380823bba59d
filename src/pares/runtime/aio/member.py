"""A member for asyncio: see the package."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from pares.core.errors import ClosedError
from pares.ledger import Bus, Ledger
from pares.runtime import events as told
from pares.runtime.aio.term import Term, changes, waker
from pares.runtime.config.arguments import AnySettings, arguments_of
from pares.runtime.config.environment import Environment
from pares.runtime.driver.requests import UnknownRole
from pares.runtime.here import here
from pares.runtime.member import Member as SyncMember
from pares.runtime.member import check_arguments
from pares.runtime.views import State
from pares.runtime.work.tasks import AFTER_ERROR, Pace, body, check_stuck_after, check_task, log
from pares.runtime.work.waits import Waits

P = ParamSpec("P")
R = TypeVar("R")


def _same(method: Callable[Concatenate[SyncMember, P], R]) -> Callable[Concatenate[Member, P], R]:
    """The plain member's method, which needs no waiting."""

    @functools.wraps(method)
    def call(self: Member, *args: P.args, **kwargs: P.kwargs) -> R:
        found: Callable[P, R] = getattr(self._member, method.__name__)  # pyright: ignore[reportPrivateUsage]
        return found(*args, **kwargs)

    return call


def _waiting(
    method: Callable[Concatenate[SyncMember, P], R],
) -> Callable[Concatenate[Member, P], Coroutine[Any, Any, R]]:
    """The plain member's method, which may wait for the log."""

    @functools.wraps(method)
    async def call(self: Member, *args: P.args, **kwargs: P.kwargs) -> R:
        found: Callable[P, R] = getattr(self._member, method.__name__)  # pyright: ignore[reportPrivateUsage]
        return await asyncio.to_thread(found, *args, **kwargs)

    return call


def _this_task() -> int:
    """A number for it that no thread has."""
    return -id(asyncio.current_task())


class Member:
    """`pares.Member` for asyncio. Takes the same arguments, and promises the same.

    It opens the ledger and joins in ``async with`` (or on the first use), on a thread. `barrier`, `ready` and `on_lost` are
    plain callables, called on threads as by `pares.Member`.
    """

    @arguments_of(SyncMember.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_arguments(*args, **kwargs)
        self._behind(functools.partial(SyncMember, *args, **kwargs))

    def _behind(self, make: Callable[[], SyncMember]) -> None:
        self._make = make
        self._made: SyncMember | None = None
        self._unwanted = False
        self._host = here()
        self._making = self._host.lock()
        """Held while it is made, which takes as long as opening a ledger does. Only one is made."""

    @classmethod
    def from_env(cls, ledger: str | Ledger | Bus | None = None, **settings: Unpack[AnySettings]) -> Self:
        """With settings from the environment, which is read now; as `pares.Member.from_env`."""
        found = Environment(ledger, settings, here().env)
        made = cls(found.ledger, **found.settings)
        made._make = functools.partial(found.make, SyncMember)
        return made

    @property
    def _member(self) -> SyncMember:
        return self._made or self._enter()

    def _enter(self) -> SyncMember:
        with self._making:
            if self._unwanted:
                raise ClosedError("the task that entered this member did not wait until it was made: make a new one")
            if self._made is None:
                self._made = self._make()
            return self._made

    def _give_up(self) -> None:
        with self._making:
            self._unwanted, made = True, self._made
        if made is not None:
            made.close()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._enter)
        except asyncio.CancelledError:
            # The thread that makes it can't be cancelled, and nobody else would ever close what it makes.
            self._host.spawn(self._give_up, "pares: giving up")
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def id(self) -> str:
        """`name~incarnation`, as `pares.Member.id`."""
        return self._member.id

    @property
    def name(self) -> str:
        """The name it was made with, or that of host, process id and time."""
        return self._member.name

    @property
    def state(self) -> State:
        """joining, live, closing, closed or failed."""
        return self._member.state

    @property
    def group(self) -> str:
        """The group it is in."""
        return self._member.group

    @property
    def session(self) -> float:
        """Seconds of silence after which others may take what it holds."""
        return self._member.session

    def holds(self, role: str) -> bool:
        """The check; no lock, no I/O, and nothing to await."""
        return self._member.holds(role)

    def term(self, role: str) -> Term | None:
        """The current term of `role`, or None. Nothing to await."""
        term = self._member.term(role)
        return None if term is None else Term(term, self._member)

    async def wait(self, role: str, timeout: float | None = None) -> Term | None:
        """Waits until this member leads `role`; None after `timeout` seconds or when it is closed. Raises as
        `pares.Member.wait`."""
        return await self._newer(role, -1, timeout)

    async def terms(self, role: str, timeout: float | None = None) -> AsyncGenerator[Term, None]:
        """The terms of `role` as they come, one for each tenure."""
        last = -1
        while (term := await self._newer(role, last, timeout)) is not None:
            barriers = self._member._barriers  # pyright: ignore[reportPrivateUsage]
            body = barriers.begin(term.key, _this_task())
            try:
                yield term
            finally:
                barriers.finish(body)
            last = term.token

    async def pulse(self, timeout: float | None = None) -> bool:
        """Waits until this member leads any role; whether it does."""
        waits = self._waits
        waits.requests.check_usable()
        return await self._until(waits.any_works, timeout)

    @property
    def _waits(self) -> Waits:
        return self._member._waits  # pyright: ignore[reportPrivateUsage]

    async def _newer(self, role: str, last: int, timeout: float | None) -> Term | None:
        member, waits = self._member, self._waits
        member.term(role)
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while True:
            left = None if end is None else max(0.0, end - clock())
            await self._until(lambda: waits.over(role, last), left)
            if waits.newer(role, last) is not None or waits.requests.awaits(role):
                break
            await asyncio.to_thread(waits.requests.check_awaited, role)
        if member.state == "failed":
            member.wait(role, 0)  # raises what ended it
        return self.term(role) if waits.newer(role, last) is not None else None

    async def _until(self, what: Callable[[], bool], timeout: float | None) -> bool:
        beliefs = self._member._life.beliefs  # pyright: ignore[reportPrivateUsage]
        with changes(beliefs) as changed, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not what() and self._member.state not in ("closed", "failed"):
                    changed.clear()
                    if not what():
                        await changed.wait()
        return what()

    # The rest is the plain member's. Whatever waits for the log waits on a thread.

    members = _same(SyncMember.members)
    leader = _same(SyncMember.leader)
    leaders = _same(SyncMember.leaders)
    roles = _same(SyncMember.roles)
    partition = _same(SyncMember.partition)
    health = _same(SyncMember.health)
    add_role = _waiting(SyncMember.add_role)
    remove_role = _waiting(SyncMember.remove_role)
    drain = _waiting(SyncMember.drain)
    pause = _waiting(SyncMember.pause)
    resume = _waiting(SyncMember.resume)

    async def hand_over(self, role: str, to: str | None = None, why: str = "") -> None:
        """Hands the seat of `role` to the member `to`, or to whom placement names; as `pares.Member.hand_over`."""
        if to is None:
            self._member.hand_over(role, to, why)
        else:
            await asyncio.to_thread(self._member.hand_over, role, to, why)  # it may have to read first

    async def step_down(self, role: str | None = None) -> None:
        """Gives `role` (None: everything) to somebody else; as `pares.Member.step_down`."""
        self._member.step_down(role)

    def mark(self, term: Term, mark: int) -> None:
        """Writes down how far the work of this term has come."""
        self._member.mark(term._term, mark)  # pyright: ignore[reportPrivateUsage]

    async def events(self) -> AsyncIterator[told.Event]:
        """What happens to this member and its group, from the first step of the iteration on."""
        come = asyncio.Event()
        events = self._member._life.journal.events(waker(come))  # pyright: ignore[reportPrivateUsage]
        while (found := events.take()) is not None:
            for event in found:
                yield event
            if not found:
                await come.wait()
            come.clear()
        if events.error is not None:
            raise events.error

    def only(
        self, role: str, *, give_up_on_error: bool = False, stuck_after: float | None = None
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R | None]]]:
        """Decorator: the coroutine function runs only while this member leads `role`, and is cancelled when the term ends; it
        returns None otherwise.

        With `give_up_on_error` an exception in it ends the term; so does a call that takes longer than `stuck_after` seconds,
        also one that blocks the event loop: that is watched from a thread. Raises as `pares.Member.only`.
        """
        check = self._waits.check_there
        self._member.term(role)  # raises for a role that this member never leads
        check(role)
        check_stuck_after(stuck_after)

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R | None]]:
            @functools.wraps(function)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
                self._member.term(role)  # raises in a forked child
                working = self._waits.working(role)
                if working is None:
                    check(role)
                    return None
                term = Term(working, self._member)
                with self._work(term, give_up_on_error, stuck_after):
                    async with term:
                        # Looked at again: before that began nobody waited for this call.
                        return await function(*args, **kwargs) if term else None
                return None

            return guarded

        return decorate

    def background(
        self,
        task: Callable[[], Awaitable[object]],
        role: str,
        every: float | None = None,
        *,
        give_up_on_error: bool = False,
        stuck_after: float | None = None,
    ) -> asyncio.Task[None]:
        """Awaits `task()` again and again while this member leads `role`, until the member is closed or the returned asyncio
        task is cancelled. A run is cancelled when its term ends; an exception is logged, and the task runs again after a
        moment. `every`: as in `pares.Member.background`; `give_up_on_error`, `stuck_after`: as in `only`. Raises what
        `pares.Member.background` raises; the returned task ends with the error by which the member fails, if it does."""
        self._member.term(role)  # raises for a role that this member never leads
        self._waits.check_there(role)
        check_task(task)
        check_stuck_after(stuck_after)

        async def run(term: Term) -> None:
            with self._work(term, give_up_on_error, stuck_after):
                async with term:
                    await task()

        return asyncio.create_task(
            self._repeat(run, role, Pace(every, role, self._host)), name=f"pares background {role}"
        )

    async def _repeat(self, run: Callable[[Term], Awaitable[None]], role: str, pace: Pace) -> None:
        said = False
        while True:
            try:
                async for term in self.terms(role):
                    while term:
                        rest = 0.0
                        pace.begins()
                        try:
                            await run(term)
                        except Exception:
                            log.exception("the background task for %r raised", role)
                            rest = AFTER_ERROR
                        rest = max(rest, pace.rest())
                        if rest > 0:
                            await term.wait_lost(rest)
                return
            except UnknownRole as error:  # it may come yet
                if not said:
                    log.error("a background task waits for nothing: %s", error)
                said = True
            await self._until(lambda: self._member.term(role) is not None, 0.5)

    def _work(
        self, term: Term, give_up_on_error: bool, stuck_after: float | None
    ) -> contextlib.AbstractContextManager[None]:
        member = self._member
        return body(member, member._barriers, term._term, give_up_on_error, stuck_after)  # pyright: ignore[reportPrivateUsage]

    async def close(self, timeout: float | None = None) -> None:
        """Hands everything over and leaves; bodies under ``async with term`` are cancelled by that."""
        if self._made is not None:
            # By the task: the thread that waits is another one, and that of this event loop has other tasks to run.
            self._made._barriers.finish_mine(_this_task())  # pyright: ignore[reportPrivateUsage]
            await asyncio.to_thread(self._made.close, timeout)
