"""What a play of consumers takes place on: see `members.stage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pares.core.consume.names import WHOLE, Partition
from pares.core.events import RewindTo
from pares.sim.members.claims.acts import Act, Acts
from pares.sim.members.claims.promises.agreement import Agreement
from pares.sim.members.claims.promises.locks import Locks
from pares.sim.members.claims.records.counting import Counting
from pares.sim.members.claims.records.marks import Marks
from pares.sim.members.claims.records.outwaited import OutWaited
from pares.sim.members.claims.records.pauses import Pauses
from pares.sim.members.claims.records.seats import Seats
from pares.sim.members.claims.records.tokens import TokensInLog
from pares.sim.members.consume.ground import ConsumeGround
from pares.sim.members.consume.keys import Keyed, belonging
from pares.sim.members.consume.one_by_one import Counted, InOrder
from pares.sim.members.consume.plan import ConsumePlan
from pares.sim.members.consume.promises import AtLeastOnce, AtMostOnce, Delivered, Fair, WorkedOff
from pares.sim.members.consume.ranges import Ranges
from pares.sim.members.consume.transactions.once import Once
from pares.sim.members.consume.users import ConsumerUser
from pares.sim.members.promises.exclusive import Exclusive
from pares.sim.members.storm import Storm

if TYPE_CHECKING:
    from pares.sim.world.process import Process


class ConsumeStage(ConsumeGround):
    promised = (
        Exclusive,
        Locks,
        OutWaited,
        Seats,
        Pauses,
        Ranges,
        Marks,
        Counting,
        TokensInLog,
        Agreement,
        Keyed,
        AtLeastOnce,
        AtMostOnce,
        Fair,
        WorkedOff,
        InOrder,
        Counted,
        Once,
    )

    def __init__(self, plan: ConsumePlan, *, told: bool = False) -> None:
        super().__init__(plan, told=told)
        self.delivered = [promise for promise in self.promises if isinstance(promise, Delivered)]

    @property
    def once(self) -> Once:
        return next(promise for promise in self.promises if isinstance(promise, Once))

    @property
    def ranges(self) -> Ranges:
        return next(promise for promise in self.promises if isinstance(promise, Ranges))

    def mine(self, role: str, first: int, before: int) -> list[int]:
        partition = Partition.of(role)
        found = [] if partition is None else self.topic.between(partition.number, first, before)
        if partition is None or partition.slot == WHOLE:
            return found
        return belonging(self.topic, partition, found) if partition.keys else self.ranges.owned(role, found)

    def add(
        self, name: str | None = None, *, like: ConsumerUser | None = None, member: str | None = None
    ) -> ConsumerUser:
        user = ConsumerUser(self, len(self.own) if like is None else like.place, name, member)
        self.own.append(user)
        return user

    def storm(self) -> None:
        Storm(self)
        ConsumeActs(self)


class ConsumeActs(Acts):
    """What users and administrators of consumers do."""

    def _rewind(self) -> Act:
        """Under a pause, as it must be: to somewhere below what has come by now. Now and then without, which is refused."""
        stage, rng = self.stage, self.rng
        assert isinstance(stage, ConsumeStage)
        roles = rng.sample(stage.roles, rng.randint(1, len(stage.roles)))
        ends = {role: stage.topic.ends[stage.roles.index(role)] for role in roles}
        length, paused = 3 * stage.plan.session_ms / 1000, rng.random() < 0.8

        def act(admin: Any) -> None:
            if paused:
                admin.pause(None, seconds=length)
            stage.world.task().process.host.sleep(length / 2)
            marks = {(role, 0): rng.randint(0, ends[role]) for role in roles}
            if paused:
                moved = admin.rewind(marks)
                if stage.plan.transactions:
                    stage.once.forgets(cast("Process", stage.world.task().process), moved)
            else:  # as one would that does not look before: the log has the last word
                requests = admin._steers._requests  # pyright: ignore[reportPrivateUsage]
                requests.perform(RewindTo(tuple((*seat, mark) for seat, mark in sorted(marks.items()))))

        return act
