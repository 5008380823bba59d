"""The state of one partition in one member: its phase, what the member may believe there, what it has written, and what it
owes.

Inputs come by `on`; the tables of `phases` say what follows from each.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core import events as ev
from pares.core.lease import MS, Sent
from pares.core.neli.config import Config
from pares.core.neli.partition_log import Tenure, Track
from pares.core.neli.phases import (
    AT_BARRIER,
    AT_REST,
    BELIEVING,
    SEEKING,
    STANDING,
    Act,
    Impossible,
    On,
    Phase,
    Table,
)
from pares.core.reasons import BARRIER_TIMED_OUT, CLOSED, LEASE_RAN_OUT
from pares.core.wire import neli_records
from pares.core.wire.records import MAX_DUE_MS, Seat

FIRST_PAUSE: Final = 10 * MS
"""After an append that failed, before the next one; twice as long each time."""
LONGEST_PAUSE: Final = 500 * MS
AWAITED: Final = (
    neli_records.Announce,
    neli_records.PartitionCount,
    neli_records.RolesChanged,
    neli_records.Share,
    neli_records.Number,
    neli_records.Place,
)
"""Kinds of records that have an effect only once they are read back."""
PROLONGING: Final = (neli_records.Announce, neli_records.Pulse, neli_records.Beacon)
"""Kinds of records that a belief may rest on."""


class Outbox:
    """This member's appends to one partition: one is under way at a time."""

    def __init__(self) -> None:
        self.sent = Sent()
        self.announced = 0
        """The number of the newest announcement."""
        self.last_at = 0
        """When the last record was handed over; of an owner, the last one that its belief may rest on."""
        self.digresses = False
        """Whether the last record was one that no belief rests on."""
        self.in_flight: int | None = None
        self.yielding = 0
        """The token of the tenure that the append under way yields; 0: it is no `yield`."""
        self.retry_at = 0
        self._awaited = False
        self._pause = FIRST_PAUSE
        self._unread = -1
        self._unread_since = 0
        self._before = 0

    def hand_over(self, kind: type[Any], ticket: int, now: int, *, owner: bool, **fields: Any) -> bytes:
        """Encodes a record. Its number, content and time are fixed here, and never change (R4)."""
        n = self.sent.next_number()
        payload = neli_records.encode(kind(v=1, n=n, **fields))
        self.sent.hand_over(n, payload, now)
        self.in_flight, self.yielding = ticket, fields["term"] if kind is neli_records.Yield else 0
        self.digresses = kind not in PROLONGING
        if not self.digresses or not owner:
            self.last_at = now
        self._awaited = kind in AWAITED
        if kind is neli_records.Announce:
            self.announced = n
        return payload

    def acked(self, offset: int, position: int, now: int) -> None:
        if self._awaited and offset >= position:
            self._unread_since = now if self.quiet(position) else self._unread_since
            self._unread = offset
        self.in_flight, self._pause, self._before = None, FIRST_PAUSE, self.sent.n

    def failed(self, now: int, unknown: bool) -> None:
        self.in_flight = None
        if unknown:
            self._before = self.sent.n
        else:
            self.sent.forget_after(self._before)
        self.retry_at = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def quiet(self, position: int) -> bool:
        """Whether what is waited for (an announcement, a share, roles) and was acknowledged has been read back."""
        return self._unread < position

    def unread_for(self, position: int, now: int) -> int:
        """For how many nanoseconds it has not been read back; 0 if it has."""
        return 0 if self.quiet(position) else now - self._unread_since

    def forget_log(self) -> None:
        self._unread = -1
        self.sent.forget_log()
        # An announcement under way belongs to the old log: if it lands in the new one it must not count.
        self.announced = -1 if self.announced else 0


class Partition:
    """The state of one partition, and what follows from what happens to it."""

    def __init__(self, number: int, config: Config, table: Table) -> None:
        self.number = number
        self.group = config.group
        self._table = table
        self._barrier_ns = config.barrier_ms * MS
        self.track = Track(config.group)
        self.outbox = Outbox()
        self.attached = False
        self.heard_at = -1
        """When its log was last read, with or without anything new."""
        self.phase = Phase.IDLE
        self.looks = 0
        """How often its log was read since it became wanted."""
        self.wanted_at = 0
        """Since when, by the stopwatch, the partition is wanted and no other protocol is in the way of an announcement."""
        self.token = 0
        self.led = False
        """Whether the tenure `token` has come to lead."""
        self.until = 0
        self.before: dict[int, int] = {}
        """The tenures that stood open before the announcement of `token`, and when each must have ended."""
        self.blind_until = 0
        """When any owner the log no longer shows must have stopped leading."""
        self.broke_until = 0
        """When any owner that has not noticed yet that the log was replaced must have stopped leading."""
        self.stands = 0
        """The token of this member's tenure that is open in the log, as far as this member has read."""
        self.owed: str | None = None
        """If a `yield` of `stands` is due: its reason."""
        self.revoked = False
        """Whether the group waits for this partition to be given up."""
        self.wide = False
        """Whether this member's number of partitions was read back here."""
        self.wants_width = False
        """Whether that number is to be written once more: a member has come that numbers roles, and may not have read it."""
        self.seats: list[Seat] = []
        """The seats that are believed in, or were until the barrier began."""
        self.ended: set[Seat] = set()
        """Seats whose term under `token` is over because their role went, while the tenure goes on."""
        self.returning: set[Seat] = set()
        """Seats whose barriers have not returned yet."""
        self.why = ""
        """Why the barrier that runs was called."""
        self.barrier_until = 0
        self.began_at = self.ended_at = 0
        """When the belief of `token` began and ended, if `led`, by the stopwatch."""
        self.beat_now = False

    # What happens ------------------------------------------------------------------------------------------------------

    def on(
        self,
        what: On,
        now: int,
        effects: list[ev.Effect],
        why: str = "",
        *,
        at: int | None = None,
        owed: str | None = None,
    ) -> None:
        """Applies the row of `what` in the present phase. `why`: the reason that effects give. `at`: when the belief ended, if
        before `now`. `owed`: the reason that the `yield` gives, if it is another one."""
        rows = self._table.get(self.phase, {})
        if what not in rows:
            raise Impossible(f"partition {self.number} is {self.phase.value}, and {what.value}")
        row = rows[what]
        if row is None:
            return
        phase, *acts = row
        for act in acts:
            self._act(act, now if at is None else at, effects, why, owed or why)
        self.phase = phase
        if phase in AT_REST:
            self.seats, self.ended, self.returning, self.before = [], set(), set(), {}
        if phase in SEEKING:
            self.looks, self.wanted_at = 0, now
        if Act.STOP in acts and not self.returning:
            self.on(On.RETURNED, now, effects, why)  # there was nothing to stop

    def _act(self, act: Act, at: int, effects: list[ev.Effect], why: str, owed: str) -> None:
        if act is Act.LEAD:
            self.led, self.beat_now, self.began_at = True, True, at
            effects += [ev.Lead(seat, self.token, self.until, why) for seat in self.seats]
        elif act is Act.BEGIN:
            # A `yield` that was owed is no longer needed: an announcement ends all older tenures of its member.
            self.token, self.led, self.until, self.owed = self.stands, False, 0, None
        elif act is Act.OWE:
            if self.stands:
                self.owed = owed[:500]
        elif act is Act.FENCE:
            seats = self.seats
            if self.phase in AT_BARRIER:
                seats = [seat for seat in seats if seat in self.returning]
            else:
                self.ended_at = at
            effects += [ev.Follow(seat, self.token, why, True, at) for seat in seats]
        else:
            self.ended_at = at
            for seat in self.seats:
                effects += [ev.Follow(seat, self.token, why, False, at), ev.Barrier(seat, self.token, why)]
            if act is Act.STOP:
                self.returning, self.why, self.barrier_until = set(self.seats), why, at + self._barrier_ns

    def expire(self, now: int, effects: list[ev.Effect], *, closing: bool) -> None:
        """Ends a belief for which no record came back in time, and fences a barrier that still runs: nothing waits for it."""
        if closing and self.phase is Phase.LINGERING:
            self.on(On.UNFOLLOWED, now, effects, CLOSED)
        elif self.phase in BELIEVING:
            self.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT, at=self.until)
        elif self.phase in AT_BARRIER:
            self.on(On.RAN_OUT, now, effects, LEASE_RAN_OUT)

    def overdue(self, now: int, effects: list[ev.Effect]) -> None:
        """Fences a term whose barrier has run for longer than its limit, and lets the group go on."""
        if self.phase in AT_BARRIER and now >= self.barrier_until:
            self.on(On.OVERDUE, now, effects, BARRIER_TIMED_OUT)

    def returned(self, seat: Seat, token: int, now: int, effects: list[ev.Effect]) -> None:
        """The barrier of one seat has come to its end."""
        if self.phase in AT_BARRIER and self.token == token:
            self.returning.discard(seat)
            if not self.returning:
                self.on(On.RETURNED, now, effects, self.why)

    def answer(self, effects: list[ev.Effect]) -> None:
        """Lets the group go on, as soon as nothing is left to be done here."""
        if self.revoked and self.phase in (Phase.IDLE, Phase.LINGERING) and self.owed is None:
            self.revoked = False
            effects.append(ev.Yielded(self.number))

    def replaced(self, now: int, effects: list[ev.Effect], why: str) -> None:
        """The log is another one from here on (R12): nothing that stood in the old one is known to stand."""
        self.on(On.REPLACED, now, effects, why)
        self.track = Track(self.group)
        self.attached, self.wide, self.stands, self.owed = False, False, 0, None
        self.outbox.forget_log()

    # Appends -----------------------------------------------------------------------------------------------------------

    def write(
        self, kind: type[Any], me: str, base: int, due_ms: int, ticket: int, now: int, **fields: Any
    ) -> ev.Append:
        self.beat_now = False
        shared = {"g": self.group, "m": me, "b": base, "s": min(due_ms, MAX_DUE_MS)}
        owner = self.phase in STANDING
        payload = self.outbox.hand_over(kind, ticket, now, owner=owner, **shared, **fields)
        return ev.Append(ticket, (payload,), self.number, kind.urgent)

    def yielded(self) -> None:
        """An append is over. A `yield` is not tried again, whatever became of it: without it a successor only waits longer."""
        term, self.outbox.yielding = self.outbox.yielding, 0
        if term and term == self.stands:
            self.owed, self.stands = None, 0

    @property
    def quiet(self) -> bool:
        return self.outbox.quiet(self.track.position)

    def deaf(self, now: int, for_so_long: int) -> bool:
        """Whether this member has not read the log for so long (ns), or has waited as long to read back what it wrote."""
        return now >= self.heard_at + for_so_long or self.outbox.unread_for(self.track.position, now) >= for_so_long

    def says(self, now: int, at_ms: int) -> dict[str, Any]:
        """What its beats say of its tenure. Until one that says `lead` was read back, `at` is when it began to lead."""
        leads, known = self.phase in BELIEVING, self.track.open.get(self.token)
        if leads and (known is None or not known.leads):
            at_ms -= (now - self.began_at) // MS
        return {"term": self.token, "lead": leads, "at": at_ms}

    # The log -----------------------------------------------------------------------------------------------------------

    @property
    def entered(self) -> bool:
        """Whether all that stood in its log has been read."""
        return self.attached and self.track.entered

    @property
    def ready_at(self) -> int:
        """When every earlier owner must have stopped believing. A tenure that was closed meanwhile is not waited for."""
        waits = [at for token, at in self.before.items() if token in self.track.open]
        return max([self.blind_until, *waits])

    def others(self, me: str) -> list[Tenure]:
        """Others' tenures that stand open."""
        return [tenure for tenure in self.track.open.values() if tenure.member != me]
