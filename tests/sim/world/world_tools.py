"""One process that runs a function in a world of its own."""

from __future__ import annotations

from collections.abc import Callable

from pares.sim.engine import SECOND
from pares.sim.world.process import Process
from pares.sim.world.simulation import World


def alone(main: Callable[[Process], object], *, seed: int = 1, seconds: float = 60.0) -> World:
    """The world after `main` has run in its only process. What `main` raises fails the test."""
    failed: list[BaseException] = []

    def guarded(process: Process) -> None:
        try:
            main(process)
        except Exception as error:
            failed.append(error)

    with World(seed, told=True).playing() as world:
        process = world.start("a", guarded)
        world.run(int(seconds * SECOND))
        assert not process.alive, f"still there: {[task.blocked for task in process.tasks]}"
    if failed:
        raise failed[0]
    return world
