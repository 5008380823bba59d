"""What members of ALLCALL stand on: one bus, what is said there, and by when it is to come right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pares.core.reasons import OUTBID
from pares.runtime.config.protocols import AllCall
from pares.runtime.driver.event_log import Events
from pares.runtime.events import Event
from pares.sim.checker import Broken
from pares.sim.members.allcall.bounds import Bounds
from pares.sim.members.allcall.calls import Calls
from pares.sim.members.allcall.plan import AllCallPlan, fair
from pares.sim.members.sight import Held, Seat
from pares.sim.members.stage import Someone, Stage
from pares.sim.world.bus import SimBus
from pares.sim.world.process import Process
from pares.sim.world.scheduler import NEVER

FRESH: Final = 0.15
"""Leases: a call that is no older counts for everybody, whatever the clocks say within their limits."""
LOOKS: Final = 5
"""How often a beat promises look."""


class Ground(Stage):
    """The stage of ALLCALL, as its promises know it."""

    plan: AllCallPlan

    def set_up(self) -> None:
        plan = self.plan
        self.bounds = Bounds(plan)
        self.trip = self.bounds.delay
        self.bus = self.world.bus()
        self.air, self.kept = fair(plan.air), False
        self.calls = Calls(self.bus, self._unread, self._catch_up)
        self.stirred: list[Callable[[Process], object]] = []
        """Told of a process of which its user wants something, or which the world has hindered."""
        self.questions: list[Callable[[Process], object]] = []
        """Told of a process whose user's check is asked. By the task that asks."""
        self.events: list[Callable[[Process, Event], object]] = []
        """Told of what a member tells its user."""
        self.previous: dict[tuple[Process, Seat], Held] = {}
        """The last term that began, of each process and seat."""
        self._before: dict[Held, Held | None] = {}
        self._journals: dict[Process, Events] = {}
        self._news: set[Process] = set()
        self.sight.began.append(self._began)
        self.sight.looked.append(self._looked)
        self.world.on_member.append(self._member)
        self.world.on_end.append(self._gone)
        self.world.on_hindered.append(self.stir)

    def stir(self, process: Process) -> None:
        for tell in self.stirred:
            tell(process)

    # What is seen ----------------------------------------------------------------------------------------------------

    def _member(self, process: Process, member: Any) -> None:
        news = self._news
        journal = member._life.journal
        self._journals[process] = journal.events(lambda: news.add(process))

    def _looked(self, process: Process) -> None:
        self.calls.look(process)
        if process.raised and process.alive:
            self.disturbed()  # whatever it does, or leaves undone
        self._tell(process)

    def _catch_up(self, process: Process) -> None:
        """By a task that is about to say something: what that follows from comes first."""
        try:
            self.calls.look(process)
            self._tell(process)
        except Broken as error:
            self.world.fail(error)

    def _tell(self, process: Process) -> None:
        if process in self._news:
            self._news.discard(process)
            with self.world.looking():
                events = self._journals[process].take() or []
            for event in events:
                for tell in self.events:
                    tell(process, event)

    def _began(self, held: Held) -> None:
        key = (held.process, held.seat)
        self._before[held] = self.previous.get(key)
        self.previous[key] = held

    def _gone(self, process: Process) -> None:
        self.calls.gone(process)
        self._journals.pop(process, None)
        self._news.discard(process)

    # What members are made with --------------------------------------------------------------------------------------

    def medium(self, process: Process, user: Someone) -> SimBus:
        handle = self.world.on_bus(process, self.bus, self.air)
        handle.keeps = self.kept
        return handle

    def settings(self, user: Someone) -> dict[str, Any]:
        plan = self.plan
        protocol = AllCall(
            heartbeat=plan.beat_ms / 1000,
            lease=plan.lease_ms / 1000,
            skew=plan.skew_ms / 1000,
            order=plan.order,
            when_isolated="lead" if self.leads_alone(user) else "step_down",
        )
        return {"rank": self.rank(user), "protocol": protocol}

    def leads_alone(self, user: Someone) -> bool:
        return self.plan.isolated[user.place % len(self.plan.isolated)] == "lead"

    def rank(self, user: Someone) -> int:
        """The lower, the better: members that come later than all that were planned are better than those."""
        plan = self.plan
        return plan.ranks[user.place] if user.place < plan.members else min(plan.ranks) - user.place

    # What promises ask -----------------------------------------------------------------------------------------------

    @property
    def records(self) -> int:
        return self.bus.published

    def _unread(self, process: Process) -> int:
        """Messages that have come to a process and that its member has not read."""
        user = self.users[process]
        binding = None if user.member is None else getattr(user.member._loop, "binding", None)  # pyright: ignore
        return user.ledger.waiting + (0 if binding is None else len(binding.source.waiting))

    def user(self, process: Process) -> Any:
        return self.users[process]

    def seat(self, role: str) -> Seat:
        return (self.group, role, 0)

    def acts(self, user: Someone) -> bool:
        """It runs, does not stand still, and nothing was raised in it."""
        process = user.process
        if process is None or not process.alive or process.frozen or process.raised or user.over or user.member is None:
            return False
        return user.ledger is not None

    def acting(self) -> list[Any]:
        return [user for user in self.own if self.acts(user)]

    def wakes_late(self, process: Process) -> None:
        """As late as all do, also in the calm. A task that was woken while it was held up longer comes back that late."""
        if self.held_up(process):
            process.starved_at = max(process.starved_at, self.world.now + process.starving_by)
        process.starving, process.starving_by = self.plan.starving, int(self.plan.starving_by * self.plan.unit)

    def held_up(self, process: Process) -> bool:
        """Whether its tasks come back later, just now, than those of all processes do all the time."""
        return process.starving_by > int(self.plan.starving_by * self.plan.unit)

    def steady(self, user: Someone) -> int:
        """The true time since which nothing hinders it: NEVER while something does."""
        if not self.acts(user) or user.process is None or self.held_up(user.process) or not user.ledger.well:
            return NEVER
        return max(user.process.well_since, user.process.starved_at)

    def well(self, user: Someone, well_for: int) -> bool:
        return self.steady(user) + well_for <= self.world.now

    def passes(self, source: Someone, target: Someone) -> bool:
        return self.bus.passes(source.ledger, target.ledger)

    def outbids(self, held: Held) -> bool:
        """Whether the term follows one of the same member, which led before and leads on under a higher token."""
        before = self._before.get(held)
        return before is not None and why(before) == OUTBID

    def able(self, user: Someone, well_for: int = 0) -> bool:
        """Whether it may lead what it declares."""
        return not user.draining and user.ready and self.acts(user) and self.well(user, well_for)

    def best(self, role: str) -> Any:
        """The user whose member should lead the role; None if nobody could."""
        able = [user for user in self.own if role in user.roles and self.able(user)]
        return min(able, key=self.key, default=None)

    def key(self, user: Someone) -> tuple[int, str]:
        """By which it is preferred: the lower."""
        assert user.member is not None
        return (self.rank(user), user.member.id)


def why(held: Held) -> str:
    """Why the term was ended: "" while it was not. (To ask the term itself would end it, if its lease has run out.)"""
    return held.term._why  # pyright: ignore[reportPrivateUsage]
