"""Which event loop of asyncio runs: Python keeps that for an OS thread, and one OS thread plays all tasks of a world.

So it is taken away from a task that stops, and given back to it before it goes on.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events, tasks
from typing import Any

PER_THREAD: bool = sys.version_info >= (3, 14)
"""Whether the current task is kept for the thread, too. Before, each loop has its own."""


class Running:
    """A loop that runs in a task which waits, and what goes with it."""

    __slots__ = ("current", "hooks", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.hooks = sys.get_asyncgen_hooks()
        self.current: Any = _swap(loop, None)
        events._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)

    def give(self) -> None:
        """It runs again."""
        events._set_running_loop(self.loop)
        _swap(self.loop, self.current)
        sys.set_asyncgen_hooks(*self.hooks)


def _swap(loop: asyncio.AbstractEventLoop, task: Any) -> Any:
    return tasks._swap_current_task(loop, task) if PER_THREAD else None  # type: ignore[attr-defined]


def take() -> Running | None:
    """The loop that runs here, which does no more; None if there is none."""
    loop = events._get_running_loop()
    return None if loop is None else Running(loop)
