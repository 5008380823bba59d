"""Reading the partitions of a log, in order, and noticing when it is another one than before (R12).

Once a session, and before going on with a log that was out of reach, the reader looks at the log's identity. What follows the
last entry that it has read continues that log only if that entry is still there, byte for byte. A log that answers without a
round trip is asked for the entry each time something was read; other logs after trouble, and when this reader itself stood
still for so long that trouble may have passed unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from pares.core.claims.chores.duties import EAGER
from pares.core.errors import LedgerGap, LedgerRewound
from pares.core.events import Append
from pares.ledger import Anchored, Entry, Log, ManyAtOnce, Noting, Stamped
from pares.ledger.base import ends_here
from pares.ledger.window import Whole

CHUNK: Final = 1000


def look_every(session_ms: int) -> int:
    """Nanoseconds between two looks at the log's identity: a session, as a look may cost a round trip. After trouble a member
    looks at once."""
    return session_ms * 1_000_000


class Times(NamedTuple):
    """What a ledger tells of entries by a stopwatch that is this process's own, as far as it does; as in `events.Read`."""

    stamps: Sequence[int | None] = ()
    arrivals: Sequence[int | None] = ()


UNTOLD: Final = Times()


class Follows(Protocol):
    """A binding whose protocol reads logs."""

    @property
    def me(self) -> str: ...

    @property
    def partitions(self) -> Sequence[int]: ...

    @property
    def whole_will_do(self) -> bool:
        """Whether it may be told that nothing more is there by a read that brought something, if that began at a known time."""
        return False

    def attached(self, partition: int) -> bool: ...

    def position(self, partition: int) -> int: ...

    def anchor(self, partition: int) -> tuple[int, bytes] | None:
        """The last entry that was read."""
        ...

    def enters(self, partition: int, start: int, end: int) -> Any: ...

    def heeds_silence(self, partition: int, now: int) -> bool:
        """Whether it wants a read event when a partition has nothing new."""
        ...

    def reads(
        self, partition: int, entries: list[Entry], read_at: int, began: int, times: Times
    ) -> tuple[Any, int | None]:
        """The event for these entries, and the time to judge it by (None: the time when it is handed over). `began`: as in
        `events.Read`."""
        ...

    def through(self, partition: int, entries: list[Entry]) -> bool:
        """Whether this partition is read far enough for now. `entries`: those read last."""
        ...

    def jumps(self, partition: int, why: str) -> Any: ...


def appender(ledger: Log) -> Callable[[Append, int], int]:
    """A function that carries out an append to a partition, and returns the offset of its last record."""
    return lambda put, partition: ledger.append_many(put.payloads, partition, urgent=put.urgent)[-1]


def urgently(puts: list[Append]) -> list[Append]:
    """The same appends, all made urgent, so that they wake readers."""
    return [put if put.urgent else msgspec.structs.replace(put, urgent=True) for put in puts]


Fetched: TypeAlias = tuple[list[Entry], Times, bool]
"""Entries, their times, and whether the log is known to have ended with them."""


def fetcher(ledger: Log) -> Callable[[int, int], Fetched]:
    """A function that reads entries from an offset of a partition on."""
    if ledger.capabilities.stamps:
        return partial(_stamped, cast(Stamped, ledger), ledger.capabilities.whole_reads)
    if ledger.capabilities.arrivals:
        return partial(_noted, cast(Noting, ledger))
    if isinstance(ledger, Whole):
        return partial(_whole, ledger)
    return lambda offset, partition: (list(ledger.read(offset, partition, CHUNK)), UNTOLD, False)


def _stamped(ledger: Stamped, whole: bool, offset: int, partition: int) -> Fetched:
    entries, stamps = ledger.read_stamped(offset, partition, CHUNK)
    return entries, Times(stamps), whole and ends_here(entries, CHUNK)


def _noted(ledger: Noting, offset: int, partition: int) -> Fetched:
    entries, ended = ledger.read_whole(offset, partition, CHUNK)
    return entries, Times(arrivals=ledger.arrivals(entries, partition)) if entries else UNTOLD, ended


def _whole(ledger: Whole, offset: int, partition: int) -> Fetched:
    entries, ended = ledger.read_whole(offset, partition, CHUNK)
    return entries, UNTOLD, ended


def _gone(offset: int, partition: int) -> str:
    return f"entry {offset} of partition {partition} is not what it was: it is another log, or it lost its tail"


class Attention:
    """How closely the ledger is to attend a member, or another reader, of a group: it notes when the beats of a small group
    come. In a larger one that would cost more than it is worth: there readers bring what they need, and silence counts from the
    reading (R21)."""

    def __init__(self, ledger: Log, partition: int) -> None:
        self._ledger = cast(Noting, ledger) if ledger.capabilities.arrivals else None
        self._partition = partition
        self._closely: bool | None = None

    def pays(self, members: int) -> None:
        """The group has so many members, for all that was read; 0: nobody knows yet."""
        closely = members <= EAGER
        if self._ledger is not None and members and closely is not self._closely:
            self._ledger.attend(self._partition, self, closely=closely)
            self._closely = closely

    def ends(self) -> None:
        if self._ledger is not None:
            self._ledger.attend(self._partition, self, closely=None)


class Logs:
    """See `binding.Source`. Each event that it yields is handed to the protocol before it reads on."""

    proves_reach = True

    def __init__(self, ledger: Log, follows: Follows, now: Callable[[], int], session_ms: int) -> None:
        self._ledger = ledger
        self._follows = follows
        self._now = now
        self._look_every = look_every(session_ms)
        self._fetch = fetcher(ledger)
        self._changed = ledger.changed if isinstance(ledger, ManyAtOnce) else None
        """Says which partitions have something new, in one look for all, where the ledger has that."""
        self._anchored = cast(Anchored, ledger) if ledger.capabilities.anchors else None
        self.read_at = now()
        self._away = False
        self.begin_anew()

    def begin_anew(self) -> None:
        self._identity = ""
        self._looked_at = 0
        self._doubted: set[int] = set()
        """Partitions whose last entry is to be read again before reading on."""

    def lost(self) -> None:
        self._away, self._doubted = True, set(self._follows.partitions)

    def new(self) -> Iterator[tuple[Any, int | None]]:
        follows, me = self._follows, self._follows.me
        if self._anchored is None and self._now() - self.read_at > self._look_every // 2:
            self._doubted = set(follows.partitions)
        yield from self._look()
        if follows.me != me:
            return
        partitions = list(follows.partitions)
        news = partitions
        if self._changed is not None and len(partitions) > 1:
            news = self._changed([follows.position(number) for number in partitions])
        for number in partitions:
            yield from self._read(number, number in news)
            if follows.me != me:
                return
        self._away = False

    def _look(self) -> Iterator[tuple[Any, int | None]]:
        now = self._now()
        if self._away or not self._identity or now >= self._looked_at + self._look_every:
            yield from self._look_now(now)

    def _look_now(self, now: int) -> Iterator[tuple[Any, int | None]]:
        self._looked_at = now
        before, self._identity = self._identity, self._ledger.identity()
        if before and self._identity != before:
            for number in self._follows.partitions:
                yield self._follows.jumps(number, "the log was replaced by another one"), None

    def _read(self, number: int, new: bool) -> Iterator[tuple[Any, int | None]]:
        follows, me = self._follows, self._follows.me
        try:
            if not follows.attached(number):
                self._doubted.discard(number)
                yield follows.enters(number, self._ledger.start(number), self._ledger.end(number)), None
            elif number in self._doubted:
                yield from self._check(number)
            while follows.me == me and follows.attached(number):
                began = self._now()
                entries, times, ended = self._fetch(follows.position(number), number) if new else ([], UNTOLD, False)
                self.read_at = self._now()
                if not entries and not follows.heeds_silence(number, self.read_at):
                    break
                if entries and (lost := self._lost(number)):
                    raise LedgerRewound(lost)
                yield follows.reads(number, entries, self.read_at, began, times)
                if ended and entries and follows.me == me and self._goes_on_behind(number, entries):
                    # Nothing stood behind them when that fetch began. [each look fetches twice, the second time nothing]
                    entries = list[Entry]()
                    if follows.heeds_silence(number, self.read_at):
                        yield follows.reads(number, entries, self.read_at, began, UNTOLD)
                if follows.me == me and follows.through(number, entries):
                    break
        except (LedgerGap, LedgerRewound) as error:
            # First by the identity: otherwise a replaced log would be noticed twice, and the member begin anew twice.
            replaced = False
            for jump in self._look_now(self._now()):
                replaced = True
                yield jump
            if not replaced and follows.me == me:
                yield follows.jumps(number, str(error)), None

    def _goes_on_behind(self, number: int, entries: list[Entry]) -> bool:
        """Whether the protocol goes on behind these: one that has looked for a snapshot in vain begins at the start."""
        return self._follows.whole_will_do and self._follows.position(number) == entries[-1].offset + 1

    def _lost(self, number: int) -> str:
        """Why what was just read does not follow what was read before; "" if it does. Asked after the fetch: a loss in between
        shows now, and one that comes later shows the next time."""
        anchor = self._follows.anchor(number)
        if self._anchored is None or anchor is None or self._anchored.has(*anchor, number):
            return ""
        return _gone(anchor[0], number)

    def _check(self, number: int) -> Iterator[tuple[Any, int | None]]:
        """After the log was out of reach: yields a jump unless the last entry that was read is there, byte for byte."""
        anchor = self._follows.anchor(number)
        if anchor is not None:
            offset, payload = anchor
            # An entry that retention has taken proves nothing: if entries are missing, reading on raises `LedgerGap`.
            if offset >= self._ledger.start(number):
                entries = self._ledger.read(offset, number, 1)
                if not entries or entries[0].offset != offset or entries[0].payload != payload:
                    yield self._follows.jumps(number, _gone(offset, number)), None
        self._doubted.discard(number)
