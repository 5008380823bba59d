"""Each token is base + offset of an announcement that its holder made in the log, and those of one member grow.
The announcement is its holder's newest.

Exclusive: so do those of a seat, in the order in which its terms begin. Non-exclusive: no member that has read of a later
tenure begins to lead by an earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.wire.neli_records import Announce
from pares.sim.members.neli.judge import Landed, decoded
from pares.sim.members.promises.tokens import Tokens
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround


class NeliTokens(Tokens):
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        self.announced: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """Where (partition, offset) somebody has announced itself by a token."""
        self.newest: dict[tuple[str, int], tuple[int, int]] = {}
        """By member and partition: its newest announcement (its number and token), copies aside."""
        self.own: dict[tuple[Seat, str], int] = {}
        stage.sight.prolonged.append(self._prolonged)
        stage.judge.landed.append(self._landed)

    def _landed(self, landed: Landed) -> None:
        record = landed.record
        if isinstance(record, Announce):
            if record.g == self.stage.group and self._blank(landed):
                self._anew()
            place = (landed.number, landed.offset)
            self.announced.setdefault((record.m, record.b + landed.offset), []).append(place)
            who = (record.m, landed.number)
            if record.n > self.newest.get(who, (0, 0))[0]:
                self.newest[who] = record.n, record.b + landed.offset

    def _blank(self, landed: Landed) -> bool:
        """Whether nothing that is left in its partition tells which tokens there have been: it is as good as another log."""
        partition = self.stage.log.partitions[landed.number]
        if partition.start == 0:
            return False
        records = (decoded(payload) for offset, _, payload in partition.entries() if offset < landed.offset)
        return not any(record is not None and record.g == self.stage.group and record.b for record in records)

    def _anew(self) -> None:
        super()._anew()
        self.own.clear()

    def _began(self, held: Held) -> None:
        if not self.stage.judged(held):
            return
        if (held.term.member, held.token) not in self.announced:
            raise self.broken(f"{held} begins, and was never announced")
        self._prolonged(held)
        own = self.own.get((held.seat, held.process.name), 0)
        if held.token <= own and not self.stage.between_logs():
            raise self.broken(f"{held} begins after its own {own}")
        self.own[held.seat, held.process.name] = held.token
        if self.stage.plan.law.exclusive:
            super()._began(held)
            return
        before = self.last.get(held.seat)
        if before is None or held.token > before.token:
            self.last[held.seat] = held
        elif held.believing() and not self.stage.between_logs() and self._has_read(held, before):
            raise self.broken(f"{held} begins, and has read of {before}")

    def _prolonged(self, held: Held) -> None:
        """A successor looks at beats of a member's newest announcement, and at no others."""
        if not self.stage.judged(held) or not held.believing() or self.stage.between_logs():
            return
        places = self.announced.get((held.term.member, held.token), ())
        tokens = [self.newest[held.term.member, number][1] for number, _ in places]
        if tokens and held.token not in tokens:
            raise self.broken(f"{held} rests on an announcement that was taken back by a later one, of {max(tokens)}")

    def _has_read(self, held: Held, later: Held) -> bool:
        core = held.member._loop.binding.core  # type: ignore[attr-defined]
        places = self.announced[later.term.member, later.token]
        return all(number < len(core.parts) and core.position(number) > offset for number, offset in places)
