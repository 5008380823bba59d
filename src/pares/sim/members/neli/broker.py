"""A broker that shares out the partitions of its log, as Kafka's does: `pares.ledger.Group` in virtual time.

What the coordinator of a group knows of a member are the member's heartbeats, which go another way than the log: one may be cut
and the other not. It asks a live owner to give a partition back, and waits for that; of a silent one it waits for nothing. A
member learns that it is out when it can hear the coordinator again, or by its own count of the session; or, if it is
oblivious, as in a rebalance, not before it hears. None of that may matter to exclusiveness: the protocols do not rest on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pares.core.errors import ClosedError, LedgerUnavailable
from pares.sim.engine import MS
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import Span, Weather
from pares.sim.world.logs.shared import SharedLog
from pares.sim.world.process import Process
from pares.sim.world.scheduler import NEVER, Task
from pares.sim.world.simulation import World

BEATS: Final = 6
"""Heartbeats a session."""
LOOKS: Final = 20
"""How often in a session the coordinator looks whether somebody has been silent for too long."""
CALLBACK_LIMIT: Final = 300.0
AGAIN: Final = 10 * MS
"""Until a message is sent again that could not be delivered."""
Told = Callable[[Sequence[int]], None]


class Broker:
    """Of one log. `session`: seconds, of members that ask for none; `delay`: nanoseconds that a message to or from a
    coordinator takes."""

    def __init__(self, world: World, log: SharedLog, *, session: float = 6.0, delay: Span = (MS, MS)) -> None:
        self.world = world
        self.log = log
        self.session = session
        self.delay = delay
        self.groups: dict[str, Coordinator] = {}

    def ledger(self, process: Process, weather: Weather, *, has_bell: bool = True) -> BrokerLedger:
        """A handle of this process."""
        return BrokerLedger(self, process, weather, has_bell=has_bell)

    def coordinator(self, group: str) -> Coordinator:
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = Coordinator(self, group)
        return found


class BrokerLedger(SimLedger):
    """A log and a `Group`. `group_cut`: nothing passes between this process and coordinators; `oblivious`: and it does not
    notice before it hears one again."""

    def __init__(self, broker: Broker, process: Process, weather: Weather, *, has_bell: bool = True) -> None:
        super().__init__(process, broker.log, weather, has_bell=has_bell)
        self.broker = broker
        self.group_cut = self.oblivious = False
        self.memberships: list[SimMembership] = []

    @property
    def is_cut(self) -> bool:
        return self.group_cut or super().is_cut

    def heal(self) -> None:
        self.group_cut = self.oblivious = False
        super().heal()

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Told,
        on_revoked: Told,
        on_lost: Told,
        session: float | None = None,
    ) -> SimMembership:
        self._process.cross("join group")
        seconds = self.broker.session if session is None else session
        told = {"assigned": on_assigned, "revoked": on_revoked, "lost": on_lost}
        made = SimMembership(self, self._process, self.broker.coordinator(group), told, seconds)
        self.memberships.append(made)
        return made


class SimMembership:
    """One member's place. Callbacks run in `poll` and `leave` only, on the caller's task."""

    callback_limit = CALLBACK_LIMIT

    def __init__(
        self,
        ledger: BrokerLedger,
        process: Process,
        coordinator: Coordinator,
        told: dict[str, Told],
        session: float,
    ) -> None:
        self.ledger, self.process, self.coordinator = ledger, process, coordinator
        self.world = process.world
        self.session = int(session * 1e9)
        self.reassignment_bound = session
        self.id = coordinator.numbered(process.name)
        self.held: set[int] = set()
        """What its user was told that it has."""
        self.left = False
        self.heard = self.world.now
        """The true time at which it heard the coordinator last."""
        self._told = told
        self._notices: deque[tuple[str, tuple[int, ...]]] = deque()
        self._joined = False
        self._waiting: tuple[Task, int] | None = None
        self._busy_since = NEVER
        """Since when a callback of its user's has not returned."""
        self.world.after(coordinator.delay(), self._beat)

    @property
    def joined(self) -> bool:
        return self._joined and not self.left

    @property
    def alive(self) -> bool:
        return self.process.alive and not self.left

    # On its user's task ----------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0) -> None:
        process = self.process
        process.cross("poll")
        if self.left:
            raise ClosedError("this member has left its group: join again")
        deadline = process.deadline(timeout) or 0
        while True:
            while self._notices:
                self._serve(*self._notices.popleft())
            if self._out_of_reach():
                raise LedgerUnavailable(f"{self.ledger.url}: no broker answers for the group")
            if process.reading() >= deadline:
                return
            task = process.world.task()
            self._waiting = task, task.ticket
            process.block("poll", deadline)

    def leave(self) -> None:
        if self.left:
            return
        self.left = True
        held, self.held = tuple(sorted(self.held)), set()
        try:
            if held:
                self._told["revoked"](held)  # before the group is told: none may find this member still at work
        finally:
            self.process.cross("leave group")
            if not self.ledger.group_cut:
                self.world.after(self.coordinator.delay(), self.coordinator.evict, self)

    def _serve(self, kind: str, numbers: tuple[int, ...]) -> None:
        if kind == "assigned":
            self._joined = True
            self.held.update(numbers)
            known = numbers
        else:
            self._joined = self._joined and kind != "lost"
            known = tuple(number for number in numbers if number in self.held)
            self.held.difference_update(() if kind == "revoked" else known)
        self._busy_since = self.world.now
        try:
            if known:
                self._told[kind](known)
        finally:
            self._busy_since = NEVER
            if kind == "revoked":
                self.held.difference_update(known)
                self._send(self.coordinator.given_back, self, numbers)

    def _out_of_reach(self) -> bool:
        cut = self.ledger.group_cut and not self.ledger.oblivious
        return cut and self.world.now > self.heard + self.session + self.coordinator.delay()

    # By its client library's own thread, and what comes in -----------------------------------------------------------------

    def _beat(self) -> None:
        if not self.alive:
            return
        self.world.after(self.session // BEATS, self._beat)
        if self.process.frozen:
            return
        if self.world.now > self._busy_since + int(self.callback_limit * 1e9):
            self.coordinator.evict(self)
        elif not self.ledger.group_cut:
            self._send(self.coordinator.heartbeat, self)
        elif self._out_of_reach():
            self.lose()

    def _send(self, call: Callable[..., object], *words: object) -> None:
        if not self.ledger.group_cut:
            self.world.after(self.coordinator.delay(), call, *words)

    def lose(self) -> None:
        """It finds out that it is in the group no more."""
        there = self.held.union(*(numbers for kind, numbers in self._notices if kind == "assigned"))
        self._joined = False
        if there:
            self.hear("lost", tuple(sorted(there)))

    def hear(self, kind: str, numbers: tuple[int, ...]) -> None:
        """A notice has come, for `poll`."""
        if not self.alive:
            return
        self._notices.append((kind, numbers))
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.process.wake(*waiting)


class Coordinator:
    """The owner of each partition, by its own word. Times in nanoseconds of true time."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.broker = broker
        self.world = broker.world
        self.group = group
        self.rng = self.world.random(f"group {group}")
        self.owner: dict[int, SimMembership] = {}
        """Also while it is being taken back."""
        self.wanted_back: set[int] = set()
        self.members: dict[SimMembership, int] = {}
        """When each was heard last."""
        self._partitions = 0
        self._joins = 0
        self.world.after(MS, self._look)

    def delay(self) -> int:
        """How long a message takes."""
        return self.rng.randint(*self.broker.delay)

    def numbered(self, name: str) -> str:
        self._joins += 1
        return f"{name}~{self._joins}"

    # What members do ---------------------------------------------------------------------------------------------------

    def heartbeat(self, member: SimMembership) -> None:
        """A member joins with its first one, and again with the first one after it was taken for gone."""
        if not member.alive:
            return
        known = member in self.members
        self.members[member] = member.heard = self.world.now
        if not known:
            self.world.told(member.process, f"joins group {self.group} as {member.id}")
            member.lose()
            self._soon(self._tell, member, "assigned", ())
            self._rebalance()

    def given_back(self, member: SimMembership, numbers: Sequence[int]) -> None:
        """Its callback has returned."""
        for number in numbers:
            if self.owner.get(number) is member and number in self.wanted_back:
                del self.owner[number]
                self.wanted_back.discard(number)
        self._rebalance()

    def evict(self, member: SimMembership) -> None:
        """It has left, or is taken for gone."""
        if self.members.pop(member, None) is None:
            return
        self.world.told(member.process, f"is out of group {self.group} as {member.id}")
        for number in [number for number, owner in self.owner.items() if owner is member]:
            del self.owner[number]
            self.wanted_back.discard(number)
        self._rebalance()

    # What befalls it -----------------------------------------------------------------------------------------------------

    def shuffle(self) -> None:
        """It moves a partition for no reason that anybody knows."""
        if len(self.members) > 1 and self.owner:
            self._take_back(self.rng.choice(sorted(self.owner)))

    def lie(self, member: SimMembership, number: int, *, lost: bool) -> None:
        """A word that is not so. A partition that it declares lost is given out anew."""
        self.world.told(member.process, f"group {self.group} {'takes' if lost else 'gives'} it {number} by mistake")
        if not lost:
            member.hear("assigned", (number,))
        elif self.owner.get(number) is member:
            member.hear("lost", (number,))
            del self.owner[number]
            self.wanted_back.discard(number)
            self._rebalance()

    # What it does --------------------------------------------------------------------------------------------------------

    def _soon(self, call: Callable[..., object], *words: object) -> None:
        self.world.after(self.delay(), call, *words)

    def _look(self) -> None:
        now = self.world.now
        for member, heard in list(self.members.items()):
            if now >= heard + member.session:
                self.evict(member)
        if self._partitions != len(self.broker.log.partitions):
            self._rebalance()
        shortest = min((member.session for member in self.members), default=int(self.broker.session * 1e9))
        self.world.after(max(MS, shortest // LOOKS), self._look)

    def _take_back(self, number: int) -> None:
        if number not in self.wanted_back:
            self.wanted_back.add(number)
            self._soon(self._tell, self.owner[number], "revoked", (number,))

    def _rebalance(self) -> None:
        """Gives out what is nobody's, and takes one partition back from whom has too many."""
        self._partitions = len(self.broker.log.partitions)
        if not self.members:
            return
        counts = dict.fromkeys(self.members, 0)
        for number, owner in self.owner.items():
            if owner in counts and number not in self.wanted_back:
                counts[owner] += 1
        for number in range(self._partitions):
            if number not in self.owner:
                poorest = min(counts, key=lambda member: (counts[member], member.id))
                counts[poorest] += 1
                self.owner[number] = poorest
                self._soon(self._tell, poorest, "assigned", (number,))
        most = max(counts, key=lambda member: (counts[member], member.id))
        if counts[most] > min(counts.values()) + 1:
            mine = [n for n, owner in self.owner.items() if owner is most and n not in self.wanted_back]
            self._take_back(max(mine))

    def _tell(self, member: SimMembership, kind: str, numbers: tuple[int, ...]) -> None:
        if not member.alive:
            return
        if member.ledger.group_cut:
            self.world.after(AGAIN, self._tell, member, kind, numbers)  # it comes when it can
        elif kind == "revoked":
            if all(self.owner.get(number) is member for number in numbers):
                member.hear(kind, numbers)
        elif member in self.members and all(self.owner.get(number) is member for number in numbers):
            member.hear(kind, numbers)
