"""What a bus is, and one on any log: to publish is to append, to listen is to follow the log's end.

A bus carries many small messages to the members that listen. A listener gets nothing that was published before it listened, and
when the log jumps (R12) it goes on at the new end. Messages take space in the log, so a publisher now and then
deletes those older than `_KEEP` seconds.
"""

import contextlib
import itertools
import select
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, runtime_checkable

from pares.core.errors import ClosedError, ForkedError, LedgerGap, LedgerRewound, LedgerUnavailable

from .base import Entry, KnowsTopics, Ledger, Log, check_name
from .batches import batches
from .bell import PipeBell
from .retention import expire

BUS_TOPIC: Final = "pares.bus"
"""The topic in which a ledger with a log carries its bus."""
_BATCH: Final = 2000
_KEEP: Final = 60.0
"""Seconds that a message stays in the log at least: longer than a listener can be behind and still want it."""
_TRIM_EVERY: Final = 256
_LISTEN: Final = 0.1
_POLL: Final = 0.005
_AGAIN: Final = 0.05


@runtime_checkable
class Bus(Protocol):
    """Broadcast to all listeners of the moment. Nothing is kept, nothing is acknowledged; a message may be lost.

    Messages of one publisher to one subject arrive in the order sent, at most once each.
    """

    def publish(self, subject: str, payload: bytes) -> None:
        """Send to all listeners of exactly this subject, in this process and others, the sender included.

        Raises `ConfigError` for a bad subject or size, `LedgerUnavailable` when it could not be sent.
        """
        ...

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        """Call `on_message(payload)` on a thread of the bus for each message that is published after this returns.

        Returns a function that stops it. Once that function has returned, `on_message` is not called again (if it was called
        from within `on_message`: after that call). An exception in `on_message` is reported to `threading.excepthook`, and
        listening goes on. `on_message` should return soon: one thread serves all listeners.
        """
        ...


@runtime_checkable
class Reconnecting(Protocol):
    """A bus whose connection may be lost, and messages with it."""

    @property
    def epoch(self) -> int:
        """The number of the connection; 0 while there is none. Another number: messages may have been missed."""
        ...


class _Listener(NamedTuple):
    subject: str
    on_message: Callable[[bytes], None]
    since: int


class TailBus:
    """A `Bus` over one partition of `log`, which must carry nothing else.

    It has a thread while there are listeners, which ends with `close` or with the last listener. `close` leaves the log open.
    """

    def __init__(self, log: Log, partition: int = 0) -> None:
        self._log = log
        self._partition = partition
        self._published = itertools.count(1)
        self._listeners: dict[int, _Listener] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        # Held while callbacks run, so that a caller that stops listening waits for them; within a callback it need not wait.
        self._calling = threading.RLock()
        self._thread: _Follower | None = None

    def publish(self, subject: str, payload: bytes) -> None:
        check_name(subject, "a subject")
        self._log.append(subject.encode() + b"\n" + payload, self._partition)
        if next(self._published) % _TRIM_EVERY == 0:
            try:
                expire(self._log, self._log.end(self._partition), self._partition, age=_KEEP)
            except LedgerUnavailable:
                pass  # the message is out; the next round deletes more

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        check_name(subject, "a subject")
        with self._lock:
            since = self._log.end(self._partition)
            number = next(self._numbers)
            self._listeners[number] = _Listener(subject, on_message, since)
            if self._thread is None:
                self._thread = _Follower(self._log, self._partition, since, self._deliver)
                self._thread.start()
        return lambda: self._stop(number)

    def close(self) -> None:
        """Stop all listeners, and the thread. May be called twice."""
        for number in [*self._listeners]:
            self._stop(number)

    def _stop(self, number: int) -> None:
        with self._lock:
            self._listeners.pop(number, None)
            thread = None
            if not self._listeners:
                thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
        with self._calling:
            pass

    def _deliver(self, entry: Entry) -> None:
        if threading.current_thread() is not self._thread:
            return  # this thread is ending, and later listeners have another one
        subject, _, payload = entry.payload.partition(b"\n")
        for number, listener in [*self._listeners.items()]:
            if listener.subject.encode() != subject or entry.offset < listener.since:
                continue
            with self._calling:
                if number not in self._listeners:
                    continue
                try:
                    listener.on_message(payload)
                except Exception as error:
                    arguments = (type(error), error, error.__traceback__, threading.current_thread())
                    threading.excepthook(threading.ExceptHookArgs(arguments))


class _Follower(threading.Thread):
    """Reads a partition from `position` on and hands every entry over, until `end`."""

    def __init__(self, log: Log, partition: int, position: int, deliver: Callable[[Entry], None]) -> None:
        super().__init__(name=f"pares bus {log.url}", daemon=True)
        self._log = log
        self._partition = partition
        self._position = position
        self._deliver = deliver
        self._ended = False
        self._wake = PipeBell()

    def end(self) -> None:
        """End the thread, and wait for that unless called on it."""
        self._ended = True
        self._wake.ring()
        if threading.current_thread() is not self:
            self.join()

    def run(self) -> None:
        bell, asked = None, False
        try:
            events = select.poll()
            events.register(self._wake.fileno(), select.POLLIN)
            while not self._ended:
                if not asked:
                    with contextlib.suppress(LedgerUnavailable):  # until it can be had, this looks often
                        bell, asked = self._log.bell(self._partition), True
                    if bell is not None:
                        events.register(bell.fileno(), select.POLLIN)
                if bell is not None:
                    bell.clear()
                pause = self._follow()
                if pause is None:
                    pause = _POLL if bell is None else _LISTEN
                if pause > 0:
                    events.poll(pause * 1000)
        except (ClosedError, ForkedError):
            pass  # the ledger was closed under the bus: there is nothing to listen to any more
        finally:
            if bell is not None:
                bell.close()
            self._wake.close()

    def _follow(self) -> float | None:
        """Hand over what there is. Returns the seconds to wait before the next look; None: until the bell rings."""
        try:
            entries = self._log.read(self._position, self._partition)
        except LedgerUnavailable:
            return _AGAIN
        except (LedgerGap, LedgerRewound):
            try:
                self._position = self._log.end(self._partition)
            except LedgerUnavailable:
                return _AGAIN
            return 0.0
        for entry in entries:
            if self._ended:
                break
            self._deliver(entry)
            self._position = entry.offset + 1
        return 0.0 if entries else None


def last_published(ledger: Ledger, subject: str) -> int | None:
    """When a message of `subject` was last published on the bus over this ledger's log, in ms by the ledger's clock, as far as
    it keeps them; None if there is none, and for a ledger that is a bus itself and keeps nothing. Makes no topic."""
    if isinstance(ledger, Bus) or not (isinstance(ledger, KnowsTopics) and ledger.has_topic(BUS_TOPIC)):
        return None
    log, head, last = ledger.topic(BUS_TOPIC, 1), subject.encode() + b"\n", None
    for entries in batches(log, 0, log.start(0), log.end(0), _BATCH):
        for entry in entries:
            if entry.payload.startswith(head):
                last = entry.timestamp_ms
    return last


def as_bus(ledger: Ledger) -> Bus:
    """The ledger itself if it is a bus, else a bus over a topic that all buses over the same ledger share.

    Close a `TailBus` before its ledger, or with it: closing the ledger ends the thread too.
    """
    return ledger if isinstance(ledger, Bus) else TailBus(ledger.topic(BUS_TOPIC, 1))
