"""The story of a group that runs NELI or Fast NELI: the same as `Story`, from the logs of all its partitions."""

from __future__ import annotations

from pares.core.errors import LedgerGap, LedgerRewound
from pares.core.wire.world import World
from pares.ledger.base import Log
from pares.runtime.detect import runs_induced
from pares.runtime.here import here
from pares.runtime.neli.world import Tenures
from pares.view.story import KEPT, Move, Story


class TenureStory(Story):
    """One group, told from the beginning of its logs. Not for several threads at once."""

    steered_here = False

    def _attach(self) -> None:
        self._tenures = Tenures(self.log, self.group, here())
        self.heard = self._tenures.heard

    @property
    def world(self) -> World:
        return self._tenures.world

    def shared_out(self) -> list[tuple[int, list[str], str | None]]:
        return self._tenures.shared_out()

    @property
    def adrift(self) -> bool:
        """Never: a leader says again and again that it leads."""
        return False

    def catch_up(self) -> list[Move]:
        return self.poll()

    def poll(self, timeout: float = 0.0) -> list[Move]:
        try:
            found = self._tenures.read(timeout)
        except (LedgerGap, LedgerRewound) as jump:
            self.jumps.append(str(jump))
            self._freed.clear()
            self._attach()
            return []
        self.records = self._tenures.records
        moves: list[Move] = []
        for change, at_ms in found:
            self._note(change, at_ms, moves)
        self.moves += moves
        del self.moves[:-KEPT], self.dids[:-KEPT]
        return moves

    def history(self) -> list[Move]:
        return sorted([*self.moves, *self.free()], key=lambda move: move.at_ms)


def story_of(log: Log, group: str, *, partition: int = 0) -> Story:
    """The story of a group, whichever protocol it runs; nothing of it is read yet."""
    if runs_induced(log, group, partition):
        return TenureStory(log, group, partition=partition)
    return Story(log, group, partition=partition)
