"""Many seeds, on several processors; with a rule broken on purpose or without."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from time import perf_counter
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pares.core.errors import ConfigError
from pares.sim.members import protocols as members
from pares.sim.members.plan import Plan
from pares.sim.members.play import play
from pares.sim.mutant import Mutant, applied
from pares.sim.outcome import Outcome
from pares.sim.shrink import Shrunk, shrink

CHUNK: Final = 8


class Simulated(NamedTuple):
    """One protocol: what a seed stands for, how that is played, and what can be broken."""

    draw: Callable[[int, dict[str, Any] | None], Any]
    play: Callable[..., Outcome]
    mutants: Mapping[str, Mutant]


PROTOCOLS: Final = {
    **{name: Simulated(found.draw, play, found.mutants) for name, found in members.PROTOCOLS.items()},
}
"""What can be simulated; nele is NELI in non-exclusive mode."""


class Result(Struct, frozen=True):
    """What came of one seed, in short."""

    seed: int
    broken: str
    what: str
    virtual: float
    records: int
    took: float
    """Seconds of real time."""


class Tally(Struct):
    """What came of many."""

    seeds: int = 0
    virtual: float = 0.0
    records: int = 0
    took: float = 0.0
    broken: list[Result] = []

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.virtual += result.virtual
        self.records += result.records
        self.took += result.took
        if result.broken:
            self.broken.append(result)


def knobs_of(seed: int, protocol: str = "claims") -> object:
    """What a seed stands for; its text is what to print."""
    return PROTOCOLS[protocol].draw(seed, None)


def mutants(protocol: str = "claims") -> Mapping[str, Mutant]:
    """The rules that can be broken in this protocol."""
    return PROTOCOLS[protocol].mutants


def mutant_named(name: str | None, protocol: str = "claims") -> Mutant | None:
    """The mutant of that name; None for None. Raises `ConfigError` for one that there is not."""
    if name is None:
        return None
    there = mutants(protocol)
    if name not in there:
        raise ConfigError(f"there is no mutant {name!r}; there are: {', '.join(sorted(there))}")
    return there[name]


def perform(seed: int, mutant: Mutant | None = None, *, told: bool = False, protocol: str = "claims") -> Outcome:
    """One seed. With `told` the outcome has a trace."""
    simulated = PROTOCOLS[protocol]
    with applied(mutant):
        outcome = simulated.play(simulated.draw(seed, mutant.bias if mutant is not None else None), told=told)
    gc.collect(1)  # the world, which was in use yet when it was unwound. [thousands of seeds fill the memory]
    return outcome


def smaller(seed: int, mutant: Mutant | None, *, protocol: str, seconds: float) -> Shrunk | None:
    """The seed, which breaks a promise, shrunk for so many seconds at most. None: it breaks none."""
    simulated = PROTOCOLS[protocol]
    with applied(mutant):
        plan = simulated.draw(seed, mutant.bias if mutant is not None else None)
        broken = simulated.play(plan).broken
        return shrink(plan, broken, seconds) if broken and isinstance(plan, Plan) else None


def _chunk(seeds: list[int], name: str | None, protocol: str) -> list[Result]:
    mutant = mutant_named(name, protocol)
    found: list[Result] = []
    for seed in seeds:
        began = perf_counter()
        outcome = perform(seed, mutant, protocol=protocol)
        took = perf_counter() - began
        found.append(Result(seed, outcome.broken, outcome.what, outcome.at, outcome.records, took))
    return found


def results(
    seeds: range, *, mutant: str | None = None, jobs: int = 1, first_only: bool = False, protocol: str = "claims"
) -> Iterator[Result]:
    """The results of the seeds, in order. `first_only`: ends after the first one that breaks a promise."""
    mutant_named(mutant, protocol)
    size = 2 if first_only else CHUNK
    chunks = (list(seeds[i : i + size]) for i in range(0, len(seeds), size))
    played = _in_turn(chunks, mutant, protocol) if jobs <= 1 else _at_once(chunks, mutant, jobs, protocol)
    for result in played:
        yield result
        if first_only and result.broken:
            played.close()
            return


def _in_turn(chunks: Iterable[list[int]], mutant: str | None, protocol: str) -> Generator[Result]:
    for chunk in chunks:
        for seed in chunk:
            yield from _chunk([seed], mutant, protocol)


def _at_once(chunks: Iterable[list[int]], mutant: str | None, jobs: int, protocol: str) -> Generator[Result]:
    """Never submits more than what keeps all busy: what is submitted runs to its end, also when nobody wants it any more."""
    with ProcessPoolExecutor(jobs) as pool:
        waiting: deque[Future[list[Result]]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(_chunk, chunk, mutant, protocol))
            if len(waiting) > 2 * jobs:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
