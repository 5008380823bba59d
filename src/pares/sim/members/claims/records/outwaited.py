"""A seat is claimed from a silent holder only when that has been out-waited (R3): a session on the stopwatch of the challenger,
since it could first read the last word of the holder, and since it could read that the seat is that holder's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pares.core.wire.changes import Began, SeatChanged
from pares.core.wire.records import Claim, Join, Seat
from pares.sim.engine import MS
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class OutWaited(Promise):
    name = "a holder is out-waited"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.sent: dict[bytes, int] = {}
        """When each claim was first handed over."""
        self.sessions: dict[str, int] = {}
        self.heard: dict[str, int] = {}
        """When the last counted record of each member landed, and the one that made it the holder of a seat."""
        self.made: dict[Seat, int] = {}
        self.world.on_sent.append(self._sent)
        stage.judge.landed.append(self._landed)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task."""
        for payload in payloads:
            if payload.startswith(b'{"k":"claim"'):
                self.sent.setdefault(payload, self.world.now)

    def _landed(self, landed: Landed) -> None:
        record = landed.record
        if not landed.counted or record is None:
            return
        if isinstance(record, Claim) and record.over is not None:
            self._claimed(landed, record, record.over[0])
        for change in landed.changes:
            if type(change) is SeatChanged:
                self.made[change.seat] = landed.at
            elif type(change) is Began:
                self.heard.clear()
                self.made.clear()
        if isinstance(record, Join):
            self.sessions[record.m] = record.session
        self.heard[record.m] = landed.at

    def _claimed(self, landed: Landed, record: Claim, holder: str) -> None:
        taken = any(type(change) is SeatChanged and change.before == holder for change in landed.changes)
        sent = self.sent.get(landed.payload)
        if not taken or sent is None or holder not in self.sessions or self.ground.between_logs():
            return
        since = max(self.heard.get(holder, 0), self.made.get(record.seat, 0))
        least = int(self.sessions[holder] * MS / (1 + self.stage.plan.drift))
        if sent - since < least:
            raise self.broken(
                f"{record.m} claims {record.seat} from {holder} {(sent - since) / 1e6:.3f} ms after its last word or the one "
                f"that made it the holder; {least / 1e6:.3f} ms are the least"
            )
