"""NELE: partitions that move between members that live leave no instant without a leader.

But for a seat that moves to a member that goes on in another seat of the same role, which moves as well: of one role a member
leads one seat. It leads this one when its belief in that one has ended, within T. And but for a seat that the next member has
led already and given up since: one that was frozen all that time ends after both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.reasons import SUPERSEDED
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround


class NoGap(Promise):
    name = "no gap"
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        self.led: dict[tuple[Seat, str], int] = {}
        """The newest token under which each incarnation has led each seat."""
        stage.sight.began.append(self._began)
        stage.sight.ended.append(self._ended)

    def _began(self, held: Held) -> None:
        self.led[held.seat, held.term.member] = held.token

    def _ended(self, held: Held) -> None:
        why, process = held.term._why, held.process  # pyright: ignore[reportPrivateUsage]
        if not why.startswith(SUPERSEDED) or not self.stage.judged(held) or not process.alive or process.frozen:
            return
        rival = why.removeprefix(f"{SUPERSEDED} by ")
        if held.seat[1] in self.stage.unwanted or process.reading() >= held.last or self.stage.between_logs():
            return
        if self.led.get((held.seat, rival), 0) > held.token:
            return
        if self._takes_over(rival, held) and not self.stage.sight.believers(held.seat):
            raise self.broken(f"{held} stopped to lead before anybody else led it")

    def _takes_over(self, rival: str, held: Held) -> bool:
        """Whether that incarnation goes on, is not frozen, and leads no other seat of the role."""
        for user in self.stage.own:
            process, member = user.process, user.member
            if process is not None and member is not None and member.id == rival:
                elsewhere = any(other.seat[:2] == held.seat[:2] for other in self.stage.sight.of_process(process))
                return process.alive and not process.frozen and not process.raised and not user.over and not elsewhere
        return False
