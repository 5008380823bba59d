"""Positions, committed to a broker's group offsets as well: so that whatever tells lag by those goes on telling it.

The group's log is what counts. What is committed is copied from it, by the consumer that holds a partition, when the position
has moved, and now and then when it has not: another consumer, which has lost the partition and does not know, may have
committed an older one, and brokers forget the offsets of a group that says nothing for days. Nothing is ever read back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pares.core.consume.names import Partition
from pares.core.errors import CapabilityError, LedgerUnavailable
from pares.core.wire.divided.keys import parts
from pares.core.wire.divided.ranges import position
from pares.core.wire.states import SeatState
from pares.ledger.sources import GroupOffsets, HasGroupOffsets, Source
from pares.runtime.consume.kit import Seated
from pares.runtime.host import Host, Task
from pares.runtime.views import Consumption

log: Final = logging.getLogger("pares.consumer")

PACE: Final = 1.0
"""Seconds between two commits of positions that move."""
LONGEST: Final = 30.0
"""And after some that have failed; and between two of a position that does not move."""
JOINS: Final = 5.0
"""Seconds for which the end waits for a commit that is under way."""

Place = tuple[str, int]


class Committing:
    """Of one consumer. Raises `CapabilityError` for a topic whose source has no group offsets, and `ConfigError` for what is no
    name of a group."""

    def __init__(self, sources: Mapping[str, Source], group: str, host: Host) -> None:
        self._group = group
        self._host = host
        self._by_topic: dict[str, GroupOffsets] = {}
        self._sent: dict[Place, tuple[int, int]] = {}
        """What was committed of the partitions that it holds, and when."""
        self._over = host.flag()
        self._task: Task | None = None
        self._failed = 0
        self._trouble: str | None = None
        self._member: Seated
        for topic, source in sources.items():
            if not isinstance(source, HasGroupOffsets):
                raise CapabilityError(
                    f"group_offsets={group!r}: topic {topic!r} is on a ledger that keeps no offsets for groups of consumers; "
                    "Kafka's brokers do: leave it out, or consume a topic there"
                )
            self._by_topic[topic] = source.group_offsets(group)

    def begin(self, member: Seated) -> None:
        """Goes on until `end`, beside everything else: a broker that does not answer holds up nothing."""
        self._member = member
        self._task = self._host.spawn(self._run, f"group offsets of {member.name!r}")

    def told(self, found: Consumption) -> Consumption:
        """With how this goes."""
        return replace(found, group_offsets=self._group, commits_failed=self._failed, commit_trouble=self._trouble)

    def end(self, done: Mapping[Place, int]) -> None:
        """The member has left: commits where it has left what was its own to the end. `done`: how far it had come, which its
        last record says, and it has not read that back; of ranges that is not known, and their last commit stands. Nothing if
        the last commit failed: another one would most likely wait in vain. May be called twice."""
        if self._task is None or self._over.is_set():
            return
        self._over.set()
        self._task.join(JOINS)
        if self._trouble is None and not self._task.is_alive():
            found = self._positions()
            self._commit({place: max(at, done.get(place, 0)) for place, at in found.items() if place in self._sent})

    def close(self) -> None:
        """Gives everything back."""
        self._over.set()
        for offsets in self._by_topic.values():
            offsets.close()

    def _run(self) -> None:
        pause = PACE
        while not self._over.wait(pause):
            pause = PACE if self._commit(self._moved()) else min(2 * pause, LONGEST)

    def _moved(self) -> dict[Place, int]:
        """What is to be committed now."""
        found, late = self._positions(), self._host.now() - int(LONGEST * 1e9)
        self._sent = {place: sent for place, sent in self._sent.items() if place in found}
        return {
            at: offset
            for at, offset in found.items()
            if self._sent.get(at, (-1, 0))[0] != offset or self._sent[at][1] < late
        }

    def _positions(self) -> dict[Place, int]:
        """Of the partitions that this member holds, as it has read the log. One that several members work on is the matter of
        the one with its first slot."""
        world, found = self._member.world, dict[Place, int]()
        for seat in list(world.seats.values()):
            partition = Partition.of(seat.role)
            if partition is None or partition != partition.whole or partition.topic not in self._by_topic:
                continue
            holder = next((each.holder for each in self._seats(seat) if each.holder is not None), None)
            if holder == self._member.id:
                found[partition.topic, partition.number] = position(world, seat)
        return found

    def _seats(self, whole: SeatState) -> Iterator[SeatState]:
        yield whole
        yield from sorted(parts(self._member.world, whole.role), key=lambda part: part.role)

    def _commit(self, positions: Mapping[Place, int]) -> bool:
        """Whether it is there, or there was nothing to do."""
        now = self._host.now()
        try:
            for topic, offsets in self._by_topic.items():
                mine = {number: at for (name, number), at in positions.items() if name == topic}
                if mine:
                    offsets.commit(mine)
                    self._sent |= {(topic, number): (at, now) for number, at in mine.items()}
        except LedgerUnavailable as error:
            self._fails(str(error))
            return False
        except Exception as error:  # whatever it is: it must not stop what the consumer is for
            self._fails(repr(error))
            return False
        if self._trouble is not None:
            log.info("offsets of group %r are committed again", self._group)
        self._trouble = None
        return True

    def _fails(self, why: str) -> None:
        self._failed += 1
        self._trouble = why
        self._member.problem("group-offsets", f"positions are in the log, and could not be committed as well: {why}")
