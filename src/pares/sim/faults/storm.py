"""Faults: what befalls processes, and the ledger, while the storm lasts. One function a kind of fault.

Each takes what it needs from the seed's chance and does something that could happen: to a process, to its connection, to the
log. What they must never do is break an assumption that promises are made under (A1, A2), unless the checkers know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pares.core.events import Close, Ready
from pares.core.wire.records import Done, Seat, Take
from pares.sim.engine import MS
from pares.sim.faults import intruders
from pares.sim.faults.random_events import Chance

if TYPE_CHECKING:
    from pares.sim.play import Play
    from pares.sim.process import Process


NAMES: Final = 40
"""Names under which a process that dies again and again starts, at most."""


class Storm(Chance["Process"]):
    """Draws faults, at random times, until it is over."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.scene = play.scene
        self.knobs = knobs = play.knobs
        self.replaced = False
        self.terms: list[tuple[str, Seat, int]] = []
        """The member (by name) that has led each seat, and by which token: of those that wrote of their work."""
        self.looping: Process | None = None
        """One at a time dies again and again."""
        self.names = 0
        """How many have started, and died, under a name of their own."""
        until = int(knobs.storm * play.unit)
        super().__init__(
            play.scene.engine, play.scene.random("storm"), knobs.faults, pace=knobs.pace, unit=play.unit, until=until
        )

    def happen(self, kind: str) -> None:
        STRIKES[kind](self)

    def own(self) -> list[Process]:
        return self.play.own

    # Processes -------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        process = self.someone()
        if process is None:
            return
        self.scene.kill(process)
        if self.rng.random() < 0.7:
            self.engine.after(self.span(0, 6), self.play.start, process)

    def half(self) -> None:
        """Half of the members die in one instant; rather those who lead."""
        running = [p for p in self.play.own if p.running and p.over is None]
        leading = [p for p in running if p.beliefs]
        self.rng.shuffle(running)
        if self.rng.random() < self.RATHER:
            running.sort(key=lambda p: p not in leading)
        for process in running[: len(running) // 2]:
            self.scene.kill(process)
            if self.rng.random() < 0.7:
                self.engine.after(self.span(0, 6), self.play.start, process)

    def loop(self) -> None:
        """Somebody dies and starts again, under its name, as long as the storm lasts: at times before it has joined."""
        process = self.someone()
        if process is not None and self.looping is None:
            self.looping = process
            self._again(process, self.rng.choice((0.2, 0.5, 1.5)))

    def _again(self, process: Process, longest: float) -> None:
        self.scene.kill(process)
        self.play.start(process)
        after = self.span(0.02, longest)
        if self.engine.now + after < self.over_at:
            self.engine.after(after, self._again, process, longest)

    def name_after_name(self) -> None:
        """A process made like one of them starts and dies again and again, each time under another name: some before they have
        joined, some when they hold something."""
        process = self.someone()
        if process is not None and not self.names:
            self._another(process, self.rng.choice((0.2, 0.5, 1.0)))

    def _another(self, like: Process, longest: float) -> None:
        self.names += 1
        newcomer = self.play.add_another(like, f"new{self.names}")
        self.play.start(newcomer)
        self.engine.after(self.span(0.02, longest), self._gone, newcomer, longest)

    def _gone(self, newcomer: Process, longest: float) -> None:
        self.play.forget(newcomer)
        after = self.span(0.02, longest)
        if self.names < NAMES and self.engine.now + after < self.over_at:
            self.engine.after(after, self._another, newcomer, longest)

    def freeze(self) -> None:
        process = self.someone()
        if process is not None:
            self.scene.freeze(process, self.span(0.05, 4))

    def freeze_inside(self) -> None:
        process = self.someone()
        if process is not None:
            process.freeze_at = (self.rng.choice(("fetched", "ticked", "clock")), self.span(0.2, 4))

    def freeze_fetch(self) -> None:
        process = self.someone()
        if process is not None:
            process.freeze_at = ("fetching", self.span(0.2, 2))

    def consume(self) -> None:
        """Somebody writes, of a seat that it holds or has held, what it takes or has done: by any token that it ever had there,
        and of any range near where the seat stands."""
        process = self.someone(holder=True)
        if process is None:
            return
        self.terms += [(process.name, seat, token) for seat, token in process.beliefs.items()]
        mine = [(seat, token) for name, seat, token in self.terms if name == process.name]
        anybodys = [(seat, token) for _, seat, token in self.terms]
        if not mine:
            return
        for _ in range(self.rng.randint(1, 4)):
            seat, token = self.rng.choice(mine if self.rng.random() < 0.7 else anybodys)
            state = self.scene.judge.world.seats.get(seat)
            near = max(0, self.rng.randint(-4, 4) + (0 if state is None else state.taken))
            kind = self.rng.choice((Take, Take, Done))
            process.work(kind, seat=seat, token=token, first=near, last=near + self.rng.randint(0, 3))

    def stall(self) -> None:
        process = self.someone()
        if process is not None:
            process.stall_next = self.span(0.1, 2)

    def close(self) -> None:
        process = self.someone()
        if process is not None:
            self.play.disturb()
            self.scene.note(process.name, "is closed")
            process.request(Close())
            self.engine.after(self.span(1, 6), self.play.start_if_over, process)

    def ready(self) -> None:
        process = self.someone()
        if process is None:
            return
        self.play.disturb()
        self.scene.note(process.name, "is not ready")
        process.ready = False
        process.request(Ready(False))
        self.engine.after(self.span(0.05, 4), self.play.make_ready, process)

    def late_joiner(self) -> None:
        waiting = [p for p in self.play.own if p.incarnations == 0]
        if waiting:
            self.play.start(self.rng.choice(waiting))

    def twin(self) -> None:
        """Another process starts under the name of one that may well be alive."""
        process = self.someone()
        if process is not None and len(self.play.own) < self.knobs.members + 2:
            self.play.start(self.play.add_twin(process))

    def barrier(self) -> None:
        """The next barriers of somebody are slow, or never return."""
        process = self.someone(holder=True)
        if process is not None:
            length = None if self.rng.random() < 0.3 else self.span(0.1, 3)
            process.barrier_time = lambda seat, token: length
            self.engine.after(self.span(1, 4), self.play.usual_barrier, process)

    # Connections -----------------------------------------------------------------------------------------------------

    def _cut(self, process: Process | None, what: str, *, reads: bool, writes: bool, acks: bool) -> None:
        if process is None or not process.reachable:
            return
        wire = process.wire
        wire.reads_cut, wire.writes_cut, wire.acks_cut = reads, writes, acks
        self.scene.note(process.name, what)
        self.play.troubled(process)
        self.engine.after(self.span(0.3, self.knobs.cut), self.play.heal, process)

    def deaf(self) -> None:
        self._cut(self.someone(), "is deaf", reads=True, writes=False, acks=False)

    def mute(self) -> None:
        self._cut(self.someone(), "is mute", reads=False, writes=True, acks=True)

    def cut(self) -> None:
        self._cut(self.someone(), "is cut off", reads=True, writes=True, acks=True)

    def one_way(self) -> None:
        """What it sends arrives; nothing comes back, no answers either."""
        self._cut(self.someone(), "hears nothing", reads=True, writes=False, acks=True)

    def outage(self) -> None:
        """The ledger is out of everybody's reach."""
        self.play.disturb()
        self.scene.note("log", "out of reach")
        length = self.span(0.1, 4)
        for process in self.play.own:
            wire = process.wire
            wire.reads_cut = wire.writes_cut = wire.acks_cut = True
            self.play.troubled(process)
            self.engine.after(length, self.play.heal, process)

    # The log ---------------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Copies of what stood in the log, of any age, land again."""
        entries = self.scene.log.entries()
        for _ in range(self.rng.randint(1, 6)):
            if entries:
                entry = self.rng.choice(entries)
                self.engine.after(self.span(0, 1), self.scene.log.append, [entry[2]], self.engine.now)

    def garbage(self) -> None:
        for payload in intruders.garbage(self.rng, self.scene):
            self.scene.log.append([payload], self.engine.now)

    def false_snapshot(self) -> None:
        """Whole, at a place, and of a world that is not so: its writer is no member of it."""
        payload = intruders.false_snapshot(self.rng, self.scene)
        if payload is not None:
            self.scene.log.append([payload], self.engine.now)

    def forge(self) -> None:
        """A record in the name of a live member which that one never wrote, as of a cloned process."""
        payload = intruders.forgery(self.rng, self.scene)
        if payload is not None:
            self.play.disturb()
            self.scene.log.append([payload], self.engine.now)

    def future(self) -> None:
        """A member of a later version: it writes kinds that nobody here knows, and records above what they can read."""
        intruders.Future(self.play, self.rng).begin()

    def trim(self) -> None:
        """Retention: what is older than ten of the longest sessions goes; some logs take one record, some all of them."""
        if self.knobs.retention is not None:
            age = int(self.knobs.retention * max(self.knobs.sessions) * MS)
            self.scene.trim(self.scene.log.older_than(self.engine.now - age))

    def forgetful(self) -> None:
        """The log keeps far less than it should: what is older than one of the longest sessions is gone, snapshots too. That
        is no reason for two to lead: whoever finds no way in knows that it knows nothing (R12)."""
        longest = max(self.knobs.sessions) * MS / (1 - self.knobs.drift)
        self.scene.trim(self.scene.log.older_than(self.engine.now - int(1.1 * longest)))

    def replace(self) -> None:
        """The log is deleted, and another one stands in its place, perhaps under the same identity: once in a history."""
        if not self.replaced:
            self.replaced = True
            self.play.disturb()
            self.scene.replace_log(same=self.rng.random() < 0.3)

    def wall(self) -> None:
        """Somebody's wall clock is set, by a little or a lot."""
        process = self.someone()
        if process is not None:
            process.wall.offset_us += int(self.rng.choice((1, 1000)) * self.rng.uniform(-1, 1) * 1e6)


STRIKES: Final[dict[str, Callable[[Storm], None]]] = {
    "crash": Storm.crash,
    "half": Storm.half,
    "loop": Storm.loop,
    "names": Storm.name_after_name,
    "freeze_fetch": Storm.freeze_fetch,
    "consume": Storm.consume,
    "freeze": Storm.freeze,
    "freeze_inside": Storm.freeze_inside,
    "deaf": Storm.deaf,
    "mute": Storm.mute,
    "cut": Storm.cut,
    "one_way": Storm.one_way,
    "outage": Storm.outage,
    "stall": Storm.stall,
    "replay": Storm.replay,
    "garbage": Storm.garbage,
    "false_snapshot": Storm.false_snapshot,
    "forge": Storm.forge,
    "future": Storm.future,
    "twin": Storm.twin,
    "close": Storm.close,
    "ready": Storm.ready,
    "late_joiner": Storm.late_joiner,
    "trim": Storm.trim,
    "forgetful": Storm.forgetful,
    "replace": Storm.replace,
    "barrier": Storm.barrier,
    "wall": Storm.wall,
}
