"""What stands behind a `FakeMember` in the place of a loop and a ledger: a world of two, in which a test pulls the strings.

The other one is "somebody else", who takes over whatever the member under test loses. What happens is written as real
records and folded by the real kernel, so tokens grow, marks rise and `leader()` answers as they would in a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pares.core import events as ev
from pares.core.errors import ConfigError
from pares.core.reasons import HANDED_OVER, PAUSED, STEPPED_DOWN
from pares.core.wire import records
from pares.core.wire.changes import Change
from pares.core.wire.fold import fold
from pares.core.wire.records import Seat
from pares.core.wire.world import World
from pares.runtime.driver.answers import Answer
from pares.runtime.host import Host, Task

BASE: Final = 1_000_000
OTHER: Final = "somebody-else~1"
FOR_EVER: Final = 10**18
"""A lease of thirty years: only the test ends a term."""
Carry = Callable[[ev.Effect], None]


class Puppet:
    """Looks to a member like its loop. Everything is done by the thread that asks for it, one at a time."""

    bad_records = uncounted_records = 0
    lock = None
    no_proof = "a fake member has no process of its own"
    problems: tuple[str, ...] = ()
    unreachable: str | None = None
    unwritten: str | None = None
    joined = True
    read_back_at: int | None = None
    failure: BaseException | None = None
    each_round: Callable[[], None] | None = None

    def __init__(
        self, me: str, join: dict[str, Any], roles: dict[str, int], group: str, carry: Carry, host: Host
    ) -> None:
        self._host = host
        self.me = me
        self.world = World()
        self._group = group
        self._carry = carry
        self._offset = -1
        self._numbers: dict[str, int] = {}
        self._terms: dict[Seat, int] = {}
        """Terms of the member that its user has not been told the end of."""
        self._ending: dict[int, tuple[Seat, str]] = {}
        """Terms whose barrier runs."""
        self._closing = False
        self._over = host.flag()
        self._doing = host.rlock()
        self.thread: Task
        self._write(records.Genesis, me, base=BASE)
        self._write(records.Join, me, **join)
        self._write(records.Join, OTHER, name="somebody-else", session=1000, host="elsewhere")
        for role, seats in roles.items():
            self._write(records.Role, me, name=role, seats=seats)

    def start(self) -> None:
        self.thread = self._host.spawn(self.run, f"pares {self._group} (fake)")
        self._carry(ev.Live())

    def run(self) -> None:
        """Its thread is there to be waited for."""
        self._over.wait()

    def now(self) -> int:
        return self._host.now()

    @property
    def read_at(self) -> int:
        return self._host.now()

    # What a member asks of its loop ----------------------------------------------------------------------------------

    def request(self, event: ev.Event, answer: Answer | None = None) -> None:
        done = self._do(lambda: self._serve(event))
        if answer is not None:
            answer(done)

    def read_first(self, answer: Answer) -> None:
        """There is nothing to read."""
        answer(True)

    def close_in_child(self) -> None:
        """There is nothing to give back."""

    def abandon(self) -> None:
        with self._doing:
            if not self._over.is_set():
                self._carry(ev.Closed())
                self._over.set()

    def _do(self, job: Callable[[], object]) -> bool:
        """Whether it was done: nothing is, once the member is closed."""
        with self._doing:
            if self._over.is_set():
                return False
            job()
            if self._closing and not self._terms and not self._ending:
                self._write(records.Leave, self.me)
                self.abandon()
            return True

    # What a test asks ------------------------------------------------------------------------------------------------

    def perform(self, job: Callable[[], object]) -> None:
        if not self._do(job):
            raise ConfigError("the fake member is closed: make a new one")

    def ending(self, role: str) -> bool:
        """Whether the barrier of a term of `role` runs."""
        return any(seat[0] == role for seat, _ in list(self._ending.values()))

    def lead(self, role: str, why: str) -> None:
        if role not in self.world.roles:
            self._write(records.Role, self.me, name=role)
        if any(seat[0] == role for seat in self._terms):
            raise ConfigError(f"the fake member leads {role!r} already: revoke or fence it first")
        free = [(role, i) for i in range(self.world.roles[role].seats)]
        seat = next((s for s in free if self.world.seats[s].holder is None), free[0])
        holder = self.world.seats[seat].holder
        if holder == self.me:
            raise ConfigError(
                f"the barrier of the last term of {role!r} has not returned yet: wait for it before lead()"
            )
        if holder is None:
            self._write(records.Claim, self.me, seat=seat)
        else:
            token = self.world.seats[seat].token
            self._write(records.Transfer, holder, seat=seat, token=token, to=self.me, why=why)
        state = self.world.seats[seat]
        if state.holder != self.me:
            raise ConfigError(f"nobody can lead {role!r} now: it is paused, or the fake member was drained")
        self._terms[seat] = state.token
        self._carry(ev.Lead(seat, state.token, self._host.now() + FOR_EVER, why))

    def fence(self, role: str, why: str) -> None:
        """The seat is lost, to somebody else."""
        for seat, token in self._end(role, why, fenced=True):
            self._write(records.Release, self.me, seat=seat, token=token, why=why)
            self._write(records.Claim, OTHER, seat=seat)

    def revoke(self, role: str | None, why: str) -> None:
        """The term ends by plan; it goes to somebody else when the barrier has returned."""
        for seat, token in self._end(role, why, fenced=False):
            self._ending[token] = (seat, why)
            self._carry(ev.Barrier(seat, token, why))

    def break_down(self, why: str) -> None:
        """The log is another one, say: all beliefs are dropped at once."""
        self._end(None, why, fenced=True)

    def _end(self, role: str | None, why: str, *, fenced: bool) -> list[tuple[Seat, int]]:
        """The terms of `role` (None: all) are over; which they were."""
        ended = [(seat, token) for seat, token in self._terms.items() if role in (None, seat[0])]
        for seat, token in ended:
            del self._terms[seat]
            self._carry(ev.Follow(seat, token, why, fenced, self._host.now()))
        return ended

    def _serve(self, event: ev.Event) -> None:
        """What the user of the member asks for."""
        if isinstance(event, ev.WorkOver):
            self._give(event.token)
        elif isinstance(event, ev.HandOver | ev.StepDown):
            self.revoke(event.role, event.why or (HANDED_OVER if isinstance(event, ev.HandOver) else STEPPED_DOWN))
        elif isinstance(event, ev.Marked):
            self._write(records.Beat, self.me, marks=((*event.seat, event.token, event.mark),))
        elif isinstance(event, ev.Declare):
            fields: dict[str, Any] = {"seats": event.seats, "weight": event.weight, "spread": event.spread}
            self._write(records.Role, self.me, name=event.name, removed=event.removed, **fields)
            if event.removed:
                self.revoke(event.name, "role removed")
        elif isinstance(event, ev.PauseFor):
            self._write(records.Pause, self.me, ms=event.ms, scope=event.scope)
            self.revoke(event.scope, "paused")
        elif isinstance(event, ev.ResumeNow):
            for pause in [p for p in self.world.pauses.values() if p.scope == event.scope]:
                self._write(records.Resume, self.me, pause=pause.offset)
        elif isinstance(event, ev.Ask) and event.drain is not None:
            self._write(records.Ask, self.me, drain=event.drain)
            self.revoke(None, "drained")
        elif isinstance(event, ev.Close):
            self._closing = True
            self.revoke(None, "closed")

    def _give(self, token: int) -> None:
        ending = self._ending.pop(token, None)
        if ending is None:
            return
        seat, why = ending
        if why == PAUSED or seat not in self.world.seats or self.world.roles[seat[0]].removed:
            self._write(records.Release, self.me, seat=seat, token=token, why=why)
        else:
            self._write(records.Transfer, self.me, seat=seat, token=token, to=OTHER, why=why)

    def _write(self, kind: type[records.Record], by: str, **fields: Any) -> None:
        """A record, at the next place of a log that nobody but this world reads."""
        self._offset += 1
        self._numbers[by] = self._numbers.get(by, 0) + 1
        record: Any = kind(v=1, g=self._group, m=by, n=self._numbers[by], b=BASE, s=1000, **fields)
        records.encode(record)
        changes: list[Change] = []
        fold(self.world, self._offset, record, changes)
        if changes:
            self._carry(ev.Moved(changes))
