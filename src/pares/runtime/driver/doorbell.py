"""Waiting for whatever comes first: an append by anybody, a death, a request from another thread, or a time."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Final

from pares.ledger import Bell, Log

WITH_BELL: Final = 0.1
"""Seconds after which to look for new entries although no bell has rung: a bell may be taken away."""
WITHOUT_BELL: Final = 0.005


class Doorbell:
    """Descriptors to select on. `ring` may be called from any thread."""

    def __init__(self, ledger: Log, partition: int) -> None:
        self._lock = threading.RLock()
        self._ring, self._pushed = os.pipe()
        os.set_blocking(self._ring, False)
        os.set_blocking(self._pushed, False)
        self._bell: Bell | None = ledger.bell(partition)
        self._poll = select.poll()
        self._poll.register(self._ring, select.POLLIN)
        self._alone = select.poll()
        self._alone.register(self._ring, select.POLLIN)
        self._others: list[int] = []
        if self._bell is not None:
            self._poll.register(self._bell.fileno(), select.POLLIN)

    @property
    def patience(self) -> float:
        """Seconds to wait at most."""
        return WITHOUT_BELL if self._bell is None else WITH_BELL

    def also(self, descriptors: list[int]) -> None:
        """Waits for these, too, from now on (and for no others that were named here before)."""
        for old in self._others:
            with contextlib.suppress(KeyError, OSError):
                self._poll.unregister(old)
        self._others = descriptors
        for descriptor in descriptors:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Waits; afterwards the bells are silent, so that whatever comes next rings them again."""
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._ring:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._ring, 4096)
        if self._bell is not None:
            self._bell.clear()  # also when it has not rung: it may be watching a file that was replaced meanwhile

    def rest(self, seconds: float) -> None:
        """Waits for `ring` and for nothing else: bells are left to ring, and whatever ends this ends the next wait, too."""
        if seconds > 0:
            self._alone.poll(seconds * 1000)

    def ring(self) -> None:
        """Ends a wait, or the next one."""
        # The lock, because a number that close() has given back may be somebody else's file a moment later.
        with self._lock:
            if self._pushed >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._pushed, b"!")

    def close(self) -> None:
        with self._lock:
            self._close()

    def close_in_child(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        self._close()

    def _close(self) -> None:
        ring, pushed, self._ring, self._pushed = self._ring, self._pushed, -1, -1
        for descriptor in (ring, pushed):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        if self._bell is not None:
            self._bell.close()


class Doorbells(Doorbell):
    """One for every partition; or one for all, where any bell of the ledger rings for all of them (`one_bell`)."""

    def __init__(self, ledger: Log, partitions: int) -> None:
        super().__init__(ledger, 0)
        each = range(1, 1 if getattr(ledger, "one_bell", False) else partitions)
        self._more: list[Bell] = [bell for n in each if (bell := ledger.bell(n)) is not None]
        self.also([bell.fileno() for bell in self._more])

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        for bell in self._more:
            bell.clear()

    def close(self) -> None:
        super().close()
        self._close_more()

    def close_in_child(self) -> None:
        super().close_in_child()
        self._close_more()

    def _close_more(self) -> None:
        for bell in self._more:
            bell.close()
