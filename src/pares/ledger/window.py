"""The newest entries of a partition, filled by a thread that follows it, and the bells that ring when something comes.

An empty answer is as good as the service's last word on the end; when that is older than `fresh` seconds, the reader asks it.

Entries that are not urgent (R21) come in, too, but ring no bell. The thread notes when they came: so a reader that is not woken
knows all the same since when somebody is silent. Where they are many, and the readers are of large groups and have said so, the
window is *lazy*: the thread waits for urgent entries only, and a reader fetches what is new when it reads.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol, runtime_checkable

from pares.ledger.local.stamp import own_stopwatch
from pares.ledger.weak_set import WeakBag

from .base import Entry, Log, limited
from .bell import PipeBell

FRESH: Final = 0.05
"""Seconds for which the service's last word on the end of a partition is taken for its end, if nothing else is said."""
NEAR: Final = 0.1
"""Seconds for which a reader waits for the thread to bring an entry that is known to be in the log, before it asks the
service."""
LAZY_FRESH: Final = 0.005
"""Seconds for which a lazy window's last reading counts: a member may read several times in one round."""
_KEEP: Final = 512
_KEEP_BYTES: Final = 1 << 20
"""Entries, and bytes, that are kept of each partition for readers that were woken and have not read them yet. A reader that is
further behind asks the service. Up to twice as much is held before older entries are dropped."""

PERIOD: Final = 10.0
MANY: Final = 6
"""So many entries that are not urgent in a `PERIOD` of seconds are many."""
NONE: Final = 30.0
"""Seconds without such an entry after which they are no longer many."""
STAYS: Final = 1.0
"""Seconds after a reader was last attended closely for which no reader is lazy: those who write to it may not have read yet
what has made them a large group."""
LATELY: Final = 60.0
"""Seconds after such an entry for which readers may be lazy: longer than `NONE`, as other readers may have read it later."""


@runtime_checkable
class Whole(Protocol):
    """A log that may know, when it has read something, that there was nothing more."""

    def read_whole(self, offset: int, partition: int, max_records: int) -> tuple[list[Entry], bool]:
        """As `Log.read` without a timeout; and whether the log ended with these entries, or with one of them, at some time
        during the call, for all that is known. False says nothing."""
        ...


class Noting(Log, Whole, Protocol):
    """A log that notes when its entries come to this process, read or not. `Capabilities.arrivals` says so."""

    def arrivals(self, entries: Sequence[Entry], partition: int = 0) -> list[int | None]:
        """For each of these entries, which a read has just brought, when it had come: by the stopwatch of this process, read
        when the service had sent it. None where that was not noted: a reader has asked for it."""
        ...

    def attend(self, partition: int, reader: object, *, closely: bool | None) -> None:
        """How `reader` wants to be attended from now on: `closely`, so that everything is noted when it comes; or not, so that
        nothing need come but what is urgent. None: no longer at all. Asks nobody. A reader that says nothing hears of what is
        urgent at once. One that nobody else holds is forgotten."""
        ...


class Quiet:
    """How many of a partition's entries are not urgent, as its reader sees them. The lock of its window guards it.

    Readers and writers both use it. A reader of a large group, on a partition where such entries are many, no longer waits for
    each of them. A writer that has lately seen an entry that is not urgent makes its urgent entries so that they wake lazy
    readers, too; but where all that read beside it are of small groups, it need not, and pays nothing. An entry written by
    release 0.1, which knows none of this, is found by a lazy reader a little later.
    """

    def __init__(self) -> None:
        self.many = False
        self._count = 0
        self._began = self._last = -LATELY

    def seen(self, count: int) -> None:
        """Entries have come, `count` of which are not urgent."""
        now = time.monotonic()
        if now >= self._began + PERIOD:
            self._began, self._count = now, 0
        self._count += count
        if count:
            self._last = now
        if self._count >= MANY:
            self.many = True
        elif now >= self._last + NONE:
            self.many = False

    def noted(self) -> None:
        """An entry that is not urgent was read, though not at the tail."""
        self._last = time.monotonic()

    @property
    def lately(self) -> bool:
        return time.monotonic() < self._last + LATELY


class Window:
    """The newest entries of one partition, as far as they have come. `changed` guards every field."""

    def __init__(self, topic: str, partition: int, fresh: float = FRESH) -> None:
        self.topic = topic
        self.partition = partition
        self._fresh = fresh
        self.changed = threading.Condition()
        self.open = False
        """Whether the thread follows this partition."""
        self.lazy = False
        """Whether the thread waits for urgent entries only."""
        self.life = 0
        """Counts how often it was begun or shut, so that answers to earlier requests are not put in."""
        self.quiet = Quiet()
        self.low = self.high = 0
        """It has everything from `low` to below `high`."""
        self.known = 0
        """The partition's end, as far as it is known: `high` will reach it."""
        self.heard = -1.0
        """When the thread last got anything."""
        self.asked = -1.0
        """When the service last answered a request by saying that there is nothing at `high`."""
        self._end = (-1, -1.0)
        """Where a reader was told that the log ended, and when it had asked."""
        self.used = time.monotonic()
        self.bells: WeakBag[TailBell] = WeakBag()
        self._near: WeakBag[object] = WeakBag()
        self._far: WeakBag[object] = WeakBag()
        """Readers that are attended closely, and those that said that they need not be."""
        self._near_until = self._far_until = -LATELY
        """Up to when it counts that there were such."""
        self._rung = 0
        """Where the window ended when it last rang."""
        self._waiting = 0
        """Readers that wait for entries without a bell."""
        self._entries: list[Entry] = []
        self._came: list[int | None] = []
        """When each of them came; None: with a reader's request."""
        self._bytes = 0

    def attend(self, reader: object, *, closely: bool | None) -> None:
        """See `Noting`."""
        now = time.monotonic()
        with self.changed:
            if self._near:
                self._near_until = now + STAYS
            if self._far:
                self._far_until = now + LATELY
            self._near.discard(reader)
            self._far.discard(reader)
            if closely is not None:
                (self._near if closely else self._far).add(reader)

    @property
    def should_be_lazy(self) -> bool:
        """Not a while after somebody was attended closely: a writer may not know yet that it has lazy readers now."""
        return self.quiet.many and bool(self._far) and not self._near and time.monotonic() >= self._near_until

    @property
    def readers_may_be_lazy(self) -> bool:
        """Whether an urgent entry has to wake lazy readers, for all that is known here; for longer than there can be any."""
        return self.quiet.lately and (not self._near or bool(self._far) or time.monotonic() < self._far_until)

    def arrivals(self, entries: Sequence[Entry]) -> list[int | None]:
        """When each of these came. [another log's entry at the same offset came before this one was written]"""
        with self.changed:
            if not entries or not self.open or entries[-1].offset < self.low:
                return [None] * len(entries)
            found: list[int | None] = []
            at = bisect.bisect_left(self._entries, entries[0].offset, key=_offset)
            for entry in entries:
                while at < len(self._entries) and self._entries[at].offset < entry.offset:
                    at += 1
                same = at < len(self._entries) and self._entries[at] is entry
                found.append(self._came[at] if same else None)
            return found

    def take(self, offset: int, max_records: int) -> list[Entry] | None:
        """Entries from `offset` on; None if that can't be said from here."""
        with self.changed:
            self.used = time.monotonic()
            if not self.open or not self.low <= offset <= self.high:
                return None
            at = bisect.bisect_left(self._entries, offset, key=_offset)
            found = limited(self._entries[at : at + max_records], max_records)
            return found if found or (offset == self.high and self._at_end(self.used)) else None

    def _at_end(self, now: float) -> bool:
        """Whether nothing stands behind what is here, as the service has said lately."""
        fresh = min(self._fresh, LAZY_FRESH) if self.lazy else self._fresh
        return self.high >= self.known and now < max(self.heard, self.asked) + fresh

    def reach(self, offset: int, timeout: float) -> bool:
        """Wait until there is an entry at or after `offset`; False if none comes, or the thread is not the one to bring it."""
        with self.changed:
            if not self.open or self.lazy or offset < self.low:
                return False
            return self.changed.wait_for(lambda: not self.open or self.high > offset, timeout) and self.open

    def comes(self, offset: int) -> bool:
        """Wait a moment for an entry at or after `offset` that is known to be in the log. Returns whether it came."""
        with self.changed:
            if not self.open or self.lazy or not self.low <= offset <= self.high or offset >= self.known:
                return False
            return self.changed.wait_for(lambda: not self.open or self.high > offset, NEAR) and self.open

    def ended(self, offset: int, since: float, life: int) -> bool:
        """Whether the service has said that the log ended at `offset`, or before, when it was asked at `since` or later, in the
        life that the window had then: so nothing that stood in it at that time stands at `offset`, or behind it."""
        with self.changed:
            return self.open and self.life == life and self._end[0] <= offset and self._end[1] >= since

    def is_behind(self, offset: int) -> bool:
        """Whether readers bring what is new, others have for one at `offset`, and more may have come since. Not while nobody
        knows whether the service answers."""
        with self.changed:
            if not self.open or not self.lazy or not self.low <= offset < self.high or self.heard < 0:
                return False
            return not self._at_end(time.monotonic())

    def lacks(self, offset: int) -> bool:
        """Whether a reader at `offset` has to bring what is new itself."""
        with self.changed:
            return self.open and self.lazy and offset == self.high

    def late(self, offset: int) -> bool:
        """Whether the thread is to bring what stands at `offset`, and has not."""
        with self.changed:
            return self.open and not self.lazy and self.low <= offset and self.high <= offset

    def wait(self, offset: int, timeout: float) -> None:
        """Wait until something has changed, or is there at `offset` already."""
        with self.changed:
            if not self.open or self.high <= offset:
                self._waiting += 1
                self.changed.notify_all()
                try:
                    self.changed.wait(timeout)
                finally:
                    self._waiting -= 1

    def expect(self, end: int, *, at_least: bool) -> None:
        """The partition ends at `end`, as the service or an acknowledged append says."""
        with self.changed:
            self.known = max(self.known, end) if at_least else end

    def answered(self, end: int, *, at_least: bool) -> None:
        """As `expect`, for what the service answers now: for `fresh` seconds no reader need ask again."""
        with self.changed:
            self.known = max(self.known, end) if at_least else end
            if self.open and end == self.high:
                self.asked = time.monotonic()

    def trimmed(self, before: int) -> None:
        with self.changed:
            self.low = max(self.low, before)
            self.high = max(self.high, before)

    # By the thread that follows --------------------------------------------------------------------------------------

    def begin(self, offset: int) -> None:
        with self.changed:
            self.life += 1
            self._entries, self._came, self._bytes = [], [], 0
            self.low = self.high = offset
            self.heard, self.asked, self.open = -1.0, -1.0, True
            self.changed.notify_all()

    def put(
        self,
        entries: list[Entry],
        end: int,
        quiet: Collection[int] = (),
        *,
        life: int | None = None,
        at_end: bool = False,
        since: float = 0.0,
    ) -> bool:
        """Takes entries in. `end`: where the thread goes on, if the service has said so. `quiet`: the offsets of entries that
        are not urgent. `life`: given by readers, which ask by themselves: the life of the window when they asked. They ring no
        bell; the thread rings for what they bring, too. `at_end`: the service has said that nothing follows, when asked at
        `since`. Returns whether the window should change between lazy and not lazy."""
        with self.changed:
            if not self.open or (life is not None and life != self.life):
                return False
            new = [entry for entry in entries if entry.offset >= self.high]
            self._entries += new
            # What a lazy thread brings now and then is not noted: it would seem that the times of all its entries are known.
            self._came += [None if life is not None or self.lazy else own_stopwatch()] * len(new)
            self._bytes += sum(len(entry.payload) for entry in new)
            self.high = max(self.high, end, new[-1].offset + 1 if new else 0)
            self.heard = time.monotonic()
            if at_end:
                self.asked = self.heard
                self._end = (entries[-1].offset + 1 if entries else self.high, since)
            self.quiet.seen(sum(1 for entry in new if entry.offset in quiet) if quiet else 0)
            if len(self._entries) > 2 * _KEEP or self._bytes > 2 * _KEEP_BYTES:
                self._forget()
            self.changed.notify_all()
        came = entries if self.lazy else new
        urgent = life is None and came and not (quiet and all(entry.offset in quiet for entry in came))
        # A reader that is not woken for what is noted has to come before that is dropped.
        if urgent or (self._near and self.high - self._rung >= _KEEP // 2):
            self.ring()
        return self.should_be_lazy != self.lazy

    def _forget(self) -> None:
        kept, size = 0, 0
        while kept < min(_KEEP, len(self._entries)) and size < _KEEP_BYTES:
            kept += 1
            size += len(self._entries[-kept].payload)
        self._entries, self._came, self._bytes = self._entries[-kept:], self._came[-kept:], size
        self.low = max(self.low, self._entries[0].offset)

    def shut(self) -> None:
        """Empties the window: its entries may no longer be in the log."""
        with self.changed:
            self.life += 1
            self.open, self._entries, self._came, self._bytes = False, [], [], 0
            self.changed.notify_all()
        self.ring()

    def doubt(self) -> None:
        """Has readers ask the service, as it has not said anything lately."""
        with self.changed:
            self.heard = self.asked = -1.0
            self.changed.notify_all()

    def wake(self) -> None:
        """Wakes readers: an urgent entry may be in the log that is not in the window."""
        with self.changed:
            self.changed.notify_all()
        self.ring()

    def ring(self) -> None:
        self._rung = self.high
        for bell in self.bells:
            bell.ring()

    def heeded(self, timeout: float) -> bool:
        """Wait until somebody would be told something new by a ring. [where all of a hundred members write, each of their
        appends is fetched by a hundred threads, for readers that were told already and have not come yet]"""
        with self.changed:
            return bool(self.changed.wait_for(lambda: self._waiting or not self._all_rung(), timeout))

    def _all_rung(self) -> bool:
        return bool(self.bells) and all(bell.rung for bell in self.bells)


def _offset(entry: Entry) -> int:
    return entry.offset


class Windows:
    """The windows on a service's partitions, each made when it is first asked for. For any thread."""

    def __init__(self, fresh: float) -> None:
        self._fresh = fresh
        self._lock = threading.Lock()
        self._made: dict[tuple[str, int], Window] = {}

    def get(self, topic: str, partition: int) -> Window:
        with self._lock:
            found = self._made.get((topic, partition))
            if found is None:
                found = self._made[topic, partition] = Window(topic, partition, self._fresh)
            return found

    def __iter__(self) -> Iterator[Window]:
        """Those that there are now."""
        return iter([*self._made.values()])

    def of(self, topic: str) -> list[Window]:
        return [window for window in self if window.topic == topic]

    def shut(self) -> None:
        """What is in any of them may no longer be in the log."""
        for window in self:
            window.shut()


class TailBell(PipeBell):
    """A bell on one partition. `close` takes it down."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self._window = window
        self.rung = False
        """Whether it rings, and its reader has not come since."""
        window.bells.add(self)

    def ring(self) -> None:
        self.rung = True
        super().ring()

    def clear(self) -> None:
        super().clear()
        # After that: if it rings in between, it may be taken for silent, which it is not, but never the other way round.
        if self.rung:
            self.rung = False
            with self._window.changed:
                self._window.changed.notify_all()

    def close(self) -> None:
        if self._descriptor >= 0:
            self._window.bells.discard(self)
        super().close()
