"""What a play takes place on: one world, one log, one group, its users, and whoever watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from pares.runtime.member import Member
from pares.sim.engine import MS
from pares.sim.members.judge import Judge
from pares.sim.members.plan import Plan
from pares.sim.members.promises import everything
from pares.sim.members.promises.base import Promise
from pares.sim.members.promises.terms import Terms
from pares.sim.members.promises.tokens import Tokens
from pares.sim.members.promises.work import Work
from pares.sim.members.sight import Held, Sight
from pares.sim.members.users import User
from pares.sim.world.link import Weather, fair
from pares.sim.world.scheduler import NEVER
from pares.sim.world.simulation import World

if TYPE_CHECKING:
    from pares.sim.world.process import Process

GROUP: Final = "stage"
LOOK_EVERY: Final = 500 * MS
"""Nanoseconds between a member's looks whether its log is still the same one (R12)."""
P = TypeVar("P", bound=Promise)


class Stage:
    """`roles`: what every member declares."""

    def __init__(self, plan: Plan, *, told: bool = False) -> None:
        self.plan = plan
        self.group = GROUP
        self.roles = tuple(f"r{number}" for number in range(plan.roles))
        self.world = World(plan.seed, told=told)
        # Members of a log that is trimmed know that, and write snapshots in time.
        kept = 10 * max(plan.sessions) / 1000 if "trim" in plan.faults else None
        self.log = self.world.log("log", retention=kept)
        self.judge = Judge(self.world, self.log, self.group)
        self.sight = Sight(self.world)
        self.users: dict[Process, User] = {}
        self.own: list[User] = []
        self.calm = False
        """The storm is over."""
        self.disturbed_at = 0
        """When something last befell the world, or its users wanted something of it."""
        self.trip = max(w.send[1] + w.ack[1] + w.read[1] + w.lag for w in plan.weathers)
        """What an append and its reading back take, when nothing goes wrong."""
        self.promises: list[Promise] = everything(self)
        self.terms = self._promise(Terms)
        self.tokens = self._promise(Tokens)
        self.work = self._promise(Work)
        self.world.on_hindered.append(self._hindered)
        self.world.on_start.append(self._hindered)
        self.world.on_end.append(self._hindered)

    def _promise(self, kind: type[P]) -> P:
        return next(promise for promise in self.promises if isinstance(promise, kind))

    def add(self, name: str | None = None) -> User:
        user = User(self, len(self.own), name)
        self.own.append(user)
        return user

    def user_of(self, process: Process) -> User | None:
        return self.users.get(process)

    def weather_of(self, user: User) -> Weather:
        return fair(user.weather) if self.calm else user.weather

    def disturbed(self) -> None:
        self.disturbed_at = self.world.now

    def _hindered(self, process: Process) -> None:
        self.disturbed()

    # What promises ask -----------------------------------------------------------------------------------------------

    def overlap(self, member: Member) -> int:
        """Nanoseconds for which it may believe after its lease."""
        return 0 if member.group != self.group else self.plan.overlap_ms * MS

    def excused(self, one: Held, other: Held) -> bool:
        """Whether the two may believe at once: the log was another one just now (A1), or one has lost its lock (A3)."""
        if self.between_logs():
            return True
        locks = (self.world.locks.of(held.term.member) for held in (one, other))
        return any(lock is not None and lock.lost_at is not None for lock in locks)

    def between_logs(self) -> bool:
        """Whether members may still live in a log that is no more: until they look for it, and a lease longer."""
        if any(partition.lost for partition in self.log.partitions):
            return True  # offsets are given out again: two may live in two worlds until one finds out
        renewed = self.judge.renewed_at
        longest = (max(self.plan.sessions) + self.plan.overlap_ms) * MS
        return renewed >= 0 and self.world.now < renewed + int((longest + LOOK_EVERY) * 1.25) + 4 * self.trip

    def judged(self, held: Held) -> bool:
        return held.seat[0] == self.group

    def tokens_may_fall(self) -> bool:
        """After another log has come: the wall clock of the member that begins it may be behind (promise 4)."""
        return bool(self.plan.wall_spread) or "wall" in self.plan.faults or any(p.lost for p in self.log.partitions)

    def seats(self) -> Sequence[tuple[str, int]]:
        """Those of the group's roles that may be held, as far as the log says."""
        world = self.judge.judge.world
        return [seat for seat in world.seats if world.open(seat) and not world.paused(seat[0])]

    def could_lead(self, role: str, index: int, well_for: int) -> list[str]:
        """Members whom nothing has hindered for a while, and that may hold the seat."""
        world = self.judge.judge.world
        found: list[str] = []
        for user in self.own:
            process, member = user.process, user.member
            if process is None or member is None or not process.alive or process.raised or user.draining or user.over:
                continue
            if not self.well(user, well_for) or not user.ready or not self._quick(user):
                continue
            there = world.members.get(member.id)
            if there is None or there.draining:
                continue
            holder = world.seats[role, index].holder
            if holder == there.id or not world.holds_in_role(there.id, role):
                found.append(member.id)
        return found

    def well(self, user: User, well_for: int) -> bool:
        process = user.process
        if process is None or process.frozen or process.well_since == NEVER:
            return False
        cut = user.ledger is not None and user.ledger.is_cut
        return not cut and self.world.now - max(process.well_since, process.starved_at) >= well_for

    def _quick(self, user: User) -> bool:
        """Whether its own records come back in time for it to lead: in a fifth of its lease."""
        weather = self.weather_of(user)
        trip = weather.send[1] + weather.ack[1] + weather.read[1] + weather.lag
        trouble = any((weather.slow, weather.unknown, weather.lost, weather.silent, weather.torn, weather.unreadable))
        lease = user.session_ms * MS * (1 - self.plan.drift) / (1 + self.plan.drift)
        starved = self.plan.starving > 0 and not self.calm
        raises = self.plan.barrier_raises > 0 or self.plan.barrier_ns > self.plan.barrier_timeout_ns // 2
        return trip < lease / 5 and not trouble and not starved and not raises
