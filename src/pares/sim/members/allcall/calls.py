"""What members of ALLCALL say to each other, seen from outside: each call as it is made, as it comes, and as it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pares.core.allcall.messages import Bad, Call, decode
from pares.sim.engine import US, WallClock
from pares.sim.world.bus import SharedBus
from pares.sim.world.process import Process

REMEMBERED: Final = 1000


class Message(Struct, frozen=True, eq=False):
    """What was published, and by which incarnation of a process."""

    process: Process
    call: Call
    payload: bytes
    at: int
    """When it was made, in true time: a process that stands still then sends it later."""


class Calls:
    """All of one bus. `unread`: how many messages have come to a process and were not taken yet.
    `catch_up`: called before anybody is told of what it publishes."""

    def __init__(self, bus: SharedBus, unread: Callable[[Process], int], catch_up: Callable[[Process], None]) -> None:
        self.bus = bus
        self.history: list[Message] = []
        """What was published lately, for late copies."""
        self.published: list[Callable[[Message], object]] = []
        """Told by the task that publishes."""
        self.came: list[Callable[[Process, Message], object]] = []
        """Told of what will be read, at once if the process does not stand still."""
        self.heard: list[Callable[[Process, Message], object]] = []
        """Told of what a member's driver has taken to read it."""
        self._unread = unread
        self._catch_up = catch_up
        self._by_payload: dict[bytes, Message] = {}
        self._waiting: dict[Process, deque[Message | None]] = {}
        bus.sent.append(self._sent)
        bus.came.append(self._came)

    def _sent(self, process: Process, subject: str, payload: bytes) -> None:
        call = decode(payload)
        assert not isinstance(call, Bad), "no member publishes what can't be read"
        world = process.world
        made = (call.s * 1000 - WallClock.EPOCH_US - process.wall.offset_us) * US
        message = Message(process, call, payload, min(made, world.now))
        self._by_payload[payload] = message
        self.history.append(message)
        if len(self.history) > REMEMBERED:
            del self.history[: REMEMBERED // 2]
        self._catch_up(process)
        for tell in self.published:
            tell(message)

    def _came(self, process: Process, payload: bytes) -> None:
        message = self._by_payload.get(payload)
        self._waiting.setdefault(process, deque()).append(message)
        if message is not None:
            for tell in self.came:
                tell(process, message)

    def look(self, process: Process) -> None:
        """What was taken since the last look, in order. To be called whenever a task of the process has run."""
        waiting = self._waiting.get(process)
        if not waiting:
            return
        left = self._unread(process)
        while len(waiting) > left:
            message = waiting.popleft()
            if message is not None:
                for tell in self.heard:
                    tell(process, message)

    def gone(self, process: Process) -> None:
        self._waiting.pop(process, None)
