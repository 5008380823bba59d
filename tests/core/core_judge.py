"""A judge of histories that shares no code with the fold: it follows rules R2, R3, R3a, R9 and R15 from the records alone.

It does not compute the world. It keeps what it needs to say of each record whether it had to count, and of each seat that
changed hands whether it was allowed to, and raises AssertionError where the fold did otherwise.
"""

from __future__ import annotations

from core_authors import GROUP, Entry

from pares.core.wire import records as R
from pares.core.wire.records import Seat
from pares.core.wire.world import World

Holders = dict[Seat, tuple[str, int]]
"""The holder of each seat, with its token."""


def holders(world: World) -> Holders:
    return {key: (seat.holder, seat.token) for key, seat in world.seats.items() if seat.holder is not None}


class Judge:
    """Sees each entry with the world before and after it."""

    def __init__(self) -> None:
        self.base = 0
        self.last = -1
        self.n: dict[str, int] = {}
        self.reads: dict[str, int] = {}
        self.lock: dict[str, bool] = {}
        self.admin: dict[str, bool] = {}
        self.offset: dict[str, int] = {}
        self.gone: set[str] = set()
        self.highest_token: dict[Seat, int] = {}
        self.paused: dict[int, str | None] = {}

    # R2 --------------------------------------------------------------------------------------------------------------

    def must_count(self, offset: int, record: R.AnyRecord | R.Unknown) -> bool:
        version_read = record.v <= min(self.reads.values(), default=R.MAX_INT)
        if isinstance(record, R.Genesis):
            over = -1 if record.over is None else record.over
            return record.base > self.base and self.last <= over < offset and version_read
        if record.b != self.base or not version_read:
            return False
        if isinstance(record, R.Join):
            return self.base > 0 and record.m not in self.n and record.m not in self.gone
        return record.m in self.n and record.n > self.n[record.m]

    def note(self, offset: int, record: R.AnyRecord | R.Unknown) -> None:
        """The record has counted."""
        self.last = offset
        if isinstance(record, R.Genesis):
            self.base = record.base
            for table in (self.n, self.reads, self.lock, self.admin, self.offset, self.gone, self.paused):
                table.clear()
            return
        if isinstance(record, R.Join):
            self.reads[record.m], self.lock[record.m] = record.reads, record.lock is not None
            self.admin[record.m] = record.eligible == ()
        self.n[record.m], self.offset[record.m] = record.n, offset
        if isinstance(record, R.Pause):
            self.paused[offset] = record.scope
        elif isinstance(record, R.Resume):
            self.paused.pop(record.pause, None)
        elif isinstance(record, R.Leave):
            self._departed(record.m)
        elif isinstance(record, R.Obituary) and record.of != record.m and self.lock.get(record.of):
            self._departed(record.of)

    def _departed(self, id: str) -> None:
        for table in (self.n, self.reads, self.lock, self.admin, self.offset):
            table.pop(id)
        self.gone.add(id)

    def forgotten(self, world: World) -> None:
        """R13 lets silent members without seats, and the ids of who is gone, be dropped; nothing but the fold knows when."""
        for id in [id for id in self.n if id not in world.members]:
            for table in (self.n, self.reads, self.lock, self.admin, self.offset):
                table.pop(id)
        self.gone &= set(world.gone)

    # R3, R3a, R9 -----------------------------------------------------------------------------------------------------

    def judge_seats(self, offset: int, record: R.AnyRecord | R.Unknown, before: Holders, after: Holders) -> None:
        """Called before `note`: what the record did to the holders of all seats."""
        for seat in before.keys() | after.keys():
            old, new = before.get(seat), after.get(seat)
            if old == new:
                continue
            if old is not None:
                assert self._may_end(record, seat, *old), f"{record} took {seat} from {old}"
            if new is not None:
                self._begins(offset, record, seat, new, old)

    def _may_end(self, record: R.AnyRecord | R.Unknown, seat: Seat, holder: str, token: int) -> bool:
        """R3a: by its holder's release, transfer or leave, by a successful claim, by proof of death; R9: by a genesis."""
        if isinstance(record, R.Genesis):
            return True
        if isinstance(record, R.Release | R.Transfer):
            return (record.m, tuple(record.seat), record.token) == (holder, seat, token)
        if isinstance(record, R.Leave):
            return record.m == holder
        if isinstance(record, R.Claim):
            return tuple(record.seat) == seat and record.over == (holder, self.offset[holder])
        return isinstance(record, R.Obituary) and record.of == holder and self.lock[holder]

    def _begins(
        self,
        offset: int,
        record: R.AnyRecord | R.Unknown,
        seat: Seat,
        new: tuple[str, int],
        old: tuple[str, int] | None,
    ) -> None:
        holder, token = new
        assert token == self.base + offset, f"{record}: token {token} is not base + offset"
        assert token > self.highest_token.get(seat, -1), f"{record}: token of {seat} fell to {token}"
        self.highest_token[seat] = token
        assert not any(scope is None or scope == seat[0] for scope in self.paused.values()), f"{record}: under a pause"
        if isinstance(record, R.Claim):
            assert (holder, seat, record.free) == (record.m, tuple(record.seat), False)
            assert (record.over is None) == (old is None)
        else:
            assert isinstance(record, R.Transfer)
            assert (record.to, tuple(record.seat)) == (holder, seat)
            assert old is not None
            assert old[0] == record.m

    # R15 -------------------------------------------------------------------------------------------------------------

    def judge_marks(
        self, record: R.AnyRecord | R.Unknown, before: dict[Seat, int], after: dict[Seat, int], held: Holders
    ) -> None:
        """Marks of seats that are there before and after only rise, by their holder, except by a rewind."""
        for seat in before.keys() & after.keys():
            if after[seat] == before[seat] or isinstance(record, R.Genesis):
                continue
            if isinstance(record, R.Rewind):
                assert self.admin[record.m]
                assert seat not in held
                assert any(scope is None or scope == seat[0] for scope in self.paused.values())
            else:
                assert after[seat] > before[seat], f"{record}: the mark of {seat} fell"
                assert held[seat][0] == record.m, f"{record}: a mark by who does not hold {seat}"
                assert held[seat][1] in self._tokens(record, seat), f"{record}: a mark of another term"

    def _tokens(self, record: R.AnyRecord | R.Unknown, seat: Seat) -> set[int]:
        """The terms of that seat that the record speaks of."""
        if isinstance(record, R.Beat | R.Leave):
            return {token for role, index, token, _ in record.marks or () if (role, index) == seat}
        assert isinstance(record, R.Release | R.Transfer | R.Done)
        return {record.token} if tuple(record.seat) == seat else set()


def readable(entry: Entry) -> R.AnyRecord | R.Unknown | None:
    """The entry's record, if it is one of the group's."""
    try:
        record = R.decode(entry[2])
    except R.BadRecord:
        return None
    return record if record.g == GROUP else None
