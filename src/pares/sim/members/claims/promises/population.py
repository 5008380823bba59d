"""The world holds the living, and of the dead no more than it must: those whose seats nobody has taken yet, and the last one of
each name (R13, R20). And a member that is called silent has been silent.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pares.core.claims.chores.duties import standby_ms
from pares.core.claims.comebacks import HEEDED
from pares.core.wire import forgetting
from pares.core.wire.changes import Began, MemberLeft, SeatChanged
from pares.core.wire.records import Forget, Snapshot
from pares.core.wire.world import PLACE_EVERY
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords
from pares.sim.members.claims.releases import writes

if TYPE_CHECKING:
    from pares.core.wire.states import MemberState
    from pares.sim.members.claims.ground import Ground

LATE: Final = 4
"""Of the dead, whom the others may be about to forget; besides those that may still speak up beside a successor (R20)."""


class Population(OfRecords):
    name = "the dead are forgotten"

    def __init__(self, stage: Ground) -> None:
        self.mute_at = 0
        """When somebody was in the group last that reads version 1 only: nobody may write that another is silent (R11)."""
        super().__init__(stage)
        self.longest = max(stage.plan.sessions)
        self.heeded = int((HEEDED + 4) * self.longest * MS / (1 - stage.plan.drift))
        """For how long a silence that has ended makes others be waited for, at the most."""
        self.late = 4 * int(self.longest * MS / (1 - stage.plan.drift)) + 12 * stage.trip
        """For how long a member must have been silent, and another one well, for the former to be forgotten, if it has said
        that its next record is due within a session."""
        self.turn = self.longest * MS // 2 + 2 * stage.trip
        self.step = max(MS, stage.plan.unit // 4)
        stage.judge.landed.append(self._landed)
        self.world.after(self.step, self._look)

    def anew(self) -> None:
        """Also when the log has lost its tail: the last record of a member is the last one of those that still stand there, and
        that is the one to be named as its last."""
        self.gave: dict[str, int] = {}
        """How many records had counted when each member last lost a seat."""
        self.forced = 0
        """How many had counted when version 2 was last not in force."""
        self.last: dict[str, tuple[int, int]] = {}
        """Each member's last counted record: its offset, and when it landed."""
        self.ended: deque[tuple[int, int]] = deque()
        """Silences of more than a session that have ended lately: when, and how long each was."""
        self.named: tuple[int, int] = (-1, 0)
        """The same of the member that this record would have forgotten, before it landed."""

    def landed(self, landed: Landed) -> None:
        world, record = self.folded, landed.record
        for change in landed.changes:
            if type(change) is Began:
                self.gave.clear()
            elif type(change) is SeatChanged and change.before is not None:
                self.gave[change.before] = world.count
        if isinstance(record, Forget):
            self.named = self.last.get(record.of, (-1, 0))
        if landed.counted and record is not None:
            silence = landed.at - self.last.get(record.m, (0, landed.at))[1]
            if silence > self.longest * MS:
                self.ended.append((landed.at, silence))
            self.last[record.m] = (landed.offset, landed.at)
        if isinstance(record, Snapshot):
            # Of a log that was trimmed and has lost its tail, what stands before the snapshot is not told once more.
            for member in world.members.values():
                self.last.setdefault(member.id, (member.offset, landed.at))
        if world.reads < 2:
            self.mute_at = max(self.mute_at, landed.at)
        if not world.in_force:
            self.forced = world.count

    def _landed(self, landed: Landed) -> None:
        world = self.folded
        # Members look at fixed places, so as much later as there is between two of them (R10): that is settled at the place
        # before, when there may have been more members.
        memory = world.memory() + 2 * max(world.stride, PLACE_EVERY + 4 * len(world.members))
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

    def _forgotten(self, landed: Landed, record: Forget) -> None:
        """Of the silent: since the record that is named."""
        if not any(type(change) is MemberLeft and change.member == record.of for change in landed.changes):
            return
        if self.named[0] != record.over:
            raise self.broken(f"{record.m} has {record.of} forgotten, which has written since")
        user, silence = self.ground.by_id(record.of), landed.at - self.named[1]
        if user is not None and silence < self._shown(landed, record.m):
            raise self.broken(f"{record.m} has {record.of} forgotten, though another came back from such a silence")
        if user is not None and self.ground.healthy() and self.stage.able(user, self.late) and self.ground.quick(user):
            raise self.broken(f"{record.m} has {record.of} forgotten, which lives, and which nothing has hindered")

    def _shown(self, landed: Landed, by: str) -> int:
        """For how long one that lives must have been silent to be forgotten by that member now, as others have come back: twice
        as long as the longest of them was, as that member may have seen it, which looks a session apart at the most."""
        user = self.ground.by_id(by)
        if user is None:
            return 0
        slack = 2 * self.longest * MS + 4 * self.stage.trip
        recent = landed.at - HEEDED * min(self.stage.plan.sessions) * MS // 2
        silences = [
            silence
            for at, silence in self.ended
            if at > recent and self.stage.able(user, landed.at - at + silence + slack)
        ]
        return 2 * (max(silences) - slack) if silences else 0

    def _waited_for(self, now: int) -> int:
        """How much longer somebody may be remembered, as others have come back."""
        while self.ended and self.ended[0][0] < now - self.heeded:
            self.ended.popleft()
        return 2 * max((silence for _, silence in self.ended), default=0)

    def _look(self) -> None:
        """A process that dies under another name each time leaves nothing that stays (R20)."""
        self.world.after(self.step, self._look)
        now, world = self.world.now, self.folded
        if world.reads < 2:
            # A member that reads version 1 only counts as there until it is forgotten as release 0.1 forgets it, also when it
            # is dead (R11); until then no record that all can read forgets anybody: `_landed` has how long that may last.
            self.mute_at = now
        if now < self.mute_at + self.late or not self.ground.healthy() or not self._well(self.late):
            return
        over: list[int] = []
        """For how long each of the silent should have been forgotten."""
        waited_for = self._waited_for(now)
        for id, member in world.members.items():
            silence = now - self.last.get(id, (0, now))[1]
            late = self._late(member, len(world.members)) + waited_for
            if silence > late and not world.held[id] and self._well(late):
                over.append(silence - late)
        # One is forgotten with each record of the member that does it: a member that died beside many others waits for its
        # turn.
        overdue = sum(silence > len(over) * self.turn for silence in over)
        if overdue > forgetting.KEPT + LATE:
            raise self.broken(f"{overdue} members that hold nothing have been silent for long, and are remembered")

    def _well(self, well_for: int) -> bool:
        """Whether a member lives that may write who is silent, and that nothing has hindered for so long."""
        return any(
            self.stage.able(user, well_for) and self.ground.quick(user) and _says(user) for user in self.stage.own
        )

    def _late(self, silent: MemberState, members: int) -> int:
        """`late`, for one that may have said that its next record is due later than in a session, since so many standbys were
        there: it is out-waited for twice as long as it said, or twice as long as a standby would say now (R16, R20). A member
        that is well looks when its own next record is due, which may be as late."""
        budget = standby_ms(self.longest, members)
        more = 2 * (max(silent.due_ms, budget) - self.longest) + budget - self.longest
        return self.late + int(more * MS / (1 - self.stage.plan.drift))

    def _count(self) -> None:
        world = self.folded
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


def _says(user: Any) -> bool:
    """Whether the release of its process writes the word for it (R11)."""
    return writes(user.process) >= 2
