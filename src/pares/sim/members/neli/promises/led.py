"""Roles are led, and not just handed round: see `members.promises.led`. What is waited for is the group and T."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.sim.engine import MS, SECOND
from pares.sim.members.promises.led import Led

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround

POLLED: Final = SECOND // 4
"""What it takes at the most until a member notices that it may join again."""


class NeliLed(Led):
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        plan = stage.plan
        self.longest = stage.longest
        self.settling = 5 * self.longest + plan.barrier_timeout_ns + 20 * stage.trip + POLLED
        self.most = 4 * self.longest + 20 * stage.trip + 2 * plan.barrier_ns + SECOND // 5 + POLLED
        self.step = max(MS, self.longest // 10)
