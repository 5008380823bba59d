"""Starlette and FastAPI, on whatever ASGI server: a member for as long as the application lives, in each worker its own.

lifespan = Lifespan("sqlite:///app.db", group="app", roles=["scheduler"])

@lifespan.background("scheduler", stuck_after=60)
async def run_due_jobs() -> None: ...

app = FastAPI(lifespan=lifespan)
app.mount("/pares", lifespan.probes)
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar, Unpack, overload

from pares.core.errors import ConfigError
from pares.ledger import Bus, Ledger
from pares.runtime import aio
from pares.runtime.config.arguments import MemberSettings
from pares.runtime.member import check_arguments
from pares.runtime.probes import HealthApp, health_app
from pares.runtime.work.tasks import check_every

Task = TypeVar("Task", bound=Callable[[], Awaitable[object]])


class _Work(NamedTuple):
    task: Callable[[], Awaitable[object]]
    role: str
    every: float | None
    give_up_on_error: bool
    stuck_after: float | None


class Lifespan:
    """What `Starlette(lifespan=...)` and `FastAPI(lifespan=...)` take; made with the arguments of `pares.Member`, or with a
    `pares.aio.Member` that nobody has entered (in a test: a `pares.testing.aio.FakeMember`, which it then enters and closes).

    Promised: the member is made when the application starts up, which is after a server has forked its workers, and it has
    handed over and left before the shutdown is done. Not promised: when a server begins with that. Most let open requests
    end first; where these take long, call `pares.leave_on_signals()` at startup, and the handover does not wait for them.
    Starting up raises what `pares.Member` raises, and the server then does not serve.
    """

    @overload
    def __init__(self, ledger: aio.Member, /) -> None: ...

    @overload
    def __init__(self, ledger: str | Ledger | Bus, *, group: str, **settings: Unpack[MemberSettings]) -> None: ...

    def __init__(self, ledger: aio.Member | str | Ledger | Bus, **settings: Any) -> None:
        if isinstance(ledger, aio.Member):
            if settings:
                raise ConfigError(
                    f"a member is given, and {', '.join(settings)} too: make the member with these settings"
                )
            self._make: Callable[[], aio.Member] = lambda: ledger
        else:
            check_arguments(ledger, **settings)
            self._make = functools.partial(aio.Member, ledger, **settings)
        self._work: list[_Work] = []
        self.member: aio.Member | None = None
        """None until the application has started up; after its end the one that has left."""
        self.probes: HealthApp = health_app(lambda: self.member)
        """/livez, /readyz, /leader: to be mounted (see `pares.health_app`). 503 before the start and after the end."""

    def term(self, role: str) -> aio.Term | None:
        """The current term of `role`, or None, also while there is no member. Nothing to await."""
        return None if self.member is None else self.member.term(role)

    def background(
        self,
        role: str,
        every: float | None = None,
        *,
        give_up_on_error: bool = False,
        stuck_after: float | None = None,
    ) -> Callable[[Task], Task]:
        """Decorator: the coroutine function runs again and again while this worker leads `role`, as by
        `pares.aio.Member.background`. `every`: seconds from the beginning of one run to that of the next. To be used before
        the application starts; raises `ConfigError` afterwards, and for an `every` that can't be."""
        if self.member is not None:
            raise ConfigError("the application has started: give work to a Lifespan before, or to its member")

        check_every(every)  # raises now what would fail the start of the application

        def decorate(task: Task) -> Task:
            self._work.append(_Work(task, role, every, give_up_on_error, stuck_after))
            return task

        return decorate

    @asynccontextmanager
    async def __call__(self, app: object) -> AsyncIterator[None]:
        async with self._make() as member:
            self.member = member
            # Kept: the event loop itself holds tasks only weakly.
            tasks = [
                member.background(task, role, every, give_up_on_error=give_up, stuck_after=stuck_after)
                for task, role, every, give_up, stuck_after in self._work
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
