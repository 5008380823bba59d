"""Leaderships, by what members told: how long nobody led, and how long several."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

from bench.processes import PATIENCE, Troupe
from pares.runtime.clock import stopwatch

Change = tuple[int, str, bool]
"""When somebody began to lead, or stopped."""


class Reigns:
    """Hears all that a troupe tells of the role x; nobody else may listen to it meanwhile."""

    def __init__(self, troupe: Troupe) -> None:
        self._lines = troupe.lines
        self.changes: list[Change] = []
        self._others: list[list[str]] = []
        """What was told beside that."""

    def heard(self) -> list[Change]:
        """All that has been told by now."""
        while True:
            try:
                self._take(self._lines.get_nowait())
            except queue.Empty:
                return self.changes

    def come_to(self, wanted: Iterable[str], for_so_long: float = 0.0) -> int:
        """Waits until just these lead, and have for so many seconds; since when, by the stopwatch."""
        names, end = set(wanted), time.monotonic() + PATIENCE
        while True:
            now, changes = stopwatch(), self.heard()
            since = max((change[0] for change in changes), default=0)
            leading = at(changes, max(now, since))
            if leading == names and now >= since + for_so_long * 1e9:
                return since
            if time.monotonic() > end:
                raise TimeoutError(f"{sorted(names)} did not come to lead within {PATIENCE:g} s: {sorted(leading)} do")
            time.sleep(0.002)

    def told(self, word: str) -> int:
        """When somebody said this word, who has not been asked for yet; waits for it."""
        end = time.monotonic() + PATIENCE
        while True:
            self.heard()
            for number, (_, said, _, when, *_) in enumerate(self._others):
                if said == word:
                    del self._others[number]
                    return int(when)
            if time.monotonic() > end:
                raise TimeoutError(f"nobody said {word!r} within {PATIENCE:g} s")
            time.sleep(0.002)

    def _take(self, line: list[str]) -> None:
        name, said, about, when, *_ = line
        if about == "x" and said in ("lead", "lost"):
            self.changes.append((int(when), name, said == "lead"))
            self.changes.sort()
        else:
            self._others.append(line)


def at(changes: Iterable[Change], moment: int) -> set[str]:
    leading: set[str] = set()
    for when, name, leads in changes:
        if when <= moment:
            (leading.add if leads else leading.discard)(name)
    return leading


def none(changes: Iterable[Change], since: int, until: int) -> float:
    """Milliseconds between these moments in which nobody led."""
    return _while(changes, since, until, lambda count: count == 0)


def several(changes: Iterable[Change], since: int, until: int) -> float:
    """Milliseconds between these moments in which more than one led."""
    return _while(changes, since, until, lambda count: count > 1)


def _while(changes: Iterable[Change], since: int, until: int, holds: Callable[[int], bool]) -> float:
    every = sorted(changes)
    moments = [since, *(when for when, _, _ in every if since < when < until), until]
    total = 0
    for begin, end in pairwise(moments):
        if holds(len(at(every, begin))):
            total += end - begin
    return total / 1e6
