"""A simulated process that runs ALLCALL: the real protocol, driven by virtual time; see `pares.sim.process`.

Whatever it hears is stepped at once, unless it stands still: then what comes waits, and when it goes on it looks at the clock
first, or at what has come, as it happens. It can be killed or frozen at any instant, also between a step and what the step
asks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pares.core import events as ev
from pares.core.allcall.config import Settings
from pares.core.allcall.messages import Call, decode
from pares.core.allcall.protocol import AllCall
from pares.core.wire.records import Seat
from pares.sim.allcall.net import LONG_AGO, Message, Station
from pares.sim.engine import US, Stopwatch, WallClock

if TYPE_CHECKING:
    from pares.sim.allcall.scene import AllCallScene

NEVER: Final = 2**63
BUFFER: Final = 2000
"""Messages that wait for a process that stands still; later ones are dropped."""


class AllCallProcess:
    """One named process; each start is a new incarnation."""

    def __init__(
        self,
        scene: AllCallScene,
        name: str,
        settings: dict[str, Any],
        stopwatch: Stopwatch,
        wall: WallClock,
        rng: Random,
    ) -> None:
        self.scene = scene
        self.name = name
        self.settings = settings
        self.stopwatch = stopwatch
        self.wall = wall
        self.rng = rng
        self.wakes_late = 0
        """Nanoseconds by which it wakes up later than it asked for, at most."""
        self._oversleeps = scene.random(f"{name}/wakes")
        self.station = Station()
        self.incarnations = 0
        self.id = f"{name}~0"
        self.running = self.frozen = False
        self.frozen_since = LONG_AGO
        self.core: AllCall | None = None
        self.over: ev.Closed | None = None
        self.beliefs: dict[Seat, tuple[int, int]] = {}
        """seat -> (token, until): by its own stopwatch."""
        self.views: dict[str, str | None] = {}
        """Whom it was told to take for the leader of each role."""
        self.peers: set[str] = set()
        self.started = LONG_AGO
        self.well_since = NEVER
        self.ready = True
        self.barrier_time: Callable[[], int | None] = lambda: 0
        """How long its next barrier takes; None: it never returns."""
        self.barriers: dict[Seat, int] = {}
        """Of each barrier that runs the term's token."""
        self.freeze_at = 0
        """A wish: to be frozen for so long between the next step and its effects."""
        self._inbox: deque[Message | ev.Event] = deque()
        self._left: list[Callable[[], None]] = []
        self._due = NEVER
        self._stamp = 0

    def key(self) -> tuple[int, str]:
        """By which it is preferred: the lower."""
        return (self.settings["rank"], self.id)

    @property
    def now(self) -> int:
        return self.stopwatch.read(self.scene.engine.now)

    @property
    def roles(self) -> tuple[str, ...]:
        return self.settings["roles"]

    def believes(self, seat: Seat) -> bool:
        """What `Member.holds` answers at this instant."""
        return self.running and seat in self.beliefs and self.now < self.beliefs[seat][1]

    @property
    def acts(self) -> bool:
        """It runs, and does not stand still."""
        return self.running and not self.frozen and self.over is None

    def well(self, for_so_long: int = 0) -> bool:
        """Whether nothing has hindered it for so long, as far as itself and its connection go."""
        return self.acts and self.well_since + for_so_long <= self.scene.engine.now

    # Life --------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.running, self.frozen, self.over = True, False, None
        self.incarnations += 1
        self.id = f"{self.name}~{self.incarnations}"
        self._inbox.clear()
        self._left.clear()
        self.beliefs, self.views, self.peers, self.barriers = {}, {}, set(), {}
        self.ready = True
        self._due, self.freeze_at = NEVER, 0
        self.started = self.scene.engine.now
        self._well_again()
        settings = Settings(**{"id": self.id, **self.settings})
        self.core = AllCall(settings, self.now, self.wall.read_us(self.scene.engine.now))
        self.scene.note(self.id, "starts")
        self.scene.tell("began", self)
        self.step(ev.Tick(self.wall.read_us(self.scene.engine.now)))

    def kill(self) -> None:
        if not self.running:
            return
        self.scene.note(self.id, "killed")
        self.scene.tell("killed", self)
        self._end()

    def _end(self) -> None:
        self.running = self.frozen = False
        self._stamp += 1
        self._due = NEVER
        self.well_since = NEVER
        self.beliefs, self.barriers = {}, {}

    def freeze(self, length: int) -> None:
        if self.acts:
            self.scene.note(self.name, "frozen", why=f"for {length / 1e9:.3f} s")
            self.frozen = True
            self.frozen_since = self.scene.engine.now
            self.well_since = NEVER
            self.scene.engine.after(length, self.thaw, self.incarnations)

    def thaw(self, incarnation: int) -> None:
        if not self.running or not self.frozen or incarnation != self.incarnations:
            return
        self.scene.note(self.name, "thawed")
        self.frozen = False
        self._well_again()
        self.scene.tell("thawed", self)
        left, self._left = self._left, []
        for rest in left:
            rest()
        came = [*self._inbox]
        self._inbox.clear()
        clock = ev.Tick(self.wall.read_us(self.scene.engine.now))
        if self.rng.random() < 0.5:
            self.step(clock)
        for each in came:
            self.take(each)
        self.step(ev.Tick(self.wall.read_us(self.scene.engine.now)))

    def connected_again(self, *, missed: bool = False) -> None:
        """Nothing hinders its connection any more, or not all of it. `missed`: it is another one, and the process is told."""
        if self.running and not self.frozen:
            self._well_again()
        if missed and self.running:
            self.scene.tell("asked", self)
            self.take(ev.Reconnected())

    def _well_again(self) -> None:
        self.well_since = self.scene.engine.now if self.station.well else NEVER

    def close(self) -> None:
        self.ask(ev.Close())

    def step_down(self, role: str | None = None) -> None:
        self.ask(ev.StepDown(role))

    def become(self, *, ready: bool) -> None:
        if self.running and self.over is None and self.ready is not ready:
            self.ready = ready
            self.ask(ev.Ready(ready))

    def ask(self, event: ev.Event) -> None:
        if self.running and self.over is None:
            self.scene.note(self.name, "is asked", why=type(event).__name__)
            self.scene.tell("asked", self)
            self.take(event)

    # What happens to it --------------------------------------------------------------------------------------------------

    def hear(self, message: Message) -> None:
        if self.running and self.over is None:
            self.scene.tell("arrived", self, message)
            self.take(message)

    def take(self, event: Message | ev.Event) -> None:
        if not self.running or self.over is not None:
            return
        if self.frozen:
            if len(self._inbox) < BUFFER:
                self._inbox.append(event)
        elif isinstance(event, Message):
            self.scene.tell("heard", self, event)
            self.step(ev.Received(event.payload, self.wall.read_us(self.scene.engine.now)))
        else:
            self.step(event)

    def step(self, event: ev.Event) -> None:
        if not self.acts:
            return
        assert self.core is not None
        self._carry_all(self.core.step(event, self.now), 0)

    def _carry_all(self, effects: list[ev.Effect], done: int) -> None:
        core = self.core
        for number in range(done, len(effects)):
            if self.freeze_at and isinstance(effects[number], ev.Publish):
                length, self.freeze_at = self.freeze_at, 0
                self.freeze(length)
                self._left.append(lambda number=number: self._carry_all(effects, number) if core is self.core else None)
                return
            self._carry(effects[number])

    def _carry(self, effect: ev.Effect) -> None:
        scene = self.scene
        match effect:
            case ev.Publish(payload):
                call = decode(payload)
                assert isinstance(call, Call), "no member publishes what can't be read"
                made = (call.s * 1000 - WallClock.EPOCH_US - self.wall.offset_us) * US
                message = Message(self.name, call, payload, min(made, scene.engine.now))
                scene.tell("published", self, message)
                scene.net.publish(self.name, message)
            case ev.Lead():
                again = effect.seat in self.beliefs
                if not again:
                    scene.note(self.id, "leads", seat=effect.seat, token=effect.token)
                scene.tell("renewed" if again else "led", self, effect)
                self.beliefs[effect.seat] = (effect.token, effect.until)
            case ev.Follow():
                what = "is fenced" if effect.fenced else "stops"
                scene.note(self.id, what, seat=effect.seat, token=effect.token, why=effect.why)
                scene.tell("followed", self, effect)
                self.beliefs.pop(effect.seat, None)
                if effect.fenced:
                    self.barriers.pop(effect.seat, None)
            case ev.Barrier():
                self._barrier(effect)
            case ev.LeaderChanged(role, holder):
                scene.note(self.id, "follows", seat=(role, 0), why=holder or "nobody")
                self.views[role] = holder
            case ev.PeerJoined(member):
                scene.tell("joined", self, member)
                self.peers.add(member)
            case ev.PeerLost(member, why):
                scene.note(self.id, "misses", why=f"{member}: {why}")
                scene.tell("lost", self, member, why)
                self.peers.discard(member)
            case ev.Report(kind, text):
                scene.note(self.id, "reports", why=f"{kind}: {text}")
                scene.tell("reported", self, effect)
            case ev.Wake(at):
                self._wake(at)
            case ev.Closed():
                self.over = effect
                scene.note(self.id, "closed")
                scene.tell("closed", self)
                self._end()

    def _barrier(self, effect: ev.Barrier) -> None:
        if not self.settings["barrier_ms"]:
            return
        self.barriers[effect.seat] = effect.token
        length = self.barrier_time()
        if length is not None:
            self.scene.engine.after(length, self._barrier_over, effect, self.incarnations)

    def _barrier_over(self, effect: ev.Barrier, incarnation: int) -> None:
        if incarnation == self.incarnations and self.running:
            if self.barriers.get(effect.seat) == effect.token:
                del self.barriers[effect.seat]
            self.scene.note(self.id, "barrier returns", seat=effect.seat, token=effect.token)
            self.take(ev.WorkOver(effect.seat, effect.token))

    def _wake(self, reading: int) -> None:
        self._stamp += 1
        late = self._oversleeps.randint(0, self.wakes_late) if self.wakes_late else 0
        self.scene.engine.at(self.stopwatch.when(reading) + late, self._woken, self._stamp)

    def _woken(self, stamp: int) -> None:
        if stamp == self._stamp and self.acts:
            self.step(ev.Tick(self.wall.read_us(self.scene.engine.now)))
