"""A double for `pares.Member` whose leadership the test decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypedDict, Unpack

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.core.events import WorkOver
from pares.core.wire.records import check_name
from pares.runtime.config.numbers import whole
from pares.runtime.config.protocols import Protocol, protocol_of
from pares.runtime.config.settings import Eligible, Roles, settings
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.requests import Requests
from pares.runtime.driver.view import WorldView
from pares.runtime.here import here
from pares.runtime.member import Member, check_arguments
from pares.runtime.term import Term
from pares.runtime.work.barriers import Barriers, Callback
from pares.testing.puppet import Puppet

_MOVES: Final = ("add_role", "remove_role", "hand_over", "step_down", "drain", "pause", "resume", "mark")
CAN_FAIL: Final = frozenset((*_MOVES, "pulse", "term", "terms", "wait", "members", "roles"))
"""What `FakeMember.fail` can make raise: the methods of a member that may."""
BARRIER: Final = 1.0
"""Seconds for which `lead` waits for the barrier."""


def check_call(call: str) -> None:
    """Raises `ConfigError` for what is no method of a member, or never raises."""
    if call not in CAN_FAIL:
        raise ConfigError(f"call is {call!r}: give one of {', '.join(sorted(CAN_FAIL))}")


class Ignored(TypedDict, total=False):
    """Keywords of `Member` that only matter in a group: checked where they can be, and of no effect here."""

    overlap: float
    protocol: Protocol
    settle: float | None
    drift: float
    ready: Callable[[], bool] | None
    lock_folder: str | os.PathLike[str] | None
    options: Mapping[str, Any] | None


class FakeMember(Member):
    """A `pares.Member` without a ledger: it leads when the test says so, and for as long as it says so.

        me = FakeMember(roles=["mail"])
        me.lead("mail")
        assert me.holds("mail")
        me.revoke("mail")           # planned: the barrier runs, then somebody else holds it
        me.fence("mail")            # not planned: stop at once

    Promised: it *is* a `Member` (terms, barriers, events, `only`, `background` are the real ones), tokens grow, and nothing
    happens by itself. Not promised: any timing, or that anybody else would agree. Arguments are those of `Member` but for the
    ledger; those that only matter in a group (`drift`, `settle`, `overlap`, `options`, `ready`, ...) have no effect.
    """

    def __init__(  # pyright: ignore[reportMissingSuperCall] - there is no ledger, and so no loop
        self,
        ledger: object = None,
        *,
        group: str = "test",
        roles: Roles = (),
        seats: int = 1,
        name: str | None = "fake",
        host: str | None = None,
        zone: str | None = None,
        labels: Mapping[str, str] | None = None,
        rank: int = 0,
        weight: float = 1,
        eligible: Eligible = "*",
        session: float = 1.0,
        barrier: Callback | None = None,
        barrier_timeout: float = 30.0,
        on_lost: Callable[[Term], object] | None = None,
        **more: Unpack[Ignored],
    ) -> None:
        unknown = more.keys() - Ignored.__optional_keys__
        if unknown:
            check_arguments(ledger, group=group, **more)
        given: dict[str, Any] = {"group": group, "roles": roles, "seats": seats, "name": name, "host": host}
        given |= {"zone": zone, "labels": labels, "rank": rank, "weight": weight, "eligible": eligible}
        given |= {"session": session, "barrier_timeout": barrier_timeout, "settle": more.get("settle")}
        given |= {"overlap": more.get("overlap", 0.0), "drift": more.get("drift", 0.1)}
        protocol_of(more.get("protocol", "claims"))
        self._host = here()
        self._now = self._host.now
        checked = settings(self._host, **given, retention=None)
        self._own_ledger = False
        self.group = group
        self.name = checked["name"]
        self.session = session
        self._barrier_timeout = barrier_timeout
        who = f"fake member {self.name!r} of group {group!r}"
        self._barriers = Barriers(
            who, barrier, lambda key: self._puppet.request(WorkOver((key[0], key[1]), key[2])), self._host
        )
        self._life = Life(who, self._barriers, on_lost, self._host, lapsed=lambda _: None, give_up=self._give_up)
        self._life.id = f"{self.name}~fake"
        self._until = self._life.beliefs.until
        join = {"name": self.name, "session": checked["session_ms"], "rank": rank, "weight": float(weight)}
        join |= {"host": checked.get("host", ""), "zone": checked.get("zone", ""), "labels": checked.get("labels", {})}
        declared = {role.name: role.seats for role in checked["roles"]}
        self._puppet = Puppet(self._life.id, join, declared, group, self._life.carry, self._host)
        self._loop = self._puppet
        self._view = WorldView(self._puppet, self._life)
        self._requests = Requests(group, self._life, self._loop, self._view, checked["eligible"], self._host)
        with self._host.without_forks():
            self._puppet.start()
            self._host.begin(self)
        self._puppet.perform(lambda: None)

    # For tests -------------------------------------------------------------------------------------------------------

    def lead(self, role: str, why: str = "the test says so") -> Term:
        """From now on this member leads `role` (which is declared if need be); its term, with a higher token than ever.

        Returns when the barrier, if there is one, has returned from `Acquired`, so that the work of the term may begin; after a
        second at most, for a barrier that the test holds back."""
        check_name("a role's name", role)
        self._requests.check_eligible(role)
        begun: list[Term | None] = []

        def lead() -> None:
            self._puppet.lead(role, why)
            begun.append(self.term(role))  # here: the code under test may give it up again at once

        self._puppet.perform(lead)
        (term,) = begun
        assert term is not None
        self._life.beliefs.wait_for(lambda: self._working(role) is not None or not term, BARRIER)
        return term

    def revoke(self, role: str, why: str = "the test says so") -> None:
        """The term of `role` ends by plan: `Revoked` reaches the barrier, which runs beside; when it has returned, somebody
        else holds the role (see `leader`). Nothing happens if this member does not lead it."""
        self._puppet.perform(lambda: self._puppet.revoke(role, why))

    def fence(self, role: str, why: str = "the test says so") -> None:
        """The term of `role` is over at once, and somebody else holds it: `Fenced`, nothing waits for anybody."""
        self._puppet.perform(lambda: self._puppet.fence(role, why))

    def out_of_reach(self, why: str = "the test says so") -> None:
        """All beliefs are over, as when the ledger can't be reached for longer than the lease."""
        self._puppet.perform(lambda: self._puppet.break_down(why))

    def fail(self, call: str, error: Exception | None = None, times: int = 1) -> None:
        """The next `times` calls of this member's method `call` ("pulse", "hand_over", ...) raise `error`, and do nothing: as
        when the ledger does not answer (`LedgerUnavailable`, if no error is given). A background task waits by `wait`, and ends
        when that raises a `ParesError`. `terms` raises when the next term is asked for.

        Raises `ConfigError` for what is no method of a member, or never raises.
        """
        check_call(call)
        left = iter(range(whole("times", times, 1, 1_000_000)))
        told = error or LedgerUnavailable(f"{call} failed: the test says so", unknown=True)
        real = getattr(type(self), call)

        def iterate(*args: Any, **kwargs: Any) -> Iterator[Term]:
            if next(left, None) is not None:
                raise told
            yield from real(self, *args, **kwargs)

        def once(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is not None:
                raise told
            return real(self, *args, **kwargs)

        setattr(self, call, iterate if call == "terms" else once)

    def _close_ledger(self) -> None:
        """There is none."""
