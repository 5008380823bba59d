"""What NELE promises of two who lead at once: for how long at the most. No checker knows how the protocol works.

A leader goes on until it reads that another has announced itself, and for T after what it read before that. So from when the
later one begins, with its announcement in the log, the earlier one has T; and as long again as it stood still in the meantime,
with records in its hands that it had fetched before.

T is not the one that was asked for alone: it follows the beacons where those are seldom by the budget of the topic, which is
divided by all who have written lately. How many these are is counted here, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pares.core.events import Lead
from pares.core.neli.budget import REMEMBERED
from pares.core.neli.classic import BEACONS
from pares.core.wire.neli_records import Foreign
from pares.core.wire.records import Seat
from pares.sim.engine import MS, SECOND
from pares.sim.neli.checkers import decoded
from pares.sim.neli.process import NeliProcess
from pares.sim.neli.scene import NeliChecker, NeliScene
from pares.sim.trace import seat_name


class Meeting(NamedTuple):
    """Two who believe that they lead one seat, since when, and for how long the earlier of them had stood still by then."""

    earlier: NeliProcess
    later: NeliProcess
    began: int
    stood: int


class Crowd:
    """How many may be counted as writing to the topic, by somebody, and how seldom each may beat for that: at the most."""

    def __init__(self, scene: NeliScene, budget: int, interval_ms: float, memory: int, standstill: int) -> None:
        self._scene = scene
        self._budget = budget
        self._wanted = int(interval_ms * MS)
        self._memory = memory
        self._standstill = standstill
        """For so long a process may read nothing. It goes on with what it reckoned before, and hears of those who have gone."""
        self._written: list[dict[str, int]] = [{} for _ in scene.logs]
        self._reckoned: list[tuple[int, int]] = []
        """Intervals, and until when somebody may still remember for as long as each asks."""
        self.interval = self._wanted
        for number, log in enumerate(scene.logs):
            log.listeners.append(lambda entries, number=number: self._landed(number, entries))

    def _landed(self, number: int, entries: list[Any]) -> None:
        now, written = self._scene.engine.now, self._written[number]
        for _, _, payload in entries:
            record = decoded(payload)
            if not isinstance(record, Foreign | None):
                written[f"{record.g} {record.m}"] = now
        self._reckoned = [(until, interval) for until, interval in self._reckoned if until >= now]
        longest = max([self._wanted, *(interval for _, interval in self._reckoned)])
        # An interval is reckoned anew four times in it.
        since = now - max(self._memory, (REMEMBERED + 1) * longest) - self._standstill
        writers = sum(sum(at >= since for at in log.values()) for log in self._written)
        groups = {who.partition(" ")[0] for log in self._written for who, at in log.items() if at >= since}
        self.interval = max(self._wanted * len(groups), writers * SECOND // self._budget)
        if not self._reckoned or self.interval != self._reckoned[-1][1]:
            self._reckoned.append((0, self.interval))
        self._reckoned[-1] = now + self.interval + self._standstill, self.interval


class Overlap(NeliChecker):
    """Non-exclusive: two members believe in one seat for T at the most, and for as long again as the earlier one stands still.

    `most`: T (nanoseconds) as it was asked for, or less where less is promised; `drift`: by how much clocks may be slow;
    `slack` (nanoseconds): until an announcement is read; `crowd`: for whom T may have grown.
    """

    promise = "bounded overlap"

    def __init__(
        self, scene: NeliScene, most: int, *, drift: float = 0.0, slack: int = 0, crowd: Crowd | None = None
    ) -> None:
        super().__init__(scene)
        self.most, self.drift, self.slack, self.crowd = most, drift, slack, crowd
        self.longest = 0
        self._meetings: dict[tuple[Seat, str, str], Meeting] = {}
        self._reach: dict[tuple[Seat, str], tuple[int, int]] = {}
        """Until when somebody believes, by its own stopwatch, and how long T was when it came to believe for so long."""

    def led(self, process: NeliProcess, effect: Lead) -> None:
        self._reach.pop((effect.seat, process.name), None)
        self._look(process, effect.seat)

    def renewed(self, process: NeliProcess, effect: Any) -> None:
        for seat in effect.seats:
            left = process.beliefs[seat][1] - process.now if seat in process.beliefs else 0
            if self.crowd is not None and left > self._t():
                what = f"{process.id} believes in {seat_name(seat)} for {left / 1e6:.3f} ms more"
                raise self.broken(f"{what}, and T is {self._t() / 1e6:.0f} ms")
            self._look(process, seat)

    def _t(self) -> int:
        return self.most if self.crowd is None else max(self.most, BEACONS * self.crowd.interval)

    def _look(self, process: NeliProcess, seat: Seat) -> None:
        if not process.believes(seat):
            return
        until, t = process.beliefs[seat][1], self._t()
        before = self._reach.get((seat, process.name), (0, 0))
        if until > before[0]:
            self._reach[seat, process.name] = until, t
        now = self.scene.engine.now
        for other in self.scene.processes.values():
            if other is process or not other.believes(seat):
                continue
            one, two = sorted((process, other), key=lambda p: p.name)
            meeting = self._meetings.get((seat, one.name, two.name))
            if meeting is None or not self._lasts(seat, meeting, now):
                earlier, later = sorted((process, other), key=lambda p: p.beliefs[seat][0])
                self._meetings[seat, one.name, two.name] = Meeting(earlier, later, now, earlier.stood)

    def _lasts(self, seat: Seat, meeting: Meeting, at: int) -> bool:
        """Whether they both believe still; for how long they have is looked at in any case."""
        members = (meeting.earlier, meeting.later)
        ends = min(p.belief_ends(seat) if seat in p.beliefs else at for p in members)
        met = min(ends, at) - meeting.began
        self.longest = max(self.longest, met)
        t = int(self._reach[seat, meeting.earlier.name][1] / (1 - self.drift))
        allowed = t + self.slack + min(t, meeting.earlier.stood - meeting.stood)
        if met > allowed:
            one, two = members
            raise self.broken(
                f"{one.id} and {two.id} both believed in {seat_name(seat)} for {met / 1e6:.3f} ms, {allowed / 1e6:.0f} ms are "
                "allowed"
            )
        return ends >= at

    def followed(self, process: NeliProcess, effect: Any) -> None:
        self._part(process, effect.seat)

    def killed(self, process: NeliProcess) -> None:
        for seat in list(process.beliefs):
            self._part(process, seat)

    def _part(self, process: NeliProcess, seat: Seat) -> None:
        for key in [k for k in self._meetings if k[0] == seat and process.name in k[1:]]:
            meeting = self._meetings.pop(key)
            if seat in process.beliefs:
                self._lasts(seat, meeting, self.scene.engine.now)
