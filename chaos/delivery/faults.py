"""Faults of workers' processes. Those of links and brokers are `chaos.faults`."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from chaos.delivery.crew import Crew


class Kind(NamedTuple):
    """`make`: healed when it is left."""

    name: str
    make: Callable[[Crew], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def _kill(crew: Crew) -> Iterator[str]:
    place = crew.one_that_runs()
    crew.kill(place)
    try:
        yield f"{place} is killed"
    finally:
        crew.begin(place)  # under its name


@contextlib.contextmanager
def _freeze(crew: Crew) -> Iterator[str]:
    place = crew.one_that_runs()
    process = crew.process(place)
    process.freeze()
    try:
        yield f"{place} is frozen"
    finally:
        process.identity.signal(signal.SIGCONT)


OF_WORKERS: Final = {kind.name: kind for kind in (Kind("worker-kill", _kill), Kind("worker-freeze", _freeze))}
LASTS: Final = (1.2, 3.0)
"""In sessions, between which and which they last: longer than others wait."""
