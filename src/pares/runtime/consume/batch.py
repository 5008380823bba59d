"""A batch: records of one partition that belong to one term, until the user says that they are done."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pares.core.consume.progress import Span
from pares.ledger.sources import Record

if TYPE_CHECKING:
    from pares.fence.sql import SqlFence
    from pares.runtime.term import Term
    from pares.runtime.work.barriers import Body


class Batch:
    """Records of one partition, in order. `topic`, `partition`; `first` and `last`: offsets of its first and last record;
    `token`: of the term in which they were given out, for a fence; `records`: each with offset, timestamp_ms, key, payload.

    Promised: as `pares.Consumer` says for its delivery. Not promised: that the term still lasts, as after any check;
    `bool(batch)` says whether it does now.
    """

    __slots__ = (
        "_body", "_done", "_lost", "_position", "_span", "_term", "_trying",
        "first", "last", "partition", "records", "token", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        term: Term,
        span: Span,
        records: tuple[Record, ...],
        done: Callable[[Batch], bool],
        lost: Callable[[], bool],
        position: Callable[[], int],
        trying: Callable[[Batch], AbstractContextManager[None]],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.token = term.token
        self.records = records
        self.first = records[0].offset
        self.last = records[-1].offset
        self._term = term
        self._span = span
        self._done = done
        self._lost = lost
        self._position = position
        self._trying = trying
        self._body: Body | None = None

    def __bool__(self) -> bool:
        """Whether the term lasts in which it was given out."""
        return bool(self._term)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Batch {self.topic}/{self.partition} {self.first}..{self.last} token={self.token}>"

    @property
    def term(self) -> Term:
        """The term in which it was given out: its role is the partition's, its token is this batch's."""
        return self._term

    def ends(self, upto: int) -> bool:
        """Whether what it covers ends there."""
        return self._span.next == upto

    def belongs(self, body: Body | None) -> Body | None:
        """A planned handover waits for `body` until the batch is done (R5). What it was before."""
        before, self._body = self._body, body
        return before

    @property
    def span(self) -> Span:
        """What it covers, holes included."""
        return self._span

    def done(self) -> bool:
        """The user has done these records, and whatever they were to bring about will stay.

        The position passes them when all batches before them are done too. It stands in the log with the next beat, at once by
        `Consumer.flush()`, and at a planned handover before the next consumer begins. False if the term was over already: then
        this changes nothing, and with "at-least-once" another consumer is given them again. May be called twice, and on any
        thread.
        """
        return self._done(self)

    @property
    def lost(self) -> bool:
        """Whether its partition is another consumer's by now, or may be claimed: `done` changes nothing any more. While a
        planned handover waits for the batch this is False, though `bool(batch)` is."""
        return self._lost()

    @contextmanager
    def transaction(self, connection: Any, fence: SqlFence) -> Generator[tuple[Record, ...], None, None]:
        """The body's writes, which records they are, and the check of the fence in one transaction of the user's database.

            with batch.transaction(connection, fence) as records:
                for record in records: connection.execute(...)

        Gives the records that no committed transaction has seen before: those of an earlier batch that was committed, and given
        out again because its consumer died before it could say so, are left out. When the body ends the transaction is
        committed and the batch is `done`; when it raises, it is rolled back and the batch is not done: call this again, or
        close the consumer. Between two tries no handover waits for it, as there may be no second one: then the next consumer is
        given it, and a try after that one's gets `Stale`. Batches of a partition may be committed in any order, on any thread,
        with a connection each.

        It begins and ends the transaction itself, also on a connection that commits each statement; inside
        `with connection.transaction()` or `atomic()`, which would commit later, it raises `ConfigError`; so it does inside the
        block of another batch of the partition, or of any on the same connection.

        Promised: each record's writes are committed once, by whichever consumer, if all of them use this on the same database
        and the delivery is "at-least-once". A consumer whose term is over gets `Stale`. Raises what `fence.check` raises and
        what the database raises, and `ConfigError` for what would leave more than 500 runs committed above a batch that is
        not; nothing is committed then. A position that an administrator rewinds in the log is not rewound in the database:
        `pares.fence.Positions.forget` does that, with what `Admin.rewind` returns. With ranges it has to be told, since they
        are dealt anew: what the row of a slot passes may be another slot's now, and would be left out. Not promised where a
        partition goes from one division to another (C12): the database knows positions by seats, so what was committed and
        not yet written to the log when the last consumer of the old division died is committed once more.
        """
        from pares.fence.positions import transaction

        span = (self._span.first, self._span.next)
        with self._trying(self):
            with transaction(connection, fence, self.term, self.records, span, self._position) as records:
                yield records
            self.done()
