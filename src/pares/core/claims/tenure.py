"""This member's own terms: what it may believe (R4), and how it gives a term up (R5).

A tenure goes through these phases, and never back:

    WAITING   the log says that the seat is ours; no belief yet, the lease is not good (R16)
    LEADING   the belief: the log says so, the lease is good, nothing was sent that gives the term up
    STOPPING  given up by plan: the belief is over, the barrier still runs, the log still says that the seat is ours
    GIVEN     a record is due, or under way, or lost, that gives the term up; no belief ever again under this token

The belief ends before the barrier is called, and the barrier returns before the record is written: the next holder begins
after the work is over. Giving up is final for the token, whatever became of the append: a timeout says nothing about the log.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pares.core.events import Barrier, Effect, Extend, Follow, Lead
from pares.core.lease import Sent
from pares.core.reasons import BARRIER_TIMED_OUT, FENCED, LEASE_RAN_OUT
from pares.core.wire.changes import Change, SeatChanged
from pares.core.wire.records import Seat
from pares.core.wire.world import World

MAX_WHY: Final = 500
"""Characters of a reason, which is for people only."""


class Phase(Enum):
    WAITING = "waiting"
    LEADING = "leading"
    STOPPING = "stopping"
    GIVEN = "given"


class Tenure:
    """One term of this member, from when the log gave it the seat to when the log takes it away."""

    __slots__ = (
        "barrier_until",
        "claimed",
        "down",
        "gained",
        "phase",
        "pin",
        "release_only",
        "returned",
        "seat",
        "sent_to",
        "since",
        "to",
        "token",
        "tried",
        "why",
    )

    def __init__(self, seat: Seat, token: int, gained: str = "", since: int = 0, *, claimed: bool = False) -> None:
        self.claimed = claimed
        """It began with a claim of this member's: the holder before it did not give it up to it."""
        self.since = since
        """When the record was read that gave it."""
        self.seat = seat
        self.token = token
        self.phase = Phase.WAITING
        self.why = ""
        self.to: str | None = None
        """To whom it is to be handed over; None: placement says, or nobody."""
        self.pin = False
        self.down = False
        """The user wants the seat to be somebody else's: it is not to fall back here (R13)."""
        self.release_only = False
        """It goes to nobody in particular: fenced, timed out, paused, or its role is gone."""
        self.returned = False
        self.tried = False
        """A release or transfer of it was written before, whatever became of that."""
        self.barrier_until = 0
        self.sent_to: int | None = None
        """The ticket of the append that gives it up, or once that is acknowledged -1 - offset; None: due."""
        self.gained = gained
        """How this member came by the seat."""


class Tenures:
    """All terms of this member that the log knows of, or that it has not yet let go of."""

    def __init__(self, me: str, lease_ns: int, barrier_ns: int) -> None:
        self.me = me
        self.lease_ns = lease_ns
        self._barrier_ns = barrier_ns
        self.by_seat: dict[Seat, Tenure] = {}
        self.until = 0
        """Up to when beliefs last: s + L (R4b). 0 before the first record was read back."""
        self.able = True
        """Whether this member may lead at all (R18, R19): if not, no belief begins."""
        self.held_at: int | None = None
        """When it last read that it holds something."""
        self.lost_unled: int | None = None
        """Since when it had held what was claimed from it last before it could believe; None once it has led again."""
        self.left = False
        """A `leave` has been handed over: no belief any more (R4c)."""
        self.history: list[tuple[Seat, int, str, int, str]] = []
        """(seat, token, what, at, why) to be written as `did` (R17)."""
        self._shape = -1

    def leading(self) -> list[Tenure]:
        return [t for t in self.by_seat.values() if t.phase is Phase.LEADING]

    # What the log and the stopwatch say --------------------------------------------------------------------------------

    def expire(self, now: int) -> list[Effect]:
        """The lease ran out: every term is fenced, for good, before anything else is looked at."""
        if now < self.until or not self.by_seat:
            return []
        effects: list[Effect] = []
        for tenure in self.by_seat.values():
            if tenure.phase in (Phase.LEADING, Phase.STOPPING):
                effects += self._fence(tenure, LEASE_RAN_OUT, min(now, self.until))
                self._give(tenure, FENCED, release_only=True)
            elif tenure.phase is Phase.GIVEN and tenure.sent_to is None:
                # Given up by plan, but not in the log: its next holder was picked in another time (R2).
                self._give(tenure, FENCED, release_only=True)
        return effects

    def lapsed(self, seat: Seat, token: int, now: int) -> list[Effect]:
        """The belief in this term ran out before its renewal could be carried out: it is fenced, as in `expire`."""
        tenure = self.by_seat.get(seat)
        if tenure is None or tenure.token != token or tenure.phase is not Phase.LEADING:
            return []
        effects = self._fence(tenure, LEASE_RAN_OUT, now)
        self._give(tenure, FENCED, release_only=True)
        return effects

    def update(self, world: World, sent: Sent, changes: list[Change], now: int) -> list[Effect]:
        """After a read: whose seats are ours now, whether the lease is good, what that means for beliefs."""
        effects: list[Effect] = []
        if world.shape != self._shape:
            self._shape = world.shape
            effects += self._compare(world, changes, now)
        if sent.counted is not None:
            until = self.lease_until(sent.counted)
            if until > self.until:
                self.until = until
                if any(t.phase is Phase.LEADING for t in self.by_seat.values()):
                    effects.append(Extend(until))
        if self.by_seat:
            self.held_at = now
        if self.good(now) and not self.left and self.able:
            for tenure in self.by_seat.values():
                if tenure.phase is Phase.WAITING:
                    tenure.phase, self.lost_unled = Phase.LEADING, None
                    self._note(tenure, "lead", now, tenure.gained)
                    effects.append(Lead(tenure.seat, tenure.token, self.until, tenure.gained))
        return effects

    def good(self, now: int) -> bool:
        """Whether the lease will do to begin a term with: a quarter of it is left, or a fresh beat is to be read back first
        (R16). [a term that ends, for good, before its holder could beat]"""
        return now < self.until - self.lease_ns // 4

    def lease_until(self, sent_at: int) -> int:
        """s + L: from when the newest record that counted was first handed over for sending (R4b)."""
        return sent_at + self.lease_ns

    def _compare(self, world: World, changes: list[Change], now: int) -> list[Effect]:
        effects: list[Effect] = []
        held = world.held.get(self.me, set[Seat]())
        for seat, tenure in list(self.by_seat.items()):
            state = world.seats.get(seat)
            if seat not in held or state is None or state.token != tenure.token:
                del self.by_seat[seat]
                self.held_at = now
                if tenure.phase is Phase.WAITING and _claimed(tenure.token, changes):
                    self.lost_unled = tenure.since
                if tenure.phase in (Phase.LEADING, Phase.STOPPING):
                    effects += self._fence(tenure, _why_lost(seat, tenure.token, changes), now)
        for seat in sorted(held - self.by_seat.keys()):
            token = world.seats[seat].token
            claimed = any(type(c) is SeatChanged and c.token == token and c.cause == "claim" for c in changes)
            self.by_seat[seat] = Tenure(seat, token, _why_gained(token, changes), now, claimed=claimed)
        return effects

    def drop_all(self, why: str, now: int) -> list[Effect]:
        """All beliefs at once: the log is another one, or this incarnation is over (R12)."""
        effects: list[Effect] = []
        for tenure in self.by_seat.values():
            if tenure.phase in (Phase.LEADING, Phase.STOPPING):
                effects += self._fence(tenure, why, now)
        self.by_seat = {}
        return effects

    # Giving up -----------------------------------------------------------------------------------------------------

    def stop(
        self,
        tenure: Tenure,
        why: str,
        now: int,
        *,
        to: str | None = None,
        pin: bool = False,
        down: bool = False,
        release_only: bool = False,
    ) -> list[Effect]:
        """Begins to give a term up by plan: the belief ends here, the record follows when the barrier has returned."""
        if tenure.phase not in (Phase.WAITING, Phase.LEADING):
            return []
        was, why = tenure.phase, why[:MAX_WHY]
        tenure.phase, tenure.why, tenure.to, tenure.pin = Phase.STOPPING, why, to, pin
        tenure.down, tenure.release_only = down, release_only
        if was is Phase.WAITING:
            self._give(tenure, why)
            return []
        tenure.barrier_until = now + self._barrier_ns
        self._note(tenure, "stop", now, why)
        return [Follow(tenure.seat, tenure.token, why, False, now), Barrier(tenure.seat, tenure.token, why)]

    def barrier_returned(self, seat: Seat, token: int) -> None:
        """The work of that term is over; for any other term this says nothing."""
        tenure = self.by_seat.get(seat)
        if tenure is not None and tenure.token == token and tenure.phase is Phase.STOPPING:
            tenure.returned = True

    def stopped_at(self) -> int | None:
        """When the last planned end began whose barrier still runs; None if none does."""
        running = [t.barrier_until for t in self.by_seat.values() if t.phase is Phase.STOPPING and not t.returned]
        return max(running) - self._barrier_ns if running else None

    def overdue_barriers(self, now: int) -> list[Effect]:
        """Barriers that did not return in time: the term is fenced, then released."""
        effects: list[Effect] = []
        for tenure in self._overdue(now):
            effects += self._fence(tenure, BARRIER_TIMED_OUT, now)
            self._give(tenure, BARRIER_TIMED_OUT, release_only=True)
        return effects

    def _overdue(self, now: int) -> list[Tenure]:
        stopping = (t for t in self.by_seat.values() if t.phase is Phase.STOPPING and not t.returned)
        return [t for t in stopping if now >= t.barrier_until]

    def ends(self, now: int) -> bool:
        """Whether a tick at this time ends a term: because the lease, or the time of its barrier, is over."""
        return bool(self._overdue(now)) or (bool(self.by_seat) and now >= self.until)

    def ready_to_give(self) -> list[Tenure]:
        """Terms whose release or transfer is due now, in a fixed order."""
        if not self.by_seat:
            return []
        for tenure in self.by_seat.values():
            if tenure.phase is Phase.STOPPING and tenure.returned:
                self._give(tenure, tenure.why)
        due = [t for t in self.by_seat.values() if t.phase is Phase.GIVEN and t.sent_to is None]
        return sorted(due, key=lambda t: t.seat)

    def acked(self, ticket: int, offset: int) -> None:
        for tenure in self.by_seat.values():
            if tenure.sent_to == ticket:
                tenure.sent_to = -1 - offset

    def failed(self, ticket: int) -> None:
        """Of unknown outcome: it is written again, as a new record with the same token; the belief does not come back."""
        for tenure in self.by_seat.values():
            if tenure.sent_to == ticket:
                tenure.sent_to = None

    def still_here(self, position: int) -> None:
        """What was read up to `position` includes our release, and the seat is still ours: it did not count, so again."""
        for tenure in self.by_seat.values():
            if tenure.sent_to is not None and tenure.sent_to < 0 and -1 - tenure.sent_to < position:
                tenure.sent_to = None

    def _give(self, tenure: Tenure, why: str, *, release_only: bool = False) -> None:
        tenure.phase, tenure.why, tenure.sent_to = Phase.GIVEN, why, None
        tenure.release_only = tenure.release_only or release_only

    def _fence(self, tenure: Tenure, why: str, at: int) -> list[Effect]:
        if tenure.phase is Phase.LEADING:
            self._note(tenure, "stop", at, why)
        return [Follow(tenure.seat, tenure.token, why, True, at)]

    def _note(self, tenure: Tenure, what: str, at: int, why: str) -> None:
        self.history.append((tenure.seat, tenure.token, what, at, why))


def _why_gained(token: int, changes: list[Change]) -> str:
    for change in changes:
        if type(change) is SeatChanged and change.token == token:
            return f"{change.why}, from {change.before}" if change.before else change.why
    return ""


def _claimed(token: int, changes: list[Change]) -> bool:
    return any(type(c) is SeatChanged and c.before_token == token and c.cause == "claim" for c in changes)


def _why_lost(seat: Seat, token: int, changes: list[Change]) -> str:
    for change in changes:
        if type(change) is SeatChanged and change.seat == seat and change.before_token == token:
            return f"{change.cause} by {change.by}"
    return "no longer in the world"
