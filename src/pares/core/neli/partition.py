"""One partition as one member has it: what it may believe there, what it has written, what it owes.

    IDLE         the group does not give it to this member
    WANTED       it does; an announcement is due, or under way
    GRACE        announced and read back: waits until nobody before it can believe any more
    LEADING      the belief
    LINGERING    NELE: taken away, and believed in until another leads or the threshold has passed
    STOPPING     revoked: the belief is over, the barrier still runs
    SUPERSEDED   the group still gives it to this member, but another has announced itself after it

A tenure is begun by an announcement and never resumed: after a fence there is a new announcement, with a new token.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from pares.core.events import Append
from pares.core.lease import MS, Sent
from pares.core.neli.partition_log import Track
from pares.core.wire import neli_records
from pares.core.wire.records import Seat

FIRST_PAUSE: Final = 10 * MS
"""After an append that failed, before the next one; twice as long each time."""
LONGEST_PAUSE: Final = 500 * MS


class Phase(Enum):
    IDLE = "idle"
    WANTED = "wanted"
    GRACE = "grace"
    LEADING = "leading"
    LINGERING = "lingering"
    STOPPING = "stopping"
    SUPERSEDED = "superseded"


STANDING: Final = (Phase.GRACE, Phase.LEADING, Phase.LINGERING, Phase.STOPPING)
"""A tenure of this member is announced, and its beats speak for it."""
AWAITED: Final = (
    neli_records.Announce,
    neli_records.PartitionCount,
    neli_records.RolesChanged,
    neli_records.Share,
    neli_records.Number,
    neli_records.Place,
)
"""Kinds of records that have an effect only once they are read back."""
BELIEVING: Final = (Phase.LEADING, Phase.LINGERING)


class Part:
    """The state of one partition. What happens to it is decided in `induced`; here is what it remembers, and its appends."""

    def __init__(self, number: int, group: str) -> None:
        self.number = number
        self.group = group
        self.track = Track(group)
        self.sent = Sent()
        self.attached = False
        self.heard_at = -1
        """When its log was last read, with or without anything new."""
        self.phase = Phase.IDLE
        self.assigned = False
        self.looks = 0
        """How often its log was read since it became wanted."""
        self.wanted_at = 0
        """Since when, by the stopwatch, it is wanted and nobody is in the way of an announcement."""
        self.had = False
        """A tenure of it was announced since the group gave it to this member."""
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

    # Appends -----------------------------------------------------------------------------------------------------------

    def write(self, kind: type[Any], me: str, base: int, due_ms: int, ticket: int, now: int, **fields: Any) -> Append:
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
        return Append(ticket, (payload,), self.number)

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
        self.attached, self.wide, self._unread, self.stands, self.owed = False, False, -1, 0, None

    @property
    def ready_at(self) -> int:
        """When nobody who came before can believe any more. A tenure that is closed meanwhile need not be waited for."""
        waits = [at for token, at in self.before.items() if token in self.track.open]
        return max([self.blind_until, *waits])
