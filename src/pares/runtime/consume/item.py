"""One record that was given out, until the user says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pares.core.consume.lanes import Entry
from pares.core.consume.progress import Span
from pares.ledger.sources import Record
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.work.barriers import Body

Held = Entry[tuple[Record, Span]]


class Settles(Protocol):
    """What becomes of records that are out."""

    def done(self, item: Item) -> bool: ...

    def retry(self, item: Item, after: float | None, why: str) -> bool: ...

    def reject(self, item: Item, why: str) -> bool: ...


class Item:
    """A record that was given out. `topic`, `partition`, `offset`, `timestamp_ms`, `key`, `payload`; `token`: of the term in
    which it was given out, for a fence; `deliveries`: how often it was given out, this time included, by whatever consumers, as
    far as the group's log says.

    One of `done`, `retry` and `reject` says what became of it; of several the first counts. Each returns False if the term was
    over by then: it changed nothing, and the record is another consumer's. `bool(item)` says whether the term lasts now; a
    handler that takes its time asks it now and then. Promised: as `pares.Consumer` says for its delivery.
    """

    __slots__ = ("_settles", "body", "deliveries", "entry", "partition", "settled", "tenancy", "token", "topic")

    def __init__(self, tenancy: Tenancy, entry: Held, settles: Settles) -> None:
        self.topic = tenancy.partition.topic
        self.partition = tenancy.partition.number
        self.token = tenancy.term.token
        self.deliveries = entry.tries
        self.tenancy = tenancy
        self.entry = entry
        self.body: Body | None = None
        """A planned handover waits for it (R5)."""
        self.settled = False
        self._settles = settles

    @property
    def offset(self) -> int:
        return self.entry.offset

    @property
    def timestamp_ms(self) -> int:
        return self.entry.value[0].timestamp_ms

    @property
    def key(self) -> bytes | None:
        return self.entry.value[0].key

    @property
    def payload(self) -> bytes:
        return self.entry.value[0].payload

    def __bool__(self) -> bool:
        """Whether the term lasts in which it was given out."""
        return bool(self.tenancy.term)

    def __repr__(self) -> str:
        return f"<Item {self.topic}/{self.partition} {self.offset} token={self.token} deliveries={self.deliveries}>"

    def done(self) -> bool:
        """The user has done this record, and whatever it was to bring about will stay. It is not given out again, unless this
        process crashes before the log has it: with the next beats, at once by `Consumer.flush()`, and at a planned end."""
        return self._settles.done(self)

    def retry(self, after: float | None = None, why: str = "") -> bool:
        """Give it out again, `after` seconds from now at the earliest; without, after `backoff`, twice as long each time.
        Records that come after it in its order wait meanwhile (with "key" those of its key, with "none" none of them), and no
        others do.

        After `retries` of them it is rejected instead. The time is forgotten at a restart or a handover: then it is given out
        at once; how often it was given out is not. Raises `ConfigError` with "at-most-once", where nothing is given out twice.
        """
        return self._settles.retry(self, after, why)

    def reject(self, why: str = "") -> bool:
        """Give it up: it is written to the dead-letter stream, and done when it stands there. A crash in between writes it
        there twice. Raises `ConfigError` for a consumer without `dead_letter`; `LedgerUnavailable` if it can't be written now,
        and then it is given out again later."""
        return self._settles.reject(self, why)


Handler = Callable[[Item], object]
