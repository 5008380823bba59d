"""What there is for a member's protocol to hear, from any task, until its driver takes it.

It is made first, before any driver: barriers and beliefs are given it, and a driver that comes later (`connect="background"`)
finds what was put in until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pares.core.events import WorkOver


class Inbox:
    """Of one member. No lock: each thing that is done here is one step for the interpreter."""

    def __init__(self) -> None:
        self.events: deque[Any] = deque()
        self._ring: Callable[[], None] | None = None

    def attach(self, ring: Callable[[], None]) -> None:
        """From now on `ring` is called after whatever comes in."""
        self._ring = ring
        ring()

    def put(self, event: object) -> None:
        self.events.append(event)
        if self._ring is not None:
            self._ring()

    def work_over(self, key: tuple[str, int, int]) -> None:
        """The barrier and the bodies of a term (role, seat, token) have come to their end."""
        self.put(WorkOver((key[0], key[1]), key[2]))
