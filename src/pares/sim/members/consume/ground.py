"""What consumers stand on: the ground of claims, and a topic. Its promises are added by `stage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pares.core.consume.names import Partition, tag_of
from pares.sim.members.claims.ground import Ground
from pares.sim.members.consume.plan import ConsumePlan
from pares.sim.members.consume.topic import SimTopic
from pares.sim.members.consume.transactions.database import SimDatabase
from pares.sim.members.stage import Someone

if TYPE_CHECKING:
    from pares.sim.world.process import Process


class ConsumeGround(Ground):
    plan: ConsumePlan  # pyright: ignore[reportIncompatibleVariableOverride]
    delivered: list[Any]
    """The promises that users' handlers tell what befalls records."""

    def mine(self, role: str, first: int, before: int) -> list[int]:
        """The records that stand there and are those of a partition; of a slot, of its ranges (C11) or of
        its keys (C12)."""
        raise NotImplementedError

    def set_up(self) -> None:
        super().set_up()
        self.topic = SimTopic(self, self.plan)
        self.database = SimDatabase(self, f"seed-{self.plan.seed}", self._refuses)
        tag = tag_of(self.topic.identity)
        self.roles = tuple(Partition(self.topic.name, tag, n).role for n in range(self.plan.partitions))

    def _refuses(self, process: Process) -> bool:
        """The database can't commit, as happens in the storm."""
        return not self.calm and process.rng.random() < self.plan.unreadable

    def settings(self, user: Someone) -> dict[str, Any]:
        plan = self.plan
        unlike = {"weight": plan.weights[user.place % plan.members]} if plan.weights else {}
        settle = plan.settle * plan.session_ms / 1000
        return {**unlike, "session": user.session_ms / 1000, "drift": plan.drift, "settle": settle}
