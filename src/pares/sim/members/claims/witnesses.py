"""Witnesses (R22): processes of their own on the machines of members, with the `Witness` that ships, which faults befall too.

The group must be as well off with them as without: a witness that is killed, frozen or cut off changes no promise. And where
one has been well for a while, the death of a member on its machine is known everywhere as soon as on that machine
(`promises.speed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pares.runtime.claims.witness import Witness
from pares.sim.engine import Stopwatch, WallClock
from pares.sim.members.chance import Chance
from pares.sim.world.faults import Strike
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import fair

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process

KINDS: Final = {"kill": 1.0, "kill_at": 1.0, "freeze": 1.0, "freeze_at": 1.0, "cut": 1.0}
SOON: Final = 60
"""A fault that strikes at a call does so within so many calls of its process."""


class Post:
    """One place for a witness: it is started there, and started again."""

    def __init__(self, stage: Ground, machine: str, number: int) -> None:
        plan = stage.plan
        self.stage = stage
        self.machine = machine
        self.name = f"witness{number} on {machine}"
        rng = stage.world.random(self.name)
        self.stopwatch = Stopwatch(rng.randint(0, 10**15), 1 + plan.drift * rng.uniform(-1, 1))
        self.wall = WallClock(int(rng.uniform(-1, 1) * plan.wall_spread * 1e6))
        self.weather = rng.choice(plan.weathers)
        self.process: Process | None = None
        self.witness: Witness | None = None
        self.ledger: SimLedger | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def over(self) -> object:
        return None

    @property
    def beliefs(self) -> bool:
        return False

    def start(self) -> None:
        if not self.running:
            where = {"machine": self.machine, "stopwatch": self.stopwatch, "wall": self.wall}
            self.witness = self.ledger = None
            self.process = self.stage.world.start(
                self.name,
                self._main,
                **where,
                env=self.stage.environment(),  # pyright: ignore[reportArgumentType]
            )

    def _main(self, process: Process) -> None:
        stage, plan = self.stage, self.stage.plan
        weather = fair(self.weather) if stage.calm else self.weather
        self.ledger = stage.world.ledger(process, stage.log, weather, has_bell=plan.bells)
        settings = {"group": stage.group, "session": plan.session_ms / 1000, "connect": "background"}
        self.witness = Witness(self.ledger, **settings)  # pyright: ignore[reportArgumentType]
        process.host.flag().wait()

    def calm_down(self) -> None:
        """All that has befallen it is over."""
        process = self.process
        if process is not None and process.alive:
            self.stage.world.thaw(process)
            process.disarm()
            if self.ledger is not None:
                self.ledger.weather = fair(self.weather)
                self.ledger.heal()
        self.start()

    def sees(self, member: str, well_for: int) -> bool:
        """Whether it would see that member die, and has been well for so long."""
        process, witness, ledger = self.process, self.witness, self.ledger
        if process is None or witness is None or ledger is None or not process.alive or process.frozen or process.armed:
            return False
        world = self.stage.world
        if ledger.is_cut or world.now - max(process.well_since, process.starved_at) < well_for:
            return False
        with world.looking():
            health = witness.health()
        return health.ready and member in health.watched


class Witnesses(Chance[Post]):
    """So many of each machine, as the plan has it; and what befalls them until the storm is over."""

    kinds: ClassVar[dict[str, float]] = KINDS

    def __init__(self, stage: Ground) -> None:
        self.stage = stage
        plan = stage.plan
        numbers = range(plan.witnesses)
        self.posts = [Post(stage, f"machine-{place}", n) for place in range(plan.machines) for n in numbers]
        super().__init__(stage, "witnesses", self.kinds if self.posts else {}, pace=plan.pace)
        if self.posts:
            for post in self.posts:
                self.engine.after(self.span(0, 1.5), post.start)
            self.engine.at(self.over_at, self._calm)

    def own(self) -> list[Post]:
        return self.posts

    def _calm(self) -> None:
        for post in self.posts:
            post.calm_down()

    def happen(self, kind: str) -> None:
        post = self.someone()
        if post is None or post.process is None:
            return
        if kind == "kill":
            self.engine.kill(post.process)
        elif kind == "kill_at":
            post.process.arm(Strike("kill", self.rng.randint(1, SOON), ""))
        elif kind == "freeze":
            self.engine.freeze(post.process, self.span(0.1, 4))
        elif kind == "freeze_at":
            post.process.arm(Strike("freeze", self.rng.randint(1, SOON), "", length=self.span(0.1, 4)))
        elif post.ledger is not None:
            ways = self.rng.sample(("reads", "writes", "acks"), self.rng.randint(1, 3))
            post.ledger.cut(**{way: way in ways for way in ("reads", "writes", "acks")})
            self.engine.told(post.process, f"cut off: {', '.join(ways)}")
            self.engine.after(self.span(0.2, self.stage.plan.cut), post.ledger.heal)
        if kind.startswith("kill"):
            self.engine.after(self.span(0.1, 4), post.start)
