"""Waiting for whatever comes first: another process's append, a death, a request from another thread, or a time.

A bell that was seen to ring is trusted; a look each quarter of a session finds out if it no longer works. So an idle member
wakes a few times a session, however long the session is. Until a bell was seen to ring, and after a look found a record for
which it should have rung, looks come soon at first, and then each time after twice as long. Where there is no bell, looks come
in proportion to the session, and records wait for the next look.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Sequence
from typing import Final

from pares.ledger import Bell, Log

UNSEEN: Final = 0.1
"""Seconds until the first look, while the bell was not seen to ring."""
BELL_LESS: Final = 100
"""Looks in a session where there is no bell; they are never less than `SHORTEST` seconds apart, nor more than `LONGEST`."""
SHORTEST: Final = 0.005
LONGEST: Final = 0.05
NOTHING_THERE: Final = 60.0
"""Seconds to wait where there is no log to look at."""


def without_bell(session_ms: int) -> float:
    """Seconds from one look to the next where nothing rings."""
    return min(max(session_ms / 1000 / BELL_LESS, SHORTEST), LONGEST)


class Polling:
    """How long one driver waits. `listens`: whether the log has a bell; None where there is no log."""

    def __init__(self, listens: bool | None) -> None:
        self._listens = listens
        self.trusted = False
        """Whether the bell was seen to ring, and has not failed since."""
        self._pause = UNSEEN

    def waited(self, *, rang: bool, found: bool) -> None:
        """Called after a wait and the look that followed it. `rang`: the bell ended the wait. `found`: the look found a record
        for which the bell should have rung."""
        if rang:
            self.trusted = True
        elif found:
            self.trusted, self._pause = False, UNSEEN
        else:
            self._pause = min(2 * self._pause, NOTHING_THERE)

    def patience(self, session_ms: int, *, unread: bool = False) -> float:
        """The most seconds to wait. `unread`: a record of this member is still to be read back."""
        if self._listens is None:
            return NOTHING_THERE
        if unread or not self._listens:
            return without_bell(session_ms)
        quarter = session_ms / 4000
        return quarter if self.trusted else min(self._pause, quarter)


class Doorbell:
    """Descriptors to select on. `ring` may be called from any thread.

    `partitions`: those whose bells it waits for; only the first one's where a bell rings for all partitions (`one_bell`).
    Without a ledger only `ring` ends a wait.
    """

    def __init__(self, ledger: Log | None, partitions: Sequence[int] = (0,)) -> None:
        self._lock = threading.RLock()
        self._ring, self._pushed = os.pipe()
        os.set_blocking(self._ring, False)
        os.set_blocking(self._pushed, False)
        self._poll = select.poll()
        self._poll.register(self._ring, select.POLLIN)
        self._alone = select.poll()
        self._alone.register(self._ring, select.POLLIN)
        self._others: list[int] = []
        listened = () if ledger is None else partitions[:1] if ledger.capabilities.one_bell else partitions
        self._bells: list[Bell] = []
        for number in listened:
            bell = None if ledger is None else ledger.bell(number)
            if bell is not None:
                self._bells.append(bell)
                self._poll.register(bell.fileno(), select.POLLIN)
        self._sounding = frozenset(bell.fileno() for bell in self._bells)
        self._listens = None if ledger is None else len(self._bells) == len(listened)

    @property
    def listens(self) -> bool | None:
        """Whether an append rings; None where there is no log."""
        return self._listens

    def also(self, descriptors: list[int]) -> None:
        """From now on waits for these descriptors, too, in the place of those of an earlier call."""
        for old in self._others:
            with contextlib.suppress(KeyError, OSError):
                self._poll.unregister(old)
        self._others = descriptors
        for descriptor in descriptors:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Waits, then silences the bells, so that the next append rings them again. Returns whether a bell of the log has
        rung."""
        rang = False
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._ring:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._ring, 4096)
            rang = rang or descriptor in self._sounding
        for bell in self._bells:
            bell.clear()  # also if it has not rung: this looks whether its file was replaced
        return rang

    def rest(self, seconds: float) -> None:
        """Waits for `ring` alone. Bells keep ringing; a `ring` that ends this rest ends the next wait, too."""
        if seconds > 0:
            self._alone.poll(seconds * 1000)

    def ring(self) -> None:
        """Ends a wait, or the next one."""
        # With the lock, because the number of a descriptor that close() has given back may soon name another file.
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
        for bell in self._bells:
            bell.close()
