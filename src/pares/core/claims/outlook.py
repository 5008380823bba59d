"""One member's view of who should hold what: who is alive, which seats are free, where placement would have each, and when to
look again. `decisions` says what follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pares.core.claims.chores.duties import EAGER
from pares.core.claims.fitness.appetite import Appetite
from pares.core.claims.fitness.forming import Forming, is_large
from pares.core.claims.fitness.pace import NEVER, Pace
from pares.core.claims.moves import Take
from pares.core.claims.placing.placement import place
from pares.core.claims.placing.targets import Target, Targets
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Tenures
from pares.core.lease import MS
from pares.core.wire.changes import Change
from pares.core.wire.records import Seat
from pares.core.wire.world import World

MIN_STEP_MS: Final = 15
"""Milliseconds that those in line leave one another at least."""


class Outlook:
    """Asked at every tick; thinks again only when something has changed."""

    placing = staticmethod(place)
    """The member that should hold each seat, of those that are alive (R13)."""
    alike = True
    """Whether that is how `targets` may place what nobody keeps."""

    def __init__(self, me: str, session_ms: int, watches: Stopwatches, tenures: Tenures, pace: Pace) -> None:
        self.me = me
        self._pace = pace
        self._session = session_ms * MS
        self.step = step_ns(session_ms)
        """How long each of those in line waits for the one before it."""
        self._watches = watches
        self._tenures = tenures
        self._targets = Targets(lambda *args, **named: self.placing(*args, **named), alike=self.alike)
        self._unsettled: tuple[int, object, frozenset[str]] = (-1, None, frozenset())
        """How often somebody had come back, of which crew, and those of it whose rank did not count yet."""
        self._ahead: tuple[object, set[str], Counter[frozenset[str] | None]] = (None, set(), Counter())
        """For this tick and a crew: its members that wrote later than this one, and how many are eligible for what."""
        self._shape = -1
        self._free: list[Seat] = []
        self._takeable: dict[Seat, int] = {}
        """Free seats that somebody may take, and since when: waits run from there, not from when the seat was freed."""
        self.alive: frozenset[str] = frozenset()
        self.crew: list[str] = []
        """The members that are alive and may hold seats, in order; the place in it is the place in line."""
        self._silent: frozenset[str] = frozenset()
        """Holders that are out-waited."""
        self._spare: list[Take] = []
        """Seats that others were to claim: they had their time, and have not."""
        self._appetite = Appetite(me, session_ms, pace)
        self._forming = Forming(me, session_ms, watches)
        self._look_again_at = 0
        """When a member that may claim only some looks again for what it could claim."""
        self._balance_again_at = 0
        """When a member of a large group looks again for what it could hand over for balance."""
        self._spare_at = 0
        """When it may claim the next of them."""
        self._room = 0
        """How many more of the free seats it claims before others have had their time."""
        self._full_since: int | None = None
        """Since when there are some that would be more than its share; and how often it has claimed of them since."""
        self._spared = 0
        self.wakes: list[int] = []
        """When a decision will be due that is not due yet."""
        self.expectant = False
        """Whether this member would claim, if a holder fell silent: then it has to hear of the holders' beats (R21)."""

    def look(self, world: World, now: int) -> None:
        """Begins a tick: who is alive, which seats are free."""
        self.wakes, self._ahead, self.expectant = [], (None, set(), Counter()), False
        self._silent = self._watches.silence(world, now)
        alive = self._watches.alive(world, now) - self._silent
        if alive != self.alive or world.shape != self._shape:
            self.alive = alive
            crew = (id for id in alive if not world.members[id].administrator and id not in world.unready)
            self.crew = sorted(crew)
        if self._watches.next_overdue < NEVER and len(alive) <= EAGER:
            # In a larger group it is seen at this member's next look, half of its session from the last at most (R21).
            # [on a machine that is busy each of a hundred is late now and then, and wakes all others]
            self.wakes.append(self._watches.next_overdue)
        if world.shape != self._shape:
            self._shape = world.shape
            self._free = sorted(world.vacant.seats())
            if self._takeable:
                free = set(self._free)
                self._takeable = {seat: at for seat, at in self._takeable.items() if seat in free}

    def reads_at(self) -> list[int]:
        """When the log is to be read next, at the latest, if at any time: where no stamp says how old a record is, silence
        counts from its reading."""
        watches = self._watches
        return [watches.looked_at + watches.look_every] if self.expectant and watches.look_every else []

    def target(self, world: World, now: int) -> Target:
        """Placement as this member sees it now: who is designated for what."""
        return self._place(world, now, self.alive, frozenset())

    def wanted_by_some(self, world: World, now: int) -> bool:
        """Whether some free seat has a member that it could go to."""
        if not self._free:
            return False
        return self._targets.has_some(world, self.alive) or any(map(self.target(world, now).get, self._free))

    def others(self, world: World, now: int) -> Target:
        """Placement without this member, among those known to live: to whom it may hand things over (R6)."""
        return self._place(world, now, self._watches.heard(self.alive), frozenset({self.me}))

    def after(self, world: World, alive: frozenset[str]) -> Target:
        """Placement among these, when the others are dead."""
        return self._targets.get(world, alive, frozenset(), frozenset())

    def _place(self, world: World, now: int, alive: frozenset[str], without: frozenset[str]) -> Target:
        watches = self._watches
        came, crew, _ = self._unsettled
        if came != watches.returns or crew is not self.crew or (watches.next_settled and now >= watches.next_settled):
            self._unsettled = (watches.returns, self.crew, watches.unsettled(self.crew, now))
        if watches.next_settled:
            self.wakes.append(watches.next_settled)
        return self._targets.get(world, alive, self._unsettled[2], without)

    def read(self, world: World, changes: Iterable[Change]) -> None:
        """These changes have been read."""
        self._targets.read(world, changes)

    def line(self) -> int:
        """This member's place in line for what anybody might do: 0 for the first."""
        return self.crew.index(self.me) if self.me in self.crew else len(self.crew)

    def replaceable(self, world: World) -> bool:
        """Whether somebody else could lead, for all that is known, one of the roles that this member could."""
        mine = world.able(world.members[self.me])
        others = (world.members[id] for id in self.crew if id != self.me)
        ables = (world.able(m) for m in others if not m.draining)
        return any(mine is None or able is None or not mine.isdisjoint(able) for able in ables)

    def wanted(self, world: World) -> bool:
        """Whether there are seats that only this member could hold, of those that are ready. It costs a look at each member
        and at each role. [on a machine that is too slow, finding that out makes a member slower]"""
        me = world.members.get(self.me)
        if me is None:
            return False
        mine, others = world.able(me), (world.members.get(id) for id in self.crew if id != self.me)
        alike = Counter(world.able(m) for m in others if m is not None)
        any_role = alike.pop(None, 0)
        return any(
            not role.removed
            and (mine is None or role.name in mine)
            and any_role + sum(n for able, n in alike.items() if able is None or role.name in able) < role.seats
            for role in world.roles.values()
        )

    def due(self, at: int, now: int) -> bool:
        """Whether `at` has come; if not, it is noted as a time to look again."""
        if now >= at:
            return True
        self.wakes.append(at)
        return False

    def in_line(self, since: int, now: int) -> bool:
        """Whether it is this member's turn at what anybody might do since `since`."""
        return self.due(since + self.line() * self.step, now)

    def behind_the_first(self, world: World, now: int) -> int:
        """How long those that joined before this member have for what takes long: a few of this member's round trips each. [of
        those that come all at once, each knows of no other that would be before it in the usual line] All of them, where it is
        late itself. [on a machine that is too slow for all of them each finds itself alone, and declares everything]"""
        mine = world.members[self.me].joined
        among = world.members if self.hurried(world, now) else self.crew
        place = sum(world.members[id].joined < mine for id in among)
        return place * max(self.step, 2 * (self._pace.trip or 0))

    def _left(self, world: World, now: int) -> int:
        """How much more this member's appetite lets it claim, or move, now."""
        share, late = -(-len(world.seats) // len(world.members)), self.hurried(world, now)
        return self._appetite.left(now, share, len(world.seats), late=late, members=len(world.members))

    def hurried(self, world: World, now: int) -> bool:
        """Whether this member, of a large group, is late itself: then all may be, and what can wait waits (R18)."""
        if not is_large(world):
            return False
        return now < self._watches.late_until(world, now) or not self._pace.unhurried(now, self._session)


def step_ns(session_ms: int) -> int:
    """How long each of those in line waits for the one before it."""
    return max(MIN_STEP_MS, session_ms // 8) * MS
