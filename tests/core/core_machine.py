"""Many members on one machine that serves their steps by turns, slower or faster: overload in virtual time.

    machine = Machine(12, 60)
    machine.run(5)
    machine.slower(90)
    machine.run(10)

The members are the real core on one log. Each step takes processor time in proportion to what it does (records read, seats
placed), the machine has two processors, and each job gets them for `SLICE` at a time. So what members do because they are late
makes them later.

With `shared=True` steps take no time, but an append takes `TRIP`: then all members share one fold (`core_shared`), and a
thousand of them fit into the memory of one machine.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Generator
from typing import Any, Final
from unittest.mock import patch

from core_authors import GROUP
from core_shared import Book, SharedReader

from pares.core import events as ev
from pares.core.claims import protocol
from pares.core.claims.chores.duties import gather_ns
from pares.core.claims.protocol import Claims, Config, RoleSpec, Stage
from pares.core.lease import MS
from pares.core.wire import records as R

SLICE: Final = 3 * MS
ROUND, RECORD, TICK, APPEND = 150_000, 9_000, 100_000, 20_000
"""Nanoseconds of a processor that these take, about, on a machine that is not slow."""
PLACED: Final = 3_000
"""The same for each seat, when all are placed."""
TRIP: Final = 2 * MS
"""What an append takes where steps take no time."""
WALL_US: Final = 1_700_000_000_000_000
Pause = tuple[str, int]


class Runner:
    """One member, in the rounds of the driver."""

    worked = 0
    """Nanoseconds that the steps of this round have taken, by the stopwatch."""
    written = 0
    """Nanoseconds that each record of an append takes besides."""

    def __init__(self, machine: Machine, number: int, *, alone: bool = False) -> None:
        self.machine, self.name, self.number, self.alone = machine, f"m{number:04}", number, alone
        self.incarnations = self.left = self.has_read = 0
        self.rings = self.waiting = self.dead = False
        self.wake = self.turn = 0
        self.beliefs: dict[Any, list[int]] = {}
        self.inbox: deque[Any] = deque()
        self.trip: Callable[[], int] = lambda: TRIP
        self._begin()
        self._rounds = self._run()

    def _begin(self) -> None:
        self.incarnations += 1
        machine = self.machine
        id, session = f"{self.name}~{self.incarnations}", machine.session_ms
        settings: dict[str, Any] = {"session_ms": session, "settle_ms": session // 2, "eligible": None}
        config = Config(group=GROUP, id=id, name=self.name, roles=machine.declared, **settings)
        if machine.book is None or self.alone:
            self.core = Claims(config)
        else:
            with patch.object(protocol, "Reader", lambda *_: SharedReader(machine.book, id)):  # type: ignore[arg-type]
                self.core = Claims(config)
        self.core.living.moves.placing = self._placing  # type: ignore[method-assign]
        self._placings = 0
        self.beliefs.clear()
        self._attached = False

    def _placing(self, world: Any, alive: Any, **more: Any) -> Any:
        self._placings += 1
        return self.machine.place(world, alive, **more)

    @property
    def leads(self) -> int:
        return sum(until > self.machine.now for _, until in self.beliefs.values())

    def go(self) -> None:
        if self.dead:
            return
        what, of = next(self._rounds)
        while what == "work" and self.machine.book is not None:
            what, of = next(self._rounds)
        if what == "work":
            self.left = int(of * self.machine.slowness)
            self.machine.queue.append(self)
            self.machine.serve()
        elif what == "rest":
            self.machine.at(of, self.go)
        else:
            self.turn += 1
            self.waiting = True
            if self.rings:
                self.ring()
            else:
                self.machine.at(of, self._timed_out, self.turn)

    def _timed_out(self, turn: int) -> None:
        if self.waiting and turn == self.turn:
            self.waiting = False
            self.go()

    def ring(self) -> None:
        self.rings = True
        if self.waiting:
            self.waiting = False
            self.go()

    def _run(self) -> Generator[Pause, None, None]:
        machine, session, rested = self.machine, self.machine.session_ms * MS, 0
        while True:
            rest = rested + gather_ns(
                self.core.alive, machine.session_ms, self.worked, late=self.core.living.looks.late
            )
            self.worked = 0
            if rest > machine.now and not self.inbox:
                yield "rest", min(rest, self.wake if self.wake > machine.now else rest)
            rested = machine.now
            soon = self.inbox or not self._attached
            until = machine.now + (0 if soon else session // 4 if self.core.outbox.quiet else 10 * MS)
            yield "wait", max(min(until, self.wake or until), machine.now + MS // 2)
            yield "work", ROUND
            self.rings = False
            yield from self._serve()
            if soon or not self._reads_later():
                yield from self._read()
            for _ in range(100):
                self.wake = 0
                appended = yield from self._step(ev.Tick(WALL_US + machine.now // 1000))
                if not appended and not self.inbox:
                    break
                yield from self._serve()
                if appended:
                    yield from self._read()
                    if self.core.at_rest:
                        break

    def _reads_later(self) -> bool:
        return self.core.stage is Stage.LIVE and self.core.living.beats_only(self.machine.now)

    def _serve(self) -> Generator[Pause, None, None]:
        while self.inbox:
            yield from self._step(self.inbox.popleft())

    def _read(self) -> Generator[Pause, None, None]:
        log, core, news = self.machine.log, self.core, [()]
        if not self._attached:
            self._attached = True
            yield from self._step(ev.Attached(0, len(log)))
        while news and core is self.core:
            most = 1000 if self.machine.book is None else len(log)
            began, news = self.machine.now, log[core.position : core.position + most]
            stamps = [self.machine.stamps[entry[0]] for entry in news]
            self.has_read += len(news)
            yield from self._step(ev.Read(news, began=began, stamps=stamps))

    def _step(self, event: Any) -> Generator[Pause, None, bool]:
        """A step: what it costs comes between the look at the stopwatch and the effects."""
        self._placings = 0
        effects = self.core.step(event, self.machine.now)
        cost = PLACED * self.machine.roles * self._placings
        cost += TICK if type(event) is ev.Tick else RECORD * len(getattr(event, "entries", ()))
        if cost:
            began = self.machine.now
            yield "work", cost
            self.worked += self.machine.now - began
        appends: list[ev.Append] = []
        for effect in effects:
            if type(effect) is ev.Append:
                appends.append(effect)
            elif type(effect) is ev.Restart:
                self.machine.counted["restarts"] += 1
                self._begin()
                return False
            else:
                self._carry(effect)
        for append in appends:
            yield "work", APPEND + self.written * len(append.payloads)
            if self.machine.book is not None:
                yield "rest", self.machine.now + self.trip()
            yield from self._step(ev.Acked(append.ticket, self.machine.append(self, append)))
        return bool(appends)

    def _carry(self, effect: Any) -> None:
        now = self.machine.now
        if type(effect) is ev.Wake:
            self.wake = effect.at
        elif type(effect) is ev.Lead:
            self.beliefs[effect.seat] = [effect.token, effect.until]
            self.machine.counted["terms"] += 1
        elif type(effect) is ev.Extend:
            for seat, (token, until) in list(self.beliefs.items()):
                if now >= until:
                    del self.beliefs[seat]
                    self.inbox.append(ev.Lapsed(seat, token))
                else:
                    self.beliefs[seat][1] = max(until, effect.until)
        elif type(effect) is ev.Follow and self.beliefs.get(effect.seat, [0])[0] == effect.token:
            del self.beliefs[effect.seat]
            self.machine.counted["fenced"] += effect.fenced
        elif type(effect) is ev.Barrier:
            self.inbox.append(ev.WorkOver(effect.seat, effect.token))


class Machine:
    """Members that start within half a session, each with all the roles; or from `first` to `last`, in seconds."""

    def __init__(
        self,
        members: int,
        roles: int,
        *,
        session_ms: int = 1000,
        seed: int = 1,
        first: float = 0.0,
        last: float = 0.0,
        shared: bool = False,
        stamped: bool = True,
    ) -> None:
        self.book = Book(GROUP) if shared else None
        self.now, self.roles, self.session_ms = 0, roles, session_ms
        self.declared = tuple(RoleSpec(f"r{number:04}") for number in range(roles))
        self.slowness = 0.2
        self.log: list[tuple[int, int, bytes]] = []
        self.stamps: list[int | None] = []
        self._stamped = stamped
        self.counted: Counter[str] = Counter()
        """Kinds of records, terms, restarts, and terms that were not given up by plan."""
        self.queue: deque[Runner] = deque()
        self._free = 2
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._placed: dict[Any, Any] = {}
        self.chance = random.Random(seed)
        self.members: list[Runner] = []
        self._numbered = itertools.count()
        self.start(members, first, last)

    def start(self, count: int, first: float = 0.0, last: float = 0.0, *, alone: bool = False) -> None:
        """So many more. `alone`: each with a fold of its own."""
        since = self.now + int(first * 1000) * MS
        until = self.now + int(last * 1000) * MS if last else since + self.session_ms * MS // 2
        for number in itertools.islice(self._numbered, count):
            self.members.append(Runner(self, number, alone=alone))
            self.at(self.chance.randrange(since, until), self.members[-1].go)

    def kill(self, count: int) -> None:
        """So many die in this instant."""
        for member in self.chance.sample(self.members, count):
            member.dead = True
            member.beliefs.clear()
            self.members.remove(member)

    @property
    def led(self) -> int:
        return sum(member.leads for member in self.members)

    @property
    def stages(self) -> set[Stage]:
        return {member.core.stage for member in self.members}

    def slower(self, slowness: float) -> None:
        """From now on: also what is being worked on."""
        for member in self.members:
            member.left = int(member.left * slowness / self.slowness)
        self.slowness = slowness

    def run(self, seconds: float) -> None:
        end = self.now + int(seconds * 1000) * MS
        while self._events and self._events[0][0] <= end:
            self.now, _, call, args = heapq.heappop(self._events)
            call(*args)
        self.now = end

    def at(self, when: int, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), call, args))

    def serve(self) -> None:
        while self._free and self.queue:
            member = self.queue.popleft()
            self._free -= 1
            part = min(member.left, SLICE)
            member.left -= part
            self.at(self.now + part, self._served, member)

    def _served(self, member: Runner) -> None:
        self._free += 1
        if member.left > 0:
            self.queue.append(member)
        else:
            member.go()
        self.serve()

    def append(self, by: Runner, append: ev.Append) -> int:
        for payload in append.payloads:
            self.log.append((len(self.log), 0, payload))
            self.stamps.append(self.now if self._stamped else None)
            if self.book is not None:
                self.book.add(self.log[-1], by.core.me)
            self.counted[type(R.decode(payload)).__name__] += 1
        if append.urgent:
            for member in self.members:
                if member is not by:
                    member.ring()
        return len(self.log) - 1

    def place(self, world: Any, alive: Any, **more: Any) -> Any:
        """The same for all that have read the same."""
        key = (world.last, world.shape, alive, more["unsettled"], more["without"])
        if key not in self._placed:
            if len(self._placed) > 200:
                self._placed.clear()
            self._placed[key] = type(self.members[0].core.living.moves).placing(world, alive, **more)
        return self._placed[key]
