"""Whole processes in virtual time: `Stage`.

    with Stage() as stage:
        stage.start("a", outbox, database)       # your own function, which has its `pares.Member`
        stage.start("b", outbox, database)
        stage.run(3)
        stage.kill("a")
        stage.until(lambda: stage.leader("outbox") == "b")

Promised: what runs is `pares.Member` itself, its threads and your code; nothing waits; one seed and one test give one history,
as far as your code depends on no hashes and on nothing outside of the stage. Whatever URL a process opens, it finds a simulated
log or bus there, which all processes of the stage share, and nothing real.
Not promised: anything about speed; and a thread gives way to others only where it calls the world (a clock, a wait, a lock, a
ledger).
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

import pares
from pares.core.errors import ConfigError
from pares.runtime.member import check_arguments
from pares.sim.engine import SECOND, Stopwatch
from pares.sim.world.faults import Strike
from pares.testing.actor import Actor
from pares.testing.theatre import Network, Theatre

URL: Final = "stage://ledger"
GROUP: Final = "stage"
opened: list[Stage] = []
failed: deque[Stage] = deque(maxlen=4)
"""Those that are open, and the last that an error has closed: for the pytest plugin."""


class Stage:
    """Processes, logs and buses in virtual time. Use it by `with`, or close it; the pytest plugin closes what a test leaves.

    `seed`: another one is another history. `latency` (seconds): how long an append, its answer, a read's request and its answer
    each take. `timeout`: seconds after which an append that nobody answers has failed. `drift`: how far stopwatches are from
    true time, at random: 0.05 for rates from 0.95 to 1.05. `partitions`: how many a log has, unless a URL says so. `patience`:
    seconds of *real* time after which a process that waits for something real is an error.
    """

    url = URL
    """For code that is given its ledger's URL. Others do, too: all that processes of a stage open is simulated."""

    def __init__(
        self,
        *,
        seed: int | str = 0,
        latency: float = 0.001,
        timeout: float = 0.5,
        drift: float = 0.0,
        partitions: int = 1,
        patience: float = 5.0,
    ) -> None:
        self.seed = seed
        self._latency, self._timeout, self._drift = latency, timeout, drift
        self._theatre = Theatre(seed, partitions, patience)
        self._rng = self._theatre.random("stage")
        self.actors: dict[str, Actor] = {}
        opened.append(self)

    # Processes -------------------------------------------------------------------------------------------------------

    def start(
        self, name: str, program: Callable[..., object], *args: Any, host: str | None = None, **kwargs: Any
    ) -> Actor:
        """A new process that runs `program(*args, **kwargs)` and ends, as Python does, when that and its threads have returned:
        members leave. What ends it by an exception is raised by `run`.

        `host`: its machine; None: one of its own. Only on one machine can deaths be proven (R7); elsewhere silence decides.
        """
        self._add(name, functools.partial(program, *args, **kwargs), host)._start()
        return self.actors[name]

    def member(self, name: str, ledger: str = URL, *, start: bool = True, **settings: Any) -> Actor:
        """A new process that does nothing but have a member, with these arguments of `pares.Member`."""
        given: dict[str, Any] = {"group": GROUP, "name": name, **settings}
        check_arguments(ledger, **given)

        def program() -> None:
            with pares.Member(ledger, **given):
                threading.Event().wait()

        actor = self._add(name, program, settings.get("host"))
        if start:
            actor._start()
        return actor

    def _add(self, name: str, program: Callable[[], object], host: str | None) -> Actor:
        if name in self.actors:
            raise ConfigError(f"there is a process {name!r} on the stage already: restart it, or choose another name")
        watch = Stopwatch(self._rng.randint(1, 1000) * SECOND, 1 + self._rng.uniform(-self._drift, self._drift))
        network = Network(self._latency, self._timeout)
        self.actors[name] = Actor(self._theatre, name, program, host or f"host-{name}", watch, network)
        return self.actors[name]

    # Time ------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """True time, in seconds since the stage was made, which no process sees."""
        return self._theatre.now / SECOND

    def run(self, seconds: float) -> None:
        """Lets so much time pass. Raises what a thread of a process was ended by."""
        self._theatre.play(seconds)

    def until(self, condition: Callable[[], object], timeout: float = 60.0) -> None:
        """Lets time pass until `condition()` is true, at which it looks every 10 ms; after `timeout` seconds it fails, by an
        `AssertionError`."""
        if not self._theatre.play(timeout, condition):
            raise AssertionError(f"not within {timeout:g} s of the stage: {condition}")

    def close(self) -> None:
        """All processes are gone, and what code of theirs stood in the middle of is unwound."""
        if self in opened:
            opened.remove(self)
            self._theatre.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            failed.append(self)
        self.close()

    # What befalls them -----------------------------------------------------------------------------------------------

    def kill(self, name: Actor | str, *, at: int = 0) -> None:
        """The process is gone, as by SIGKILL: now, or (`at`) at the so-many-th call from now that its code makes to the world:
        a clock, a wait, a lock, a ledger. Members of processes of the same host learn of it in milliseconds."""
        process = self._actor(name)._running()
        if at:
            process.arm(Strike("kill", at))
        else:
            self._theatre.kill(process)

    def restart(self, name: Actor | str) -> None:
        """It is killed, if it runs, and its program started again: a new incarnation of the same name."""
        actor = self._actor(name)
        if actor._process is not None:
            self._theatre.kill(actor._process)
        actor._start()

    def stop(self, name: Actor | str) -> None:
        """It begins to end in order, as by SIGTERM with `pares.leave_on_signals()`: its members leave, then it is gone."""
        process = self._actor(name)._running()
        process.spawn(lambda: self._theatre.leave(process), "stop")

    def freeze(self, name: Actor | str, seconds: float | None = None, *, at: int = 0) -> None:
        """It stands still, as by SIGSTOP, for `seconds` or until `thaw`, and knows nothing of it. `at`: as of `kill`; where
        that call asks a clock, after it was read: so what was true a moment ago is acted upon much later."""
        process = self._actor(name)._running()
        length = None if seconds is None else int(seconds * SECOND)
        if not at:
            self._theatre.freeze(process, length)
        elif length is None:
            raise ConfigError(f"freeze(at={at}): say for how many seconds")
        else:
            process.arm(Strike("freeze", at, length=length, late=True))

    def thaw(self, name: Actor | str) -> None:
        """It goes on."""
        self._theatre.thaw(self._actor(name)._running())

    def cut(
        self,
        name: Actor | str,
        *,
        reads: bool = True,
        writes: bool = True,
        acks: bool | None = None,
        group: bool | None = None,
    ) -> None:
        """From now on, until `heal`, it reads nothing; what it writes does not arrive; it is not told that it did (`acks`); and
        the broker that shares out partitions does not hear it (`group`). None: if both `reads` and `writes` are cut. On a bus
        nothing passes."""
        both = reads and writes
        given = {"reads": reads, "writes": writes, "acks": both if acks is None else acks}
        what = [way for way, on in (given | {"group": both if group is None else group}).items() if on]
        actor = self._actor(name)
        actor._network.cut(*what)
        self._tell(actor, f"is cut off: {', '.join(what)}")

    def heal(self, name: Actor | str | None = None) -> None:
        """It reaches its ledgers again, and is slow no more. Without a name all processes do, and a `split` is over too."""
        if name is None:
            self.split()
        for actor in self.actors.values() if name is None else [self._actor(name)]:
            actor._network.cut()
            self._tell(actor, "is healed")
            self.slow(actor)

    def slow(self, name: Actor | str, ledger: float = 0.0, *, threads: float = 0.0) -> None:
        """From now on everything takes its ledgers and buses so many seconds longer, there and back; and (`threads`) each of
        its threads that waits for something goes on up to so many seconds late. With neither it is slow no more."""
        actor = self._actor(name)
        actor._network.slow(ledger)
        actor._late = threads
        actor._starve()
        if ledger or threads:
            self._tell(actor, f"is slow: {ledger:g} s to its ledger, {threads:g} s for its threads")

    def skew(self, name: Actor | str, *, rate: float | None = None, wall: float | None = None) -> None:
        """From now on its stopwatch runs at this `rate` (1.05: 5% fast), which members bear within their `drift`; its wall
        clock is `wall` seconds off, which only NELI minds."""
        actor = self._actor(name)
        if rate is not None:
            actor._watch.change(self._theatre.now, rate)
            self._tell(actor, f"has a stopwatch that runs at {rate:g}")
        if wall is not None:
            actor._wall.offset_us = int(wall * 1e6)
            self._tell(actor, f"has a wall clock that is off by {wall:g} s")

    def split(self, *sides: Iterable[Actor | str]) -> None:
        """Messages on buses pass within a side only, until `heal`: for ALLCALL, whose members hear each other. Processes that
        no side names are on one of their own."""
        for bus in self._theatre.buses.values():
            bus.split(*({self._actor(name).name for name in side} for side in sides))

    def replace_log(self, url: str = URL) -> None:
        """The log was deleted and made anew: another one, and empty, stands in its place."""
        self._theatre.logs[url].replace()

    def _tell(self, actor: Actor, text: str) -> None:
        self._theatre.trace.add_line(self._theatre.now, actor.name, text)

    def _actor(self, name: Actor | str) -> Actor:
        if isinstance(name, Actor):
            return name
        if name not in self.actors:
            raise ConfigError(f"there is no process {name!r} on the stage; it has: {', '.join(self.actors)}")
        return self.actors[name]

    # What can be seen ------------------------------------------------------------------------------------------------

    def leader(self, role: str, index: int = 0) -> str | None:
        """The process that believes that it leads this seat of `role`; None if there is none."""
        found = self.leaders(role, index)
        return found[0] if found else None

    def leaders(self, role: str, index: int | None = None) -> list[str]:
        """All that believe so, or that lead any seat of the role."""
        seats = {name: [held.seat for held in self._theatre.beliefs(name)] for name in self.actors}
        return sorted(
            name for name in seats if any(led == role and index in (None, place) for _, led, place in seats[name])
        )

    def most_leaders(self, role: str) -> int:
        """How many have believed in one seat of `role` at once, at any instant so far, also between two looks of the test."""
        return max((most for (_, named), most in self._theatre.most.items() if named == role), default=0)

    @property
    def trace(self) -> list[str]:
        """What has happened so far, a line each: seconds, process, what. What pares logs in a process stands there, too."""
        return self._theatre.trace.lines

    def note(self, text: str) -> None:
        """Adds a line of the test's own."""
        self._theatre.told(None, text)
