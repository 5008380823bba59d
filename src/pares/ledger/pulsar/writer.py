"""Appends to one partition, each acknowledged and read back.

The broker acknowledges a message with its place, and an append needs the offset of its entries: that is known when the tail has
read it. It is sent once from here. What the client sends again by itself, when its connection breaks, is passed over by every
reader (see `fold`).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from typing import Final, Literal

from pares.core.errors import LedgerUnavailable
from pares.ledger.counted.places import Place
from pares.ledger.counted.records import LAYOUT, Head, Start, encode, pack, parts
from pares.ledger.pulsar.admin import Admin
from pares.ledger.pulsar.client import Client, Producer
from pares.ledger.pulsar.errors import NO_TOPIC, Broken, Refused, raised, unavailable
from pares.ledger.pulsar.feed import Feed, Seen
from pares.ledger.pulsar.fold import Taken
from pares.ledger.pulsar.settings import Settings

CHUNK: Final = (5 << 20) - (64 << 10)
"""Bytes of a body that go into one message: a stock broker takes 5 MiB, with all that comes with it."""
_GLANCE: Final = 0.1
"""Seconds after which it is looked whether the connection is still there."""


class Writer:
    """For any thread. Raises `Refused`, `Broken` and `LedgerUnavailable`."""

    def __init__(self, settings: Settings, client: Client, admin: Admin) -> None:
        self._settings = settings
        self._client = client
        self._admin = admin
        self._name = secrets.token_urlsafe(9)
        self._number = 0
        self._turn = threading.Lock()
        self._landed: dict[int, range | None] = {}
        self._answer: Refused | Broken | int | None = None
        self._producer: Producer | None = None
        self.feed: Feed

    def took(self, taken: Taken) -> None:
        """The tail has read an append. On its thread."""
        head = taken.head
        if head.by == self._name:
            with self.feed.changed:
                if head.n in self._landed:
                    self._landed[head.n] = range(taken.offset, taken.offset + head.holds)

    def append(self, payloads: Sequence[bytes], urgent: bool) -> list[int]:
        """The offsets of `payloads`."""
        pieces = [*parts(pack(payloads), CHUNK)]
        return self._write("entries", pieces, len(payloads), None, urgent)

    def trim(self, before: int) -> None:
        """Have every reader begin at `before`."""
        deadline = time.monotonic() + self._settings.timeout
        seen = self.feed.seen or self.feed.attached(deadline)
        place = self.feed.places.before(before) or Place(0, "")
        if place.offset < seen.start.place:
            place = Place(seen.start.place, seen.start.sequence)
        self._write("trim", [b""], 0, Start(before, *place), False)
        if place.sequence:
            self.feed.trimmed(int(place.sequence))

    def finish(self, seconds: float) -> None:
        """Wait so long, at the most, for an append that is under way: one that is cut off is of unknown outcome."""
        with self.feed.changed:
            self.feed.changed.wait_for(lambda: not self._landed, seconds)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _write(
        self, kind: Literal["entries", "trim"], pieces: list[bytes], holds: int, start: Start | None, urgent: bool
    ) -> list[int]:
        deadline = time.monotonic() + self._settings.timeout + len(pieces) - 1
        if not self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
            why = "another append of this process still waits for the broker"
            raise unavailable(self._settings.where, "append", why)
        try:
            seen = self.feed.attached(deadline)
            producer = self._connected()
            self._number += 1
            number = self._number
            with self.feed.changed:
                self._landed[number] = None
            for part, piece in enumerate(pieces):
                # Without the last part nothing is in the log.
                last = part == len(pieces) - 1
                now = self.feed.seen or seen
                after = now if now.log == seen.log else seen
                head = self._head(after, kind, number, (part, len(pieces)), holds, start, urgent)
                self._send(producer, encode(head, piece), deadline, last)
            return [*self._read_back(number, seen, deadline)]
        except BaseException:
            self.close()  # with all that it may still have to send
            raise
        finally:
            with self.feed.changed:
                self._landed.clear()
                self.feed.changed.notify_all()
            self._turn.release()

    def _connected(self) -> Producer:
        """A producer whose topic is there: making one may make a topic."""
        producer = self._producer
        if producer is not None and producer.connected:
            return producer
        self.close()
        if self._admin.mark(self.feed.name) is None:
            raise Refused(NO_TOPIC, f"the topic {self.feed.name} is gone")
        self._producer = self._client.producer(self.feed.name)
        return self._producer

    def _head(
        self,
        seen: Seen,
        kind: Literal["entries", "trim"],
        number: int,
        part: tuple[int, int],
        holds: int,
        start: Start | None,
        urgent: bool,
    ) -> Head:
        return Head(
            LAYOUT,
            seen.log,
            kind,
            self._name,
            number,
            *part,
            holds,
            seen.after,
            seen.next,
            start or seen.start,
            urgent,
        )

    def _send(self, producer: Producer, data: bytes, deadline: float, last: bool) -> None:
        """Send it, and wait for the answer."""
        changed = self.feed.changed
        answers: list[Refused | Broken | int] = []

        def done(answer: Refused | Broken | int) -> None:
            with changed:
                answers.append(answer)
                changed.notify_all()

        producer.send(data, done)
        with changed:
            while not answers:
                left = deadline - time.monotonic()
                if left <= 0 or self.feed.ending.is_set():
                    answers.append(Broken("the broker does not answer in time", sent=True))
                elif not changed.wait(min(left, _GLANCE)) and not answers and not producer.connected:
                    answers.append(Broken("the connection was lost", sent=True))
        if not isinstance(answers[0], int):
            error = answers[0]
            raise raised(self._settings.where, "append", error, unknown=last and isinstance(error, Broken))

    def _read_back(self, number: int, began: Seen, deadline: float) -> range:
        feed = self.feed
        with feed.changed:
            while True:
                if (found := self._landed.get(number)) is not None:
                    return found
                seen = feed.seen
                if seen is not None and seen.log != began.log:
                    raise unavailable(
                        self._settings.where, "append", f"{feed.name} is another log by now", unknown=True
                    )
                try:
                    feed.wait("read back what was appended", deadline, unknown=True)
                except LedgerUnavailable:
                    if self._landed.get(number) is None:
                        raise
