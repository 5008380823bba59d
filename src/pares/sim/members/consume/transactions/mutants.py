"""Rules of a batch's transaction, broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pares.core.consume.runs import Done, Run
from pares.fence import positions
from pares.fence.base import Held
from pares.fence.nested import alone
from pares.fence.sql_drivers import driver
from pares.fence.whole import whole
from pares.runtime.consume.batch import Batch
from pares.sim.members.consume.biases import TRANSACTIONS
from pares.sim.mutant import Mutant, Patch

Transaction = Callable[..., Any]


def _all_records_again() -> list[Patch]:
    """What was committed before is given out all the same."""
    kept: Transaction = positions.transaction

    @contextmanager
    def transaction(*given: Any) -> Generator[Any]:
        with kept(*given):
            yield tuple(given[3])

    return [(positions, "transaction", transaction)]


def _positions_apart() -> list[Patch]:
    """Which records they are of is committed after the writes, in a transaction of its own."""

    @contextmanager
    def transaction(
        connection: Any, fence: Any, term: Held, records: Sequence[Any], span: Run, position: Callable[[], int]
    ) -> Generator[Any]:
        kept = positions.Positions(fence)
        with alone(driver(connection, kept.kept).connection, term, fence):
            with whole(connection, kept.kept):
                fence.check(connection, term)
                before = kept.done(connection, term.role)
                yield tuple(record for record in records if not before.has(record.offset))
            with whole(connection, kept.kept):
                fence.check(connection, term)
                before = kept.done(connection, term.role)
                kept.commit(connection, term, before.plus(0, position()).plus(*span), before)

    return [(positions, "transaction", transaction)]


def _one_number() -> list[Patch]:
    """One number says what was committed: of what lies below the last batch, all."""
    commit = positions.Positions.commit

    def highest(self: Any, connection: Any, term: Held, done: Done, before: Done) -> None:
        commit(self, connection, term, Done(max([done.position, *(upto for _, upto in done.runs)])), before)

    return [(positions.Positions, "commit", highest)]


def _done_though_it_failed() -> list[Patch]:
    """A batch whose transaction was rolled back is done."""
    kept: Transaction = Batch.transaction

    @contextmanager
    def transaction(self: Any, connection: Any, fence: Any) -> Generator[Any]:
        try:
            with kept(self, connection, fence) as records:
                yield records
        finally:
            self.done()

    return [(Batch, "transaction", transaction)]


def _forgets_nothing() -> list[Patch]:
    """A rewind does not reach the database."""
    return [(positions.Positions, "forget", lambda self, connection, term: None)]


def _forgets_unguarded() -> list[Patch]:
    """Terms from before a rewind go on committing after it."""

    def forget(self: Any, connection: Any, term: Held) -> None:
        self._write(driver(connection, self.kept), term.role, Done(), 0)

    return [(positions.Positions, "forget", forget)]


OF_TRANSACTIONS: Final = (
    Mutant(
        "all-records-again",
        "C3",
        "a batch's transaction gives out what an earlier one has committed",
        _all_records_again,
        {**TRANSACTIONS, "faults": {"crash": 3.0, "freeze": 1.0}},
    ),
    Mutant(
        "positions-apart",
        "C3",
        "which records were written is committed after the writes",
        _positions_apart,
        {**TRANSACTIONS, "faults": {"crash": 3.0, "freeze": 1.0}},
    ),
    Mutant(
        "one-number",
        "C3",
        "one number says which batches were committed",
        _one_number,
        {**TRANSACTIONS, "out": 3, "workers": 2, "faults": {"crash": 3.0}},
    ),
    Mutant(
        "done-though-it-failed",
        "C3",
        "a batch is done though its transaction was rolled back",
        _done_though_it_failed,
        {**TRANSACTIONS, "unreadable": 0.3, "faults": {"crash": 3.0}},
    ),
    Mutant(
        "forgets-nothing",
        "C5",
        "a rewind leaves the database as it was",
        _forgets_nothing,
        {**TRANSACTIONS, "faults": {"crash": 1.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
    Mutant(
        "forgets-unguarded",
        "C5",
        "a term from before a rewind commits after it",
        _forgets_unguarded,
        {**TRANSACTIONS, "faults": {"freeze": 3.0, "cut": 1.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
)
