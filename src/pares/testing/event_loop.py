"""The event loop of asyncio in virtual time: its clock and its waits are those of the process that it runs in."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from pares.sim.world.host import SimHost
from pares.sim.world.scheduler import Scheduler

_loops: WeakSet[StageLoop] = WeakSet()


class StageLoop(asyncio.BaseEventLoop):
    """Timers, tasks, threads (`asyncio.to_thread`) and calls from other threads; no sockets and no subprocesses."""

    def __init__(self, host: SimHost) -> None:
        super().__init__()
        self._host = host
        self._come = host.flag()
        self._selector: Any = self
        """What the base asks for events of files: `select`."""
        _loops.add(self)

    def time(self) -> float:
        return self._host.now() / 1e9

    def select(self, timeout: float | None) -> list[Any]:
        self._come.wait(timeout)
        self._come.clear()
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Another thread has something for this loop."""
        self._come.set()

    def call_exception_handler(self, context: Any) -> None:
        if not self._host.process.world.dead:  # what is unwound at the end of a stage complains to nobody
            super().call_exception_handler(context)

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        if not self._host.process.world.dead:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]  # pyright: ignore

    def __del__(self, *_: Any) -> None:
        """That of a killed process is never closed, and nobody is warned of it."""

    def _real(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            "a process of a stage has no sockets and no subprocesses: give the code under test a double for what it talks to"
        )

    create_connection = create_server = create_datagram_endpoint = getaddrinfo = _real
    subprocess_exec = subprocess_shell = _real


def unwind(world: Scheduler) -> None:
    """Coroutines of a world that is over end where they stand, now and not when the garbage collector finds them."""
    for loop in [loop for loop in _loops if loop._host.process.world is world]:  # pyright: ignore[reportPrivateUsage]
        for task in asyncio.all_tasks(loop):
            with suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
