"""What a play takes place on: one world, one group, its users, and the onlookers.

Here is what all protocols have in common; each derives from `Stage`, to say what its members stand on (a log, a bus), what they
are made with, which promises hold and what may befall them. `pares.sim.members.protocols` names those classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pares.runtime.member import Member
from pares.sim.engine import Stopwatch
from pares.sim.members.plan import Plan
from pares.sim.members.sight import Held, Sight
from pares.sim.world.logs.link import Weather
from pares.sim.world.process import Process
from pares.sim.world.scheduler import NEVER
from pares.sim.world.simulation import World

GROUP: Final = "stage"
P = TypeVar("P")


class Promised(Protocol):
    """A promise (`pares.sim.members.promises.base.Promise`), as far as the stage and the play ask for one."""

    name: str

    def end(self) -> None: ...


class Someone(Protocol):
    """A user (`pares.sim.members.users.User`), as far as the stage and its promises ask for one."""

    name: str
    place: int
    session_ms: int
    weather: Weather
    rng: Random
    ready: bool
    unready_since: int | None
    has_barrier: bool
    draining: bool
    process: Process | None
    member: Member | None
    ledger: Any
    """Its handle on the log, or on the bus."""

    @property
    def running(self) -> bool: ...
    @property
    def over(self) -> object: ...
    def start(self) -> None: ...


class Chancy(Protocol):
    """`pares.sim.members.chance.Chance`, as far as it says how much has happened."""

    name: str
    happened: int


class Stage:
    """`roles`: what every member declares. A protocol's own stage makes what it stands on in `set_up`, and gives:

    * `medium` and `settings`: what a member of it is opened on, and made with;
    * `promised`: the promises, in the order in which they are told; `add`: one more user, with a program;
    * `storm`: begins whatever befalls it; `calm_down`: ends that for one user;
    * `seats`, `could_lead`, `records`: what its log says, for promises that look at roles from outside.
    """

    moments: ClassVar[tuple[float, ...]] = (0.4, 0.7)
    """At which parts of the calm the play does something, to measure it."""
    promised: ClassVar[tuple[Callable[[Any], Promised], ...]] = ()
    terms: Any
    tokens: Any
    work: Any
    """The promises `Terms`, `Tokens` and `Work`, which users' programs tell what they see and do."""

    def __init__(self, plan: Plan, *, told: bool = False) -> None:
        self.plan = plan
        self.group = GROUP
        self.roles = tuple(f"r{number}" for number in range(plan.roles))
        self.world = World(plan.seed, told=told)
        self.sight = Sight(self.world)
        self.users: dict[Process, Someone] = {}
        self.stopwatches: dict[str, Stopwatch] = {}
        """Each machine's, where its processes share one."""
        self.own: list[Any] = []
        """Its users, by their places."""
        self.calm = False
        """The storm is over."""
        self.calm_at = 0
        self.disturbed_at = 0
        """When something last befell the world, or its users wanted something of it; and the time before that."""
        self.disturbed_before = 0
        self._asked: set[tuple[str, str]] = set()
        self.chances: list[Chancy] = []
        """What happens at random times, faults and acts."""
        self.renewed: list[Callable[[], object]] = []
        """Called when what members stand on has been replaced, or has lost what it had acknowledged."""
        slow = plan.slow or (0.0,)
        quick = [w for place, w in enumerate(plan.weathers) if not slow[place % len(slow)]] or plan.weathers
        self.trip = max(weather.trip for weather in quick)
        """What an append and its reading back take, when nothing goes wrong, of members that are not slow all their life."""
        self.set_up()
        self.promises: list[Promised] = [made(self) for made in self.promised]
        self.world.on_hindered.append(self._hindered)
        self.world.on_start.append(self._hindered)
        self.world.on_end.append(self._hindered)

    # What a protocol gives -------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Makes what members stand on; called before promises are made."""

    def medium(self, process: Process, user: Someone) -> Any:
        """What its member is opened on, by this process: a handle on a log, or on a bus."""
        raise NotImplementedError

    def settings(self, user: Someone) -> dict[str, Any]:
        """What `Member` is given beside its medium, group, name and what its user's program gives it."""
        raise NotImplementedError

    def add(self, name: str | None = None) -> Any:
        """One more user, not started yet; also in `own`."""
        raise NotImplementedError

    def storm(self) -> None:
        """Whatever befalls it begins."""

    def environment(self) -> dict[str, str]:
        """Of a process that starts now."""
        return {}

    def playing(self) -> AbstractContextManager[None]:
        """What holds while it is played."""
        return nullcontext()

    def probed(self, kind: str) -> None:
        """In the calm one thing was done just now: crash, close, hand over or join."""

    def calm_down(self, user: Someone) -> None:
        """What its ways have suffered is over; its process runs on."""

    def seats(self) -> Sequence[tuple[str, int]]:
        """Those of the group's roles that may be held, as far as the log says."""
        return [(role, 0) for role in self.roles]

    def could_lead(self, role: str, index: int, well_for: int) -> list[str]:
        """Members whom nothing has hindered for a while, and that may hold the seat."""
        return [user.name for user in self.own if self.able(user, well_for)]

    def could_stay(self, role: str, index: int, well_for: int) -> bool:
        """Whether somebody could lead the seat for long, so that it has no reason to change hands again and again."""
        return True

    @property
    def records(self) -> int:
        """How much was said."""
        return 0

    def overlap(self, member: Member) -> int:
        """Nanoseconds for which it may believe after its lease."""
        return 0

    def excused(self, one: Held, other: Held) -> bool:
        """Whether the two may believe at once, by what has befallen the world."""
        return self.between_logs()

    def between_logs(self) -> bool:
        """Whether members may still live in a log that is no more."""
        return False

    def tokens_may_fall(self) -> bool:
        """Once `renewed` was called."""
        return True

    def judged(self, held: Held) -> bool:
        return held.seat[0] == self.group

    def end(self) -> None:
        """The play is over: what can only be judged now."""

    # What promises and programs ask ----------------------------------------------------------------------------------

    def hanging(self) -> set[Process]:
        """Those of which a barrier has not returned yet, be it one of the storm."""
        return {process for user in self.own for process in user.hanging if process.alive}

    def keeps_up(self) -> bool:
        """Whether the way to the log is quick enough for all that members have to write in a session."""
        return True

    def promise(self, kind: type[P]) -> P:
        return next(promise for promise in self.promises if isinstance(promise, kind))

    def user_of(self, process: Process) -> Someone | None:
        return self.users.get(process)

    def asks(self, member: Member, what: str) -> None:
        """Its user wants something of a member."""
        self._asked.add((member.id.rpartition("~")[0], what))

    def asked(self, member: str, what: str) -> bool:
        """Whether the user of this member has ever wanted that of it, or of an incarnation before: a wish that was not
        fulfilled goes on to the next one."""
        return (member.rpartition("~")[0], what) in self._asked

    def disturbed(self) -> None:
        if self.world.now > self.disturbed_at:
            self.disturbed_before, self.disturbed_at = self.disturbed_at, self.world.now

    def _hindered(self, process: Process) -> None:
        self.disturbed()

    def able(self, user: Someone, well_for: int) -> bool:
        """Whether it lives, is ready, and nothing has hindered it for so long."""
        process, member = user.process, user.member
        if process is None or member is None or not process.alive or process.raised or user.draining or user.over:
            return False
        return user.ready and self.well(user, well_for)

    def well(self, user: Someone, well_for: int) -> bool:
        process = user.process
        if process is None or process.frozen or process.well_since == NEVER:
            return False
        return self.world.now - max(process.well_since, process.starved_at) >= well_for
