"""What may change a seat (R3, R3a): only its holder, a claim that names the holder's last word, or proof of death.

Followed here beside the kernel, from the records themselves. A claim that stands while the holder had written something since
would let two believe; a seat that is freed by anything else would be freed behind its holder's back.
"""

from __future__ import annotations

from pares.core.wire.changes import Began, MemberJoined, MemberLeft, SeatChanged
from pares.core.wire.records import Claim, Leave, Obituary, Release, Role, Seat, Transfer
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords, name


class Seats(OfRecords):
    name = "who changes a seat"

    def anew(self) -> None:
        self.holders: dict[Seat, tuple[str, int]] = {}
        self.last: dict[str, int] = {}
        """The offset of each member's last counted record."""

    def landed(self, landed: Landed) -> None:
        if not landed.counted or landed.record is None:
            return
        for change in landed.changes:
            if type(change) is SeatChanged:
                self._check(landed, change)
                if change.holder is None:
                    self.holders.pop(change.seat, None)
                else:
                    self._check_holder(change)
                    self.holders[change.seat] = (change.holder, change.token)
            elif type(change) is MemberJoined:
                self.last[change.member] = landed.offset
            elif type(change) is MemberLeft:
                self._check_gone(landed, change)
                self.last.pop(change.member, None)
            elif type(change) is Began:
                self.holders, self.last = {}, {}
        if landed.record.m in self.last:
            self.last[landed.record.m] = landed.offset
        if type(landed.record) is Role or landed.changes:
            self._compare(landed)

    def _check(self, landed: Landed, change: SeatChanged) -> None:
        record, held = landed.record, self.holders.get(change.seat)
        holder, token = held if held is not None else (None, 0)
        ok = False
        if isinstance(record, Claim):
            over = None if holder is None else (holder, self.last.get(holder, -1))
            ok = record.seat == change.seat and record.over == over and (record.free or change.holder == record.m)
        elif isinstance(record, Release | Transfer):
            ok = record.m == holder and record.token == token and record.seat == change.seat
            if isinstance(record, Transfer):
                ok = ok and change.holder in (None, record.to)
            else:
                ok = ok and change.holder is None
        elif isinstance(record, Leave):
            ok = record.m == holder and change.holder is None
        elif isinstance(record, Obituary):
            ok = record.of == holder and change.holder is None
        elif change.cause == "genesis":
            ok = change.holder is None
        if not ok:
            kind = type(record).__name__.lower()
            raise self.broken(
                f"the {kind} at {landed.offset} by {landed.record.m if landed.record else '?'} took {name(change.seat)} "
                f"from {holder or 'nobody'} for {change.holder or 'nobody'}, which it may not"
            )

    def _check_holder(self, change: SeatChanged) -> None:
        for seat, (holder, _) in self.holders.items():
            if holder == change.holder and seat[0] == change.seat[0] and seat != change.seat:
                raise self.broken(f"{holder} holds two seats of one role: {name(seat)} and {name(change.seat)}")

    def _check_gone(self, landed: Landed, change: MemberLeft) -> None:
        """An obituary is only written for the dead (R7): whose lock was let go of, or lost."""
        if change.cause == "died":
            lock = self.world.locks.of(change.member)
            if lock is None or not lock.free:
                raise self.broken(f"the obituary at {landed.offset} is of {change.member}, which is alive")

    def _compare(self, landed: Landed) -> None:
        """Nobody lost a seat without a word."""
        for seat, (holder, token) in self.holders.items():
            state = self.folded.seats.get(seat)
            if state is None or (state.holder, state.token) != (holder, token):
                raise self.broken(f"{name(seat)} was {holder}'s, and after {landed.offset} it is not, for no reason")
