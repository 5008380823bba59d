"""A double for `pares.aio.Member` whose leadership the test decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from pares.core.errors import LedgerUnavailable
from pares.runtime import aio
from pares.runtime.config.arguments import arguments_of
from pares.runtime.config.numbers import whole
from pares.testing.fake import FakeMember as SyncFakeMember
from pares.testing.fake import check_call

_AWAITED: Final = ("pulse", "terms", "wait")
"""What `pares.aio.Member` does itself; for the rest it asks the member behind it."""


class FakeMember(aio.Member):
    """A `pares.aio.Member` without a ledger: it leads when the test says so, and for as long as it says so.

        async with FakeMember(roles=["mail"]) as me:
            me.lead("mail")
            assert me.holds("mail")
            me.fence("mail")            # bodies under `async with term` are cancelled

    Arguments and promises are those of `pares.testing.FakeMember`; what the test asks for (`lead`, `revoke`, `fence`,
    `out_of_reach`, `fail`) is no coroutine: when the call returns, it is done. It may be given to whatever enters a
    `pares.aio.Member`, such as `pares.frameworks.asgi.Lifespan`.
    """

    @arguments_of(SyncFakeMember.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # pyright: ignore[reportMissingSuperCall]
        self._fake = SyncFakeMember(*args, **kwargs)
        self._behind(lambda: self._fake)

    def lead(self, role: str, why: str = "the test says so") -> aio.Term:
        """As `pares.testing.FakeMember.lead`."""
        return aio.Term(self._fake.lead(role, why), self._fake)

    def revoke(self, role: str, why: str = "the test says so") -> None:
        """As `pares.testing.FakeMember.revoke`."""
        self._fake.revoke(role, why)

    def fence(self, role: str, why: str = "the test says so") -> None:
        """As `pares.testing.FakeMember.fence`."""
        self._fake.fence(role, why)

    def out_of_reach(self, why: str = "the test says so") -> None:
        """As `pares.testing.FakeMember.out_of_reach`."""
        self._fake.out_of_reach(why)

    def fail(self, call: str, error: Exception | None = None, times: int = 1) -> None:
        """As `pares.testing.FakeMember.fail`: the next `times` calls of `call`, awaited where they are, raise `error`."""
        check_call(call)
        if call not in _AWAITED:
            self._fake.fail(call, error, times)
            return
        left = iter(range(whole("times", times, 1, 1_000_000)))
        told = error or LedgerUnavailable(f"{call} failed: the test says so", unknown=True)
        real = getattr(type(self), call)

        async def iterate(*args: Any, **kwargs: Any) -> AsyncIterator[aio.Term]:
            if next(left, None) is not None:
                raise told
            async for term in real(self, *args, **kwargs):
                yield term

        async def once(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is not None:
                raise told
            return await real(self, *args, **kwargs)

        setattr(self, call, iterate if call == "terms" else once)
