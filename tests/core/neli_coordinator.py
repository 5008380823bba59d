"""A group's coordinator, as Kafka's is: it gives each partition to one member, and takes a silent member's away.

What it knows of a member are the member's heartbeats, which go another way than the log: one may be cut and the other not. It
asks a live owner to give a partition back, and waits for that; of a silent one it waits for nothing. A member learns that it
is out when it can hear the coordinator again, or by its own count of the session, or, if it is oblivious, not at all until it
hears. None of that may matter to exclusiveness: the protocols do not rest on it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from pares.core.events import Assigned, Lost, Revoked
from pares.sim.engine import MS, Engine

if TYPE_CHECKING:
    from neli_process import NeliProcess

BEATS: Final = 6
"""Heartbeats a session."""


class Coordinator:
    """The owner of each partition. Times in nanoseconds of true time."""

    def __init__(self, engine: Engine, rng: Random, partitions: int, session: int, delay: tuple[int, int]) -> None:
        self.engine = engine
        self.rng = rng
        self.partitions = partitions
        self.session = session
        self.delay = delay
        """How long a message to or from it takes."""
        self.owner: dict[int, NeliProcess] = {}
        """The owner by the coordinator's word; also while it is being taken back."""
        self.wanted_back: set[int] = set()
        self.members: dict[str, tuple[NeliProcess, int]] = {}
        """By incarnation: the process, and when it was heard last."""

    # What members do ---------------------------------------------------------------------------------------------------

    def heartbeat(self, process: NeliProcess) -> None:
        """Called by a process that runs, now and then. It joins with its first heartbeat."""
        if process.group_cut:
            if not process.oblivious and self.engine.now > process.group_heard + self.session + self.delay[1]:
                self._tell_lost(process)
            return
        known = process.id in self.members
        process.group_heard = self.engine.now
        if not known:
            self._tell_lost(process)
            self.members[process.id] = (process, self.engine.now)
            self._rebalance()
        else:
            self.members[process.id] = (process, self.engine.now)

    def yielded(self, process: NeliProcess, partition: int) -> None:
        """Its revocation callback has returned."""
        process.owned.discard(partition)
        if not process.group_cut:
            self._soon(self._given_back, process.id, partition)

    def leave(self, process: NeliProcess) -> None:
        """Of its present incarnation, which is over."""
        if not process.group_cut:
            self._soon(self._evict, process.id)

    def look(self) -> None:
        """A member that has been silent for a session is out."""
        now = self.engine.now
        for id, (_, heard) in list(self.members.items()):
            if now >= heard + self.session:
                self._evict(id)
        self.engine.after(self.session // 20, self.look)

    def shuffle(self) -> None:
        """It moves a partition for no reason that anybody knows."""
        if len(self.members) > 1 and self.owner:
            partition = self.rng.choice(sorted(self.owner))
            self._take_back(partition)

    def lie(self, process: NeliProcess, partition: int, lost: bool) -> None:
        """A word of the group's that is not so. A partition that it declares lost is given out anew."""
        if lost and self.owner.get(partition) is process:
            process.owned.discard(partition)
            process.hear(Lost((partition,)))
            self.wanted_back.add(partition)
            self._given_back(process.owned_as.get(partition, ""), partition)
        elif not process.closing:
            process.hear(Assigned((partition,)))

    # What it does --------------------------------------------------------------------------------------------------------

    def _soon(self, call: object, *args: object) -> None:
        self.engine.after(self.rng.randint(*self.delay), call, *args)  # type: ignore[arg-type]

    def _evict(self, id: str) -> None:
        if self.members.pop(id, None) is None:
            return
        for partition, process in list(self.owner.items()):
            if process.owned_as.get(partition) == id:
                del self.owner[partition]
                self.wanted_back.discard(partition)
        self._rebalance()

    def _given_back(self, id: str, partition: int) -> None:
        process = self.owner.get(partition)
        if process is not None and process.owned_as.get(partition) == id and partition in self.wanted_back:
            del self.owner[partition]
            self.wanted_back.discard(partition)
            self._rebalance()

    def _take_back(self, partition: int) -> None:
        if partition not in self.wanted_back:
            self.wanted_back.add(partition)
            self._soon(self._tell_revoked, self.owner[partition], partition)

    def _rebalance(self) -> None:
        if not self.members:
            return
        counts = dict.fromkeys(self.members, 0)
        for partition, process in self.owner.items():
            id = process.owned_as.get(partition, "")
            if id in counts and partition not in self.wanted_back:
                counts[id] += 1
        for partition in range(self.partitions):
            if partition not in self.owner:
                poorest = min(counts, key=lambda id: (counts[id], id))
                counts[poorest] += 1
                process = self.members[poorest][0]
                self.owner[partition] = process
                process.owned_as[partition] = poorest
                self._soon(self._tell_assigned, process, poorest, partition)
        most = max(counts, key=lambda id: (counts[id], id))
        if counts[most] > min(counts.values()) + 1:
            mine = [p for p, owner in self.owner.items() if owner.owned_as.get(p) == most and p not in self.wanted_back]
            self._take_back(max(mine))

    # What members hear -----------------------------------------------------------------------------------------------------

    def _tell_assigned(self, process: NeliProcess, id: str, partition: int) -> None:
        if process.closing:
            return  # its client hears of nothing new any more, and the partition is free when it has left
        if process.group_cut and process.running and process.id == id:
            self.engine.after(10 * MS, self._tell_assigned, process, id, partition)  # TCP: it comes when it can
        elif process.running and process.id == id and id in self.members and process.owned_as.get(partition) == id:
            process.owned.add(partition)
            process.hear(Assigned((partition,)))

    def _tell_revoked(self, process: NeliProcess, partition: int) -> None:
        if process.group_cut and process.running:
            self.engine.after(10 * MS, self._tell_revoked, process, partition)
        elif process.running and partition in process.owned:
            process.hear(Revoked((partition,)))
        elif self.owner.get(partition) is process:
            self._given_back(process.owned_as.get(partition, ""), partition)

    def _tell_lost(self, process: NeliProcess) -> None:
        if process.owned:
            lost, process.owned = tuple(sorted(process.owned)), set()
            process.hear(Lost(lost))
