"""The tail of one partition: a thread that follows it, for all readers and writers of this ledger.

**Which log it is.** Whenever the connection was lost, the mark of the topic is asked for, and the last message that was read is
read again, in its place. Another one there, or what comes behind it: the topic has lost what was seen here, and is another log
from now on (R12). The mark is asked for, too, when a message is none of this log's, and when the topic ends before what was
read: the client connects again by itself, and to whatever has the name by then. Nothing there yet is no answer: a broker tells
its last place before it shows what is in it, and the other way round.

**Where it begins.** With the record that the last one names as read by its writer, so a few records before the end (see
`fold`).
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from pares.core.errors import CapabilityError, LedgerUnavailable, ParesError
from pares.ledger.counted.places import Place, Places
from pares.ledger.counted.records import Start
from pares.ledger.pulsar.admin import Admin
from pares.ledger.pulsar.client import Client, Raw, Reader, Watch
from pares.ledger.pulsar.errors import NO_TOPIC, Broken, Refused, raised, unavailable
from pares.ledger.pulsar.fold import Fold, Taken
from pares.ledger.pulsar.seek import find, look_back
from pares.ledger.pulsar.settings import Settings, log
from pares.ledger.window import Window

UNUSED: Final = 60.0
"""Seconds after which a partition is no longer followed that nobody asks for and that has no bell."""
_GLANCE: Final = 0.25
"""Seconds after which it is looked whether the connection is still there."""
_AGAIN: Final = 0.1
"""Seconds after trouble."""
_LOST: Final = 20.0
"""Seconds after which a topic has lost what it does not show."""


class Seen(NamedTuple):
    """How far the tail has read."""

    log: str
    after: str
    """The place of the last record of this log; empty: there is none."""
    next: int
    """The offset behind it."""
    start: Start
    read: int
    """The place of the last message, whoever's it is."""


class Feed:
    """For any thread, but what stands below "The thread"."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        admin: Admin,
        name: str,
        window: Window,
        took: Callable[[Taken], None],
        doubt: Callable[[], None],
    ) -> None:
        """`took` hears of each append that was read, on the thread, after the window has it; `doubt` when it may be another
        log."""
        self.name = name
        self.window = window
        self.places = Places()
        self.lost = 0
        """How often it was found to lack what had been seen."""
        self.foreign = 0
        """Messages in it that are none of this log's, as far as they were read."""
        self.ending = threading.Event()
        self.changed = threading.Condition()
        """Guards all that follows; notified after each message, and after trouble."""
        self._settings = settings
        self._client = client
        self._admin = admin
        self._took = took
        self._doubt = doubt
        self._seen: Seen | None = None
        self._why: Exception = Broken("nothing was heard of the broker")
        self._troubles = 0
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None
        self._reader: Reader | None = None
        self._again = False
        # The thread's own.
        self._fold: Fold | None = None
        self._sum = 0
        self._missed = 0.0

    @property
    def seen(self) -> Seen | None:
        """None while the partition is not followed."""
        return self._seen

    def look(self) -> Seen:
        """How far it has read, everything that was in the topic when this was called. Raises what went wrong."""
        deadline = time.monotonic() + self._settings.timeout
        while True:
            self.attached(deadline)
            watch = self._watch
            try:
                if watch is None or not watch.connected:
                    raise Broken("the connection was lost")
                last, seen = watch.last(), self._seen
                if seen is None or last >= seen.read or self._is_still(seen.log):
                    break
                raise Broken("it is another topic by now")
            except (Refused, Broken) as error:
                self.again(watch)
                if time.monotonic() > deadline:
                    raise raised(self._settings.where, "read", error) from None
                self.ending.wait(_AGAIN / 2)
        with self.changed:
            while (seen := self._seen) is None or seen.read < last:
                self.wait("read", deadline)
                if self._watch is not watch:
                    break
            else:
                return seen
        return self.look() if time.monotonic() < deadline else self._late()

    def _is_still(self, log: str) -> bool:
        """Whether the topic is the one that it was: the client may have connected to another one of its name by itself."""
        mark = self._admin.mark(self.name)
        if mark != log:
            self._doubt()
        if mark is None:
            self.again()
            raise self._gone()
        return mark == log

    def _gone(self) -> Refused:
        return Refused(NO_TOPIC, f"the topic {self.name} is gone, or no ledger's any more; a member makes it anew")

    def _late(self) -> Seen:
        raise raised(self._settings.where, "read", Broken("the broker does not answer in time"))

    def attached(self, deadline: float) -> Seen:
        """Wait until it is followed."""
        with self.changed:
            self.follow()
            before = self._troubles
            while (seen := self._seen) is None:
                if self._troubles > before and isinstance(self._why, (Refused, ParesError)):
                    raise self._why
                self.wait("reach it", deadline)
            return seen

    def wait(self, doing: str, deadline: float, *, unknown: bool = False) -> None:
        """For news. `changed` is held. Raises `LedgerUnavailable` at the deadline, and when the ledger is closed."""
        left = deadline - time.monotonic()
        if left <= 0 or self.ending.is_set():
            why = "the ledger was closed" if self.ending.is_set() else "the broker does not show it in time"
            if self._seen is None and isinstance(self._why, Broken):
                why = str(self._why)
            raise unavailable(self._settings.where, doing, why, unknown=unknown)
        self._waiting += 1
        try:
            self.changed.wait(left)
        finally:
            self._waiting -= 1

    def follow(self) -> None:
        """Have it followed from now on; does not wait."""
        with self.changed:
            self.window.used = time.monotonic()
            if self._thread is None and not self.ending.is_set():
                name = f"pares {self._settings.where} {self.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def again(self, watch: Watch | None = None) -> None:
        """Have it look at the topic anew, unless it has done so since `watch` was made."""
        with self.changed:
            if watch is not None and self._watch is not watch:
                return
            self._again = True
            self._seen = None
            reader = self._reader
        if reader is not None:
            reader.close()

    def trimmed(self, place: int) -> None:
        """What stands before this place need not be kept."""
        watch = self._watch
        if watch is not None:
            watch.trimmed(place)

    def end(self) -> None:
        self.ending.set()
        self.again()
        with self.changed:
            thread = self._thread
            self.changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * self._settings.timeout + 1)

    # The thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._due():
            try:
                self._attach()
                self._follow()
            except Exception as error:
                self._trouble(error)
        self.window.shut()

    def _cared(self) -> bool:
        return bool(self._waiting or self.window.bells or time.monotonic() < self.window.used + UNUSED)

    def _due(self) -> bool:
        """False if nobody wants it followed any more."""
        with self.changed:
            self._seen, self._again = None, False
        self._release()
        with self.changed:
            if not self.ending.is_set() and self._cared():
                return True
            self._thread = self._fold = None
            return False

    def _release(self) -> None:
        with self.changed:
            reader, self._reader = self._reader, None
            watch, self._watch = self._watch, None
        for made in (reader, watch):
            if made is not None:
                made.close()

    def _attach(self) -> None:
        """Find where to read on."""
        mark = self._admin.mark(self.name)
        if mark is None:
            raise self._gone()
        watch = self._client.watch(self.name)
        with self.changed:
            self._watch = watch
        if self._fold is not None and self._fold.log != mark:
            self._forget()
        if self._fold is not None:
            self._reader = self._resumed(self._fold)
        if self._fold is None:
            self._begin(mark, watch)
        self._catch_up(watch)

    def _resumed(self, fold: Fold) -> Reader | None:
        """A reader behind the last message that was read, if that is there still. Raises `Broken` if that can't be said."""
        reader = self._client.reader(self.name, fold.read)
        try:
            if fold.read < 0:
                return reader
            found = reader.next(self._settings.timeout)
            if found is None:
                self._missed = self._missed or time.monotonic()
                if time.monotonic() < self._missed + _LOST:
                    raise Broken("the broker does not show what was read before")
            elif found.place == fold.read and zlib.crc32(found.data) == self._sum:
                self._missed = 0.0
                return reader
        except BaseException:
            reader.close()
            raise
        reader.close()
        self._missed = 0.0
        self._lose(fold, found)
        return None

    def _lose(self, fold: Fold, found: Raw | None) -> None:
        """What was read is there no more. It may have been trimmed; else the topic has lost it."""
        watch = self._watch
        trimmed = False
        if found is not None and found.place > fold.read and watch is not None:
            other, reader = find(self._client, self._settings, self.name, fold.log, watch.last())
            reader.close()
            trimmed = other.start.offset >= fold.next
        if not trimmed:
            self.lost += 1
            log.warning("%s: the topic %s has lost messages that were read here", self._settings.where, self.name)
        self._forget()

    def _begin(self, mark: str, watch: Watch) -> None:
        self.foreign = 0
        fold, self._reader = find(self._client, self._settings, self.name, mark, watch.last())
        self._fold = fold
        self.places.clear()
        self.places.add(Place(0, "") if fold.low < 0 else Place(fold.next, str(fold.low)))
        self.window.begin(fold.next)

    def _catch_up(self, watch: Watch) -> None:
        fold, reader = self._fold, self._reader
        assert fold is not None
        assert reader is not None
        last = watch.last()
        until = time.monotonic() + self._settings.timeout
        while fold.read < last:
            raw = reader.next(_GLANCE)
            if raw is not None:
                self._put(fold, raw)
                until = time.monotonic() + self._settings.timeout
            elif time.monotonic() > until or self.ending.is_set():
                raise Broken("the broker does not show what it has")
        self.window.put([], fold.next, at_end=True)
        self._tell(fold)
        self.window.ring()  # something may have come while nobody followed

    def _follow(self) -> None:
        fold, reader, watch = self._fold, self._reader, self._watch
        assert fold is not None
        assert reader is not None
        assert watch is not None
        while not self.ending.is_set() and not self._again:
            raw = reader.next(_GLANCE)
            if raw is not None:
                self._put(fold, raw)
                self._tell(fold)
            elif not reader.connected or not watch.connected:
                raise Broken("the connection was lost")
            elif not self._cared():
                return

    def _put(self, fold: Fold, raw: Raw) -> None:
        start = fold.start
        taken = look_back(self._client, self._settings, self.name, fold, raw)
        self._sum = zlib.crc32(raw.data)
        if fold.foreign > self.foreign and not self._is_still(fold.log):
            raise Broken("it is another topic by now")
        self.foreign = fold.foreign
        if fold.between:
            self.places.passed(fold.next, str(raw.place))
        if fold.start is not start:
            if fold.start.sequence:
                self.places.add(Place(fold.start.place, fold.start.sequence))
            self.window.trimmed(min(fold.start.offset, fold.next))
        if taken is None:
            return
        quiet = () if taken.head.urgent else {entry.offset for entry in taken.entries}
        self.window.put(taken.entries, fold.next, quiet)
        self._took(taken)

    def _tell(self, fold: Fold) -> None:
        """How far it has come."""
        with self.changed:
            if not self._again:
                after = str(fold.last) if fold.last >= 0 else ""
                self._seen = Seen(fold.log, after, fold.next, fold.start, fold.read)
            self.changed.notify_all()

    def _forget(self) -> None:
        self._fold = None
        self.places.clear()
        self.window.shut()
        self._doubt()

    def _trouble(self, error: Exception) -> None:
        """Tell callers that wait, and begin again."""
        if self._again or self.ending.is_set():
            return
        if isinstance(error, Refused) and error.code == NO_TOPIC:
            self._forget()
        self.window.doubt()
        with self.changed:
            self._seen = None
            self._troubles += 1
            if isinstance(error, (Refused, Broken, CapabilityError, LedgerUnavailable)):
                self._why = error
            else:
                log.error("%s: following %s failed: %r", self._settings.where, self.name, error)
                self._why = Broken(repr(error))
            self.changed.notify_all()
        self._release()
        self.ending.wait(_AGAIN)
