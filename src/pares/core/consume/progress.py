"""How far the work of one term has come (C3): a run of spans that are done without a gap, from where the term began.

A span is what one fetch covers: from the offset that was asked for up to the next one to ask for, with whatever holes lie
between. Spans are given out in order and may be done in any; the position passes a span only when all before it are done.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct


class Span(Struct, eq=False, gc=False):
    """From `first` to before `next`."""

    first: int
    next: int
    done: bool = False


class Progress:
    """Of one term."""

    def __init__(self, position: int) -> None:
        self.position = position
        """Everything before it, from where the term began, is done: what a mark says."""
        self.next = position
        """What to fetch next."""
        self._open: deque[Span] = deque()

    @property
    def unfinished(self) -> int:
        """How many spans were opened and are not passed by the position."""
        return len(self._open)

    def open(self, upto: int) -> Span:
        """What lies from `next` to before `upto` is about to be given out. Raises ValueError for what goes backwards."""
        if upto <= self.next:
            raise ValueError(f"a span up to {upto} does not go on from {self.next}")
        span = Span(self.next, upto)
        self.next = upto
        self._open.append(span)
        return span

    def done(self, span: Span) -> bool:
        """The span is done. Whether the position has moved by that. Done twice is done once."""
        span.done = True
        before = self.position
        while self._open and self._open[0].done:
            self.position = self._open.popleft().next
        return self.position > before

    def skip(self, upto: int) -> bool:
        """What lies before `upto` is not there: a hole, or taken away by retention. Whether the position has moved."""
        return upto > self.next and self.done(self.open(upto))
