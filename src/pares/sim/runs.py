"""Many seeds, on several processors; with a rule broken on purpose or without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
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
    chunks = [list(seeds[i : i + CHUNK]) for i in range(0, len(seeds), CHUNK)]
    if jobs <= 1:
        for chunk in chunks:
            for seed in chunk:
                result = _chunk([seed], mutant)[0]
                yield result
                if first_only and result.broken:
                    return
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_chunk, chunk, mutant) for chunk in chunks]
        for future in waiting:
            for result in future.result():
                yield result
                if first_only and result.broken:
                    pool.shutdown(wait=False, cancel_futures=True)
                    return


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
