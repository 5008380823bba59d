"""Callers that wait for a request to a member's loop: each is told once that what it asked stands in the log, or that the loop
has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Answer = Callable[[bool], object]
"""Called with True when what was asked stands in the log and was read, with False when the loop ended before that."""


class Answers:
    """The callers of one loop. They ask on their own threads; the loop answers on its thread, in the order in which they asked.

    A caller hands its request over before it asks for an answer. The loop counts the callers that wait, and then looks whether
    requests are left. So it has seen the request of each caller that it counted.
    """

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque()
        self._over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, answer: Answer) -> None:
        self._waiting.append(answer)
        # `end` sets `_over` and then looks at the callers; here it is the other way round: so one of the two sees the other.
        if self._over:
            self._tell(len(self._waiting), False)

    def done(self, count: int) -> None:
        """The first `count` of the waiting callers have what they asked for."""
        self._tell(count, True)

    def end(self) -> None:
        """The loop has ended, and its outcome can be read: callers that wait now, or ask later, are told False."""
        self._over = True
        self._tell(len(self._waiting), False)

    def _tell(self, count: int, done: bool) -> None:
        for _ in range(count):
            try:
                answer = self._waiting.popleft()
            except IndexError:  # another thread that came here at the same time has told the others
                return
            answer(done)
