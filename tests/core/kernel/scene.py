"""A scene: one ledger, some processes, one judge, and whoever watches.

The judge is a reader like any other (the real one): it reads every record the moment it lands, one at a time, so that checkers
can be told what each record did to the world. That makes it the reader which all others must agree with (promise 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from kernel.process import Process
from kernel.promises import HOOKS, Checker, Landed
from kernel.trace import Story, seat_name
from kernel.wire import CALM, Weather
from pares.core.events import Append, Barrier, Closed, Follow, Lead, Report, Restart, Stop, Trim
from pares.core.wire.changes import Began, Change, MemberLeft, PauseChanged, RoleChanged, SeatChanged
from pares.core.wire.reader import Reader, State
from pares.core.wire.records import (
    AnyRecord,
    BadRecord,
    Beat,
    Did,
    Release,
    Transfer,
    Unknown,
    decode,
)
from pares.sim.engine import MS, Engine, Stopwatch, WallClock
from pares.sim.log import EntryTuple, SimLog
from pares.sim.members.claims.story import DECISIONS, details

GROUP: Final = "stage"
QUIET_KINDS: Final = (Beat, Did)


class Scene:
    """Everything in one simulation. `group` is the group that is judged; others may share its log."""

    def __init__(
        self, seed: int | str = 0, *, group: str = GROUP, weather: Weather = CALM, told: bool = False, begin: int = 0
    ) -> None:
        self.seed = seed
        self.group = group
        self.weather = weather
        self.engine = Engine()
        self.log = SimLog(begin)
        self.story = Story(told=told)
        self.processes: dict[str, Process] = {}
        self.judge = Reader(group)
        self.judge.attach(0, 0)  # it was there before anything was written, wherever the log begins
        self.proof_delay: tuple[int, int] = (MS, 3 * MS)
        self.trims: int | None = None
        """How old entries must be (in nanoseconds) to be trimmed when members no longer need them; None: they stay."""
        self.release: Callable[[], dict[str, int]] = dict
        """What a process that starts now writes and reads of the format, if it is not this release."""
        self.dead: set[str] = set()
        """Incarnations whose lock is free."""
        self._inodes = 0
        self._rng = self.random("scene")
        self._hooks: dict[str, list[Any]] = {name: [] for name in HOOKS}
        self.log.listeners.append(self._landed)
        self.log.listeners.append(self._wake_all)

    def random(self, what: str) -> Random:
        """A stream of chance of its own for each purpose, so that one draw more in one place changes nothing elsewhere."""
        return Random(f"{self.seed}/{what}")

    def watch(self, checkers: Iterable[Checker]) -> None:
        """Lets checkers see what happens from now on."""
        for checker in checkers:
            for name in HOOKS:
                if getattr(type(checker), name) is not getattr(Checker, name):
                    self._hooks[name].append(getattr(checker, name))

    def _tell(self, hook: str, *args: Any) -> None:
        for call in self._hooks[hook]:
            call(*args)

    def _tell_of(self, process: Process, hook: str, *args: Any) -> None:
        """What members of other groups do is nobody's matter here."""
        if process.settings["group"] == self.group:
            for call in self._hooks[hook]:
                call(process, *args)

    # Processes -------------------------------------------------------------------------------------------------------

    def add(
        self, name: str, settings: dict[str, Any], *, stopwatch: Stopwatch | None = None, wall: WallClock | None = None
    ) -> Process:
        settings = {"group": self.group, **settings}
        process = Process(
            self, name, settings, stopwatch=stopwatch or Stopwatch(), wall=wall or WallClock(), rng=self.random(name)
        )
        self.processes[name] = process
        return process

    def next_inode(self) -> int:
        self._inodes += 1
        return self._inodes

    def freeze(self, process: Process, length: int | None = None) -> None:
        """Stops a process in its tracks, for `length` or until it is thawed."""
        if not process.running or process.frozen:
            return
        process.freeze()
        self.note(process.name, "frozen", why="" if length is None else f"for {length / 1e9:.3f} s")
        self._tell_of(process, "frozen", length)
        if length is not None:
            self.engine.after(length, self.thaw, process)

    def thaw(self, process: Process) -> None:
        if process.running and process.frozen:
            self.note(process.name, "thawed")
            process.thaw()

    def kill(self, process: Process) -> None:
        if process.running:
            self.note(process.name, "killed")
            self._tell_of(process, "killed")
            process.kill()

    # What processes tell ---------------------------------------------------------------------------------------------

    def note(self, who: str, what: str, **more: Any) -> None:
        if self.story.told:
            self.story.add(self.engine.now, who, what, **more)

    def began(self, process: Process) -> None:
        self.note(process.id, "starts")
        self._tell_of(process, "began")

    def ended(self, process: Process, id: str) -> None:
        self._tell_of(process, "ended", id)
        if process.proof:
            self.dead.add(id)
            for other in self.processes.values():
                if id in other.watching:
                    self.engine.after(self._rng.randint(*self.proof_delay), other.died, id)

    def watches(self, process: Process) -> None:
        for id in self.dead.intersection(process.watching):
            self.engine.after(self._rng.randint(*self.proof_delay), process.died, id)

    def joined(self, process: Process) -> None:
        self.note(process.id, "is live")
        self._tell_of(process, "joined")

    def over(self, process: Process, effect: Closed | Stop) -> None:
        if isinstance(effect, Closed):
            self.note(process.id, "closed")
        else:
            self.note(process.id, "stopped", why=f"{effect.kind}: {effect.text}")
        self._tell_of(process, "over", effect)

    def restarts(self, process: Process, effect: Restart) -> None:
        self.note(process.id, "begins anew", why=effect.why)

    def led(self, process: Process, effect: Lead) -> None:
        if self.story.told:
            self.note(process.id, "leads", seat=effect.seat, token=self.story.token(effect.token))
        self._tell_of(process, "led", effect)

    def renewed(self, process: Process) -> None:
        self._tell_of(process, "renewed")

    def stepped(self, process: Process, now: int) -> None:
        self._tell_of(process, "stepped", now)

    def followed(self, process: Process, effect: Follow) -> None:
        if self.story.told:
            what = "is fenced" if effect.fenced else "stops"
            self.note(process.id, what, seat=effect.seat, token=self.story.token(effect.token), why=effect.why)
        self._tell_of(process, "followed", effect)

    def barrier(self, process: Process, effect: Barrier) -> None:
        self._tell_of(process, "barrier", effect)

    def barrier_over(self, process: Process, effect: Barrier) -> None:
        if self.story.told:
            self.note(process.id, "barrier returns", seat=effect.seat, token=self.story.token(effect.token))
        self._tell_of(process, "barrier_over", effect)

    def sent(self, process: Process, effect: Append) -> None:
        self._tell_of(process, "sent", effect)

    def reported(self, process: Process, effect: Report) -> None:
        self.note(process.id, "reports", why=f"{effect.kind}: {effect.text}")
        self._tell_of(process, "reported", effect)

    def may_trim(self, process: Process, effect: Trim) -> None:
        """What one group no longer needs another may: only what the judged group says is heeded."""
        if self.trims is not None and process.settings["group"] == self.group:
            self.trim(min(effect.before, self.log.older_than(self.engine.now - self.trims)))

    def hindered(self, process: Process, length: int) -> None:
        """It is slow for so long."""
        process.well_since = self.engine.now + length
        self.disturbed()

    def turned(self, process: Process) -> None:
        self.note(process.name, "is ready" if process.ready else "is not ready")
        self._tell_of(process, "turned")

    def disturbed(self) -> None:
        self._tell("disturbed")

    # The log ---------------------------------------------------------------------------------------------------------

    def trim(self, before: int) -> None:
        if before > self.log.start:
            self.log.trim(before)
            self.note("log", "trimmed", why=f"starts at {self.log.start}")
            if 0 <= self.judge.world.last < self.log.start and not any(map(self._knows, self.processes.values())):
                # Nothing of the group is left, in the log or in a member: whoever comes knows nothing, and so does the judge.
                self._new_judge()

    def _knows(self, process: Process) -> bool:
        """Whether it has read all that was trimmed, and goes on in the judge's world."""
        claims, judge = process.claims, self.judge
        if claims is None or not process.running or process.over is not None or process.settings["group"] != self.group:
            return False
        reader = claims.reader
        there = reader.state is State.FOLDING and process.wire.generation == self.log.generation
        return there and reader.position >= self.log.start and reader.world.base == judge.world.base

    def replace_log(self, *, same: bool = False) -> None:
        """Another log in the place of this one; with `same` its identity does not show it. All connections break."""
        self.log.replace(same=same)
        for process in self.processes.values():
            process.wire.suspect = True
        self.note("log", "replaced")
        self._new_judge()
        self._wake_all([])

    def _new_judge(self) -> None:
        self.judge = Reader(self.group)
        self.judge.attach(0, 0)
        self._tell("replaced")

    def _wake_all(self, entries: list[EntryTuple]) -> None:
        now = self.engine.now
        for process in self.processes.values():
            if process.running and not process.wire.reads_cut:
                process.wake(now + process.wire.lag)

    def _landed(self, entries: list[EntryTuple]) -> None:
        judge, hooks = self.judge, self._hooks["landed"]
        for entry in entries:
            changes = judge.feed([entry])
            counted = judge.world.last == entry[0]
            if not hooks and not self.story.told:
                continue
            try:
                record = decode(entry[2])
            except BadRecord:
                record = None
            if record is not None and record.g != self.group:
                continue
            for change in changes:
                if type(change) is Began:
                    self.story.base(change.base)
            if self.story.told:
                self._tell_story(entry, record, counted, changes)
            if hooks:
                landed = Landed(self.engine.now, entry[0], entry[2], record, counted, changes)
                for hook in hooks:
                    hook(landed)

    # The trace -------------------------------------------------------------------------------------------------------

    def _tell_story(
        self, entry: EntryTuple, record: AnyRecord | Unknown | None, counted: bool, changes: list[Change]
    ) -> None:
        offset = f"#{entry[0]}"
        if record is None:
            self.note("log", "bad record", token=offset)
            return
        kind = record.k if isinstance(record, Unknown) else str(record.__struct_config__.tag)
        if not counted:
            self.note(record.m, f"({kind})", seat=getattr(record, "seat", None), token=offset, why="does not count")
        elif type(record) not in QUIET_KINDS:
            why = f"{self._details(record)} {self._outcome(record, changes)}".strip()
            self.note(record.m, kind, seat=getattr(record, "seat", None), token=offset, why=why)

    def _details(self, record: AnyRecord | Unknown) -> str:
        if isinstance(record, Release | Transfer):  # with the term that they give up, by its name in this story
            to = f"to {record.to}" if isinstance(record, Transfer) else ""
            return f"{to} of {self.story.token(record.token)} ({record.why})".strip()
        return details(record)

    def _outcome(self, record: AnyRecord | Unknown, changes: list[Change]) -> str:
        found: list[str] = []
        for change in changes:
            if type(change) is SeatChanged:
                now = "is free" if change.holder is None else f"is held by {change.holder}"
                found.append(f"{seat_name(change.seat)} {now}")
            elif type(change) is MemberLeft:
                found.append(f"{change.member} is gone ({change.cause})")
            elif type(change) is RoleChanged:
                found.append(f"{change.role} is {change.what}")
            elif type(change) is PauseChanged and not change.on:
                found.append("the pause is over")
        if found:
            return "-> " + ", ".join(found)
        return "-> refused" if isinstance(record, DECISIONS) else ""
