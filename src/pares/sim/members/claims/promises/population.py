"""The world holds the living, and of the dead no more than it must: those whose seats nobody has taken yet, and the last one of
each name (R13, R20). And whoever is called silent has been silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.wire import forgetting
from pares.core.wire.changes import Began, MemberLeft, SeatChanged
from pares.core.wire.records import Forget
from pares.core.wire.world import PLACE_EVERY
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground

LATE: Final = 4
"""Of the dead, whom the others may be about to forget; besides those that may still speak up beside a successor (R20)."""


class Population(Promise):
    name = "the dead are forgotten"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.gave: dict[str, int] = {}
        """How many records had counted when each member last lost a seat."""
        self.forced = 0
        """How many had counted when version 2 was last not in force."""
        self.last: dict[str, tuple[int, int]] = {}
        """Each member's last counted record: its offset, and when it landed."""
        self.late = 4 * int(max(stage.plan.sessions) * MS / (1 - stage.plan.drift)) + 12 * stage.trip
        """For how long a member must have been silent, and another one well, for the former to be forgotten."""
        self.turn = max(stage.plan.sessions) * MS // 2 + 2 * stage.trip
        self.step = max(MS, stage.plan.unit // 4)
        stage.judge.landed.append(self._landed)
        stage.renewed.append(self._anew)
        self.world.after(self.step, self._look)

    def _anew(self) -> None:
        self.gave.clear()
        self.last.clear()
        self.forced = 0

    def _landed(self, landed: Landed) -> None:
        world = self.ground.judge.judge.world
        # Members look at fixed places, so as much later as there is between two of them (R10): that is settled at the place
        # before, when there may have been more members.
        memory = world.memory() + 2 * max(world.stride, PLACE_EVERY + 4 * len(world.members))
        for change in landed.changes:
            if type(change) is Began:
                self.gave.clear()
            elif type(change) is SeatChanged and change.before is not None:
                self.gave[change.before] = world.count
        for member in world.members.values():
            silent = world.count - max(member.count, self.gave.get(member.id, 0))
            if silent > memory and not world.held[member.id]:
                raise self.broken(f"{member.id} has been silent for {silent} records, and is remembered")
        for id, count in world.gone.items():
            if world.count - count > memory:
                raise self.broken(f"{id} left {world.count - count} records ago, and is remembered")
        self._count()
        if isinstance(landed.record, Forget):
            self._forgotten(landed, landed.record)
        if landed.counted and landed.record is not None:
            self.last[landed.record.m] = (landed.offset, landed.at)

    def _forgotten(self, landed: Landed, record: Forget) -> None:
        """Of the silent: since the record that is named."""
        if not any(type(change) is MemberLeft and change.member == record.of for change in landed.changes):
            return
        if self.last.get(record.of, (-1, 0))[0] != record.over:
            raise self.broken(f"{record.m} has {record.of} forgotten, which has written since")
        user = self.ground.by_id(record.of)
        if user is not None and self.ground.healthy() and self.stage.able(user, self.late) and self.ground.quick(user):
            raise self.broken(f"{record.m} has {record.of} forgotten, which lives, and which nothing has hindered")

    def _look(self) -> None:
        """A process that dies under another name each time leaves nothing that stays (R20)."""
        self.world.after(self.step, self._look)
        now, world = self.world.now, self.ground.judge.judge.world
        well = any(self.stage.able(user, self.late) and self.ground.quick(user) for user in self.stage.own)
        if not well or not self.ground.healthy():
            return
        silences = [now - self.last.get(id, (0, now))[1] for id in world.members if not world.held[id]]
        # One is forgotten with each record of the member that does it: whoever died beside many others waits for its turn.
        turns = sum(silence > self.late for silence in silences) * self.turn
        overdue = sum(silence > self.late + turns for silence in silences)
        if overdue > forgetting.KEPT + LATE:
            raise self.broken(f"{overdue} members that hold nothing have been silent for long, and are remembered")

    def _count(self) -> None:
        world = self.ground.judge.judge.world
        if not world.in_force:
            self.forced = world.count
        grace = forgetting.GRACE + 4 * len(world.names)
        # When version 2 comes into force, all that release 0.1 has kept is given its time to answer.
        if world.count - self.forced <= grace + LATE or len(world.members) <= grace + LATE:
            return
        names = {member.name for member in world.members.values()}
        alive = {member.id for members in self.stage.sight.members.values() for member in members}
        dead = [id for id in world.members if id not in alive]
        held = sum(bool(world.held[id]) for id in dead)
        if len(dead) > len(names) + held + LATE + grace:
            raise self.broken(
                f"of {len(world.members)} members in the world {len(dead)} are dead, {held} of them with seats, and there are "
                f"{len(names)} names"
            )
