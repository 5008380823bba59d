"""A simulated process: the real kernel, driven as the real loop drives it (runtime/driver/loop.py), by virtual time.
`kernel.effects` has what it does with what its kernel answers.

A round reads what is new, and then ticks with the clock read again; answers to appends come before. A process can be killed
at any instant, and frozen at any instant: also between a fetch and its tick, and between a tick and the append that it made.

Its beliefs are kept here as its user would see them: it *believes* that it holds a seat from a `Lead` to a `Follow`, while
its own stopwatch stands below `until`. Whether its loop runs at that instant makes no difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kernel.effects import carry
from kernel.wire import Flight, Owner, Wire
from pares.core import events as ev
from pares.core.claims.protocol import Claims, Config
from pares.core.lease import lease_ns
from pares.core.wire.records import Lock, Record, Seat
from pares.sim.engine import MS, US, Stopwatch, WallClock

if TYPE_CHECKING:
    from kernel.scene import Scene

CHUNK: Final = 1000
NEVER: Final = 2**63

BarrierTime = Callable[[Seat, int], int | None]
"""How long the user's barrier takes for a term, in nanoseconds; None: it never returns."""


class Process(Owner):
    """One named process; each start of it, and each `Restart` of its member, is a new incarnation."""

    def __init__(
        self, scene: Scene, name: str, settings: dict[str, Any], *, stopwatch: Stopwatch, wall: WallClock, rng: Random
    ) -> None:
        self.scene = scene
        self.name = name
        self.settings = settings
        self.stopwatch = stopwatch
        self.wall = wall
        self.rng = rng
        self.wire = Wire(scene.engine, scene.log, rng, scene.weather, self)
        self.barrier_time: BarrierTime = lambda seat, token: 0
        self.poll = 100 * MS
        """How often it looks at the log though nothing wakes it."""
        self.ready = True
        """What its user's check says."""
        self.told_ready = True
        """What its kernel has been told of that, and since when (true time)."""
        self.told_at = 0
        self.well_since = 0
        """Since when (true time) nothing has hindered it; `NEVER` while something does."""
        self.proof = False
        """Whether it takes a lock, so that its death can be proven, and watches others' (R7)."""
        self.claims: Claims | None = None
        self.config = Config(**{"id": name, "name": name, **settings})
        self.incarnations = self.starts = 0
        """How often it began: at each start, and whenever its member begins anew."""
        self.running = False
        self.frozen = False
        self.over: ev.Closed | ev.Stop | None = None
        self.live = False
        self.beliefs: dict[Seat, int] = {}
        self.until: dict[Seat, int] = {}
        """How long each of them lasts, or lasted, by its stopwatch, if nothing prolongs it."""
        self.lapsed: set[tuple[Seat, int]] = set()
        """Terms that had run out before they could be prolonged: the kernel is about to be told."""
        self.watching: dict[str, Lock] = {}
        self.freeze_at: tuple[str, int] | None = None
        """A wish: freeze at this point of a round, for so long. "fetching": while it waits for a fetch; "fetched": between a
        fetch and its tick; "ticked": when the tick is done and its append has not left yet; "clock": when the stopwatch was
        read and nothing was done since."""
        self.stall_next = 0
        self.inbox: deque[ev.Event] = deque()
        """What its kernel is told at the next round."""
        self._work: deque[tuple[type[Record], dict[str, Any]]] = deque()
        self._attached = False
        self._busy = False
        self._due = NEVER
        self.blocked = False
        """It waits for the answer to an append."""
        self._stamp = 0
        self._life = 0
        self.seen = 0
        """The largest token that earlier incarnations of this very process have read (R9)."""
        self._release: dict[str, int] = {}
        self.left: list[Callable[[], None]] = []
        """What a frozen process was in the middle of."""
        self.wake_at = 0
        """When its kernel wants a round, by its stopwatch; 0: at no time of its own."""

    @property
    def id(self) -> str:
        return f"{self.name}~{self.incarnations}"

    @property
    def now(self) -> int:
        """Its stopwatch."""
        return self.stopwatch.read(self.scene.engine.now)

    @property
    def reachable(self) -> bool:
        wire = self.wire
        return not (wire.reads_cut or wire.writes_cut or wire.acks_cut or wire.holding)

    @property
    def able(self) -> bool:
        """Whether its round trips let it lead: of two beats, the second is back before the lease of the first ends, with one
        more round trip to spare."""
        weather, session = self.wire.weather, self.config.session_ms
        trip = weather.send[1] + weather.ack[1] + self.wire.lag
        return 2 * trip + session * MS // 4 <= lease_ns(session, self.config.drift)

    def believes(self, seat: Seat) -> bool:
        """What `Member.holds` answers at this instant."""
        return self.running and seat in self.beliefs and self.now < self.until[seat]

    def belief_ends(self, seat: Seat) -> int:
        """The true time at which this belief ends if nothing renews it, or would have ended."""
        return self.stopwatch.when(self.until.get(seat, 0))

    # Life ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process, or starts it again under its name."""
        self.running, self.frozen, self.over = True, False, None
        self._life += 1
        self.starts += 1
        self.seen = 0
        self._release = self.scene.release()
        self.begin()

    def begin(self) -> None:
        """A new incarnation."""
        self.incarnations += 1
        self.well_since = self.scene.engine.now if self.reachable else NEVER
        lock = None
        if self.proof:
            lock = Lock(boot="boot", device="0", inode=str(self.scene.next_inode()), file=self.id)
        told = {"ready": self.ready, "lock": lock, "seen": self.seen}
        self.config = Config(**{"id": self.id, "name": self.name, **told, **self._release, **self.settings})
        self.claims = Claims(self.config)
        self.told_ready, self.told_at = self.ready, self.scene.engine.now
        self._attached, self._busy, self.blocked, self.live = False, False, False, False
        self.inbox.clear()
        self._work.clear()
        self.left.clear()
        self.beliefs, self.until, self.lapsed, self.watching = {}, {}, set(), {}
        self.scene.began(self)
        self.wake(self.scene.engine.now)

    def kill(self) -> None:
        """It is gone, with everything that it had not sent."""
        self.running = self.frozen = self.live = False
        self._life += 1
        self._stamp += 1
        self._due = NEVER
        self.beliefs, self.until = {}, {}
        self.scene.ended(self, self.id)

    def freeze(self) -> None:
        self.frozen = True
        self.well_since = NEVER

    def well(self, for_so_long: int = 0) -> bool:
        """Whether it is in the group, and nothing has hindered it for so long."""
        return (
            self.live and self.running and self.over is None and self.well_since + for_so_long <= self.scene.engine.now
        )

    def thaw(self) -> None:
        """It goes on exactly where it stood."""
        if self.running and self.frozen:
            self.frozen = False
            self.well_since = self.scene.engine.now if self.reachable else NEVER
            left, self.left = self.left, []
            for rest in left:
                rest()
            self._due = NEVER
            self.wake(self.scene.engine.now)

    # What comes in ---------------------------------------------------------------------------------------------------

    def acked(self, flight: Flight) -> None:
        self._answer(flight, ev.Acked(flight.ticket, flight.landed))

    def failed(self, flight: Flight) -> None:
        self._answer(flight, ev.Failed(flight.ticket, flight.unknown))

    def _answer(self, flight: Flight, answer: ev.Acked | ev.Failed) -> None:
        if flight.sender is self.claims and self.running:
            self.blocked = False
            self.inbox.append(answer)
            self.wake(self.scene.engine.now + self.wire.lag)

    def request(self, event: ev.Event) -> None:
        """Hands the kernel an event, at its next round: what its user wants, or what it has come to know."""
        if self.running:
            self.inbox.append(event)
            self.wake(self.scene.engine.now)

    def died(self, member: str) -> None:
        """The lock of `member` is free: if this process watches it, it has proof."""
        if self.running and member in self.watching:
            self.request(ev.Died(member))

    # Rounds ----------------------------------------------------------------------------------------------------------

    def wake(self, at: int) -> None:
        """There will be a round at `at`, or earlier."""
        if at < self._due and self.running:
            self._due = at
            self._stamp += 1
            self.scene.engine.at(at, self._round, self._stamp)

    def _round(self, stamp: int) -> None:
        if stamp != self._stamp or not self.running:
            return
        if self.frozen or self._busy or self.blocked:
            self._due = (
                NEVER  # it begins again when it is thawed, when the round under way ends, when the append is answered
            )
            return
        self._due = NEVER
        life = self._life
        while self.inbox and life == self._life and self.over is None:
            self._step(self.inbox.popleft())
        claims = self.claims
        if claims is None or self.over is not None or life != self._life:
            return
        if self.wire.reads_cut:
            self.wire.suspect = True
            self._go_on(claims, life)
        elif self.freezes("fetching"):
            began, self._busy = self.now, True
            self.left.append(lambda: self._read(claims, life, began))
        else:
            self._read(claims, life, self.now)

    def _read(self, claims: Claims, life: int, began: int) -> None:
        """The fetch of a round, which began at `began` by the stopwatch, and returns now."""
        if life != self._life or claims is not self.claims:
            return
        self._busy = False
        self._fetch(claims, began)
        if self.claims is claims:  # else it has begun anew
            self._go_on(claims, life)

    def _judged(self, began: int) -> int:
        """By which reading of the stopwatch what was fetched is judged: one from after the fetch (R4)."""
        return self.now

    def _go_on(self, claims: Claims, life: int) -> None:
        """What follows the fetch of a round."""
        weather = self.wire.weather
        pause, self.stall_next = self.stall_next, 0
        if pause:
            self.scene.hindered(self, pause)
        if weather.stall and self.rng.random() < weather.stall:
            pause += self.rng.randint(*weather.stall_by)
        fetched = not self.wire.reads_cut and self.freezes("fetched")
        if fetched or self.frozen or pause:
            self._busy = True
            self.scene.engine.after(pause, self._after_pause, claims, life)
        else:
            self._finish(claims)

    def _after_pause(self, claims: Claims, life: int) -> None:
        """The rest of a round, unless the process died, froze or began anew in between."""
        if life != self._life or claims is not self.claims or not self._busy:
            return
        if self.frozen:
            self.left.append(lambda: self._after_pause(claims, life))
            return
        self._busy = False
        self._finish(claims)

    def _fetch(self, claims: Claims, began: int) -> None:
        if not self._attached:
            self._attached = True
            self._step(ev.Attached(*self.wire.attach()))
        reader = claims.reader
        why = self.wire.jumped(claims.position, reader.anchor)
        if why:
            self._step(ev.Jumped(why))
            return
        read = ev.Read(self.wire.fetch(claims.position, CHUNK), began=began)  # type: ignore[arg-type]
        self._step(read, self._judged(began))

    def _finish(self, claims: Claims) -> None:
        """The tick of a round."""
        engine = self.scene.engine
        self.wake_at = 0
        self._step(ev.Tick(self.wall.read_us(engine.now)))
        self._write_work(claims)
        if self.frozen:
            self.left.append(lambda: self._plan(claims))
        else:
            self._plan(claims)

    def work(self, kind: type[Record], **fields: Any) -> None:
        """Its user's work writes a record of its own, when nothing else is under way."""
        self._work.append((kind, fields))
        self.wake(self.scene.engine.now)

    def _write_work(self, claims: Claims) -> None:
        if not self._work or claims is not self.claims or not self.live or self.over is not None or self.frozen:
            return
        outbox = claims.outbox
        if outbox.in_flight is None and outbox.quiet and not claims.tenures.left:
            (kind, fields), now = self._work.popleft(), self.now
            outbox.write(claims.reader.world, kind, now, **fields)
            append = outbox.flush(now)
            assert append is not None
            carry(self, append)

    def _plan(self, claims: Claims) -> None:
        """When the next round will be."""
        engine = self.scene.engine
        if self.claims is not claims or not self.running or self.over is not None:
            return
        due = engine.now + self.poll
        if self.inbox:
            due = engine.now
        if self.wake_at:
            due = min(due, max(self.stopwatch.when(self.wake_at), engine.now + 50 * US))
        if not self.wire.reads_cut:
            arrived = self.scene.log.arrived(claims.position)
            if arrived is not None:
                due = min(due, max(arrived + self.wire.lag, engine.now + 20 * US))
        self.wake(due)

    def freezes(self, point: str) -> bool:
        if self.freeze_at is None or self.freeze_at[0] != point:
            return False
        length, self.freeze_at = self.freeze_at[1], None
        self.scene.freeze(self, length)
        return True

    # Steps -----------------------------------------------------------------------------------------------------------

    def _step(self, event: ev.Event, now: int | None = None) -> None:
        claims, now = self.claims, self.now if now is None else now
        if claims is None:
            return
        if self.freeze_at is not None and self.freezes("clock"):
            self.left.append(lambda: self._carry_out(claims, event, now))
        else:
            self._carry_out(claims, event, now)

    def _carry_out(self, claims: Claims, event: ev.Event, now: int) -> None:
        if claims is self.claims:
            if type(event) is ev.Ready:
                self.told_ready, self.told_at = event.ready, self.scene.engine.now
            for effect in claims.step(event, now):
                carry(self, effect)
            if self.beliefs:
                self.scene.stepped(self, now)
