"""A process that runs NELI's core alone, in virtual time, for golden scenarios; `pares.sim.members` plays real members.

A round fetches what is new in every partition's log, and then steps and ticks with the clock read again. The process can be
killed or frozen at any instant: also with a full buffer, between a fetch and the step that hears of it, between its looks at
its two clocks, and between a tick and the append that it made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kernel.wire import Flight, Owner, Wire
from neli_coordinator import BEATS

from pares.core import events as ev
from pares.core.neli.classic import Neli
from pares.core.neli.config import Config
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced
from pares.core.wire.records import Seat
from pares.sim.engine import MS, US, Stopwatch, WallClock
from pares.sim.log import EntryTuple

if TYPE_CHECKING:
    from neli_scene import NeliScene

CHUNK: Final = 1000
NEVER: Final = 2**63
GRACE: Final = 5000 * MS
"""As `runtime.neli.assignment`: beyond the barrier's limit, for the record that says that it is over."""
PROTOCOLS: Final[dict[str, type[Fast | Neli]]] = {"fast-neli": Fast, "neli": Neli}


class PartWire(Owner):
    """One process' connection to one partition's log."""

    def __init__(self, process: NeliProcess, number: int) -> None:
        scene = process.scene
        self.process = process
        self.wire = Wire(scene.engine, scene.logs[number], process.rng, scene.weather, self)
        self.attached = False

    def acked(self, flight: Flight) -> None:
        self.process.answered(flight, ev.Acked(flight.ticket, flight.landed))

    def failed(self, flight: Flight) -> None:
        self.process.answered(flight, ev.Failed(flight.ticket, flight.unknown))


class NeliProcess:
    """One named process; each start is a new incarnation."""

    CLOCKS: ClassVar[tuple[str, str]] = ("stopwatch", "wall")
    """In which order it reads its two clocks for what it hears: as the runtime does."""

    def __init__(
        self, scene: NeliScene, name: str, settings: dict[str, Any], stopwatch: Stopwatch, wall: WallClock, rng: Random
    ) -> None:
        self.scene = scene
        self.name = name
        self.settings = settings
        self.stopwatch = stopwatch
        self.wall = wall
        self.rng = rng
        self.coordinator = scene.coordinator_of(settings["group"])
        self.parts = [PartWire(self, number) for number in range(scene.partitions)]
        self.poll = 20 * MS
        self.barrier_time: Callable[[Seat], int | None] = lambda seat: 0
        self.incarnations = 0
        self.running = self.frozen = self.live = False
        self._stood = self._frozen_at = 0
        self.core: Induced | None = None
        self.over: ev.Closed | ev.Stop | None = None
        self.closing = False
        self.beliefs: dict[Seat, tuple[int, int]] = {}
        """seat -> (token, until): by its own stopwatch."""
        self.well_since = NEVER
        self.freeze_at: tuple[str, int] | None = None
        """A wish: "buffered", between a fetch and hearing of it; "clocks", between the stopwatch and the wall clock, before it
        hears; "ticked", before the append of a tick leaves."""
        self.group_cut = self.oblivious = False
        self.group_heard = 0
        self._to_yield: set[int] = set()
        """What its revocation callback waits for, when it closes."""
        self._left_group = False
        self.owned: set[int] = set()
        self.owned_as: dict[int, str] = {}
        self._inbox: deque[ev.Event] = deque()
        self._left: list[Callable[[], None]] = []
        self._due = NEVER
        self._stamp = 0
        self._life = 0
        self._wake_at = 0
        self._busy = False

    @property
    def id(self) -> str:
        return f"{self.name}~{self.incarnations}"

    @property
    def now(self) -> int:
        return self.stopwatch.read(self.scene.engine.now)

    def believes(self, seat: Seat) -> bool:
        """What `Member.holds` answers at this instant."""
        return self.running and seat in self.beliefs and self.now < self.beliefs[seat][1]

    def belief_ends(self, seat: Seat) -> int:
        """The true time at which this belief ends if nothing renews it."""
        return self.stopwatch.when(self.beliefs[seat][1])

    @property
    def stood(self) -> int:
        """For how long it has stood still, all in all."""
        return self._stood + (self.scene.engine.now - self._frozen_at if self.frozen else 0)

    def well(self, for_so_long: int = 0) -> bool:
        """Whether nothing has hindered it for so long."""
        fine = self.live and self.running and not self.frozen and self.over is None and not self.closing
        return fine and self.well_since + for_so_long <= self.scene.engine.now

    # Life --------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.running, self.frozen, self.live, self.over, self.closing = True, False, False, None, False
        self._life += 1
        self.incarnations += 1
        self._inbox.clear()
        self._left.clear()
        self.beliefs, self.owned, self._busy = {}, set(), False
        self._to_yield, self._left_group = set(), False
        for part in self.parts:
            part.attached = False
        self.well_since = NEVER if self._cut() else self.scene.engine.now
        config = Config(**{"id": self.id, "name": self.name, **self.settings})
        self.core = Induced(PROTOCOLS[self.scene.protocol](config))
        self.scene.note(self.id, "starts")
        self._heartbeat(self._life)
        self.wake(self.scene.engine.now)

    def kill(self) -> None:
        if not self.running:
            return
        self.scene.note(self.id, "killed")
        self.scene.tell("killed", self)
        self.running = self.frozen = self.live = False
        self._life += 1
        self._stamp += 1
        self._due = NEVER
        self.owned = set()
        self.beliefs = {}

    def freeze(self, length: int | None = None) -> None:
        if self.running and not self.frozen:
            self.scene.note(self.name, "frozen", why="" if length is None else f"for {length / 1e9:.3f} s")
            self.frozen, self._frozen_at = True, self.scene.engine.now
            self.well_since = NEVER
            if length is not None:
                self.scene.engine.after(length, self.thaw)

    def thaw(self) -> None:
        if self.running and self.frozen:
            self.scene.note(self.name, "thawed")
            self._stood, self.frozen = self.stood, False
            self.well_since = NEVER if self._cut() else self.scene.engine.now
            left, self._left = self._left, []
            for rest in left:
                rest()
            self._due = NEVER
            self.wake(self.scene.engine.now)

    def cut(
        self,
        *,
        log: bool = False,
        group: bool = False,
        oblivious: bool = False,
        reads: bool = False,
        writes: bool = False,
    ) -> None:
        """From the logs (all of them; or only from reading, or writing them), from the coordinator, or both."""
        for part in self.parts:
            part.wire.reads_cut = log or reads
            part.wire.writes_cut = part.wire.acks_cut = log or writes
        self.group_cut, self.oblivious = group, oblivious
        if self._cut():
            self.well_since = NEVER
        elif self.running:
            self.well_since = self.scene.engine.now
            self.wake(self.scene.engine.now)

    def _cut(self) -> bool:
        return self.group_cut or any(p.wire.reads_cut or p.wire.writes_cut for p in self.parts)

    def close(self) -> None:
        """As the runtime does it: the group is left, which waits for the barriers, and then the protocol is told."""
        if not self.running or self.over is not None or self.closing:
            return
        self.scene.note(self.name, "is closed")
        self.closing, self._to_yield = True, set(self.owned)
        self.hear(ev.Revoked(tuple(sorted(self.owned))))
        if not self.settings.get("exclusive", True):
            self._leave(self._life)  # its callback has returned at once
            self.coordinator.leave(self)
        elif not self._to_yield:
            self._leave(self._life)
        else:
            assert self.core is not None
            limit = self.core.config.barrier_ms * MS + GRACE  # the callback waits no longer
            self.scene.engine.after(limit, self._leave, self._life)

    def _leave(self, life: int) -> None:
        """The group's client stops: heartbeats end here, and not before, as they don't wait for callbacks."""
        if life == self._life and not self._left_group:
            self._left_group = True
            self.hear(ev.Close())

    def hear(self, event: ev.Event) -> None:
        if self.running:
            self._inbox.append(event)
            self.wake(self.scene.engine.now)

    def answered(self, flight: Flight, answer: ev.Event) -> None:
        if flight.sender is self.core:
            self.hear(answer)

    def _heartbeat(self, life: int) -> None:
        """Of the group's client: a thread of its own, which stands still when the process does."""
        if life != self._life or self.over is not None:
            return
        if not self.frozen and not self._left_group:
            self.coordinator.heartbeat(self)
        self.scene.engine.after(self.coordinator.session // BEATS, self._heartbeat, life)

    # Rounds --------------------------------------------------------------------------------------------------------------

    def wake(self, at: int) -> None:
        if at < self._due and self.running:
            self._due = at
            self._stamp += 1
            self.scene.engine.at(at, self._round, self._stamp)

    def _round(self, stamp: int) -> None:
        if stamp != self._stamp or not self.running:
            return
        self._due = NEVER
        if self.frozen or self._busy or self.over is not None:
            return
        core = self.core
        assert core is not None
        while self._inbox and self.over is None:
            self._step(self._inbox.popleft())
        if core is not self.core:
            return
        fetched: list[tuple[int, list[EntryTuple]]] = []
        for number, part in enumerate(self.parts[: len(core.parts)]):
            if part.wire.reads_cut or self.over is not None:
                part.wire.suspect = True
                continue
            if not part.attached:
                part.attached = True
                self._step(ev.Attached(*part.wire.attach(), number))
            why = part.wire.jumped(core.position(number), core.parts[number].track.anchor)
            if why:
                part.attached = False
                self._step(ev.Jumped(why, number))
                self.wake(self.scene.engine.now + MS)
                continue
            fetched.append((number, part.wire.fetch(core.position(number), CHUNK)))
        if self._freezes("buffered"):
            self._busy = True
            self._left.append(lambda: self._finish(core, fetched))
        else:
            self._finish(core, fetched)

    def _finish(
        self, core: Induced, fetched: list[tuple[int, list[EntryTuple]]], looks: dict[str, int] | None = None
    ) -> None:
        """`looks`: what it had read of its clocks for the first of these when it stood still."""
        self._busy = False
        if core is not self.core or not self.running:
            return
        engine = self.scene.engine
        for at, (number, entries) in enumerate(fetched):
            if core is not self.core:
                return  # begun anew
            if looks is None:
                looks = self._look({}, self.CLOCKS[0])
                if entries and self._freezes("clocks"):
                    self._busy = True
                    self._left.append(partial(self._finish, core, fetched[at:], looks))
                    return
            for clock in self.CLOCKS[1:]:
                self._look(looks, clock)
            now = self.now
            passed_us = int((now - looks["stopwatch"]) / (1 - core.config.drift)) // US
            self._step(ev.Read(list(entries), number, looks["wall"] + passed_us), now)
            looks = None
        if core is not self.core:
            return
        self._wake_at = 0
        self._step(ev.Tick(self.wall.read_us(engine.now)))
        if self.over is not None or not self.running:
            return
        due = engine.now if self._inbox else engine.now + self.poll
        if self._wake_at:
            due = min(due, max(self.stopwatch.when(self._wake_at), engine.now + 50 * US))
        for number, part in enumerate(self.parts[: len(core.parts)]):
            arrived = None if part.wire.reads_cut else self.scene.logs[number].arrived(core.position(number))
            if arrived is not None:
                due = min(due, max(arrived + part.wire.lag, engine.now + 20 * US))
        self.wake(due)

    def _look(self, looks: dict[str, int], clock: str) -> dict[str, int]:
        looks[clock] = self.now if clock == "stopwatch" else self.wall.read_us(self.scene.engine.now)
        return looks

    def _freezes(self, point: str) -> bool:
        if self.freeze_at is None or self.freeze_at[0] != point:
            return False
        length, self.freeze_at = self.freeze_at[1], None
        self.freeze(length)
        return True

    # Effects -------------------------------------------------------------------------------------------------------------

    def _step(self, event: ev.Event, now: int | None = None) -> None:
        assert self.core is not None
        for effect in self.core.step(event, self.now if now is None else now):
            self._carry(effect)

    def _carry(self, effect: ev.Effect) -> None:
        scene = self.scene
        if isinstance(effect, ev.Append):
            wire, core = self.parts[effect.partition].wire, self.core
            scene.tell("put", self, effect)
            if self._freezes("ticked"):
                self._left.append(lambda: wire.send(core, effect.ticket, effect.payloads) and None)
            else:
                wire.send(core, effect.ticket, effect.payloads)
        elif isinstance(effect, ev.Lead):
            self.beliefs[effect.seat] = (effect.token, effect.until)
            scene.note(self.id, "leads", seat=effect.seat, token=effect.token)
            scene.tell("led", self, effect)
        elif isinstance(effect, ev.Extend):
            for seat in tuple(self.beliefs) if effect.seats is None else effect.seats:
                if not self.believes(seat) and seat in self.beliefs:
                    self._inbox.append(ev.Lapsed(seat, self.beliefs[seat][0]))  # what has run out is over for good
                elif seat in self.beliefs:
                    self.beliefs[seat] = (self.beliefs[seat][0], effect.until)
            scene.tell("renewed", self, effect)
        elif isinstance(effect, ev.Follow):
            what = "is fenced" if effect.fenced else "stops"
            scene.note(self.id, what, seat=effect.seat, token=effect.token, why=effect.why)
            scene.tell("followed", self, effect)
            if self.beliefs.get(effect.seat, (0, 0))[0] == effect.token:
                del self.beliefs[effect.seat]
        elif isinstance(effect, ev.Barrier):
            scene.tell("barrier", self, effect)
            length = self.barrier_time(effect.seat)
            if length is not None:
                scene.engine.after(length, self._barrier_over, effect, self.core)
        elif isinstance(effect, ev.Yielded):
            self.coordinator.yielded(self, effect.partition)
            self._to_yield.discard(effect.partition)
            if self.closing and not self._to_yield:
                self._leave(self._life)
        elif isinstance(effect, ev.Live):
            self.live = True
            scene.note(self.id, "is live")
        elif isinstance(effect, ev.Report):
            scene.note(self.id, "reports", why=f"{effect.kind}: {effect.text}")
            scene.tell("reported", self, effect)
        elif isinstance(effect, ev.Wake):
            self._wake_at = effect.at
        elif isinstance(effect, ev.Restart):
            scene.note(self.id, "begins anew", why=effect.why)
            self.settings["partitions"] = scene.partitions
            self.coordinator.leave(self)
            self.start()
        elif isinstance(effect, ev.Closed | ev.Stop):
            self.over, self.live = effect, False
            scene.note(self.id, "closed" if isinstance(effect, ev.Closed) else f"stopped: {effect.text}")
            self.coordinator.leave(self)

    def _barrier_over(self, effect: ev.Barrier, core: Induced) -> None:
        if core is not self.core or not self.running:
            return
        if self.frozen:
            self._left.append(lambda: self._barrier_over(effect, core))
            return
        self.scene.tell("barrier_over", self, effect)
        self.scene.note(self.id, "barrier returns", seat=effect.seat, token=effect.token)
        self.hear(ev.WorkOver(effect.seat, effect.token))
