"""One fold for many members, who all read the log up to its end and decide in that very instant.

Worlds of members that have read as far are the same (promise 5). So where each member reads up to the end of the log before it
does anything else, one world serves all, and records are folded once and not once for each member. What is a member's own stays
with it: its stopwatches, its terms, what it has sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pares.core.wire.changes import Change
from pares.core.wire.reader import EntryLike, Reader, State, Taken
from pares.core.wire.said import Said
from pares.core.wire.world import World


class Book:
    """The fold of all that stands in the log, and what each record has changed."""

    def __init__(self, group: str) -> None:
        self.reader = Reader(group)
        self.reader.attach(0, 0)
        self.changes: list[list[Change]] = []
        """By offset."""
        self.counted: defaultdict[str, list[tuple[int, int, bytes]]] = defaultdict(list)
        """By member: offset, number and payload of its records that count."""
        self.snapshots: list[Taken] = []

    @property
    def world(self) -> World:
        return self.reader.world

    def add(self, entry: EntryLike, by: str) -> None:
        reader = self.reader
        reader.member, reader.wanted = by, reader.wanted and reader.taken is None
        self.changes.append(reader.feed([entry]))
        self.counted[by] += reader.mine
        if reader.taken is not None:
            self.snapshots, reader.taken = [*self.snapshots[-3:], reader.taken], None


class SharedReader(Reader):
    """Has the book's world in the place of one of its own."""

    def __init__(self, book: Book, member: str) -> None:
        super().__init__(book.reader.group, member)
        self.book = book
        self.world = book.world

    def attach(self, start: int, end: int) -> None:
        self.start, self.end, self.position = start, end, 0
        self.state, self.world = State.FOLDING, self.book.world

    def feed(self, entries: Iterable[EntryLike], known: Sequence[Said] | None = None) -> list[Change]:
        book, entries = self.book, [*entries]
        self.mine, self._dry = [], not entries
        if not entries:
            return []
        assert entries[0][0] == self.position, "it reads on from where it was"
        assert entries[-1][0] + 1 == len(book.changes), "up to the end"
        first, self.position = self.position, entries[-1][0] + 1
        counted = book.counted[self.member]
        self.mine = counted[bisect_left(counted, (first,)) :]
        self.verified, self.defects = book.reader.verified, book.reader.defects
        book.reader.wanted = book.reader.wanted or self.wanted
        for taken in book.snapshots:
            if (self.wanted or taken.asked) and first < taken.upto <= self.position:
                self.taken, self.wanted = taken, False
        return [change for changes in book.changes[first:] for change in changes]
