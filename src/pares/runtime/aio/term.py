"""A term whose body is cancelled when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Self

from pares.runtime.driver.beliefs import Beliefs
from pares.runtime.member import Member as SyncMember
from pares.runtime.term import Term as SyncTerm
from pares.runtime.work.barriers import Body


class Term:
    """A term. ``async with term:`` cancels its body when the term ends, and leaves quietly.

    Promised and not promised: as `pares.Term`. The body is also what a planned handover waits for.
    """

    def __init__(self, term: SyncTerm, member: SyncMember) -> None:
        self._term = term
        self._member = member
        self.role = term.role
        """The role that it is a term of."""
        self.seat = term.seat
        """The seat's index within the role."""
        self.token = term.token
        """The fencing token: greater than that of every earlier term of this seat."""
        self.member = term.member
        """The member's id."""
        self._watch: asyncio.Task[None] | None = None
        self._body: Body | None = None
        self._cancelled = False
        self._before = 0

    def __bool__(self) -> bool:
        return bool(self._term)

    def __repr__(self) -> str:
        return repr(self._term)

    @property
    def key(self) -> tuple[str, int, int]:
        """Role, seat and token."""
        return self._term.key

    @property
    def why(self) -> str:
        """Why the term ended; empty while it lasts."""
        return self._term.why

    def remaining(self) -> float:
        """Seconds that the belief lasts if nothing renews it."""
        return self._term.remaining()

    def check(self) -> None:
        """Raises `LeadershipLost` if the term is over."""
        self._term.check()

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until the term is over, `timeout` seconds at most. Whether it is."""
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        beliefs = self._member._life.beliefs  # pyright: ignore[reportPrivateUsage]
        with changes(beliefs) as changed:
            while self._term:
                left = self._term.remaining() + 0.001
                if end is not None:
                    left = min(left, end - clock())
                    if left <= 0:
                        return False
                changed.clear()
                # Not by wait_for, which before Python 3.12 swallows a cancellation that comes when its time is over.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await changed.wait()
            return True

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._body = self._member._barriers.begin(self._term.key)  # pyright: ignore[reportPrivateUsage]
        self._before, self._cancelled = task.cancelling(), False
        self._watch = asyncio.create_task(self._cancel_when_lost(task))
        return self

    async def _cancel_when_lost(self, task: asyncio.Task[Any]) -> None:
        await self.wait_lost()
        self._cancelled = True
        task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._body is not None:
            self._member._barriers.finish(self._body)  # pyright: ignore[reportPrivateUsage]
        if self._watch is not None:
            self._watch.cancel()
        task = asyncio.current_task()
        if not self._cancelled or task is None:
            return False
        # Our own request is taken back, also when the body has swallowed it. Others may want this task cancelled too: then
        # the cancellation goes on (asyncio counts the requests, as in asyncio.timeout).
        return task.uncancel() <= self._before and kind is asyncio.CancelledError


@contextlib.contextmanager
def changes(beliefs: Beliefs) -> Generator[asyncio.Event]:
    """An event that is set, on the running event loop, whenever a belief begins or ends."""
    changed = asyncio.Event()
    listener = waker(changed)
    beliefs.listeners.append(listener)
    try:
        yield changed
    finally:
        beliefs.listeners.remove(listener)


def waker(event: asyncio.Event) -> Callable[[], None]:
    """To be called on any thread: sets `event` on the event loop that runs here."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # An event loop that was closed has nobody left to wake, and may be closed at any moment.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    return wake
