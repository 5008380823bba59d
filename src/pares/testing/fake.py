"""A double for `pares.Member` whose leadership the test decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Unpack

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.core.events import WorkOver
from pares.core.wire.records import check_name
from pares.runtime.config.arguments import AnySettings
from pares.runtime.config.numbers import whole
from pares.runtime.config.protocols import protocol_of
from pares.runtime.config.settings import settings as check_settings
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.requests import Requests
from pares.runtime.driver.view import WorldView
from pares.runtime.here import here
from pares.runtime.member import Member, check_arguments
from pares.runtime.term import Term
from pares.runtime.work.barriers import Barriers
from pares.runtime.work.waits import Waits
from pares.testing.puppet import Puppet

_MOVES: Final = ("add_role", "remove_role", "hand_over", "step_down", "drain", "pause", "resume", "mark")
CAN_FAIL: Final = frozenset((*_MOVES, "pulse", "term", "terms", "wait", "members", "roles"))
"""What `FakeMember.fail` can make raise: the methods of a member that may."""
BARRIER: Final = 1.0
"""Seconds for which `lead` waits for the barrier."""
_CHECKED: Final = (
    *("group", "roles", "seats", "name", "host", "zone", "labels", "rank", "weight", "eligible", "session", "overlap"),
    *("barrier_timeout", "settle", "drift"),
)


def check_call(call: str) -> None:
    """Raises `ConfigError` for what is no method of a member, or never raises."""
    if call not in CAN_FAIL:
        raise ConfigError(f"call is {call!r}: give one of {', '.join(sorted(CAN_FAIL))}")


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
        self, ledger: object = None, **settings: Unpack[AnySettings]
    ) -> None:
        own: dict[str, Any] = {"group": "test", "name": "fake", "eligible": "*", **settings}
        given = check_arguments(ledger, **own)
        protocol_of(given["protocol"])
        self._host = here()
        self._now = self._host.now
        checked = check_settings(self._host, **{key: given[key] for key in _CHECKED}, retention=None)
        self._medium = None
        self.group, self.name, self.session = given["group"], checked["name"], given["session"]
        self._barrier_timeout = given["barrier_timeout"]
        who = f"fake member {self.name!r} of group {self.group!r}"
        self._barriers = Barriers(who, given["barrier"], self._work_over, self._host)
        told: dict[str, Any] = {"lapsed": lambda _: None, "give_up": self._give_up}
        self._life = Life(who, self._barriers, given["on_lost"], self._host, **told)
        self._life.id = f"{self.name}~fake"
        self._until = self._life.beliefs.until
        self._waits = Waits(self._life, self._barriers, self._host)
        join = {key: checked[key] for key in ("name", "host", "zone", "labels", "rank", "weight")}
        join["session"] = checked["session_ms"]
        declared = {role.name: role.seats for role in checked["roles"]}
        self._loop = self._puppet = Puppet(self._life.id, join, declared, self.group, self._life.carry, self._host)
        self._view = WorldView(self._puppet, self._life)
        self._requests = Requests(self.group, self._life, self._loop, self._view, checked["eligible"], self._host)
        self._waits.requests = self._requests
        with self._host.without_forks():
            self._puppet.start()
            self._host.begin(self)

    # For tests -------------------------------------------------------------------------------------------------------

    def lead(self, role: str, why: str = "the test says so") -> Term:
        """From now on this member leads `role` (which is declared if need be); its term, with a higher token than ever.

        Returns when the barrier, if there is one, has returned from `Acquired`, so that the work of the term may begin. For a
        barrier that the test holds back, of this term or of the last one, it waits a second at most."""
        check_name("a role's name", role)
        self._requests.check_eligible(role)
        self._life.beliefs.wait_for(lambda: not self._puppet.ending(role), BARRIER)
        begun: list[Term | None] = []

        def lead() -> None:
            self._puppet.lead(role, why)
            begun.append(self.term(role))  # here: the code under test may give it up again at once

        self._puppet.perform(lead)
        (term,) = begun
        assert term is not None
        self._life.beliefs.wait_for(lambda: self._waits.working(role) is not None or not term, BARRIER)
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

    def _work_over(self, key: tuple[str, int, int]) -> None:
        """The barrier has returned from `Revoked`."""
        self._puppet.request(WorkOver((key[0], key[1]), key[2]))
        self._life.beliefs.notify()

    def _close_ledger(self) -> None:
        """There is none."""
