"""Marks (R15): they only rise, by the holder's own records, and fall only by an administrator, of a free seat in a pause. What
was taken is never given out again: a take stands if it is its holder's, and begins where the last one ended or later.
"""

from __future__ import annotations

from pares.core.wire.changes import Began, SeatChanged
from pares.core.wire.divided.keys import parts
from pares.core.wire.divided.siblings import part_of
from pares.core.wire.records import Ahead, Beat, Done, Leave, Range, Release, Rewind, Seat, Take, Transfer
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords, name


class Marks(OfRecords):
    name = "marks only rise"

    def anew(self) -> None:
        self.marks: dict[Seat, int] = {}
        self.taken: dict[Seat, int] = {}
        self.terms: dict[Seat, tuple[str, int]] = {}

    def landed(self, landed: Landed) -> None:
        record = landed.record
        if not landed.counted or record is None:
            return
        if isinstance(record, Beat | Leave):
            for role, index, token, mark in record.marks or ():
                self._mark(record.m, (role, index), token, mark)
        elif isinstance(record, Release | Transfer) and record.mark is not None:
            self._mark(record.m, record.seat, record.token, record.mark)
        elif isinstance(record, Done):
            if record.first <= record.last:
                self._mark(record.m, record.seat, record.token, record.last + 1)
        elif isinstance(record, Ahead):
            if record.v >= 2:
                self._mark(record.m, record.seat, record.token, record.mark)
        elif isinstance(record, Take):
            self._take(record)
        elif isinstance(record, Range):
            self._range(record)
        elif isinstance(record, Rewind):
            self._rewind(record)
        elif not landed.changes:
            return
        for change in landed.changes:
            if type(change) is SeatChanged:
                if change.holder is None:
                    self.terms.pop(change.seat, None)
                else:
                    self.terms[change.seat] = (change.holder, change.token)
            elif type(change) is Began:
                self.marks, self.taken, self.terms = {}, {}, {}
        if landed.changes:
            # Seats that are gone, with their role or when it got fewer, take their marks with them.
            there = self.folded.seats
            self.marks = {seat: mark for seat, mark in self.marks.items() if seat in there}
            self.taken = {seat: end for seat, end in self.taken.items() if seat in there}
        self._compare(landed)

    def _mark(self, sender: str, seat: Seat, token: int, mark: int) -> None:
        if self.terms.get(seat) == (sender, token):
            self.marks[seat] = max(mark, self.marks.get(seat, 0))

    def _take(self, record: Take) -> None:
        mine = self.terms.get(record.seat) == (record.m, record.token)
        if mine and self.taken.get(record.seat, 0) <= record.first <= record.last:
            self.taken[record.seat] = record.last + 1

    def _rewind(self, record: Rewind) -> None:
        world = self.folded
        sender = world.members.get(record.m)
        if sender is None or sender.eligible != ():
            return
        for role, index, mark in record.marks:
            seat = (role, index)
            together = [seat, *(slot.seat for slot in parts(world, role))]
            free = all(each not in self.terms and world.paused(each[0]) for each in together)
            if part_of(role) is None and seat in world.seats and free:
                self.marks |= dict.fromkeys(together, mark)
                self.taken |= dict.fromkeys(together, mark)

    def _range(self, record: Range) -> None:
        """A slot's range moves the mark of its partition's own seat, which nobody holds: how far is said elsewhere."""
        found = part_of(record.seat[0])
        whole = None if found is None else (found.whole, 0)
        by_holder = self.terms.get(record.seat) == (record.m, record.token)
        if by_holder and whole in self.folded.seats and whole not in self.terms:
            self.marks[whole] = max(self.marks.get(whole, 0), self.folded.seats[whole].mark)

    def _compare(self, landed: Landed) -> None:
        for seat, state in self.folded.seats.items():
            if state.mark != self.marks.get(seat, 0):
                mark, due = state.mark, self.marks.get(seat, 0)
                raise self.broken(f"the mark of {name(seat)} is {mark} after {landed.offset}, and must be {due}")
            if state.taken != self.taken.get(seat, 0):
                end, due = state.taken, self.taken.get(seat, 0)
                raise self.broken(f"{name(seat)} is taken up to {end} after {landed.offset}, and must be up to {due}")
