"""Users' programs whose members share out the partitions of a log: see `members.users`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.users import User
from pares.sim.world.logs.link import Weather

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround


class NeliUser(User):
    """`beside`: in a group of its own on the same log, where nothing befalls it."""

    stage: NeliGround

    def __init__(self, stage: NeliGround, place: int, name: str | None = None, *, beside: bool = False) -> None:
        super().__init__(stage, place, name)
        plan = stage.plan
        self.beside = beside
        self.has_barrier = self.has_barrier or "barrier" in plan.faults
        if plan.law.by_clocks and self.rng.random() < 0.5:  # as wrong as they may be
            self.wall.offset_us = self.rng.choice((-1, 1)) * plan.error_ms * 1000
        if beside:
            self.group, self.roles = f"{stage.group}-{name}", (f"of {name}",)
            self.has_ready, self.has_barrier, self.connect = False, False, "now"
            quick = min(plan.unit, plan.threshold) // 400
            self.weather = Weather(
                send=(quick // 2, quick), ack=(quick // 2, quick), read=(0, quick), timeout=plan.unit
            )

    def start(self) -> None:
        super().start()
        if self.beside and self.process is not None:
            self.ready, self.process.starving = True, 0.0
