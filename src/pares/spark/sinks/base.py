"""What a sink is, and the steps of a batch.

1. **Stage.** Each task of Spark's writes its rows as a part of its own, under a name that nobody else has, and says so when all
   of them are stored. A task that fails, is repeated or runs twice leaves a part that nobody names. What is staged carries the
   token of its term and is seen by no reader.
2. **Publish.** In one transaction: the fence is checked and raised, the batch is held against the last one (`follows`), the
   rows of the named parts are moved, their number is compared with what the tasks have said, and the batch is written down.

A driver that dies or freezes between any two steps has published all of a batch or nothing of it. One that wakes up with a
lower token is refused in step 2, whatever it had staged. What is left over of earlier terms is removed by `open`, which raises
the fence first: from then on it could not be published any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pares.core.errors import ParesError, Stale
from pares.fence.base import Held, check_held
from pares.spark.sinks.extents import Extent, Published, follows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PART: Final = "part string, rows bigint"
AGAIN: Final = "start the query again: a batch is published whole or not at all"
"""What to do when the disk was full."""


class Seat(NamedTuple):
    """What of a term crosses to a sink: a constant, so that no later term writes in the name of an earlier one."""

    role: str
    seat: int
    token: int

    @classmethod
    def of(cls, term: Held) -> Seat:
        """Raises `ConfigError` for what is no term."""
        return cls(*check_held(term))


class Staged(NamedTuple):
    """A batch that is staged and not published. `parts`: of the tasks that count."""

    held: Seat
    extent: Extent
    columns: tuple[str, ...]
    parts: tuple[str, ...]
    rows: int


class Sink(Protocol):
    """Where batches are published behind a fence.

    Promised: what is published is each batch once and in order, each as a whole, and none of a term that is over once `open`
    was called for a later one, whenever drivers and executors die or freeze. Not promised: anything about rows that something
    else writes; nor a row's uniqueness within a batch, whose rows are the query's.
    """

    def open(self, held: Seat) -> None:
        """Shuts earlier terms out, and removes what they have staged and not published; it may remove what this one has. Raises
        `Stale` if a later one has passed."""
        ...

    def last(self, held: Seat) -> Published | None:
        """The batch that was published last for the seat of `held`; None if none was. A look, which holds nobody back."""
        ...

    def stage(self, df: DataFrame, held: Seat, extent: Extent) -> Staged:
        """Has the executors write the rows of `df`, by one action, where no reader sees them."""
        ...

    def publish(self, staged: Staged) -> bool:
        """Makes a staged batch visible. False: it was there already, and what was staged is removed, now or by a later term's
        `open`. Raises `Stale`, `NotContiguous`, and what the store raises; nothing is published then."""
        ...

    def forget(self, held: Held) -> None:
        """In the term `held`: the next batch may begin anywhere. For an administrator, who has seen to it that no rows come
        twice or are missing. Rows stay. Raises `Stale`."""
        ...


def deliver(
    sink: Sink, df: DataFrame, held: Seat, extent: Extent, *, check: Callable[[], object] = lambda: None
) -> bool:
    """Stages and publishes a batch; one that is there already is not even staged. `check`: called between the two, and may
    raise. Whether it was published now."""
    last = sink.last(held)
    if last is not None and last.token > held.token:
        raise Stale(held.token, last.token)
    if not follows(extent, last):
        return False
    ready = sink.stage(df, held, extent)
    check()
    return sink.publish(ready)


class Store(Protocol):
    """Called in executors."""

    def __call__(self, part: str, batches: Iterable[pa.RecordBatch]) -> int:
        """Stores the rows as the part of that name, durably and as a whole, and returns how many."""
        ...


def staged(df: DataFrame, held: Seat, extent: Extent, store: Store) -> Staged:
    """Runs `store` in one task for each partition of `df`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _part(batches, store)

    found = collected(df, run, PART)
    parts = tuple(sorted(row["part"] for row in found))
    return Staged(held, extent, tuple(df.columns), parts, sum(row["rows"] for row in found))


def collected(
    df: DataFrame, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> list[Any]:
    """The rows that `run` makes of each partition of `df`, by one action."""
    try:
        return df.mapInArrow(run, schema).collect()
    except Exception as error:
        from pares.spark.reading import as_raised

        raised = as_raised(error)  # of an executor there is only what it said
        if raised is None or raised is error:
            raise
        raise raised from error


def _part(batches: Iterator[pa.RecordBatch], store: Store) -> Iterator[pa.RecordBatch]:
    import secrets

    import pyarrow as pa

    for first in batches:
        if first.num_rows:
            name = secrets.token_hex(16)  # of this attempt alone
            rows = store(name, _chained(first, batches))
            yield pa.RecordBatch.from_pydict({"part": pa.array([name]), "rows": pa.array([rows], pa.int64())})


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class Incomplete(ParesError):
    """What was staged is not all there any more (a server that crashed empties unlogged tables, somebody has removed files).
    Nothing was published; the batch is to be staged again."""

    def __init__(self, found: int, staged: Staged) -> None:
        super().__init__(
            f"{found} rows of the {staged.rows} that were staged for {staged.extent} are there: stage the batch again"
        )
