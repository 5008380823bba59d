"""Events from any task that wait for a member's driver to hand them to its protocol.

The inbox is made before any driver: barriers and beliefs put events in, and a driver that comes later (`connect="background"`)
finds what was put in until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pares.core.events import WorkOver


class Inbox:
    """The inbox of one member. It needs no lock: each operation is one step for the interpreter."""

    def __init__(self) -> None:
        self.events: deque[Any] = deque()
        self._ring: Callable[[], None] | None = None

    def attach(self, ring: Callable[[], None]) -> None:
        """Has `ring` called now, and after each event that comes in."""
        self._ring = ring
        ring()

    def put(self, event: object) -> None:
        self.events.append(event)
        if self._ring is not None:
            self._ring()

    def work_over(self, key: tuple[str, int, int]) -> None:
        """The barrier and the bodies of a term (role, seat, token) have returned."""
        self.put(WorkOver((key[0], key[1]), key[2]))
