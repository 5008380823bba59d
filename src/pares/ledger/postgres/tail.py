"""Following logs: a connection that listens, and a thread that fetches what is new when it hears of it.

The notice says only that something has come, and whether it is urgent; what came is read from the table, so that nobody who
may notify (which needs no right in PostgreSQL) can put anything into a log. A connection that died in silence sounds like one
on which nothing happens: so the thread looks for itself as well, and a reader whose last news is older asks the server.

Behind a pooler that lends connections there is nobody to notify: there the thread looks more often, and that is all.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from enum import Enum
from typing import Final, Protocol

from pares.core.errors import LedgerUnavailable, ParesError
from pares.ledger.base import Entry
from pares.ledger.postgres.errors import Broken, Refused
from pares.ledger.postgres.link import Link
from pares.ledger.postgres.settings import Settings, log, stored
from pares.ledger.postgres.statements import CHANNEL, QUIET, Statements, array
from pares.ledger.postgres.wire import Wire, number
from pares.ledger.window import Window, Windows

LOOK: Final = 0.5
"""Seconds between two looks at the ends of all logs that are followed."""
POLL: Final = 0.02
"""The same, where nobody notifies."""
_FRESH: Final = 1.2 * LOOK
_AGAIN: Final = 0.05
_UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody has read and that has no bell."""
_AT_ONCE: Final = 1000

Key = tuple[str, int]


class Rings(Enum):
    """Whether what is fetched wakes readers."""

    NEVER = "a notice says that it is not urgent; what is urgent beside it has a notice of its own"
    FOR_ENTRIES = "the thread has looked for itself, and knows no better"
    ALWAYS = "a notice says that something is urgent, which the fetch before this one may have brought"


class Reads(Protocol):
    """What the tail needs of the ledger: to read as everybody does, on a connection of its own."""

    def read(
        self, wire: Wire, key: Key, offset: int, most: int, deadline: float
    ) -> tuple[str, int, int, list[Entry]] | None:
        """A log's mark, its bounds, and entries; None if there is no such log."""
        ...

    def heed(self, wire: Wire, rows: list[list[bytes | None]], deadline: float) -> None: ...

    def replaced(self, topic: str) -> None: ...


class Tails:
    """The thread, and the windows that it fills. It starts with the first partition to follow, and ends with `close`."""

    def __init__(self, settings: Settings, link: Link, statements: Statements, reads: Reads) -> None:
        self._settings = settings
        self._link = link
        self._statements = statements
        self._reads = reads
        self._lock = threading.Lock()
        self._windows = Windows(_FRESH)
        self._wanted: dict[Key, int] = {}
        self._marks: dict[Key, str] = {}
        """Of what is followed: the log's mark. Only the thread touches it."""
        self._listening: dict[str, Key] = {}
        """Channels that the connection listens on."""
        self._thread: threading.Thread | None = None
        self._ended = False
        self._told = ""
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._woken, False)

    def window(self, topic: str, partition: int) -> Window:
        return self._windows.get(topic, partition)

    def follow(self, window: Window, offset: int) -> None:
        """Follow the partition from `offset` on, unless it is followed already."""
        with self._lock:
            if window.open or self._ended:
                return
            self._wanted.setdefault((window.topic, window.partition), offset)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"pares {self._settings.where}", daemon=True)
                self._thread.start()
            os.write(self._waking, b"!")

    def follows(self, topic: str) -> bool:
        """Whether the thread has looked at the log lately: it would have seen another one."""
        until = time.monotonic() - 2 * LOOK
        return any(window.open and window.heard > until for window in self._windows.of(topic))

    def forget(self, topic: str) -> None:
        """It may be another log now: what came of it so far counts no more."""
        for window in self._windows.of(topic):
            window.shut()

    def doubt(self) -> None:
        """Readers are to ask the server themselves."""
        for window in self._windows:
            window.doubt()

    def close(self) -> None:
        """End the thread, and all waits for it. Its connection answers nobody any more: see `Link.close`."""
        with self._lock:
            self._ended = True
            os.write(self._waking, b"!")
            thread = self._thread
        self._windows.shut()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        os.close(self._woken)
        os.close(self._waking)

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            wire: Wire | None = None
            try:
                wire = self._link.open_wire(self._deadline(), "follow the log")
                self._listening.clear()
                self._follow_on(wire)
            except (Broken, Refused, LedgerUnavailable) as error:
                self._tell(str(error))
            except ParesError as error:
                # Another sort of server stands there now. Readers ask it themselves, and are told so.
                log.warning("%s: the tail: %s", self._settings.where, error)
            except Exception as error:
                level = logging.DEBUG if self._ended else logging.ERROR
                log.log(level, "%s: the tail failed: %r", self._settings.where, error)
            finally:
                if wire is not None:
                    wire.abort()
                self.doubt()
            if not self._ended:
                self._rest()

    def _tell(self, why: str) -> None:
        """Once, and not for each attempt."""
        if why != self._told:
            log.debug("%s: the tail: %s", self._settings.where, why)
        self._told = why

    def _rest(self) -> None:
        """A moment, until the next connection; what is asked to be followed meanwhile is kept."""
        end = time.monotonic() + _AGAIN
        while not self._ended and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.01))

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.timeout

    def _follow_on(self, wire: Wire) -> None:
        look_at = 0.0
        news = dict.fromkeys(self._marks, Rings.FOR_ENTRIES)
        while not self._ended:
            news |= dict.fromkeys(self._begin(), Rings.FOR_ENTRIES)
            for key, rings in news.items():
                self._fetch(wire, key, rings)
            news = {}
            now = time.monotonic()
            if now >= look_at:
                self._leave_unused(wire, now)
                news = dict.fromkeys(self._look(wire), Rings.FOR_ENTRIES)
                look_at = now + (POLL if wire.shared else LOOK)
                if news:
                    continue
            news = self._wait(wire, look_at)

    def _begin(self) -> set[Key]:
        """Open the windows that somebody has asked for."""
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        for key, offset in wanted.items():
            window = self._windows.get(*key)
            self._marks[key] = ""
            window.begin(offset)
        return set(wanted)

    def _fetch(self, wire: Wire, key: Key, rings: Rings) -> None:
        """What is new of one partition, up to its end."""
        window = self._windows.get(*key)
        while window.open:
            found = self._reads.read(wire, key, window.high, _AT_ONCE, self._deadline())
            if found is None or not self._same(key, found[0], found[1], found[2], window):
                self._leave(key, replaced=True)
                return
            mark, _, end, entries = found
            if not wire.shared and CHANNEL + _id(mark) not in self._listening:
                # First listen, then read: what comes in between is read again.
                wire.script(f'LISTEN "{CHANNEL}{_id(mark)}"', self._deadline())
                self._listening[CHANNEL + _id(mark)] = key
                continue
            self._marks[key] = mark
            more = bool(entries) and entries[-1].offset + 1 < end
            window.put(entries, 0 if more else end, _offsets(entries) if rings is Rings.NEVER else ())
            if not entries and rings is Rings.ALWAYS:
                window.ring()
            if not more:
                return
        self._leave(key, replaced=False)

    def _same(self, key: Key, mark: str, first: int, end: int, window: Window) -> bool:
        return self._marks[key] in ("", mark) and first <= window.high <= end

    def _look(self, wire: Wire) -> set[Key]:
        """One look at the ends of all; those where there is something new."""
        keys = [*self._marks]
        if not keys:
            return set()
        topics, numbers = array([stored(topic) for topic, _ in keys]), array([number for _, number in keys])
        rows = wire.query(self._statements.all_bounds, [topics, numbers], self._deadline(), "pares_bounds")
        self._reads.heed(wire, rows, self._deadline())
        news: set[Key] = set()
        for row in rows:
            key = keys[number(row[5]) - 1]
            window = self._windows.get(*key)
            if row[2] is None or not window.open:
                self._leave(key, replaced=window.open)
            elif not self._same(key, row[2].decode(), number(row[3]), number(row[4]), window):
                self._leave(key, replaced=True)
            elif number(row[4]) > window.high:
                news.add(key)
            else:
                window.put([], number(row[4]))
        return news

    def _wait(self, wire: Wire, look_at: float) -> dict[Key, Rings]:
        """Until something is heard, asked for, or it is time to look. Which partitions have news, and for whom."""
        listening = select.poll()
        listening.register(self._woken, select.POLLIN)
        listening.register(wire.connection.socket, select.POLLIN)
        heard = wire.heard()  # what came with the answers to queries: the socket says nothing of that
        patience = 0.0 if heard else max(0.0, look_at - time.monotonic())
        for descriptor, _ in listening.poll(patience * 1000):
            if descriptor == self._woken:
                try:
                    os.read(self._woken, 4096)
                except BlockingIOError:
                    pass
            else:
                came = wire.heard()
                for channel, said in came.items():
                    heard.setdefault(channel, set()).update(said)
                if not came and not wire.alive():
                    raise Broken("the connection is closed", sent=False)
        news = {
            key: heard[channel] for channel, key in self._listening.items() if channel in heard and key in self._marks
        }
        return {key: Rings.NEVER if said == {QUIET} else Rings.ALWAYS for key, said in news.items()}

    def _leave_unused(self, wire: Wire, now: float) -> None:
        for key in [*self._marks]:
            window = self._windows.get(*key)
            if not window.bells and now > window.used + _UNUSED:
                self._leave(key, replaced=False)
        for channel, key in [*self._listening.items()]:
            if key not in self._marks:
                wire.script(f'UNLISTEN "{channel}"', self._deadline())
                del self._listening[channel]

    def _leave(self, key: Key, *, replaced: bool) -> None:
        """Its readers ask the server themselves, and then ask to have it followed again, from where they are."""
        self._marks.pop(key, None)
        if replaced:
            self._reads.replaced(key[0])
        self._windows.get(*key).shut()


def _offsets(entries: list[Entry]) -> range:
    return range(entries[0].offset, entries[-1].offset + 1) if entries else range(0)


def _id(mark: str) -> str:
    return mark.rpartition(".")[2]
