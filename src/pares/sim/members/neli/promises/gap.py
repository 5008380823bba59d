"""NELE: partitions that move between members that live leave no instant without a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.reasons import SUPERSEDED
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround


class NoGap(Promise):
    name = "no gap"
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        stage.sight.ended.append(self._ended)

    def _ended(self, held: Held) -> None:
        why, process = held.term._why, held.process  # pyright: ignore[reportPrivateUsage]
        if not why.startswith(SUPERSEDED) or not self.stage.judged(held) or not process.alive or process.frozen:
            return
        rival = why.removeprefix(f"{SUPERSEDED} by ")
        if held.seat[1] in self.stage.unwanted or process.reading() >= held.last or self.stage.between_logs():
            return
        if self._well(rival) and not self.stage.sight.believers(held.seat):
            raise self.broken(f"{held} stopped to lead before anybody else led it")

    def _well(self, rival: str) -> bool:
        """Whether that incarnation goes on: it has not crashed meanwhile, nor does it stand still."""
        for user in self.stage.own:
            process, member = user.process, user.member
            if process is not None and member is not None and member.id == rival:
                return process.alive and not process.frozen and not process.raised and not user.over
        return False
