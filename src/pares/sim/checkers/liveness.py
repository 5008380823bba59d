"""It goes on: no seat stays without a leader while somebody could lead it, and after the storm everything comes right.

While the storm lasts, a seat may be empty only for so long as there is somebody who could lead it and whom nothing hinders:
a deaf, mute or frozen member stops nobody else. When the calm has lasted, every member is in the group, every role exists,
and the work is balanced within one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.core.events import Stop
from pares.core.wire.changes import RoleChanged, SeatChanged
from pares.core.wire.reader import State
from pares.core.wire.records import Seat
from pares.core.wire.world import World
from pares.sim.checker import Checker, Landed
from pares.sim.engine import MS
from pares.sim.process import Process
from pares.sim.trace import seat_name

if TYPE_CHECKING:
    from pares.sim.play import Play


def fit(play: Play, world: World, seat: Seat, well_for: int) -> list[str]:
    """Whom nothing has hindered for a while, and who may hold the seat, is ready and quick enough to lead."""
    if not world.open(seat) or world.paused(seat[0]):
        return []
    found: list[str] = []
    for process in play.own:
        member = world.members.get(process.id)
        if member is None or not process.well(well_for) or not process.ready or not process.able or member.draining:
            continue
        free_to = world.may_hold(member, seat[0]) and not world.holds_in_role(member.id, seat[0])
        if free_to or world.seats[seat].holder == member.id:
            found.append(process.id)
    return found


class Liveness(Checker):
    promise = "it goes on"

    def __init__(self, play: Play) -> None:
        super().__init__(play.scene)
        self.play = play
        weather, knobs = play.knobs.weather, play.knobs
        longest = max(knobs.sessions) * MS
        bad = bool(weather.lost or weather.unknown or weather.silent or weather.slow)
        trip = weather.send[1] + weather.ack[1] + weather.lag[1]
        trouble = (weather.timeout + weather.slow_by[1]) if bad else 0
        # A session's silence, one more if the next one fails too, turns in line, and what the weather takes.
        self.patience = int(longest * 3.5 / (1 - knobs.drift)) + 12 * trip + 5 * trouble + 20 * MS
        self.patience += int(knobs.barrier_timeout * play.unit) + weather.stall_by[1] * (2 if weather.stall else 0)
        # A holder that is too slow lets go after two of its sessions, and its word takes as long as it is slow (R18).
        self.patience += int(longest * (2 + 2 * max(knobs.slow))) if any(knobs.slow) else 0
        self.step = max(play.unit // 3, longest // 8)
        self.empty: dict[Seat, int] = {}
        """Since when a seat has had nobody, though somebody could."""
        self.quiet_since = 0
        self.changed: dict[Seat, int] = {}
        self.scene.engine.after(self.step, self._look)

    def landed(self, landed: Landed) -> None:
        for change in landed.changes:
            if type(change) is SeatChanged:
                self.changed[change.seat] = landed.at
            elif type(change) is RoleChanged:
                self.empty.clear()

    def replaced(self) -> None:
        self.empty.clear()

    def killed(self, process: Process) -> None:
        self.quiet_since = self.scene.engine.now

    def disturbed(self) -> None:
        self.quiet_since = self.scene.engine.now

    def _look(self) -> None:
        world, now = self.scene.judge.world, self.scene.engine.now
        for seat in list(self.empty):
            if seat not in world.seats:
                del self.empty[seat]
        for seat in world.seats:
            if self._led(seat) or not self._could(world, seat):
                self.empty.pop(seat, None)
                continue
            since = max(self.empty.setdefault(seat, now), self.changed.get(seat, 0))
            if now - since > self.patience:
                raise self.broken(
                    f"{seat_name(seat)} has had no leader for {(now - since) / 1e6:.0f} ms, "
                    f"though {', '.join(self._could(world, seat))} could lead it"
                )
        self.scene.engine.after(self.step, self._look)

    def _led(self, seat: Seat) -> bool:
        return any(p.believes(seat) for p in self.play.own)

    def _could(self, world: World, seat: Seat) -> list[str]:
        return fit(self.play, world, seat, self.patience // 2)

    # The end -----------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        for process in self.play.own:
            self._well(process)
        world = self.scene.judge.world
        for role in sorted({r.name for p in self.play.own if p.running and p.live for r in p.settings["roles"]}):
            if role not in world.roles and not self.play.knobs.acts:
                raise self.broken(f"the role {role} was never declared, though members that live were made with it")
        for seat in sorted(world.seats):
            self._one_holder(world, seat)
        self._balanced(world)

    def _well(self, process: Process) -> None:
        # A later version, alone for a while, may have moved the group on (R11).
        upgrade = "future" in self.play.knobs.faults or len(self.play.knobs.releases) > 1
        expected = ("cloned", "newer-format") if upgrade else ("cloned",)
        if isinstance(process.over, Stop) and process.over.kind not in expected:
            raise self.broken(f"{process.id} stopped: {process.over.kind}, {process.over.text}")
        waiting = self.scene.engine.now - process.well_since > self.patience
        expected = process.running and process.over is None and process.able
        # Where not all write version 2, a member that is not ready does not even join (R19).
        expected = expected and (process.ready or len(self.play.knobs.releases) == 1)
        if expected and not process.live and waiting and not self._kept_out(process):
            raise self.broken(f"{process.id} never came to be in the group, though nothing hindered it")

    def _kept_out(self, process: Process) -> bool:
        """In a log without its origin, records of strangers may be of members with the longest session there is (R12)."""
        strangers = {"garbage", "forge", "future", "replay", "trim", "forgetful"}.intersection(self.play.knobs.faults)
        return bool(strangers) and process.claims is not None and process.claims.reader.state is State.ADRIFT

    def _one_holder(self, world: World, seat: Seat) -> None:
        """The log and the members agree on who holds it."""
        holder = world.seats[seat].holder
        for process in self.play.own:
            if process.believes(seat) and process.id != holder and not process.settings["overlap_ms"]:
                raise self.broken(f"{process.id} believes in {seat_name(seat)}, which is {holder}'s")

    def _balanced(self, world: World) -> None:
        """Within one, where all are alike; where they are not, placement has its own tests."""
        knobs = self.play.knobs
        if knobs.ranks or knobs.weights or knobs.picky or knobs.hosts or knobs.acts or any(knobs.slow):
            return
        if any(s > 1 for s in knobs.seats) or any(seat.pinned or seat.avoid for seat in world.seats.values()):
            return
        if self.scene.engine.now < self.quiet_since + self.patience:
            return
        alike = [p for p in self.play.own if p.well(self.patience) and p.ready]
        if len(alike) != sum(1 for p in self.play.own if p.running and p.over is None):
            return
        loads = {p.id: len(world.held.get(p.id, ())) for p in alike}
        if loads and max(loads.values()) - min(loads.values()) > 1:
            raise self.broken(f"after the calm the work is not balanced: {loads}")
