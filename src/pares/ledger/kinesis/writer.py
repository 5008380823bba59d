"""Appends to one partition, each read back.

The service acknowledges a record with a sequence number, and an append needs the offset of its entries: that is known when the
tail has read all that stands before it. So an append takes one request, and then waits for the tail's next reading.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, Literal

from pares.ledger.counted.places import Place
from pares.ledger.counted.records import LAYOUT, Head, Start, encode, pack, parts
from pares.ledger.kinesis.client import Client
from pares.ledger.kinesis.errors import Broken, Refused, unavailable
from pares.ledger.kinesis.fold import SILENCE, Taken
from pares.ledger.kinesis.settings import Settings
from pares.ledger.kinesis.streams import raised
from pares.ledger.kinesis.tail import Seen, Tail

CHUNK: Final = (1 << 20) - 4096
"""Bytes of a body that go into one record: of 1 MiB the head and the partition key take some."""
_TRIES: Final = 5
_SOON: Final = 0.02
_LATER: Final = 1.0
"""Seconds before a record is sent again that the service has said it did not take: the first time, and at the most."""


class Writer:
    """For any thread."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._name = secrets.token_urlsafe(9)
        self._number = 0
        self._landed: dict[int, range | None] = {}
        self.tail: Tail

    def took(self, taken: Taken) -> None:
        """The tail has read an append. On its thread."""
        head = taken.head
        if head.by == self._name:
            with self.tail.changed:
                if head.n in self._landed:
                    self._landed[head.n] = range(taken.offset, taken.offset + head.holds)

    def settled(self) -> Seen:
        """How far the tail has read, now, in a log whose offsets are known. One that nobody can count any more goes on at a new
        offset (see `fold`)."""
        for _ in range(_TRIES):
            seen = self.tail.look()
            if seen.next is not None:
                return seen
            if self._settings.readonly:
                raise unavailable(
                    self._settings.where,
                    "read",
                    f"nothing was written to {self.tail.name} for so long that nobody knows its offsets; a member that starts "
                    "begins it anew",
                )
            self._give_birth(seen)
        raise unavailable(self._settings.where, "begin", f"nobody can count what stands in {self.tail.name}")

    def append(self, payloads: Sequence[bytes], urgent: bool) -> list[int]:
        """The offsets of `payloads`."""
        seen = self._fit()
        pieces = [*parts(pack(payloads), CHUNK)]
        deadline = time.monotonic() + self.tail.patience() + len(pieces)
        with self.tail.changed:
            number = self._next()
            self._landed[number] = None
        try:
            place = -1
            for part, piece in enumerate(pieces):
                # Without the last part nothing is in the log.
                head = self._head(self.tail.seen or seen, number, (part, len(pieces)), len(payloads), urgent=urgent)
                place = self._put(encode(head, piece), deadline, done=part == len(pieces) - 1)
            return self._read_back(number, place, seen, deadline)
        finally:
            with self.tail.changed:
                self._landed.pop(number, None)
                self.tail.changed.notify_all()

    def finish(self, seconds: float) -> None:
        """Wait so long, at the most, for appends that are under way: one that is cut off is of unknown outcome."""
        with self.tail.changed:
            self.tail.changed.wait_for(lambda: not self._landed, seconds)

    def trim(self, before: int) -> None:
        """Have every reader begin at `before`."""
        seen = self._fit()
        place = self.tail.places.before(before) or Place(seen.start.place, seen.start.sequence)
        with self.tail.changed:
            number = self._next()
        self._put(encode(self._head(seen, number, kind="trim", start=Start(before, *place))), self._deadline())
        self.tail.look()

    def _fit(self) -> Seen:
        """How far the tail has read, in a log in which others will be able to count."""
        seen = self.tail.seen
        if seen is None or seen.next is None or not self.tail.window.open:
            seen = self.settled()
        now = self._client.now()
        if now * 1000 > seen.last_ms + SILENCE if seen.after else not seen.stream.has_its_beginning(now):
            self._give_birth(self.tail.look())
            seen = self.settled()
        return seen

    def _give_birth(self, seen: Seen) -> None:
        with self.tail.changed:
            number = self._next()
        self._put(encode(self._head(seen, number, kind="birth")), self._deadline())

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.timeout

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _head(
        self,
        seen: Seen,
        number: int,
        part: tuple[int, int] = (0, 1),
        holds: int = 0,
        *,
        kind: Literal["entries", "trim", "birth"] = "entries",
        start: Start | None = None,
        urgent: bool = False,
    ) -> Head:
        next, begin = seen.next or 0, start or seen.start
        return Head(LAYOUT, seen.stream.id, kind, self._name, number, *part, holds, seen.after, next, begin, urgent)

    def _put(self, data: bytes, deadline: float, *, done: bool = True) -> int:
        """Sent once; again only after the service has said that it did not take it, and will take it later. `done`: whether
        something is done by it."""
        pause = _SOON
        while True:
            try:
                return self._client.put(self.tail.name, self._name, data)
            except Refused as error:
                if not error.throttled or time.monotonic() + pause > deadline:
                    raise raised(self._settings.where, "append", self.tail.name, error) from None
            except Broken as error:
                raise raised(
                    self._settings.where, "append", self.tail.name, error, unknown=error.sent and done
                ) from None
            if self.tail.ending.wait(pause):
                raise unavailable(self._settings.where, "append", "the ledger was closed")
            pause = min(_LATER, pause * 2)

    def _read_back(self, number: int, place: int, began: Seen, deadline: float) -> list[int]:
        tail = self.tail
        with tail.changed:
            while True:
                found, seen = self._landed[number], tail.seen
                if found is not None:
                    return [*found]
                if seen is not None and (seen.stream.id != began.stream.id or seen.read >= place):
                    why = f"{tail.name} is another stream by now"
                    raise unavailable(self._settings.where, "append", why, unknown=True)
                tail.want()
                tail.wait("read back what was appended", deadline, unknown=True)
