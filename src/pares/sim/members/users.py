"""Users' programs: what a process runs that has a member. Each is written as the documents say, in one of several styles.

They also watch: a term that was seen to be over is asked again and again, and what a term's holder writes goes to a fence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import ParesError
from pares.runtime.events import Acquired, Event, Revoked
from pares.runtime.member import Member
from pares.runtime.term import Term
from pares.sim.engine import Stopwatch, WallClock

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process

REMEMBERED: Final = 4
"""Terms that are over and are asked again."""


class BarrierRaised(Exception):
    """What a barrier of a user's raises now and then."""


class User:
    """One place in the group: a program that is started, and started again, under one name."""

    def __init__(self, stage: Stage, place: int, name: str | None = None, member: str | None = None) -> None:
        plan = stage.plan
        self.stage = stage
        self.place = place
        self.name = name or f"m{place}"
        """Of its process; and its member's, unless that has another's."""
        self.member_name = member or self.name
        self.group = stage.group
        self.roles: tuple[str, ...] = stage.roles
        kind = place % plan.members
        self.machine = f"machine-{place % plan.machines}"
        self.session_ms = plan.sessions[kind]
        self.style = plan.styles[kind]
        self.connect: Any = plan.connect[kind]
        self.weather = plan.weathers[kind]
        self.warm = plan.warm[kind] if plan.warm else ""
        """How ready it is whenever it starts, of `rare.STARTS`; empty: as `starts` says."""
        self.has_ready = plan.starts[kind] or "ready" in plan.faults or bool(self.warm)
        self.has_barrier = plan.barrier >= 0
        self.ready = self._ready_at_start()
        self.unready_since: int | None = None
        """The true time at which its check first said that it is not ready, if that is what it said last."""
        self.rng: Random = stage.world.random(f"user {self.name}")
        own = Stopwatch(self.rng.randint(0, 10**15), plan.rates[kind])
        apart = not plan.stamps or (bool(plan.apart) and plan.apart[kind])
        self.stopwatch = own if apart else stage.stopwatches.setdefault(self.machine, own)
        self.wall = WallClock(int(self.rng.uniform(-1, 1) * plan.wall_spread * 1e6))
        self.process: Process | None = None
        self.member: Member | None = None
        self.ledger: Any = None
        """Its handle on the log, or on the bus."""
        self.closing: Any = None
        self.starts = 0
        self.draining = False
        self.barrier_time: int | None = None
        """How long its barriers take, in nanoseconds, if not as the plan has it."""
        self.hanging: list[Process] = []
        """Where its callback runs for so long now, once for each call."""

    def step_length(self) -> float:
        """How long the next step of its work takes, in seconds."""
        return self.rng.expovariate(1) * self.stage.plan.step_ms / 1000

    def usual_barrier(self) -> None:
        self.barrier_time = None

    # For the storm ---------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def over(self) -> object:
        """None while its program goes on, and is not asked to end."""
        return True if self.closing is None or self.closing.is_set() else None

    @property
    def beliefs(self) -> bool:
        return self.process is not None and bool(self.stage.sight.open.get(self.process))

    def start(self) -> None:
        if self.running:
            return
        self.starts += 1
        self.ready, self.unready_since = self._ready_at_start(), None
        self.member, self.ledger, self.closing, self.draining = None, None, None, False
        self.process = self.stage.world.start(
            self.name,
            self.main,
            machine=self.machine,
            stopwatch=self.stopwatch,
            wall=self.wall,
            env=self.stage.environment(),
        )
        plan = self.stage.plan
        self.process.starving = 0.0 if self.stage.calm else plan.starving
        self.process.starving_by = int(plan.starving_by * plan.unit)
        self.stage.users[self.process] = self
        if self.warm in ("later", "flaps"):
            self._warm_up(self.process)

    def _ready_at_start(self) -> bool:
        plan = self.stage.plan
        return self.warm == "ready" if self.warm else not plan.starts[self.place % plan.members]

    def _warm_up(self, process: Process) -> None:
        plan = self.stage.plan
        self.stage.world.after(int(self.rng.uniform(0.05, 1) * plan.warm_up * plan.unit), self._turn, process)

    def _turn(self, process: Process) -> None:
        """It is ready now, or not any more. Once that is over it disturbs nobody: whatever others lead is led."""
        if process is self.process and process.alive:
            self.ready = self.warm == "later" or not self.ready
            process.well_since = max(process.well_since, self.stage.world.now)
            if self.warm == "flaps":
                self.stage.disturbed()
                self._warm_up(process)

    def turns_ready(self) -> None:
        """The storm is over, and so is whatever kept it from being ready; but for those that never are, or now and then."""
        self.ready = self.ready or self.warm in ("", "ready", "later")

    @property
    def stopped(self) -> bool:
        """Whether its member has ended by an error, and its process runs on."""
        if not self.running or self.member is None:
            return False
        with self.stage.world.looking():
            return self.member.state == "failed"

    def replace_stopped(self) -> None:
        """Its people start its process again, if its member has ended by an error."""
        if self.stopped and self.process is not None:
            self.stage.world.kill(self.process)
            self.start()

    def ask(self, act: Callable[[Member], object], what: str) -> None:
        """Something that its user does, on a task of its own."""
        process, member = self.process, self.member
        if process is None or member is None or not process.alive:
            return

        def run() -> None:
            try:
                act(member)
            except (ParesError, MemoryError, OSError, RuntimeError) as error:
                self.stage.world.told(process, f"{what}: {error!r}")

        self.stage.world.told(process, f"its user: {what}")
        self.stage.asks(member, what)
        process.spawn(run, what)

    def close(self) -> None:
        """It leaves, and its process exits."""
        if self.process is not None and self.closing is not None:
            self.process.spawn(self.closing.set, "close")

    # The program -----------------------------------------------------------------------------------------------------

    def main(self, process: Process) -> None:
        stage, host = self.stage, process.host
        plan = stage.plan
        self.closing = host.flag()
        self.ledger = stage.medium(process, self)
        member = self.member = Member(
            self.ledger,
            group=self.group,
            roles=self.roles,
            name=self.member_name,
            host=self.machine,
            barrier=(lambda event: self.barrier(process, event)) if self.has_barrier else None,
            barrier_timeout=plan.barrier_timeout,
            ready=self._is_ready if self.has_ready else None,
            connect=self.connect,
            **stage.settings(self),
        )
        for role in self.roles:
            host.spawn(lambda role=role: self._works(process, member, role), f"{self.style} {role}")
        if plan.neighbours:
            other = Member(
                self.ledger,
                group="neighbours",
                roles="x",
                name=self.name,
                session=self.session_ms / 1000,
                drift=plan.drift,
            )
            host.spawn(lambda: self._works(process, other, "x"), "neighbour")
        self.closing.wait()
        timeout = self.close_within()
        if timeout is not None:
            stage.terms.closing(process, member, timeout)
        member.close(timeout)
        stage.terms.closed(process, member)
        host.sleep(self.rng.choice((0, 1, 4)) * self.session_ms / 1000)  # a program may go on without its member

    def close_within(self) -> float | None:
        """Seconds that its member is given to close; None: as many as it needs."""
        return self.rng.choice((None, None, 0.2 * self.session_ms / 1000))

    def _is_ready(self) -> bool:
        if self.ready:
            self.unready_since = None
        elif self.unready_since is None:
            self.unready_since = self.stage.world.now
        return self.ready

    def barrier(self, process: Process, event: Event) -> None:
        plan, work = self.stage.plan, self.stage.work
        if not isinstance(event, Acquired | Revoked):
            return
        key = (event.role, event.seat, event.token)
        length = self.rng.uniform(0, plan.barrier) * plan.session_ms / 1000
        rest = process.host.sleep
        if self.barrier_time is not None:
            length, rest = self.barrier_time / 1e9, self._hangs(process)
        if isinstance(event, Acquired):
            rest(length)
            if plan.barrier_raises and self.rng.random() < plan.barrier_raises and not self.stage.calm:
                raise BarrierRaised(f"for {key}")
            work.initialised.add((process, key))
            return
        running = work.begin(process, key, "barrier")
        try:
            rest(length)
        finally:
            work.finish(running)

    def _hangs(self, process: Process) -> Callable[[float], None]:
        """Sleeps in that process, and says so meanwhile."""

        def rest(seconds: float) -> None:
            self.hanging.append(process)
            try:
                process.host.sleep(seconds)
            finally:
                self.hanging.remove(process)

        return rest

    # Styles ----------------------------------------------------------------------------------------------------------

    def _works(self, process: Process, member: Member, role: str) -> None:
        watcher = Watcher(self, process, member, role)
        try:
            watcher.run(self.style)
        except ParesError as error:
            self.stage.world.told(process, f"work for {role!r} ends: {error!r}")


class Watcher:
    """The work of one role in one process."""

    def __init__(self, user: User, process: Process, member: Member, role: str) -> None:
        self.user, self.stage = user, user.stage
        self.process, self.host, self.member, self.role = process, process.host, member, role
        self.old: deque[Term] = deque(maxlen=REMEMBERED)

    def run(self, style: str) -> None:
        getattr(self, f"_{style}")()

    def asks(self, term: Term) -> bool:
        """Whether the term is true, as any code would ask it; and those before it, which must be over."""
        truth = bool(term)
        self.stage.terms.saw(self.process, term, truth)
        for old in self.old:
            self.stage.terms.saw(self.process, old, bool(old))
        if not truth and term not in self.old:
            self.old.append(term)
        return truth

    def step(self, term: Term, what: str) -> None:
        """A piece of work. Its write comes at its end, whatever has become of the term by then."""
        work, user = self.stage.work, self.user
        running = None
        if what not in ("poll", "wait"):  # of which no handover knows
            running = work.begin(self.process, term.key, what, barrier=self.member is user.member)
        held = self.stage.sight.open.get(self.process, {}).get(term)
        try:
            self.host.sleep(user.step_length())
            if held is not None:
                self.stage.tokens.write(held)
        finally:
            if running is not None:
                work.finish(running)

    def _terms(self) -> None:
        for term in self.member.terms(self.role):
            while self.asks(term):
                self.step(term, "terms")

    def _background(self) -> None:
        def task() -> None:
            term = self.member.wait(self.role, 0)  # the term whose work this is, and not one whose barrier still runs
            if term is not None and self.asks(term):
                self.step(term, "background")

        self.member.background(task, self.role, every=self.stage.plan.step_ms / 1000).wait()

    def _only(self) -> None:
        @self.member.only(self.role)
        def guarded() -> None:
            term = self.member.wait(self.role, 0)  # the term whose work this is, and not one whose barrier still runs
            if term is not None and self.asks(term):
                self.step(term, "only")

        while not self.user.over:
            guarded()
            self.host.sleep(self.stage.plan.step_ms / 1000)

    def _wait(self) -> None:
        while (term := self.member.wait(self.role)) is not None:
            while not term.wait_lost(self.stage.plan.step_ms / 1000):
                self.asks(term)
                self.step(term, "wait")
            self.asks(term)
            if self.user.over:
                return

    def _poll(self) -> None:
        while self.member.state in ("joining", "live"):
            term = self.member.term(self.role) if self.member.holds(self.role) else None
            if term is not None:
                self.asks(term)
                self.step(term, "poll")
            for old in self.old:
                self.stage.terms.saw(self.process, old, bool(old))
            self.host.sleep(self.stage.plan.step_ms / 1000)
