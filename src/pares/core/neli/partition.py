"""One partition as one member has it: its phase, what the member may believe there, what it has written, and what it owes.

What happens to it comes by `on`, and what follows from that stands in the tables of `phases`.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core import events as ev
from pares.core.lease import MS, Sent
from pares.core.neli.partition_log import Track
from pares.core.neli.phases import AT_BARRIER, AT_REST, BELIEVING, GIVEN, SEEKING, Act, Impossible, On, Phase, Table
from pares.core.wire import neli_records
from pares.core.wire.records import Seat

FIRST_PAUSE: Final = 10 * MS
"""After an append that failed, before the next one; twice as long each time."""
LONGEST_PAUSE: Final = 500 * MS
IMPOSSIBLE: Final = (Phase.IDLE,)
AWAITED: Final = (
    neli_records.Announce,
    neli_records.PartitionCount,
    neli_records.RolesChanged,
    neli_records.Share,
    neli_records.Number,
    neli_records.Place,
)
"""Kinds of records that have an effect only once they are read back."""


class Part:
    """The state of one partition, what follows from what happens to it, and its appends."""

    def __init__(self, number: int, group: str, table: Table, barrier_ms: int) -> None:
        self.number = number
        self.group = group
        self._table = table
        self._barrier_ns = barrier_ms * MS
        self.track = Track(group)
        self.sent = Sent()
        self.attached = False
        self.heard_at = -1
        """When its log was last read, with or without anything new."""
        self.phase = Phase.IDLE
        self.looks = 0
        """How often its log was read since it became wanted."""
        self.wanted_at = 0
        """Since when, by the stopwatch, it is wanted and nobody is in the way of an announcement."""
        self.token = 0
        self.led = False
        """The tenure `token` has come to lead."""
        self.until = 0
        self.before: dict[int, int] = {}
        """The tenures that stood open before the announcement of `token`, and when each can't be believed in any more."""
        self.blind_until = 0
        """When any owner the log no longer shows must have stopped leading."""
        self.broke_until = 0
        """The same for those who have not noticed yet that the log is another one."""
        self.stands = 0
        """The token of this member's tenure that is open in the log, for all that this member has read."""
        self.owed: str | None = None
        """A `yield` of `stands` is due, for this reason."""
        self.answer = False
        """The group waits for the end of it."""
        self.wide = False
        """This member's `width` was read back here."""
        self.add: dict[str, None] = {}
        """Roles that the group is to have here, as this member wants it, and that the log does not say yet."""
        self.drop: dict[str, None] = {}
        """The same of roles that it is to have no more."""
        self.wants_width = False
        """Its `width` is to be written once more: somebody has come who numbers roles, and has not read of this member."""
        self.restated_at = 0
        self.restating: list[str] = []
        """Roles that are to be written down again, with the number of partitions: a log may forget who said so first."""
        self.ended: set[Seat] = set()
        """Seats whose term under `token` is over, with their roles, while the tenure goes on."""
        self.seats: list[Seat] = []
        """What is believed in, or was until the barrier began."""
        self.began_at = self.ended_at = 0
        """When the belief of `token` began and ended, if `led`, by the stopwatch."""
        self.returning: set[Seat] = set()
        """Whose barriers have not returned yet."""
        self.why = ""
        """Of the barrier that runs."""
        self.barrier_until = 0
        self.announced = 0
        """The number of the newest announcement."""
        self.beat_now = False
        self.last_at = 0
        self.in_flight: int | None = None
        self.giving = False
        """The append under way is a `yield`."""
        self.retry_at = 0
        self._awaited = False
        self._pause = FIRST_PAUSE
        self._unread = -1
        self._unread_since = 0
        self._before = 0

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
        """`why`: what effects say of it. `at`: when the belief ended, if that was before `now`. `owed`: what the `yield` says,
        if that is something else."""
        row = self._table.get(self.phase, {}).get(what, IMPOSSIBLE)
        if row is IMPOSSIBLE:
            raise Impossible(f"partition {self.number} is {self.phase.value}, and {what.value}")
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
            self.token, self.led, self.until = self.stands, False, 0
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

    @property
    def assigned(self) -> bool:
        """Whether the group gives it to this member."""
        return self.phase in GIVEN

    # Appends -----------------------------------------------------------------------------------------------------------

    def write(
        self, kind: type[Any], me: str, base: int, due_ms: int, ticket: int, now: int, **fields: Any
    ) -> ev.Append:
        """Number, content and time of a record are fixed here, and never change (R4)."""
        n = self.sent.next_number()
        payload = neli_records.encode(
            kind(v=1, g=self.group, m=me, n=n, b=base, s=min(due_ms, 600_000), at=fields.pop("at"), **fields)
        )
        self.sent.hand_over(n, payload, now)
        self.in_flight, self.last_at, self.giving, self.beat_now = ticket, now, kind is neli_records.Yield, False
        self._awaited = kind in AWAITED
        if kind is neli_records.Announce:
            self.announced = n
        return ev.Append(ticket, (payload,), self.number, kind.urgent)

    def acked(self, offset: int, now: int) -> None:
        if self._awaited and offset >= self.track.position:
            self._unread_since = now if self.quiet else self._unread_since
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

    @property
    def quiet(self) -> bool:
        """Whether what is waited for (an announcement, a width, roles) and was acknowledged has been read back."""
        return self._unread < self.track.position

    def deaf(self, now: int, for_so_long: int) -> bool:
        """Whether it has not read for so long, or not the announcement that it wrote."""
        return now >= self.heard_at + for_so_long or (not self.quiet and now >= self._unread_since + for_so_long)

    def says(self, now: int, at_ms: int) -> dict[str, Any]:
        """What its beats say of its tenure. Until one that says `lead` was read back, `at` is when it began to lead."""
        leads, known = self.phase in BELIEVING, self.track.open.get(self.token)
        if leads and (known is None or not known.leads):
            at_ms -= (now - self.began_at) // MS
        return {"term": self.token, "lead": leads, "at": at_ms}

    # The log -----------------------------------------------------------------------------------------------------------

    def forget_log(self) -> None:
        """It is another log from here on (R12): nothing of what stood there is known to stand."""
        # The group has them all the same, and somebody is to say so there.
        self.add |= dict.fromkeys(self.track.roles)
        self.track = Track(self.group)
        self.sent.forget_log()
        self.announced = -1 if self.announced else 0  # one that is on its way has a token of the log before this one
        self.attached, self.wide, self._unread, self.stands, self.owed = False, False, -1, 0, None

    @property
    def ready_at(self) -> int:
        """When nobody who came before can believe any more. A tenure that is closed meanwhile need not be waited for."""
        waits = [at for token, at in self.before.items() if token in self.track.open]
        return max([self.blind_until, *waits])
