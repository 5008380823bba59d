"""True time, and the tasks that live in it.

What happens comes from one queue, in the order of time and, at one time, in the order in which it was put in. The queue is
worked off by the hub; a task runs when the hub switches to it, and comes back to the hub when it blocks. A task that calls its
host without blocking goes on at once, for a few hundred nanoseconds of true time, unless something else is due by then.

A blocked task waits for a ticket: each thing that may wake it (a notification, a timer) names the ticket, and the first one
that comes uses it up. So no wake-up is ever taken for another.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import sys
from asyncio import events, tasks
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

from pares.sim.engine import Engine
from pares.sim.world.seam import Owner

NEVER: Final = 2**62
"""Beyond every true time."""
THROWS: Final = 3
"""How often a task is unwound that goes on all the same."""
STUBBORN: Final = 1_000
"""Calls that a task may make while it is unwound, before it is left where it stands."""


class Running:
    """An event loop of asyncio that runs in a task which waits: Python keeps that for an OS thread, and one OS thread plays all
    tasks. So it is taken away from a task that stops, and given back to it before it goes on."""

    __slots__ = ("current", "hooks", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.hooks = sys.get_asyncgen_hooks()
        self.current = self._swap(None)
        events._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)

    def give(self) -> None:
        """It runs again."""
        events._set_running_loop(self.loop)
        self._swap(self.current)
        sys.set_asyncgen_hooks(*self.hooks)

    def _swap(self, task: Any) -> Any:
        """Its current task: before Python 3.14 each loop has its own, whatever runs."""
        return tasks._swap_current_task(self.loop, task) if sys.version_info >= (3, 14) else None


_running_loop = events._get_running_loop
"""Asked at each switch; None if none runs."""


def take() -> Running | None:
    """The loop that runs here, which does no more; None if there is none."""
    loop = events._get_running_loop()
    return None if loop is None else Running(loop)


class Task:
    """One thread of a simulated process; to its users what `threading.Thread` is."""

    __slots__ = (
        "_joiners",
        "blocked",
        "daemon",
        "ended_at",
        "error",
        "greenlet",
        "ident",
        "looked_at",
        "loop",
        "name",
        "over",
        "process",
        "read_at",
        "thread",
        "ticket",
        "waited_at",
    )

    def __init__(self, process: Owner, ident: int, run: Callable[[], object], name: str) -> None:
        self.process = process
        self.ident = ident
        self.name = name
        self.daemon = True
        self.over = False
        self.error: BaseException | None = None
        """What ended it, if it did not return."""
        self.ticket = 0
        """Of the present wait; whatever names an older one wakes nobody."""
        self.blocked = ""
        """What it waits for, for people."""
        self.waited_at = self.read_at = 0
        """The true times of its last wait for bells, and of its last attempt to look at a log."""
        self.looked_at = 0
        """When its last read began that found nothing more."""
        self.ended_at: int | None = None
        """When its last read began, if the log ended with what that has brought."""
        self._joiners: list[tuple[Task, int]] = []
        self.greenlet = greenlet(lambda _: self._run(run), process.world.hub)
        self.greenlet.gr_context = process.context.copy()
        self.loop: Running | None = None
        """The event loop of asyncio that runs in it, while it waits."""
        self.thread: object = None
        """The `threading.Thread` that its code takes it for, if it has asked."""

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.process.name}{', over' if self.over else ''}>"

    def unwind(self) -> None:
        """It is ended where it stands. By the hub."""
        if self.loop is not None:
            self.loop.give()
        try:
            self.greenlet.throw(GreenletExit)
        finally:
            self.loop = take()

    def _run(self, run: Callable[[], object]) -> None:
        try:
            run()
        except GreenletExit:
            raise
        except BaseException as error:
            self.error = error
            self.process.world.told(self.process, f"task {self.name!r} ended with {error!r}")
            self.process.failures.append((self.name, error))
        self.over = True
        self.process.ended(self)
        for joiner, ticket in self._joiners:
            joiner.process.wake(joiner, ticket)

    def is_alive(self) -> bool:
        return not self.over and self.process.alive

    def join(self, timeout: float | None = None) -> None:
        """Waits until the task is over, `timeout` seconds at most."""
        process = self.process
        process.cross("join")
        me = process.world.task()
        if me is self:
            raise RuntimeError("cannot join current thread")
        deadline = process.deadline(timeout)
        while not self.over:
            self._joiners.append((me, me.ticket))
            if not process.block("join", deadline):
                return


class Scheduler(Engine):
    """The queue and the hub. What happens by `at` and `after` happens on the hub, and must not block."""

    def __init__(self) -> None:
        super().__init__()
        self.at(NEVER, _nothing)
        self.hub = getcurrent()
        self.current: Task | None = None
        self.dead = False
        """The world has ended: tasks are unwound, and nothing that they call has any effect."""
        self.quiet = False
        """Somebody looks on: what is called meanwhile costs no time and is no place to stop."""
        self.switches = 0
        self.watchers: list[Callable[[Any], object]] = []
        """Called by the hub with a process, whenever a task of it has run and came back."""
        self.verdict: Exception | None = None
        """What a promise was broken by, found while a task ran: raised out of `run` as soon as that comes back."""
        self._unwound: list[Task] = []
        """Tasks of processes that were killed: never resumed, and unwound when the world has ended."""

    # Events ----------------------------------------------------------------------------------------------------------

    @property
    def due(self) -> int:
        """When the next thing happens."""
        return self.events[0][0]

    def run(self, until: int) -> None:
        """Everything that happens up to `until`, which is the time afterwards. What a watcher raises ends it."""
        queue, pop = self.events, heapq.heappop
        self.hub = getcurrent()
        while queue[0][0] <= until:
            when, _, call, args = pop(queue)
            if when > self.now:
                self.now = when
            call(*args)
        self.now = max(self.now, until)

    def task(self) -> Task:
        """The task that runs. Raises outside of any."""
        if self.current is None:
            raise RuntimeError("this is not called by a simulated process: start one with World.start(name, main)")
        return self.current

    def resume(self, task: Task, ticket: int, value: bool) -> None:
        """The task goes on, if it still waits for this ticket. By the hub."""
        if task.ticket != ticket:
            return
        process = task.process
        if not process.alive:
            return
        if process.frozen:
            process.deferred.append((task, ticket, value))
            return
        task.ticket = ticket + 1
        self.current = task
        self.switches += 1
        if task.loop is not None:
            task.loop.give()
        try:
            task.greenlet.switch(value)
        finally:
            task.loop = None if _running_loop() is None else take()
            self.current = None
        if self.verdict is not None:
            raise self.verdict
        for watch in self.watchers:
            watch(process)

    def drop(self, tasks: list[Task]) -> None:
        """These never run again; no `finally` of theirs does before the world has ended."""
        self._unwound += tasks

    def fail(self, verdict: Exception) -> None:
        """To be called by what runs inside of tasks, where an exception would be caught by their caller."""
        if self.verdict is None and not self.dead:
            self.verdict = verdict

    def told(self, process: Any, text: str) -> None:
        """Something for the trace."""

    # The end ---------------------------------------------------------------------------------------------------------

    def unwind(self, tasks: list[Task]) -> None:
        """The world is over. Every task is unwound, so that nothing of it is left; calls of its host raise meanwhile."""
        self.dead = True
        self.hub = getcurrent()
        with _silent():
            for task in [*self._unwound, *tasks]:
                task.ticket = -1
                task.greenlet.parent = self.hub
                try:
                    for _ in range(THROWS):  # one that catches even the last stays where it stands
                        if not task.greenlet or task.greenlet.dead:
                            break
                        task.unwind()
                except BaseException:  # whatever code makes of being unwound is nobody's matter
                    pass
            self._unwound.clear()
            self.events[:] = [(NEVER, 0, _nothing, ())]
            self.watchers.clear()
            gc.collect(0)  # all that this world has made: the collector has rested since


def _nothing() -> None:
    """The end of the queue, which is never reached."""


@contextmanager
def _silent() -> Generator[None, None, None]:
    """Generators that are closed while their task is unwound may raise where nobody can catch it."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda raised: None if isinstance(raised.exc_value, GreenletExit) else hook(raised)
    try:
        yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def no_collector() -> Generator[None, None, None]:
    """Nothing is finalized at a time that the collector picks: while a world is played, and until it is unwound."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
