"""Many seeds, on several processors; with a rule broken on purpose or without."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from time import perf_counter
from typing import Final

from msgspec import Struct

from pares.core.errors import ConfigError
from pares.sim.knobs import draw
from pares.sim.mutants import MUTANTS, Mutant, applied
from pares.sim.play import Outcome, play

CHUNK: Final = 8


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


def mutant_named(name: str | None) -> Mutant | None:
    """The mutant of that name; None for None. Raises `ConfigError` for one that there is not."""
    if name is None:
        return None
    if name not in MUTANTS:
        raise ConfigError(f"there is no mutant {name!r}; there are: {', '.join(sorted(MUTANTS))}")
    return MUTANTS[name]


def perform(seed: int, mutant: Mutant | None = None, *, told: bool = False) -> Outcome:
    """One seed. With `told` the outcome has a trace."""
    with applied(mutant):
        return play(draw(seed, mutant.bias if mutant is not None else None), told=told)


def _chunk(seeds: list[int], name: str | None) -> list[Result]:
    mutant = mutant_named(name)
    found: list[Result] = []
    for seed in seeds:
        began = perf_counter()
        outcome = perform(seed, mutant)
        took = perf_counter() - began
        found.append(Result(seed, outcome.broken, outcome.what, outcome.at, outcome.records, took))
    return found


def results(seeds: range, *, mutant: str | None = None, jobs: int = 1, first_only: bool = False) -> Iterator[Result]:
    """The results of the seeds, in order. `first_only`: ends after the first one that breaks a promise."""
    mutant_named(mutant)
    size = 2 if first_only else CHUNK
    chunks = (list(seeds[i : i + size]) for i in range(0, len(seeds), size))
    played = _in_turn(chunks, mutant) if jobs <= 1 else _at_once(chunks, mutant, jobs)
    for result in played:
        yield result
        if first_only and result.broken:
            played.close()
            return


def _in_turn(chunks: Iterable[list[int]], mutant: str | None) -> Generator[Result]:
    for chunk in chunks:
        for seed in chunk:
            yield from _chunk([seed], mutant)


def _at_once(chunks: Iterable[list[int]], mutant: str | None, jobs: int) -> Generator[Result]:
    """Never submits more than what keeps all busy: what is submitted runs to its end, also when nobody wants it any more."""
    with ProcessPoolExecutor(jobs) as pool:
        waiting: deque[Future[list[Result]]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(_chunk, chunk, mutant))
            if len(waiting) > 2 * jobs:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
