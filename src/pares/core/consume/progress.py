"""How far the work of one term has come (C3, C9): what is done in a run from where the term began, and what is done above that.

A span is what is done as a whole: a batch, or one record, with the holes that lie before or behind it. Spans are given out in
order and may be done in any; the position passes a span only when all before it are done. What is done above the position is
kept as runs: spans that are done and touch become one, so that a record that takes its time costs one run, however much is done
behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pares.core.consume.runs import Run, among, joined


class Span(Struct, eq=False, gc=False):
    """From `first` to before `next`."""

    first: int
    next: int
    done: bool = False


class Progress:
    """Of one term. `known`: runs above the position that were done before the term began, in order."""

    def __init__(self, position: int, known: Iterable[Run] = ()) -> None:
        self.position = position
        """Everything before it, from where the term began, is done: what a mark says."""
        self.next = position
        """What to fetch next."""
        self.unfinished = 0
        """Spans that were opened and are not done."""
        self._known = list(known)
        self.goes_on = bool(self._known)
        """Whether anything above the position was done before this term began."""
        self._first: _Node | None = None
        self._last: _Node | None = None
        self._nodes: dict[int, _Node] = {}
        """Of spans that are not done, by their first offsets."""
        self.runs = 0
        """Of what is done above the position and below `next`."""

    @property
    def head(self) -> int:
        """The first offset of the span that the position waits for; `next` if it waits for none."""
        return self.next if self._first is None else self._first.first

    def waits_for(self, offset: int) -> bool:
        """Whether the position waits for what is done with this offset."""
        first = self._first
        return first is not None and first.first <= offset < first.next

    def was_done(self, offset: int) -> bool:
        """Whether it was done before this term began."""
        return self.goes_on and among(self._known, offset)

    def open(self, upto: int) -> Span:
        """What lies from `next` to before `upto` is about to be given out. Raises ValueError for what goes backwards."""
        if upto <= self.next:
            raise ValueError(f"a span up to {upto} does not go on from {self.next}")
        span = Span(self.next, upto)
        node = _Node(span.first, upto, self._last)
        if self._last is None:
            self._first = node
        else:
            self._last.after = node
        self._last = self._nodes[span.first] = node
        self.next = upto
        self.unfinished += 1
        return span

    def done(self, span: Span) -> bool:
        """The span is done. Whether the position has moved by that. Done twice is done once."""
        if span.done:
            return False
        span.done = True
        node = self._nodes.pop(span.first)
        node.done = True
        self.unfinished -= 1
        self.runs += 1
        if node.after is not None and node.after.done:
            self._join(node, node.after)
        if node.before is not None and node.before.done:
            self._join(node.before, node)
        first = self._first
        if first is None or not first.done:
            return False
        self.position, self._first = first.next, first.after  # what touches it is not done
        self.runs -= 1
        if self._first is None:
            self._last = None
        else:
            self._first.before = None
        return True

    def _join(self, one: _Node, two: _Node) -> None:
        """Both are done, and touch."""
        one.next, one.after = two.next, two.after
        if two.after is None:
            self._last = one
        else:
            two.after.before = one
        self.runs -= 1

    def skip(self, upto: int) -> bool:
        """What lies before `upto` is not there, or was done before: a hole, or taken away by retention. Whether the position
        has moved."""
        return upto > self.next and self.done(self.open(upto))

    def ahead(self) -> tuple[Run, ...]:
        """The runs that are done above the position, in this term or before. A batch leaves out what was done before, so that
        may lie in a span that is not done. [the batch is lost with its holder, and all that it had left out is done again]"""
        runs = [run for run in self._known if run[1] > self.position]
        node = self._first
        while node is not None:
            if node.done:
                runs.append((node.first, node.next))
            node = node.after
        return tuple(joined(runs, self.position))


class _Node(Struct, eq=False):
    """A span that is not done, or several in a run that are."""

    first: int
    next: int
    before: _Node | None = None
    after: _Node | None = None
    done: bool = False
