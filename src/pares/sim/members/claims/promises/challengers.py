"""A seat is claimed from a silent holder only after one more look at the log: what the challenger knows is no older than
its last wait. Proof of death needs no look; and where the log can't be read, the attempt is all that can be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pares.core.wire.records import BadRecord, Claim, Obituary, decode
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process


class Challengers(Promise):
    name = "a challenger looks once more"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.world.on_sent.append(self._sent)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task: the one that has waited, and should have read."""
        task = self.world.task()
        if task.read_at >= task.waited_at or not any(payload.startswith(b'{"k":"claim"') for payload in payloads):
            return
        try:
            records = [decode(payload) for payload in payloads]
        except BadRecord:
            return
        proven = {record.of for record in records if isinstance(record, Obituary)}
        for record in records:
            if isinstance(record, Claim) and record.over is not None and record.over[0] not in proven:
                waited = (task.waited_at - task.read_at) / 1e6
                self.fail(f"{record.m} claims {record.seat} from {record.over[0]}, {waited:.3f} ms after its last look")
