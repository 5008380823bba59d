"""Roles are led, and not just handed round: time led is what counts, however often a seat changes hands.

Looked at while the ledger is well and nothing has befallen the group for a while, and for a seat only while a member lives that
could lead it all that time: eligible, ready, in reach, quick enough. Then

* what is not led adds up: time without a leader is a debt, which time with one pays back slowly; so a role that goes to and
  fro between two who can't lead it is noticed as one that nobody has, and so is a holder that leads now and then;
* nobody is dispossessed whom nothing hinders: a claim is for the seats of the silent (R3);
* a seat changes hands a few times at most, and then seldom; each time that somebody's readiness changes it may move again;
* the world holds the living, and of the dead no more than it must: those whose seats nobody has taken yet, and the last one
  of each name (R20).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.events import Closed, Stop
from pares.core.wire import forgetting
from pares.core.wire.changes import Began, MemberLeft, RoleChanged, SeatChanged
from pares.core.wire.records import Claim, Forget, Seat
from pares.core.wire.world import PLACE_EVERY
from pares.sim.checker import Checker, Landed
from pares.sim.checkers.liveness import fit
from pares.sim.engine import MS
from pares.sim.knobs import OURS
from pares.sim.process import Process
from pares.sim.trace import seat_name

if TYPE_CHECKING:
    from pares.sim.play import Play

PAID_BACK: Final = 0.1
"""How much of a debt the same time with a leader pays back: who is led for less than ten parts of eleven owes more and more."""
MOVES: Final = 4
"""How often a seat may change hands in a row; once more for every `SELDOM` sessions."""
SELDOM: Final = 10
"""Sessions for which a seat stays where it is, on average."""


class Led(Checker):
    promise = "roles are led"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        knobs, weather = play.knobs, play.knobs.weather
        self.longest = int(max(knobs.sessions) * MS / (1 - knobs.drift))
        trip = weather.send[1] + weather.ack[1] + weather.lag[1]
        slow = int(max(knobs.slow, default=0.0) * self.longest)
        self.settling = 2 * self.longest + int(knobs.barrier_timeout * play.unit) + 12 * trip
        """For how long nothing must have happened."""
        self.most = 2 * self.longest + 12 * trip + 20 * MS + 2 * slow + (2 * self.longest if slow else 0)
        """The debt that a seat may have: a takeover, and one more; of a holder that is too slow two sessions more (R18)."""
        self.step = max(MS, play.unit // 20)
        self.quiet_since = 0
        self.debts: dict[Seat, float] = {}
        self.moves: dict[Seat, tuple[float, int]] = {}
        """Changes of hands that a seat has left, and as of when."""
        self.scene.engine.after(self.step, self._look)

    def disturbed(self) -> None:
        self.quiet_since = self.scene.engine.now
        self.debts.clear()
        self.moves.clear()

    def frozen(self, process: Process, length: int | None) -> None:
        self.disturbed()

    def killed(self, process: Process) -> None:
        self.disturbed()

    def over(self, process: Process, effect: Closed | Stop) -> None:
        self.disturbed()

    def replaced(self) -> None:
        self.disturbed()

    def _quiet(self) -> bool:
        return self.play.healthy() and self.scene.engine.now >= self.quiet_since + self.settling

    # Time ------------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.scene.engine.after(self.step, self._look)
        if not self._quiet():
            return
        world = self.scene.judge.world
        for seat in world.seats:
            debt = self.debts.get(seat, 0.0)
            if any(p.believes(seat) for p in self.play.own):
                self.debts[seat] = max(0.0, debt - PAID_BACK * self.step)
            elif able := fit(self.play, world, seat, self.settling):
                self.debts[seat] = debt = debt + self.step
                if debt > self.most:
                    raise self.broken(
                        f"{seat_name(seat)} was led too seldom: {debt / 1e6:.0f} ms without a leader are left when a tenth of "
                        f"the time with one is taken off, though {', '.join(able)} could lead it all the time"
                    )

    # Changes of hands ------------------------------------------------------------------------------------------------

    def landed(self, landed: Landed) -> None:
        for change in landed.changes:
            if type(change) is RoleChanged:
                self.disturbed()
        moved = [change for change in landed.changes if type(change) is SeatChanged and change.holder is not None]
        for change in moved:
            if change.before is not None and isinstance(landed.record, Claim) and self.play.healthy():
                self._taken(change.before, change)
            if self._quiet() and self._steady(change.seat):
                self._moved(change.seat)

    def _taken(self, holder: str, change: SeatChanged) -> None:
        for process in self.play.own:
            if process.id == holder and process.able and process.ready and process.well(self.settling):
                raise self.broken(
                    f"{change.holder} takes {seat_name(change.seat)} by a claim from {holder}, whom nothing has hindered"
                )

    def _steady(self, seat: Seat) -> bool:
        return bool(fit(self.play, self.scene.judge.world, seat, self.settling))

    def _moved(self, seat: Seat) -> None:
        now = self.scene.engine.now
        left, as_of = self.moves.get(seat, (float(MOVES), now))
        left = min(float(MOVES), left + (now - as_of) / (SELDOM * self.longest)) - 1
        if left < 0:
            raise self.broken(
                f"{seat_name(seat)} changes hands again: {MOVES} times in a row, and once in {SELDOM} sessions, are enough"
            )
        self.moves[seat] = left, now

    def turned(self, process: Process) -> None:
        """Once for its going, and once for its coming back."""
        now = self.scene.engine.now
        for seat, (left, as_of) in self.moves.items():
            self.moves[seat] = left + 1 + (now - as_of) / (SELDOM * self.longest), now


class Population(Checker):
    promise = "the dead are forgotten"

    def __init__(self, play: Play, *, strict: bool = True) -> None:
        super().__init__(play.scene)
        self.play = play
        self.strict = strict
        self.gave: dict[str, int] = {}
        """How many records had counted when each member last lost a seat."""
        self.forced = 0
        """How many had counted when version 2 was last not in force."""
        self.last: dict[str, tuple[int, int]] = {}
        """Each member's last counted record: its offset, and when it landed."""
        knobs, weather = play.knobs, play.knobs.weather
        longest = int(max(knobs.sessions) * MS / (1 - knobs.drift))
        slow = int(max(knobs.slow, default=0.0) * longest)
        self.late = 4 * longest + 12 * (weather.send[1] + weather.ack[1] + weather.lag[1]) + 2 * slow
        """For how long a member must have been silent, and another one well, for the former to be forgotten."""
        self.step = max(MS, play.unit // 4)
        if knobs.releases == OURS:
            self.scene.engine.after(self.step, self._look)

    def landed(self, landed: Landed) -> None:
        world = self.scene.judge.world
        # Looked at by who folds at fixed places, so as much later as there is between two of them (R10): that is settled at the
        # place before, when there may have been more members.
        memory = world.memory() + 2 * max(world.stride, PLACE_EVERY + 4 * len(world.members))
        for change in landed.changes:
            if type(change) is Began:
                self.gave.clear()
            elif type(change) is SeatChanged and change.before is not None:
                self.gave[change.before] = world.count
        for member in world.members.values():
            silent = world.count - max(member.count, self.gave.get(member.id, 0))
            if silent > memory and not world.held[member.id]:
                raise self.broken(f"{member.id} has been silent for {silent} records, and is remembered")
        for id, count in world.gone.items():
            if world.count - count > memory:
                raise self.broken(f"{id} left {world.count - count} records ago, and is remembered")
        if self.strict:
            self._count()
        if isinstance(landed.record, Forget):
            self._forgotten(landed, landed.record)
        if landed.counted and landed.record is not None:
            self.last[landed.record.m] = (landed.offset, self.scene.engine.now)

    def _forgotten(self, landed: Landed, record: Forget) -> None:
        """Whom somebody calls silent has been silent, since the record that is named."""
        if not any(type(change) is MemberLeft and change.member == record.of for change in landed.changes):
            return
        if self.last.get(record.of, (-1, 0))[0] != record.over:
            raise self.broken(f"{record.m} has {record.of} forgotten, which has written since")
        for process in self.play.own:
            if process.id == record.of and self.play.healthy() and process.able and process.well(self.late):
                raise self.broken(f"{record.m} has {record.of} forgotten, which lives, and which nothing has hindered")

    def replaced(self) -> None:
        self.last.clear()

    def _look(self) -> None:
        """A process that dies under another name each time leaves nothing that stays (R20)."""
        self.scene.engine.after(self.step, self._look)
        now, world = self.scene.engine.now, self.scene.judge.world
        if not self.play.healthy() or not any(p.able and p.ready and p.well(self.late) for p in self.play.own):
            return
        silent = [id for id in world.members if not world.held[id] and now - self.last.get(id, (0, now))[1] > self.late]
        if len(silent) > forgetting.KEPT + LATE:
            raise self.broken(f"{len(silent)} members that hold nothing have been silent for long, and are remembered")

    def _count(self) -> None:
        world = self.scene.judge.world
        names = {member.name for member in world.members.values()}
        alive = {p.id for p in self.scene.processes.values() if p.running and p.over is None}
        dead = [id for id in world.members if id not in alive]
        held = sum(bool(world.held[id]) for id in dead)
        if not world.in_force:
            self.forced = world.count
        grace = forgetting.GRACE + 4 * len(world.names)
        # When version 2 comes into force, all that release 0.1 has kept is given its time to answer.
        if world.count - self.forced > grace + LATE and len(dead) > len(names) + held + LATE + grace:
            raise self.broken(
                f"of {len(world.members)} members in the world {len(dead)} are dead, {held} of them with seats, and there are "
                f"{len(names)} names"
            )


LATE: Final = 4
"""Of the dead, whom the others may be about to forget; besides those that may still speak up beside a successor (R20)."""
