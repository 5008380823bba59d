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
from pares.testing.actor import Actor
from pares.testing.network import Network
from pares.testing.theatre import Theatre

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
        actor = self._add(name, functools.partial(program, *args, **kwargs), host)
        actor.start()
        return actor

    def member(self, name: str, ledger: str = URL, *, start: bool = True, **settings: Any) -> Actor:
        """A new process that does nothing but have a member, with these arguments of `pares.Member`."""
        given: dict[str, Any] = {"group": GROUP, "name": name, **settings}
        check_arguments(ledger, **given)

        def program() -> None:
            with pares.Member(ledger, **given):
                threading.Event().wait()

        actor = self._add(name, program, settings.get("host"))
        if start:
            actor.start()
        return actor

    def _add(self, name: str, program: Callable[[], object], host: str | None) -> Actor:
        if name in self.actors:
            raise ConfigError(f"there is a process {name!r} on the stage already: restart it, or choose another name")
        watch = Stopwatch(self._rng.randint(1, 1000) * SECOND, 1 + self._rng.uniform(-self._drift, self._drift))
        network = Network(self._latency, self._timeout)
        actor = self.actors[name] = Actor(self._theatre, name, program, host or f"host-{name}", watch, network)
        return actor

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
        """`Actor.kill` of this process; and so on."""
        self._actor(name).kill(at=at)

    def restart(self, name: Actor | str) -> None:
        self._actor(name).restart()

    def freeze(self, name: Actor | str, seconds: float | None = None, *, at: int = 0) -> None:
        self._actor(name).freeze(seconds, at=at)

    def thaw(self, name: Actor | str) -> None:
        self._actor(name).thaw()

    def cut(
        self,
        name: Actor | str,
        *,
        reads: bool = True,
        writes: bool = True,
        acks: bool | None = None,
        group: bool | None = None,
    ) -> None:
        self._actor(name).cut(reads=reads, writes=writes, acks=acks, group=group)

    def slow(self, name: Actor | str, ledger: float = 0.0, *, threads: float = 0.0) -> None:
        self._actor(name).slow(ledger, threads=threads)

    def skew(self, name: Actor | str, *, rate: float | None = None, wall: float | None = None) -> None:
        self._actor(name).skew(rate=rate, wall=wall)

    def heal(self, name: Actor | str | None = None) -> None:
        """One process, or all of them, reach their ledgers again; without a name, a `split` is over too."""
        if name is None:
            self.split()
        for actor in self.actors.values() if name is None else [self._actor(name)]:
            actor.heal()

    def split(self, *sides: Iterable[Actor | str]) -> None:
        """Messages on buses pass within a side only, until `heal`: for ALLCALL, whose members hear each other. Processes that
        no side names are on one of their own."""
        for bus in self._theatre.buses.values():
            bus.split(*({self._actor(name).name for name in side} for side in sides))

    def replace_log(self, url: str = URL) -> None:
        """The log was deleted and made anew: another one, and empty, stands in its place."""
        self._theatre.logs[url].replace()

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
        found = {
            name: [
                held for held in self._theatre.beliefs(name) if held.seat[1] == role and index in (None, held.seat[2])
            ]
            for name in self.actors
        }
        return sorted(name for name, beliefs in found.items() if beliefs)

    def most_leaders(self, role: str) -> int:
        """How many have believed in one seat of `role` at once, at any instant so far, also between two looks of the test."""
        return max((most for (_, named), most in self._theatre.most.items() if named == role), default=0)

    @property
    def trace(self) -> list[str]:
        """What has happened so far, a line each: seconds, process, what. What pares logs in a process stands there, too."""
        return self._theatre.trace.lines

    def note(self, text: str) -> None:
        """A line of the test's own in the trace."""
        self._theatre.told(None, text)
