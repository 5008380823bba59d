"""What claims stand on: one log, one judge who folds it, and locks that prove deaths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pares.core.claims.chores.duties import EAGER
from pares.core.wire.reader import Reader, State
from pares.runtime.driver.doorbell import without_bell
from pares.runtime.driver.logs import look_every
from pares.runtime.driver.loop import Driver
from pares.runtime.member import Member
from pares.sim.engine import MS, US
from pares.sim.members.claims.judge import Judge
from pares.sim.members.sight import Held
from pares.sim.members.stage import Someone, Stage
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import Weather, fair
from pares.sim.world.process import Process


class Ground(Stage):
    """The stage of claims, as its promises know it; `pares.sim.members.claims.stage` adds those, and who is struck by what."""

    def set_up(self) -> None:
        plan = self.plan
        # Members of a log that is trimmed know that, and write snapshots in time.
        kept = 10 * max(plan.sessions) / 1000 if "trim" in plan.faults else None
        self.world.burden = plan.burden_us * US
        self.trip += self.world.burden * plan.members * plan.roles  # a record of each seat is read by all
        self.log = self.world.log("log", begin=plan.begin, retention=kept, clocked=plan.stamps, noted=plan.arrivals)
        self.judge = Judge(self.world, self.log, self.group)
        self.log.renewed.append(self._renewed)

    def _renewed(self) -> None:
        """The judge knows of it already."""
        if self._unknown():
            self.judge.begin_anew()
        for call in self.renewed:
            call()

    def add(self, name: str | None = None, *, like: Any = None, member: str | None = None) -> Any:
        """`like`: the user as which it is made; `member`: under which name its member joins."""
        raise NotImplementedError

    def write(self, payload: bytes) -> None:
        """It stands in the log, from any writer."""
        self.log.partitions[0].append([payload], self.world.now)

    def trim(self, age: int) -> None:
        """What is older than so many nanoseconds is gone."""
        partition = self.log.partitions[0]
        partition.trim(partition.older_than(self.world.now - age))
        if self._unknown():
            self._renewed()

    def _unknown(self) -> bool:
        """Whether nothing of the group is left, in the log or in a member: so nobody knows it."""
        gone = 0 <= self.judge.judge.world.last < self.log.partitions[0].start
        alive = [members for process, members in self.sight.members.items() if process.alive]
        return gone and not any(self._knows(member) for members in alive for member in members)

    def _knows(self, member: Member) -> bool:
        """Whether it has read all that was trimmed, and goes on in the judge's world; also an administrator, whose snapshots
        lead others there."""
        if member.group != self.group:
            return False
        driver: Any = member._loop  # pyright: ignore[reportPrivateUsage]
        if not isinstance(driver, Driver):
            return False  # its ledger is still being opened
        binding: Any = driver.binding
        reader: Reader = binding.core.reader
        log = self.log.partitions[0]
        there = reader.state is State.FOLDING and log.start <= reader.position <= log.end
        return there and reader.world.base == self.judge.judge.world.base

    def witnessed(self, process: Process, member: str, well_for: int) -> bool:
        """Whether a witness on the machine of that process would see the end of this member (R22)."""
        return False

    def weather_of(self, user: Someone) -> Weather:
        return fair(user.weather) if self.calm else user.weather

    def medium(self, process: Process, user: Someone) -> SimLedger:
        process.host.provable = self.plan.proof
        return self.world.ledger(process, self.log, self.weather_of(user), has_bell=self.plan.bells)

    def settings(self, user: Someone) -> dict[str, Any]:
        plan = self.plan
        place = user.place % plan.members
        unlike: dict[str, Any] = {}
        if plan.ranks:
            unlike["rank"] = plan.ranks[place]
        if plan.weights:
            unlike["weight"] = plan.weights[place]
        if plan.zones:
            unlike["zone"] = f"z{place % 2}"
        if plan.eligible:
            unlike["eligible"] = self.roles[: plan.eligible[place]]
        return {
            **unlike,
            "seats": plan.seats,
            "session": user.session_ms / 1000,
            "overlap": plan.overlap_ms / 1000,
            "drift": plan.drift,
            "settle": plan.settle * plan.session_ms / 1000,
        }

    def calm_down(self, user: Someone) -> None:
        if user.ledger is not None:
            user.ledger.weather = fair(user.weather)
            user.ledger.heal()
            for link in user.ledger.links:
                link.fates.clear()

    # How it goes -------------------------------------------------------------------------------------------------------

    @property
    def patience(self) -> int:
        """How long a seat may be empty that somebody could lead: a session's silence, one more if the next one fails too, turns
        in line, and what the weather takes."""
        longest = max(self.plan.sessions) * MS / (1 - self.plan.drift)
        return int(longest * 3.5) + 12 * self.trip + 5 * self._trouble + 20 * MS + self.plan.barrier_timeout_ns

    @property
    def handed_over(self) -> int:
        """How long a seat may be empty because its leader gives it up: for the barrier, for the record by which it does, and
        for one of its heir that the heir reads back, each of which may meet trouble once."""
        return self.plan.barrier_timeout_ns + 4 * self.trip + 2 * self._trouble

    @property
    def _trouble(self) -> int:
        """What the weather may take for one append, and starvation for one task."""
        plan = self.plan
        weather = max((w.timeout + w.slow_by[1] for w in plan.weathers if rough(w)), default=0)
        return weather + (int(plan.starving_by * plan.unit) if plan.starving else 0)

    @property
    def settling(self) -> int:
        """For how long nothing must have happened, for what is left of it to be over."""
        longest = int(max(self.plan.sessions) * MS / (1 - self.plan.drift))
        return 2 * longest + self.plan.barrier_timeout_ns + 12 * self.trip

    def rounds(self, count: int) -> int:
        """What so many appends take, with their reading back, and the rounds of members in between."""
        poll = int(without_bell(max(self.plan.sessions)) * 1e9)
        return count * (self.trip + (MS if self.plan.bells else MS + poll)) + 2 * MS

    def out_waits(self, session: int, holder: Process, heirs: Sequence[Process]) -> int:
        """How long a crashed holder is waited for at the most (promise 2, R21): its lease, where all heirs share its stopwatch;
        a quarter of its session more than the session where its beats wake nobody."""
        plan, slowest = self.plan, 1 - self.plan.drift
        if plan.stamps and all(heir.stopwatch is holder.stopwatch for heir in heirs):
            return int(session / (1 + plan.drift))
        seldom = plan.stamps or len(self.judge.judge.world.members) > EAGER
        return int(session * (1.25 if seldom else 1) / slowest)

    def healthy(self) -> bool:
        """Whether the ledger has treated everybody well for so long that nothing of before is still on its way."""
        late = max(max(weather.late_by[1], weather.slow_by[1], weather.timeout) for weather in self.plan.weathers)
        fair_since = self.calm and self.world.now > self.calm_at + late
        return fair_since or not (any(map(rough, self.plan.weathers)) or self.plan.starving)

    @property
    def alike(self) -> bool:
        """Whether all members, and all seats, are alike: then it is plain what placement should do."""
        plan = self.plan
        unlike = any((plan.ranks, plan.weights, plan.zones, plan.eligible, plan.slow, plan.warm))
        namesakes = "twin" in plan.faults  # a member with the name of the dead comes before the balance (R8)
        odd = unlike or namesakes or any(plan.starts) or bool(plan.burden_us)  # what is read late is settled late
        return plan.seats == 1 and not plan.acts and not odd and not plan.barrier_raises

    # What promises ask -----------------------------------------------------------------------------------------------

    @property
    def records(self) -> int:
        return self.judge.records

    def overlap(self, member: Any) -> int:
        return 0 if member.group != self.group else self.plan.overlap_ms * MS

    def excused(self, one: Held, other: Held) -> bool:
        """The log was another one just now (A1), or one of them has lost its lock (A3)."""
        if self.between_logs():
            return True
        locks = (self.world.locks.of(held.term.member) for held in (one, other))
        return any(lock is not None and lock.lost_at is not None for lock in locks)

    def between_logs(self) -> bool:
        """Until members look for it, and a lease longer. That a log has lost its tail a member finds when it reads on: until
        then nothing renews its beliefs."""
        renewed = self.judge.renewed_at
        if renewed < 0:
            return False
        session = max(self.plan.sessions)
        longest = look_every(session) + (session + self.plan.overlap_ms) * MS
        return self.world.now < renewed + int(longest * 1.25) + 4 * self.trip

    def tokens_may_fall(self) -> bool:
        """The wall clock of the member that begins another log may be behind (promise 4)."""
        return bool(self.plan.wall_spread) or "wall" in self.plan.faults or any(p.lost for p in self.log.partitions)

    def seats(self) -> Sequence[tuple[str, int]]:
        world = self.judge.judge.world
        return [seat for seat in world.seats if world.open(seat) and not world.paused(seat[0])]

    def by_id(self, member: str) -> Any:
        """The user whose process runs this member; None: nobody's, or not any more."""
        users = (user for user in self.own if user.running and user.member is not None)
        return next((user for user in users if user.member.id == member), None)

    def keeps_out(self) -> bool:
        """Whether members may have to wait for longer than any session here before they are in the group: in a log without its
        origin, records of strangers may be of members with the longest session there is, and so may those that tell nothing of
        their senders' sessions (R12)."""
        strangers = {"garbage", "forge", "future", "replay", "trim", "forgetful"}
        return bool(strangers.intersection(self.plan.faults))

    def could_lead(self, role: str, index: int, well_for: int) -> list[str]:
        return [id for id, user in self._may_lead(role, index, well_for) if self.quick(user)]

    def may_lead(self, role: str, index: int, well_for: int) -> list[str]:
        """The same, though its appends may fail now and then."""
        return [id for id, user in self._may_lead(role, index, well_for) if self.near(user)]

    def could_stay(self, role: str, index: int, well_for: int) -> bool:
        """Where the trips of all that may hold it are near the limit, one leads it now and then (R18)."""
        return any(self._well_inside(user) for _, user in self._may_lead(role, index, well_for))

    def _may_lead(self, role: str, index: int, well_for: int) -> list[tuple[str, Any]]:
        world = self.judge.judge.world
        waits = self.log.partitions[0].start > 0 and self.keeps_out()
        found: list[tuple[str, Any]] = []
        if (role, index) not in world.seats:
            return found
        for user in self.own:
            if not self.able(user, well_for) or (waits and user.member.state != "live"):
                continue
            there = world.members.get(user.member.id)
            if there is None or there.draining or not world.may_hold(there, role):
                continue
            holder = world.seats[role, index].holder
            if holder == there.id or not world.holds_in_role(there.id, role):
                found.append((there.id, user))
        return found

    def well(self, user: Someone, well_for: int) -> bool:
        cut = user.ledger is not None and user.ledger.is_cut
        return not cut and super().well(user, well_for)

    def near(self, user: Someone) -> bool:
        """Whether its own records come back in time for it to lead: in a fifth of its lease."""
        raises = self.plan.barrier_raises > 0 or self.plan.barrier_ns > self.plan.barrier_timeout_ns // 2
        return self.weather_of(user).trip < self._lease(user) / 5 and not raises

    def _well_inside(self, user: Someone) -> bool:
        """As `Pace` has it (R18), of the longest of its round trips."""
        return 2 * self.weather_of(user).trip + user.session_ms * MS / 4 <= self._lease(user)

    def _lease(self, user: Someone) -> float:
        return user.session_ms * MS * (1 - self.plan.drift) / (1 + self.plan.drift)

    def quick(self, user: Someone) -> bool:
        """The same, and nothing goes wrong with its appends, nor holds its tasks up."""
        starved = self.plan.starving > 0 and not self.calm
        return self.near(user) and not starved and not rough(self.weather_of(user))


def rough(weather: Weather) -> bool:
    return any(
        (weather.slow, weather.unknown, weather.lost, weather.silent, weather.torn, weather.unreadable, weather.part)
    )
