"""What the threads of a process share of what brokers have answered.

Members on one ledger ask the same questions at the same time, and read the same entries one after the other. [fifty that start
in one process ask fifty times where the log ends before each thousand records that they read, and have each of these sent to
them, and ten thousand more behind it; a broker that is too busy for that answers nobody in time, and all ask again]
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import threading
import time
from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar

from pares.core.errors import LedgerUnavailable, ParesError
from pares.ledger.base import MAX_READ_BYTES, Entry, limited

TURNS: Final = 20
"""So many times as long as a request may take, a thread waits for what another one asks."""
KEPT: Final = 5.0
"""Seconds for which entries are handed on that were fetched before: it may be another log by then, and nobody have said so.
After that the broker is asked for the last of them once more: if that is unchanged, so are those before it."""
_PASSAGES: Final = 16
"""So many are kept at the most: readers of one log don't keep step, and some read several."""
_ENTRY: Final = 180
"""Bytes that an entry takes beside its payload."""
_UNUSED: Final = 30.0
"""Seconds after which a passage is let go that nobody goes on from."""

_NOT_ASKED: Final = "the thread that was to ask for all has not: ask again"

T = TypeVar("T")


@contextlib.contextmanager
def within(lock: threading.Lock, patience: float) -> Generator[None]:
    """Holds the lock. Raises `LedgerUnavailable` if it is not to be had in so many seconds: a thread that has it may wait for
    this one, as a signal's handler may."""
    if not lock.acquire(timeout=patience):
        raise LedgerUnavailable(_NOT_ASKED)
    try:
        yield
    finally:
        lock.release()


class _Answer(Generic[T]):
    """What became of one question: known to all that wait for it."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.came = threading.Event()
        self.found: list[T] = []
        self.error: ParesError = LedgerUnavailable("the thread that asked for all was interrupted: ask again")

    def get(self, patience: float) -> T:
        if not self.came.wait(patience):
            raise LedgerUnavailable(_NOT_ASKED)
        if not self.found:
            raise copy.copy(self.error)  # what each of many raises would know the frames of all of them
        return self.found[0]


class Together(Generic[T]):
    """A question that several threads ask at the same time is asked once for all of them.

    Each gets an answer, or the error, to what was asked after it came: so those that come while the question is on its way wait
    for that, and for the next one. Waiting takes up to twice as long as asking, and `patience` seconds at the most, whatever
    becomes of the thread that asks. A thread that is in here already, as where a signal's handler asks, waits for nobody.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._asks = threading.Lock()
        """Held by the one that asks."""
        self._inside: set[int] = set()
        self._next: _Answer[T] | None = None
        """The answer to the question that was not asked yet, if somebody waits for that."""

    def ask(self, question: Callable[[], T]) -> T:
        me = threading.get_ident()
        if me in self._inside:
            return question()
        self._inside.add(me)
        try:
            return self._ask(question)
        finally:
            self._inside.discard(me)

    def _ask(self, question: Callable[[], T]) -> T:
        mine = _Answer[T]()
        try:  # from here on, so that an interrupt leaves nobody waiting
            with self._lock:
                theirs = self._next
                if theirs is None or theirs.came.is_set() or theirs.since + self._patience < mine.since:
                    self._next = theirs = mine
            if theirs is not mine:
                return theirs.get(self._patience)
            with within(self._asks, self._patience):
                self._withdraw(mine)  # who comes from now on comes too late for this one
                mine.found.append(question())
            return mine.found[0]
        except ParesError as error:  # others are this thread's own affair, such as what a signal's handler has raised
            mine.error = copy.copy(error)
            raise
        finally:
            mine.came.set()
            self._withdraw(mine)

    def _withdraw(self, mine: _Answer[T]) -> None:
        with self._lock:
            if self._next is mine:
                self._next = None


class Passage:
    """Entries that follow one another in one partition, and when the broker was last known to have them."""

    __slots__ = ("asked", "entries", "place", "size")

    def __init__(self, place: tuple[str, int], entries: list[Entry], asked: float) -> None:
        self.place = place
        self.entries = entries
        self.asked = asked
        """When the fetch began that brought the last ones, or found the last one unchanged."""
        self.size = _size(entries)

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    def reaches(self, offset: int) -> bool:
        """Whether a reader at this offset finds something here, or would go on right behind."""
        return self.entries[0].offset <= offset <= self.last.offset + 1

    def lacks(self, offset: int, end: int, max_records: int) -> bool:
        """Whether a read from there on, of a partition that ends at `end`, needs more than is here."""
        return self.last.offset < end - 1 and len(self.entries) - self._at(offset) < max_records

    def take(self, offset: int, max_records: int) -> list[Entry]:
        first = self._at(offset)
        return limited(self.entries[first : first + max_records], max_records)

    def goes_on(self, entries: list[Entry], asked: float) -> bool:
        """Takes these in, which were fetched from its last offset on, at `asked`. False if its last entry is not there any
        more: it was trimmed, or the log is another one."""
        if not entries or entries[0] != self.last:
            return False
        self.entries += entries[1:]
        self.asked = asked
        self.size += _size(entries[1:])
        return True

    def shorten(self) -> None:
        """Lets go of its first half, if it is too large. Not before the reader that has made it grow has what it asked for."""
        if self.size > MAX_READ_BYTES:
            del self.entries[: len(self.entries) // 2]
            self.size = _size(self.entries)

    def _at(self, offset: int) -> int:
        return bisect.bisect_left(self.entries, offset, key=_offset)


def _offset(entry: Entry) -> int:
    return entry.offset


def _size(entries: list[Entry]) -> int:
    return sum([len(entry.payload) for entry in entries]) + _ENTRY * len(entries)


class Passages:
    """What the last few fetches have brought, and those that went on from there. The caller holds a lock."""

    def __init__(self) -> None:
        self._kept: list[Passage] = []

    def put(self, place: tuple[str, int], entries: list[Entry], asked: float) -> None:
        """`place`: topic and partition; `asked`: when the fetch began."""
        if entries:
            self._kept.append(Passage(place, entries, asked))
            self.tidy()

    def reaching(self, place: tuple[str, int], offset: int) -> Passage | None:
        """The one that reaches furthest of those with this offset."""
        found = [passage for passage in self._kept if passage.place == place and passage.reaches(offset)]
        passage = max(found, key=lambda passage: passage.last.offset, default=None)
        if passage is not None:  # those that were of use last are kept longest
            self._kept.remove(passage)
            self._kept.append(passage)
        return passage

    def tidy(self) -> None:
        """Lets go of what nobody has gone on from lately, and of what is too much."""
        since = time.monotonic() - _UNUSED
        self._kept = [passage for passage in self._kept if passage.asked >= since][-_PASSAGES:]
        for passage in self._kept:
            passage.shorten()
        while len(self._kept) > 1 and sum(passage.size for passage in self._kept) > MAX_READ_BYTES:
            self._kept.pop(0)

    def ends(self, place: tuple[str, int], end: int, asked: float) -> None:
        """The partition ended there when that was asked: what was fetched before and goes beyond it is of another log, or of a
        tail that was lost."""
        self._kept = [
            each for each in self._kept if each.place != place or each.asked > asked or each.last.offset < end
        ]

    def forget(self) -> None:
        self._kept = []
