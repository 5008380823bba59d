"""What NELE promises of two who lead at once: for how long at the most.

A leader goes on until it reads that another has announced itself, and for T after what it read before that. So from when the
later one begins, with its announcement in the log, the earlier one has T; and as long again as it stood still in the meantime,
with records in its hands that it had fetched before.

T is not the one that was asked for alone: it follows the beacons where those are seldom by the budget of the topic, which is
divided by all who have written lately. How many these are is counted here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pares.core.neli.budget import BUDGET, REMEMBERED
from pares.core.neli.classic import BEACONS
from pares.sim.engine import MS, SECOND
from pares.sim.members.neli.judge import Landed
from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held, Seat

if TYPE_CHECKING:
    from pares.ledger import Entry
    from pares.sim.members.neli.ground import NeliGround
    from pares.sim.world.process import Process


class Meeting(NamedTuple):
    """Two that believe in one seat, since when, and for how long the earlier of them had stood still by then."""

    earlier: Held
    later: Held
    began: int
    stood: int


class Crowd:
    """How many may be counted as writing to the topic, by somebody, and how seldom each may beat for that: at the most."""

    def __init__(self, stage: NeliGround, standstill: int) -> None:
        plan = stage.plan
        self._world = stage.world
        self._wanted = plan.interval_ms * MS
        self._memory = plan.session_ms * MS
        self._standstill = standstill
        """For so long a process may read nothing, or what it was seen to take longer. It goes on with what it reckoned before,
        and hears of those that went. [two outages, one right after the other]"""
        self._landed_at: dict[tuple[int, int], int] = {}
        self._next: dict[tuple[Process, int], int] = {}
        self._written: dict[tuple[int, str, str], int] = {}
        self._reckoned: list[tuple[int, int]] = []
        """Intervals, and until when somebody may still remember for as long as each asks."""
        self.interval = self._wanted
        self._time = self._last = 0
        stage.judge.landed.append(self._landed)
        stage.log.read.append(self._read)

    def _read(self, process: Process, number: int, entries: list[Entry]) -> None:
        """How late it hears of what came next in a partition that it follows."""
        first = entries[0].offset
        if self._next.get((process, number)) == first and (landed := self._landed_at.get((number, first))) is not None:
            self._standstill = max(self._standstill, self._passed() - landed)
        self._next[process, number] = entries[-1].offset + 1

    def _passed(self) -> int:
        """The time; but of a silence only a session, as the next owner takes it that the last record is new."""
        self._time += min(self._world.now - self._last, self._memory)
        self._last = self._world.now
        return self._time

    def _landed(self, landed: Landed) -> None:
        now, record = self._passed(), landed.record
        self._written[landed.number, record.g, record.m] = now
        self._landed_at[landed.number, landed.offset] = now
        self._reckoned = [(until, interval) for until, interval in self._reckoned if until >= now]
        longest = max([self._wanted, *(interval for _, interval in self._reckoned)])
        # An interval is reckoned anew four times in it.
        since = now - max(self._memory, (REMEMBERED + 1) * longest) - self._standstill
        lately = [who for who, at in self._written.items() if at >= since]
        groups = {group for _, group, _ in lately}
        self.interval = max(self._wanted * len(groups), len(lately) * SECOND // BUDGET)
        if not self._reckoned or self.interval != self._reckoned[-1][1]:
            self._reckoned.append((0, self.interval))
        self._reckoned[-1] = now + self.interval + self._standstill, self.interval


class Overlap(Promise):
    name = "bounded overlap"
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        plan = stage.plan
        self.slack = stage.trip + plan.unit // 10 + 10 * MS
        """Until an announcement is read."""
        still = any(kind not in ("crash", "shuffle", "close") for kind in plan.faults)
        self.crowd = Crowd(stage, int((10 if still else 4) * plan.unit))
        self.longest = 0
        self._meetings: dict[tuple[Seat, int, int], Meeting] = {}
        self._t_of: dict[Held, int] = {}
        """How long T was when each came to believe for as long as it does."""
        self._stood: dict[Process, int] = {}
        self._stands_since: dict[Process, int] = {}
        stage.sight.began.append(self._began)
        stage.sight.prolonged.append(self._prolonged)
        stage.sight.ended.append(self._parts)
        self.world.on_hindered.append(self._hindered)

    def _hindered(self, process: Process) -> None:
        """It stands still from now on, or no more; a task of it that is held up counts as much."""
        now, since = self.world.now, self._stands_since.pop(process, None)
        if since is not None:
            self._stood[process] = self._stood.get(process, 0) + now - since
        if process.frozen:
            self._stands_since[process] = now
        self._stood[process] = self._stood.get(process, 0) + max(0, process.starved_at - now)

    def _standing(self, process: Process) -> int:
        """For how long it has stood still, all in all."""
        late = int(process.starving_by) if process.starving else 0
        return self._stood.get(process, 0) + self.world.now - self._stands_since.get(process, self.world.now) + late

    def _t(self) -> int:
        return max(self.stage.plan.threshold, BEACONS * self.crowd.interval)

    def _began(self, held: Held) -> None:
        if self.stage.judged(held):
            self._t_of[held] = self._t()
            self._look(held)

    def _prolonged(self, held: Held) -> None:
        if not self.stage.judged(held):
            return
        t = self._t_of[held] = self._t()
        if held.left() * MS > t:
            raise self.broken(f"{held} is believed in for {held.left():.3f} ms more, and T is {t / 1e6:.0f} ms")
        self._look(held)

    def _look(self, held: Held) -> None:
        if not held.believing() or self.stage.between_logs():
            return
        for other in self.stage.sight.seats.get(held.seat, ()):
            if other is held or other.member is held.member or not other.believing():
                continue
            earlier, later = sorted((held, other), key=lambda one: one.token)
            stood = self._stood.get(earlier.process, 0)
            stood += self.world.now - self._stands_since.get(earlier.process, self.world.now)
            self._meetings.setdefault(
                (held.seat, earlier.token, later.token), Meeting(earlier, later, self.world.now, stood)
            )

    def _parts(self, held: Held) -> None:
        for key, meeting in list(self._meetings.items()):
            if held in meeting[:2]:
                del self._meetings[key]
                self._judge(meeting)

    def _judge(self, meeting: Meeting) -> None:
        now = self.world.now
        ends = [now if one.over_at is None else one.over_at for one in meeting[:2]]
        over = [one.process.stopwatch.when(one.last) for one in meeting[:2]]
        met = min(*ends, *over) - meeting.began
        self.longest = max(self.longest, met)
        t = int(self._t_of[meeting.earlier] / (1 - self.stage.plan.drift))
        allowed = t + self.slack + min(t, self._standing(meeting.earlier.process) - meeting.stood)
        if met > allowed and not self.stage.between_logs():
            raise self.broken(
                f"{meeting.earlier} and {meeting.later} both believed for {met / 1e6:.3f} ms, "
                f"{allowed / 1e6:.0f} ms are allowed"
            )

    def end(self) -> None:
        for meeting in self._meetings.values():
            self._judge(meeting)
