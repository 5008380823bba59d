"""Beliefs end before locks: a member that gives up the lock on its life, or has lost it, must not believe, or be believed, any
more.

* When a living member gives its lock up, none of its terms may be believed: others can prove it dead from then on.
* A member whose lock was lost by somebody's mistake (A3) finds that out before it appends anything else.
* No belief outlives the loop that prolongs it.
* A member that begins anew lets go of the lock of the incarnation that is over: a member that waits for that has proof (R8).
* What is believed stands in the table that a fork looks through: else its child would believe, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pares.core.wire.records import BadRecord, decode
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.runtime.member import Member
    from pares.sim.members.stage import Stage
    from pares.sim.world.death import DeathLock
    from pares.sim.world.process import Process


class Locks(Promise):
    name = "beliefs end before locks"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.ids: dict[Member, str] = {}
        """Under which id each member goes."""
        self.world.locks.given_up.append(self._given_up)
        self.world.on_sent.append(self._sent)
        stage.sight.closely.append(self._looked)

    def _given_up(self, lock: DeathLock) -> None:
        """By a task."""
        stage = self.stage
        stage.sight.look(lock.process)
        for held in stage.sight.of_process(lock.process):
            if held.term.member == lock.member and held.believing():
                self.fail(f"{held} gives its lock up and believes, for {held.left():.3f} ms")

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task."""
        lost = [lock for lock in self.world.locks.all.values() if lock.process is process and lock.lost_at is not None]
        for lock in lost:
            if not lock.looked and any(_writer(payload) == lock.member for payload in payloads):
                self.fail(f"{lock.member} appends something without a look at its lock, which is lost")
        for lock in self.world.locks.all.values():
            if lock.process is process:
                lock.looked = False

    def _looked(self, process: Process) -> None:
        for member in self.stage.sight.members[process]:
            if self.ids.get(member) != member._life.id:  # pyright: ignore[reportPrivateUsage]
                self._anew(member)
        for held in self.stage.sight.open[process].values():
            member, term = held.member, held.term
            table = member._life.beliefs.terms  # pyright: ignore[reportPrivateUsage]
            if table.get(term.role) is not term and held.believing():
                raise self.broken(f"{held} believes for {held.left():.3f} ms more, and a fork would not find it")
            thread: Any = member._loop.thread  # pyright: ignore[reportPrivateUsage]
            if thread.over and held.believing():
                raise self.broken(f"{held} believes for {held.left():.3f} ms more, and its loop has ended")

    def _anew(self, member: Member) -> None:
        before = self.ids.get(member)
        if before == member.id:
            return
        self.ids[member] = member.id
        lock = None if before is None else self.world.locks.of(before)
        if lock is not None and not lock.free:
            raise self.broken(f"{before} is over, {member.id} has begun in its place, and its lock is held")


def _writer(payload: bytes) -> str:
    try:
        return decode(payload).m
    except BadRecord:
        return ""
