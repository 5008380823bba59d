"""The log of a world, which all its processes share: partitions of bytes, with offsets and true times.

It keeps A1 (reads are in order, what was acknowledged stays) until it is told not to: `replace` puts another log in its place,
`lose_tail` takes back what was acknowledged, and then only a fence helps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pares.sim.engine import WallClock
from pares.sim.log import EntryTuple, SimLog

if TYPE_CHECKING:
    from pares.ledger import Entry
    from pares.sim.world.process import Process


class Partition(SimLog):
    """`SimLog`, whose entries can be taken back from its end."""

    def __init__(self, begin: int = 0, wrong_ms: Callable[[], int] | None = None, *, whole: bool = False) -> None:
        super().__init__(begin)
        self.whole = whole
        """Each read brings all that stands there, as far as it may (`Capabilities.whole_reads`)."""
        self.wrong_ms = wrong_ms
        self.lost = 0
        """How often that has happened."""
        self.forgot = False
        """Whether it has lost all that stood in it, at some time."""

    def stamp_ms(self, now: int) -> int:
        """By a wall clock that is right; or by that of the writer."""
        return WallClock.EPOCH_US // 1_000 + now // 1_000_000 + (0 if self.wrong_ms is None else self.wrong_ms())

    def lose_tail(self, count: int) -> None:
        """The last `count` entries are gone, though they were acknowledged; their offsets are given out again."""
        keep = max(0, len(self._entries) - count)
        if keep == len(self._entries):
            return
        self.end = self._offsets[keep]
        del self._offsets[keep:], self._arrived[keep:], self._entries[keep:]
        self.lost += 1
        self.generation += 1


class SharedLog:
    """All partitions. `url` names it in messages. `wrong_ms`: by how many milliseconds the next entry's time is wrong, where
    writers stamp their entries; None: the log does it."""

    def __init__(
        self,
        name: str,
        partitions: int = 1,
        *,
        begin: int = 0,
        retention: float | None = None,
        wrong_ms: Callable[[], int] | None = None,
        clocked: bool = False,
        noted: bool = False,
    ) -> None:
        self.name = name
        self.url = f"sim://{name}"
        self.retention = retention
        self.wrong_ms = wrong_ms
        self.clocked = clocked
        """Writers stamp their entries with their stopwatches (R21)."""
        self.noted = noted
        """Readers' handles note when entries come (R21)."""
        self.partitions = [Partition(begin, wrong_ms, whole=clocked) for _ in range(partitions)]
        self.renewed: list[Callable[[], object]] = []
        """Called when another log has come to stand in the place of this one, or it has lost its tail."""
        self.read: list[Callable[[Process, int, list[Entry]], object]] = []
        """Called with what a process has read of a partition, whenever that is anything."""

    @property
    def identity(self) -> str:
        return f"{self.name}:{self.partitions[0].identity}"

    def grow(self, partitions: int) -> None:
        while len(self.partitions) < partitions:
            self.partitions.append(Partition(0, self.wrong_ms, whole=self.clocked))

    @property
    def stamped(self) -> bool:
        return self.wrong_ms is None

    def entries(self, partition: int = 0) -> list[EntryTuple]:
        return self.partitions[partition].entries()

    def replace(self, *, same: bool = False) -> None:
        """Deleted, and made anew; with `same` its identity does not show it."""
        for partition in self.partitions:
            partition.replace(same=same)
        self._tell()

    def replace_one(self, partition: int, *, same: bool = False) -> None:
        self.partitions[partition].replace(same=same)
        self._tell()

    def forget(self, partition: int) -> None:
        """It loses all that stands in it, whatever its retention."""
        self.partitions[partition].trim(self.partitions[partition].end)
        self.partitions[partition].forgot = True
        self._tell()

    def lose_tail(self, count: int, partition: int = 0) -> None:
        self.partitions[partition].lose_tail(count)
        self._tell()

    def _tell(self) -> None:
        for call in self.renewed:
            call()
