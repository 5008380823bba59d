"""A seat is claimed from a silent holder only when that has been out-waited (R3): a session on the stopwatch of the challenger,
since it could first read the last word of the holder, and since it could read that the seat is that holder's; or the holder's
lease since those were written, on a stopwatch that it shares with their writer (R21). And the challenger has looked at the
log once more after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pares.core.wire.changes import Began, SeatChanged
from pares.core.wire.records import Claim, Join, Seat
from pares.sim.engine import MS, Stopwatch
from pares.sim.members.claims.judge import Landed
from pares.sim.members.promises.base import Promise

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Sent(NamedTuple):
    """When a record was first handed over, and by whose stopwatch."""

    at: int
    stopwatch: Stopwatch
    looked_at: int
    """When the last look at the log began that found nothing more."""


class Word(NamedTuple):
    """A record that counted: when it landed; and how it was sent, where the log bears stamps."""

    at: int
    sent: Sent | None


NONE: Word = Word(0, None)


class OutWaited(Promise):
    name = "a holder is out-waited"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.ground = stage
        self.sent: dict[bytes, Sent] = {}
        self.sessions: dict[str, int] = {}
        self.heard: dict[str, Word] = {}
        """The last counted record of each member, and the one that made it the holder of a seat."""
        self.made: dict[Seat, Word] = {}
        self.world.on_sent.append(self._sent)
        stage.judge.landed.append(self._landed)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task."""
        for payload in payloads:
            if self.stage.plan.stamps or payload.startswith(b'{"k":"claim"'):
                sent = Sent(self.world.now, process.stopwatch, self.world.task().looked_at)
                self.sent.setdefault(payload, sent)

    def _landed(self, landed: Landed) -> None:
        record = landed.record
        if not landed.counted or record is None:
            return
        word = Word(landed.at, self.sent.get(landed.payload) if self.stage.plan.stamps else None)
        if isinstance(record, Claim) and record.over is not None:
            self._claimed(landed, record, record.over[0])
        for change in landed.changes:
            if type(change) is SeatChanged:
                self.made[change.seat] = word
            elif type(change) is Began:
                self.heard.clear()
                self.made.clear()
        if isinstance(record, Join):
            self.sessions[record.m] = record.session
        self.heard[record.m] = word

    def _claimed(self, landed: Landed, record: Claim, holder: str) -> None:
        taken = any(type(change) is SeatChanged and change.before == holder for change in landed.changes)
        sent = self.sent.get(landed.payload)
        if not taken or sent is None or holder not in self.sessions or self.ground.between_logs():
            return
        words = (self.heard.get(holder, NONE), self.made.get(record.seat, NONE))
        until = max(self._until(word, sent, self.sessions[holder] * MS) for word in words)
        for at, what in ((sent.at, "claims"), (sent.looked_at, "has last looked before it claims")):
            if at < until:
                raise self.broken(
                    f"{record.m} {what} {record.seat} from {holder} {(until - at) / 1e6:.3f} ms before its last word, or the "
                    f"one that made it the holder, can be out-waited"
                )

    def _until(self, word: Word, claim: Sent, session: int) -> int:
        """Until when a record is to be waited for at least."""
        drift = self.stage.plan.drift
        if word.sent is not None and word.sent.stopwatch is claim.stopwatch:
            return word.sent.at + int(session * (1 - drift) / (1 + drift) / (1 + drift))
        return word.at + int(session / (1 + drift))
