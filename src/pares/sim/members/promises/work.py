"""Work never runs outside its term (R5): it begins when the barrier has returned from `Acquired`. That a planned handover waits
for it, up to `barrier_timeout`, is for each protocol to see in what its members say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pares.sim.members.promises.base import Promise
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.stage import Stage
    from pares.sim.world.process import Process

Key = tuple[str, int, int]
"""Role, seat, token: one term of one group."""


class Running:
    """A piece of work, or a barrier, that has begun."""

    __slots__ = ("began", "key", "process", "what")

    def __init__(self, process: Process, key: Key, what: str, at: int) -> None:
        self.process = process
        self.key = key
        self.what = what
        self.began = at


class Work(Promise):
    name = "work belongs to its term"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.running: dict[Running, None] = {}
        self.initialised: set[tuple[Process, Key]] = set()
        """Terms of which the barrier has returned from `Acquired`."""
        self.done = 0
        self.finished: dict[tuple[Process, Key], int] = {}
        """When the last work of each term was over."""
        self.ending: dict[tuple[Process, Key], tuple[int, int]] = {}
        """When a term was seen to be ended by plan, and when its lease would have run out, by its process' stopwatch."""
        self.world.on_end.append(self._gone)
        stage.sight.ended.append(self._ended)

    def begin(self, process: Process, key: Key, what: str, *, barrier: bool = True) -> Running:
        """By a task of a user's: its work begins. `what`: the way in which it came to run."""
        user = self.stage.user_of(process)
        barrier = barrier and user is not None and user.has_barrier and bool(self.stage.plan.barrier_timeout)
        if what != "barrier" and barrier and (process, key) not in self.initialised:
            self.fail(f"{what} of {process.name} for {key} begins before the barrier has returned from Acquired")
        if what == "barrier":
            self._still_believed(process, key)
        running = Running(process, key, what, self.world.now)
        self.running[running] = None
        return running

    def _still_believed(self, process: Process, key: Key) -> None:
        for held in self.stage.sight.of_process(process):
            if held.term.key == key and self.stage.judged(held) and held.term.deadline_ns > process.reading():
                self.fail(f"{held} believes, and its barrier is called for its end")

    def finish(self, running: Running) -> None:
        self.running.pop(running, None)
        self.finished[running.process, running.key] = self.world.now
        self.done += 1

    def _gone(self, process: Process) -> None:
        for running in [r for r in self.running if r.process is process]:
            del self.running[running]

    def _ended(self, held: Held) -> None:
        if held.process.alive and held.process.reading() < held.last:  # else its lease ran out, which is no plan
            self.ending[held.process, (held.seat[1], held.seat[2], held.token)] = held.process.reading(), held.last
