"""A simulated process: its tasks, its clocks, and every place at which it can be stopped.

`cross(kind)` stands at the beginning of each call of the host. It costs a moment of true time, lets others run if they are due,
and is where faults strike. `block` is where a task waits.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Final

from greenlet import GreenletExit, getcurrent

from pares.sim.engine import US, Stopwatch, WallClock
from pares.sim.world.faults import NEVER_RAISES, Strike, error_of
from pares.sim.world.scheduler import NEVER, STUBBORN, Task
from pares.sim.world.seam import Ground, ProcessHost

CALL: Final = 400
"""Nanoseconds of true time that a call of the host takes."""
SOONEST: Final = 1 * US
SPREAD: Final = 59 * US
"""How late a task goes on that was woken: by so much, and by up to so much more."""


class Process:
    """One incarnation of a process: it begins, and it ends once. `machine`: processes of one machine can prove deaths."""

    __slots__ = (
        "__weakref__",
        "_armed_at",
        "_idents",
        "_random",
        "_stop_at",
        "_strikes",
        "_unwinding",
        "alive",
        "at_kill",
        "calls",
        "context",
        "deferred",
        "env",
        "failures",
        "frozen",
        "host",
        "killed",
        "machine",
        "name",
        "now",
        "pid",
        "raised",
        "rng",
        "rounds",
        "starved_at",
        "starving",
        "starving_by",
        "stopwatch",
        "tasks",
        "wall",
        "well_since",
        "world",
    )

    def __init__(
        self,
        world: Ground,
        name: str,
        *,
        machine: str,
        pid: int,
        stopwatch: Stopwatch,
        wall: WallClock,
        rng: Random,
    ) -> None:
        self.world = world
        self.name = name
        self.machine = machine
        self.pid = pid
        self.stopwatch = stopwatch
        self.wall = wall
        self.rng = rng
        self._random = rng.random
        self.context = contextvars.Context()
        """What its tasks begin with."""
        self.host: ProcessHost = None  # type: ignore[assignment] - the world gives it one at once
        self.env: dict[str, str] = {}
        self.alive = True
        self.killed = False
        self.frozen = False
        self.deferred: list[tuple[Task, int, bool]] = []
        """What would have woken tasks while it was frozen."""
        self.tasks: dict[Task, None] = {}
        self.failures: list[tuple[str, BaseException]] = []
        """Tasks that were ended by an exception, and by which."""
        self.raised = 0
        """How many exceptions faults have raised in it."""
        self.calls = 0
        """Calls of its host so far."""
        self.rounds = 0
        """How often a wait for its bells has ended by one of them, or by a time."""
        self.starving = 0.0
        """How likely a woken task comes back late, and how late at most (nanoseconds)."""
        self.starving_by = 0
        self.starved_at = 0
        """The true time at which the last of its tasks that was held up on purpose goes on."""
        self.at_kill: list[Callable[[], object]] = []
        """Called when it is killed or has ended: what the operating system gives back."""
        self.well_since = 0
        """The true time since which no fault has hindered it; NEVER while one does."""
        self._strikes: list[Strike] = []
        self._armed_at: list[int] = []
        """By how many calls each of them counts from; of those that name a kind: how many of that kind have come."""
        self._stop_at = NEVER
        """The next call at which there is something to look at."""
        self._idents = 0
        self._unwinding = 0
        self.now = self._clock()

    def __repr__(self) -> str:
        return f"<Process {self.name} ({self.pid})>"

    # Clocks ----------------------------------------------------------------------------------------------------------

    def _clock(self) -> Callable[[], int]:
        """The stopwatch as its code reads it, thousands of times: as little as can be in between."""
        world, queue, cross = self.world, self.world.events, self._stopped
        watch, me = self.stopwatch, self

        def now() -> int:
            me.calls += 1
            if me.calls >= me._stop_at or world.now >= queue[0][0]:
                return cross("now", clock=True)
            world.now = at = world.now + CALL
            return watch.offset + int((at - watch.since) * watch.rate)  # as `Stopwatch.read` has it

        return now

    def wall_us(self) -> int:
        at, late = self.world.now, [strike for strike in self._strikes if strike.kind == "wall" and strike.late]
        self.cross("wall")
        struck = any(strike not in self._strikes for strike in late)
        return self.wall.read_us(at if struck else self.world.now)

    def reading(self) -> int:
        """Its stopwatch, as nobody in the world is stopped by reading it: for those that look on."""
        watch = self.stopwatch
        return watch.offset + int((self.world.now - watch.since) * watch.rate)

    def deadline(self, seconds: float | None) -> int | None:
        """A reading of its stopwatch so far from now; None: never."""
        if seconds is None:
            return None
        watch, length = self.stopwatch, int(seconds * 1e9)
        now = watch.offset + int((self.world.now - watch.since) * watch.rate)
        return now + length if length > 0 else now

    def set_rate(self, rate: float) -> None:
        """Its stopwatch runs at another rate from now on."""
        self.stopwatch.change(self.world.now, rate)

    # Calls -----------------------------------------------------------------------------------------------------------

    def cross(self, kind: str) -> None:
        """A call of its host begins: others go on if it is their turn, and what is armed strikes."""
        self.calls += 1
        world = self.world
        if self.calls >= self._stop_at or world.now >= world.events[0][0]:
            self._stopped(kind)
        else:
            world.now += CALL

    def _stopped(self, kind: str, clock: bool = False) -> int:
        world = self.world
        if world.quiet:
            self.calls -= 1
            return self.reading()
        if world.dead or not self.alive:
            self._unwind()
        reading = 0
        for strike in self._due(kind) if self.calls >= self._stop_at else ():
            if clock and strike.late and not reading:
                reading = self.reading()
            self._strike(strike, kind)
        world.now += CALL
        if world.now >= world.events[0][0] and world.current is not None:
            self.pause(0)
        return reading or self.reading()

    def _unwind(self) -> None:
        """Code of a world that has ended runs, because its task is unwound: it gets nowhere."""
        self._unwinding += 1
        if self._unwinding > STUBBORN * (1 + len(self.tasks)):
            self.world.hub.switch()  # it loops: it stays where it is
        raise GreenletExit

    def pause(self, length: int) -> None:
        """The running task goes on after so many nanoseconds of true time."""
        world = self.world
        task = world.current or world.task()
        world.put(world.now + length, world.resume, (task, task.ticket, True))
        world.hub.switch()
        if world.dead:
            self._unwind()

    def toil(self, length: int) -> None:
        """The running task has its machine work for so many nanoseconds, when that has done all that others have given it."""
        busy, now = self.world.busy_until, self.world.now
        busy[self.machine] = done = max(now, busy.get(self.machine, 0)) + length
        self.pause(done - now)

    def block(self, what: str, deadline: int | None = None) -> bool:
        """The running task waits until `wake` names its ticket: True; or until its stopwatch reads `deadline`: False."""
        world = self.world
        if world.dead or not self.alive:
            self._unwind()
        task = world.current or world.task()
        if deadline is not None:
            # As `_timer` has it, in a third of the time: this is what tasks do most.
            watch, random = self.stopwatch, self._random
            offset, rate = watch.offset, watch.rate
            away = int((deadline - offset) / rate)
            while offset + int(away * rate) < deadline:
                away += 1
            when = watch.since + away + int(SOONEST + random() * SPREAD)
            if self.starving and random() < self.starving:
                when += int(random() * self.starving_by)
            now = world.now
            world._count = count = world._count + 1
            heappush(world.events, (when if when > now else now, count, self._rings, (task, task.ticket, deadline)))
        task.blocked = what
        woken = world.hub.switch()
        if world.dead:
            self._unwind()
        task.blocked = ""
        return bool(woken)

    def _wait(self) -> bool:
        world = self.world
        value = world.hub.switch()
        if world.dead:
            self._unwind()
        return bool(value)

    def _timer(self, task: Task, ticket: int, deadline: int) -> None:
        world, when = self.world, self.stopwatch.when(deadline) + self._lateness()
        world.put(when if when > world.now else world.now, self._rings, (task, ticket, deadline))

    def _rings(self, task: Task, ticket: int, deadline: int) -> None:
        if task.ticket != ticket or not self.alive:
            return
        world, watch = self.world, self.stopwatch
        if watch.offset + int((world.now - watch.since) * watch.rate) < deadline:  # its rate has changed
            self._timer(task, ticket, deadline)
        else:
            world.resume(task, ticket, False)

    def wake(self, task: Task, ticket: int) -> None:
        """A task that waits under this ticket goes on, soon."""
        if task.ticket == ticket and not task.over:
            world = self.world
            world.put(world.now + self._lateness(), world.resume, (task, ticket, True))

    def _lateness(self) -> int:
        late = int(SOONEST + self._random() * SPREAD)
        if self.starving and self._random() < self.starving:
            late += int(self._random() * self.starving_by)
        return late

    # Faults ----------------------------------------------------------------------------------------------------------

    def arm(self, strike: Strike) -> None:
        """It strikes at the call that it names, counted from now."""
        self._strikes.append(strike)
        self._armed_at.append(0 if strike.kind else self.calls)
        self._aim()

    @property
    def armed(self) -> bool:
        """Whether something has yet to strike."""
        return bool(self._strikes)

    def disarm(self) -> None:
        """Nothing strikes any more."""
        self._strikes.clear()
        self._armed_at.clear()
        self._aim()

    def _aim(self) -> None:
        due = [0 if s.kind else armed + s.at for s, armed in zip(self._strikes, self._armed_at, strict=True)]
        self._stop_at = min(due, default=NEVER)

    def halt(self) -> None:
        """Every call is looked at from now on: the world has ended, or the process."""
        self._stop_at = 0

    def _due(self, kind: str) -> list[Strike]:
        """What strikes at this call; it is armed no more."""
        found: list[Strike] = []
        left: list[tuple[Strike, int]] = []
        for strike, armed_at in zip(self._strikes, self._armed_at, strict=True):
            if strike.kind:
                armed_at += strike.kind == kind
                due = strike.kind == kind and armed_at >= strike.at
            else:
                due = self.calls >= armed_at + strike.at and not (strike.action == "raise" and kind in NEVER_RAISES)
            if due:
                found.append(strike)
            else:
                left.append((strike, armed_at))
        self._strikes = [strike for strike, _ in left]
        self._armed_at = [armed_at for _, armed_at in left]
        self._aim()
        return found

    def _strike(self, strike: Strike, kind: str) -> None:
        world = self.world
        world.told(self, f"{strike.action} at call {self.calls} ({kind})")
        if strike.action == "kill":
            world.kill(self)
            world.hub.switch()
            self._unwind()
        elif strike.action == "freeze":
            world.freeze(self, strike.length)
            self.pause(0)
        elif strike.action == "starve":
            self.starved_at = world.now + strike.length
            world.hindered(self)
            self.pause(strike.length)
        else:
            self.raised += 1
            world.hindered(self)
            raise error_of(strike, kind)

    # Tasks -----------------------------------------------------------------------------------------------------------

    def spawn(self, run: Callable[[], object], name: str) -> Task:
        """A task of this process, which begins soon."""
        self._idents += 1
        task = Task(self, self.pid * 1_000_000 + self._idents, run, name)
        self.tasks[task] = None
        self.world.after(self._lateness(), self.world.resume, task, task.ticket, True)
        return task

    def ended(self, task: Task) -> None:
        self.tasks.pop(task, None)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        deferred, self.deferred = self.deferred, []
        for task, ticket, value in deferred:
            self.world.after(self._lateness(), self.world.resume, task, ticket, value)

    def end(self) -> None:
        """The process is gone, and what it had is given back."""
        self.alive = False
        self.halt()
        self.deferred.clear()
        tasks, self.tasks = list(self.tasks), {}
        self.world.drop(tasks)
        given, self.at_kill = self.at_kill, []
        for give_back in given:
            give_back()

    @property
    def running(self) -> bool:
        return self.alive

    def inside(self) -> bool:
        """Whether one of its tasks runs just now."""
        return self.world.current is not None and self.world.current.greenlet is getcurrent()
