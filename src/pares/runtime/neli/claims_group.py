"""A `Group` for every log that has none of its own: the claims kernel assigns the partitions, as roles "0" to "M-1".

So NELI and Fast NELI run wherever there is a log. The assignment is a claims group beside the user's, under a name of its own.
A partition is assigned when its role is held, revoked when the kernel moves it (and waits for the callback), lost when the
lease has run out or another member has it. The assignment is therefore sticky, balanced within one and, unlike a broker's,
exclusive even where a member can't hear; a death that can be proven moves partitions at once.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from pares.core.errors import ClosedError, ConfigError, LedgerUnavailable
from pares.core.wire.records import MAX_NAME
from pares.ledger import Group, Ledger
from pares.runtime.config.settings import LONGEST_BARRIER
from pares.runtime.driver.kit import Contender
from pares.runtime.events import Acquired, Event, Fenced, Revoked
from pares.runtime.here import here
from pares.runtime.host import Flag, Host
from pares.runtime.views import Peer

SUFFIX: Final = "/partitions"
CALLBACK_LIMIT: Final = 300.0
"""Seconds that `on_revoked` may take, as on Kafka, unless said otherwise."""

LOOK_EVERY: Final = 0.25
"""Seconds between two looks at whether the assignment is in reach."""

Told = Callable[[Sequence[int]], None]
Contend = Callable[..., Contender]
"""See `driver.kit.Parts.contender`."""


def group_of(ledger: Ledger, contend: Contend, seats: int = 1, **settings: Any) -> Group:
    """The ledger's own `Group` if it has one, else one by claims, with these settings of a `Member`. With several seats it is
    always by claims: no broker's assignment keeps the partitions of one role on different members, let alone hosts."""
    return ledger if isinstance(ledger, Group) and seats == 1 else ClaimsGroup(ledger, contend, seats, **settings)


class ClaimsGroup:
    """Assigns partitions by claims in the ledger's log.

    `contend`: makes a member of the claims protocol. `session`, `drift`, `name`, `host`, `zone`, `settle`: as of `Member`, for
    the assignment. `callback_limit`: seconds that `on_revoked` may take. `seats`: into how many blocks of equal size the
    partitions are divided. Partitions with the same place in their blocks are the seats of one role here: they go to different
    members, on different hosts where there are enough. Promised: a partition is one member's at a time, by the assumptions of
    the claims protocol (docs/guarantees.md).
    """

    def __init__(self, ledger: Ledger, contend: Contend, seats: int = 1, **settings: Any) -> None:
        self._host = here()
        self._contend = functools.partial(contend, ledger)
        self._seats = seats
        self._settings = {"session": 1.0, "drift": 0.1, **settings}

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Told,
        on_revoked: Told,
        on_lost: Told,
        session: float | None = None,
    ) -> ClaimsMembership:
        """Joins `group` for the partitions 0 to `partitions - 1`; see `pares.ledger.Group`."""
        if len(group) + len(SUFFIX) > MAX_NAME:
            raise ConfigError(
                f"group {group[:40]!r}... has {len(group)} characters, and its assignment needs {len(SUFFIX)} more: "
                f"use at most {MAX_NAME - len(SUFFIX)}"
            )
        told = (on_assigned, on_revoked, on_lost)
        settings = self._settings if session is None else self._settings | {"session": session}
        return ClaimsMembership(self._contend, group, partitions, told, settings, self._host, self._seats)


class _Call:
    """A notice that waits for `poll`."""

    __slots__ = ("done", "kind", "number", "token")

    def __init__(self, kind: str, number: int, token: int, done: Flag) -> None:
        self.kind = kind
        self.number = number
        self.token = token
        self.done = done


class ClaimsMembership:
    """One member's place. Callbacks run in `poll` and `leave` only, on the caller's thread."""

    def __init__(
        self,
        contend: Contend,
        group: str,
        partitions: int,
        callbacks: tuple[Told, Told, Told],
        settings: dict[str, Any],
        host: Host,
        seats: int = 1,
    ) -> None:
        self._host = host
        self._on_assigned, self._on_revoked, self._on_lost = callbacks
        self._calls: deque[_Call] = deque()
        self._come = host.condition()
        self._held: dict[int, int] = {}
        """partition -> token, of what the user was told that it has."""
        self._over: deque[tuple[int, int]] = deque(maxlen=256)
        """(partition, token) of what was over before the user was told of it: an assignment that comes late counts no more. By
        their tokens alone none can be told to be late: those of a log that was begun anew may be smaller."""
        self._left = False
        self._given_up = False
        """Set on leaving, once all partitions are given up: no later notice is queued, and none is waited for."""
        self._woken = False
        self._session: float = settings["session"]
        self._bound = self._session / (1 + settings["drift"])
        settings = dict(settings)
        self._limit: float = min(settings.pop("callback_limit", CALLBACK_LIMIT), LONGEST_BARRIER)
        self._block = partitions // seats
        """Partition `number` is seat `number // block` of role `number % block`."""
        self._contender = contend(
            group=group + SUFFIX,
            roles=[str(number) for number in range(self._block)],
            seats=seats,
            barrier=self._told,
            barrier_timeout=self._limit,
            **settings,
        )
        self._member = self._contender.member

    @property
    def reassignment_bound(self) -> float:
        """The session less what a challenger's fast stopwatch takes off: it waits for a session by its own."""
        return self._bound

    @property
    def callback_limit(self) -> float:
        return self._limit

    def read_first(self, answer: Callable[[bool], object]) -> None:
        self._contender.read_first(answer)

    @property
    def joined(self) -> bool:
        return not self._left and self._member.state == "live"

    def poll(self, timeout: float = 0.0) -> None:
        if self._left:
            raise ClosedError("this member has left its group: join again")
        deadline = self._host.now() + int(timeout * 1e9)
        while True:
            self._serve()
            health = self._member.health()
            if health.state == "failed":
                raise LedgerUnavailable(f"the assignment of partitions has ended: {health.failure or health.problems}")
            if health.unreachable is not None:
                raise LedgerUnavailable(health.unreachable)
            left = (deadline - self._host.now()) / 1e9
            if left <= 0:
                return
            with self._come:
                if not self._calls and not self._woken:
                    self._come.wait(min(left, LOOK_EVERY))
                if self._woken:
                    self._woken = False
                    return

    def wake(self) -> None:
        """Ends a poll, or the next one. From any thread."""
        with self._come:
            self._woken = True
            self._come.notify_all()

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        try:
            held, self._held = sorted(self._held), {}
            if held:
                # Called before the partitions are given up: the next owner must not begin while this member still works.
                self._on_revoked(held)
        finally:
            with self._come:
                self._given_up = True
                calls, self._calls = list(self._calls), deque()
            for call in calls:
                call.done.set()
            self._member.close(timeout=2 * self._session + 1.0)

    # Steering: from any thread --------------------------------------------------------------------------------------------

    def peers(self) -> list[Peer]:
        """The members of the group."""
        return self._member.members()

    def hand_over(self, number: int, to: str | None, why: str) -> None:
        """Hands a partition of this member to the member named `to`; None: to the one with the fewest. (Placement alone might
        name this member again.) The partition stays there until that member leaves."""
        if to is None:
            others = [p for p in self._member.members() if p.id != self._member.id and not p.draining]
            to = min(others, key=lambda p: (len(p.roles), p.name)).name if others else None
        self._member.hand_over(str(number % self._block), to, why)

    def pause(self, number: int | None, seconds: float) -> None:
        """Has no member hold the partition (None: any partition), nor those of the same roles' other seats."""
        self._member.pause(None if number is None else str(number % self._block), seconds=seconds)

    def paused(self, number: int) -> bool:
        """Whether the partition is paused, as far as this member has read."""
        return self._contender.paused(str(number % self._block))

    def resume(self, number: int | None) -> None:
        self._member.resume(None if number is None else str(number % self._block))

    # On the caller's thread ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._come:
                if not self._calls:
                    return
                call = self._calls.popleft()
                calls = [call]
                while call.kind == "assigned" and self._calls and self._calls[0].kind == "assigned":
                    calls.append(self._calls.popleft())
            try:
                self._serve_some(call.kind, calls)
            finally:
                for call in calls:
                    call.done.set()

    def _serve_some(self, kind: str, calls: list[_Call]) -> None:
        if kind == "assigned":
            fresh = {c.number: c.token for c in calls if (c.number, c.token) not in self._over}
            self._held |= fresh
            if fresh:
                self._on_assigned(sorted(fresh))
            return
        (call,) = calls
        if self._held.get(call.number) == call.token:
            del self._held[call.number]
            (self._on_revoked if kind == "revoked" else self._on_lost)([call.number])
        else:
            self._over.append((call.number, call.token))

    # On the threads of the member's barriers -----------------------------------------------------------------------------

    def _told(self, event: Event) -> None:
        if isinstance(event, Acquired):
            self._enqueue("assigned", event)
        elif isinstance(event, Revoked):
            call = self._enqueue("revoked", event)
            call.done.wait(self._limit)
        elif isinstance(event, Fenced):
            self._enqueue("lost", event)

    def _enqueue(self, kind: str, event: Acquired | Revoked | Fenced) -> _Call:
        call = _Call(kind, event.seat * self._block + int(event.role), event.token, self._host.flag())
        with self._come:
            if self._given_up:
                call.done.set()
                return call
            self._calls.append(call)
            self._come.notify_all()
        return call
