"""APScheduler 3 in N workers: every worker has all the jobs, and they run in the one that leads.

    jobs = Jobs(scheduler, member, "scheduler")
    jobs.add_job(send_digest, "cron", hour=7)

No job store is shared, and none is needed: what a worker has to know is in its own code.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from pares.core.errors import ConfigError
from pares.runtime import Member, aio

if TYPE_CHECKING:
    from apscheduler.job import Job
    from apscheduler.schedulers.base import BaseScheduler

Function = TypeVar("Function", bound=Callable[..., Any])


class Jobs:
    """Adds jobs to `scheduler` that do nothing where `member` does not lead `role`.

    Coroutine functions need a scheduler for asyncio and a member of `pares.aio` (one that was entered); plain functions take
    either member. `give_up_on_error`, `stuck_after`: as in `Member.only`.

    Promised: a job's run begins only in a term, and a planned handover waits for it. Not promised: that a time which falls
    into a handover, when nobody leads, is made up for (for that, ask for what is due, and not what time it is); nor that a
    run which outlives its lease does no harm: for that, `Term.token` and a fence. Raises `ConfigError` for a role that the
    member never leads.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        member: Member | aio.Member,
        role: str,
        *,
        give_up_on_error: bool = False,
        stuck_after: float | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._settings: dict[str, Any] = {"give_up_on_error": give_up_on_error, "stuck_after": stuck_after}
        self._role = role
        self._for_asyncio = member if isinstance(member, aio.Member) else None
        plain = member._made if isinstance(member, aio.Member) else member  # pyright: ignore[reportPrivateUsage]
        if not isinstance(plain, Member):
            raise ConfigError(f"jobs of {member!r}: give a Member, or one of pares.aio that was entered")
        plain.term(role)
        self._plain = plain

    def add_job(self, func: Callable[..., Any], *args: Any, **settings: Any) -> Job:
        """As the scheduler's own, with the same arguments. Raises `ConfigError` for what is no function: a reference by text
        is for job stores; and for a coroutine function where the member is none of `pares.aio`."""
        return self._scheduler.add_job(self._guarded(func), *args, **settings)

    def scheduled_job(self, *args: Any, **settings: Any) -> Callable[[Function], Function]:
        """Decorator: as the scheduler's own, with the same arguments."""

        def decorate(func: Function) -> Function:
            self.add_job(func, *args, **settings)
            return func

        return decorate

    def _guarded(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise ConfigError(f"a job is {func!r}: give the function itself")
        if not iscoroutinefunction(func):
            return self._plain.only(self._role, **self._settings)(func)
        if self._for_asyncio is None:
            raise ConfigError(f"{func!r} is a coroutine function: that needs a member of pares.aio")
        return self._for_asyncio.only(self._role, **self._settings)(func)
