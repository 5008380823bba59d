"""Faults: what befalls members of ALLCALL, and their bus, while the storm lasts. One method a kind."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from pares.core.allcall.messages import encode
from pares.sim.engine import MS
from pares.sim.members.allcall.users import AllCallUser
from pares.sim.members.chance import Chance
from pares.sim.members.crowds import Crowds
from pares.sim.members.storm import Storm
from pares.sim.world.bus import Cut, SimBus

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.sim.members.allcall.ground import Ground

KINDS: Final = ("publish", "publish", "listen", "message", "bells:wait", "lock", "lock:held", "spawn", "put")
"""Calls of which one may be chosen by its kind."""


def sides(ground: Ground, rng: Random) -> Cut:
    """A split into two or three sides."""
    count = min(rng.choice((2, 2, 3)), len(ground.own))
    names = rng.sample([user.name for user in ground.own], len(ground.own))
    side = {name: number % count for number, name in enumerate(names)}
    told = " | ".join(" ".join(name for name in names if side[name] == number) for number in range(count))
    ground.world.told(None, f"the bus is split: {told}")
    return lambda source, target: side.get(source, 0) != side.get(target, 0)


def replay(ground: Ground, rng: Random, count: int) -> None:
    """Copies of what was said long ago, longer than it counts, come to everybody."""
    now, plan = ground.world.now, ground.plan
    old = now - int(1.1 * plan.unit + 2e9 * plan.wall_spread)
    told = [message for message in ground.calls.history if message.at < old]
    for _ in range(count if told else 0):
        payload = rng.choice(told).payload
        for handle in ground.bus.handles:
            ground.bus.deliver(now + rng.randint(0, plan.unit // 4), None, handle, ground.group, payload)


class AllCallStorm(Storm):
    """Processes are struck as those of other protocols."""

    kinds: ClassVar[tuple[str, ...]] = KINDS

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)  # type: ignore[arg-type]
        self.families = (Crowds(self),)  # type: ignore[assignment]
        self.ground = stage

    def _while_cut(self) -> int:
        """How long something stays cut: sometimes long enough for each side to go its own way."""
        return int(self.rng.uniform(0.1, 1) * self.ground.plan.reach * self.ground.bounds.quiet)

    # Processes -------------------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        """Within its own lease."""
        user = self.someone()
        if user is not None and user.process is not None:
            self.world.kill(user.process)
            self.world.after(self.span(0, 0.5), user.start)

    def _ready(self) -> None:
        """Its check says no for a while."""
        user = self.someone()
        if isinstance(user, AllCallUser):
            user.ready = False
            self.world.after(self.span(0.1, 4), user.become_ready)

    def _barrier(self) -> None:
        """Somebody's next barrier does not return before it has timed out."""
        user = self.someone(holder=True)
        if isinstance(user, AllCallUser) and user.has_barrier:
            user.hangs = 1
            user.ask(lambda member: member.step_down(), "steps down, and its barrier hangs")
            self._disturbed_for(user, 2 * self.ground.plan.barrier_timeout_ns)

    def _disturbed_for(self, user: AllCallUser, length: int) -> None:
        for part in range(1, 5):
            self.world.after(part * length // 4, self.ground.disturbed)

    def _wall(self) -> None:
        """Somebody's wall clock is set."""
        user = self.someone()
        if isinstance(user, AllCallUser) and user.process is not None:
            user.wall.offset_us = int(self.rng.uniform(-1, 1) * self.ground.plan.wall_spread * 1e6)
            self.ground.stir(user.process)

    # Connections -----------------------------------------------------------------------------------------------------

    def _hurt(self, what: str, length: int, hurt: Callable[[SimBus, bool], None]) -> None:
        user = self.someone()
        if user is not None and user.ledger is not None and user.ledger.well:
            self._hurt_one(user.ledger, what, length, hurt)

    def _hurt_one(self, handle: SimBus, what: str, length: int, hurt: Callable[[SimBus, bool], None]) -> None:
        self.world.told(handle.process, what)
        hurt(handle, True)
        self.world.after(length, self._heal, handle, hurt)

    def _heal(self, handle: SimBus, hurt: Callable[[SimBus, bool], None]) -> None:
        if handle.process.alive and not handle.well:
            hurt(handle, False)
            healed(self.ground, handle)

    def _disconnect(self) -> None:
        self._hurt("is disconnected", self._while_cut(), _cut)

    def _blink(self) -> None:
        """A new connection; what was on its way is gone."""
        self._hurt("is disconnected for a moment", self.span(0, 0.1), _cut)

    def _deaf(self) -> None:
        self._hurt("is deaf", self._while_cut(), _deafen)

    def _mute(self) -> None:
        self._hurt("is mute", self._while_cut(), _mute)

    def _outage(self) -> None:
        """The bus is out of everybody's reach."""
        length = self._while_cut()
        for handle in self.ground.bus.handles:
            if handle.well:
                self._hurt_one(handle, "is disconnected, as all are", length, _cut)

    def _one_way(self) -> None:
        """From some to some others nothing passes; back it does."""
        names = [user.name for user in self.own()]
        deaf = set(self.rng.sample(names, self.rng.randint(1, len(names) - 1)))
        mute = set(self.rng.sample(sorted(set(names) - deaf), self.rng.randint(1, len(names) - len(deaf))))
        self.world.told(None, f"nothing passes from {sorted(mute)} to {sorted(deaf)}")
        self._cut_for_a_while(lambda source, target: source in mute and target in deaf)

    def _split(self) -> None:
        self._cut_for_a_while(sides(self.ground, self.rng))

    def _cut_for_a_while(self, cut: Cut) -> None:
        self.ground.bus.cuts.append(cut)
        self.world.after(self._while_cut(), self._mend, cut)

    def _mend(self, cut: Cut) -> None:
        if cut in self.ground.bus.cuts:
            self.world.told(None, "the bus is whole, or less cut")
            self.ground.disturbed()
            self.ground.bus.cuts.remove(cut)

    # Messages --------------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        replay(self.ground, self.rng, self.rng.randint(1, 6))

    def _garbage(self) -> None:
        user, history = self.someone(), self.ground.calls.history
        if user is None or user.ledger is None or not history:
            return
        call = self.rng.choice(history).call
        later = msgspec.structs.replace(call, m="stranger~1", v=7, n=1)
        other = msgspec.structs.replace(call, m="stranger~1", g="another group", c=[])
        for payload in (b"", b"{", b"\xff", b"[" * 1000, b"x" * 70_000, encode(later), encode(other)):
            self.ground.bus.deliver(self.world.now + MS, None, user.ledger, self.ground.group, payload)


def healed(ground: Ground, handle: SimBus) -> None:
    """Nothing hinders a connection any more."""
    ground.world.told(handle.process, "is healed")
    handle.process.well_since = ground.world.now
    ground.disturbed()
    ground.stir(handle.process)


def _cut(handle: SimBus, now: bool) -> None:
    handle.cut = now


def _deafen(handle: SimBus, now: bool) -> None:
    handle.deaf = now


def _mute(handle: SimBus, now: bool) -> None:
    handle.mute = now


class AllCallActs(Chance[AllCallUser]):
    """What users ask of a member, at random times; also what a protocol without a log refuses."""

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage, "acts", stage.plan.acts, pace=stage.plan.act_pace)
        self.ground = stage

    def own(self) -> list[AllCallUser]:
        return self.ground.own

    def happen(self, kind: str) -> None:
        user = self.someone()
        if user is None:
            return
        self.ground.disturbed()
        self.engine.after(self.ground.bounds.barrier, self.ground.disturbed)
        user.draining = user.draining or kind == "drain"
        user.ask(self._act(kind), kind)

    def _act(self, kind: str) -> Callable[[Member], object]:
        rng, role = self.rng, self.rng.choice(self.ground.roles)
        refused: tuple[Callable[[Member], object], ...] = (
            lambda member: member.pause(role, seconds=1),
            lambda member: member.hand_over(role, rng.choice(self.own()).name),
            lambda member: member.add_role("another"),
        )
        acts: dict[str, Callable[[Member], object]] = {
            "hand_over": lambda member: member.hand_over(role),
            "step_down": lambda member: member.step_down(rng.choice((None, role))),
            "drain": lambda member: member.drain(),
            "ask": lambda member: (member.members(), member.leaders(role), member.roles(), member.health()),
            "refused": rng.choice(refused),
        }
        return acts[kind]
