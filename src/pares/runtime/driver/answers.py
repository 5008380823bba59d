"""Callers that wait for what they asked of a member's loop: each is told once whether it stands in the log, or that it never
will."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Answer = Callable[[bool], object]
"""Called with True when what was asked stands in the log and was read, with False when the loop has ended before."""


class Answers:
    """Of one loop. Users ask on their threads; the loop answers on its own, in the order in which they asked.

    A caller hands its request over first. So the loop counts who waits before it looks whether requests are left: of those
    it counted none can have a request that it has not seen.
    """

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque()
        self._over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, answer: Answer) -> None:
        self._waiting.append(answer)
        if self._over:  # looked at after the append, as `end` looks after it has set it: one of the two finds the other
            self._tell(len(self._waiting), False)

    def done(self, count: int) -> None:
        """The first `count` of those who wait have what they asked for."""
        self._tell(count, True)

    def end(self) -> None:
        """The loop has ended, and everybody can see how: nobody who waits now or asks later gets anything more."""
        self._over = True
        self._tell(len(self._waiting), False)

    def _tell(self, count: int, done: bool) -> None:
        for _ in range(count):
            try:
                answer = self._waiting.popleft()
            except IndexError:  # two threads that came here at once share the rest
                return
            answer(done)
