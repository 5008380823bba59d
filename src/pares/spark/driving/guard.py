"""A streaming query that runs only while its process leads.

What keeps two drivers from doing harm is the sink, which refuses a lower token; all else here spares work that would be
refused. A term that is over stops its query; the next term makes a query anew, with its own token as a constant, so that
nothing of an old query ever writes in a new term's name. A driver that can't stop (it is frozen, or a library holds it) is
killed by its watchdog.

One fault is not the query's own: a driver of an earlier term that wakes up may write one entry into the checkpoint before its
batch is refused, and Spark then ends the query that finds it there ("Multiple streaming jobs detected"). What that entry says
is lawful, so the query is started again and goes on by it. Any other error of a query ends the guard, and with it, most often,
the process, so that another member leads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from pares.core.errors import ConfigError, LeadershipLost, Stale
from pares.runtime.config.numbers import number
from pares.runtime.term import Term
from pares.spark.driving.checkpoints import extent_of, root_of
from pares.spark.driving.leash import Leash
from pares.spark.sinks.base import Seat, Sink, deliver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log: Final = logging.getLogger("pares.spark.guard")

LOOK: Final = 0.1
"""Seconds between two looks at the query; a term's end is seen at once."""
STANDBY: Final = 0.5
"""Seconds after which a guard that waits to lead can be stopped."""
DOUBT: Final = 30.0
"""Seconds for which a term may last of which the sink says that a later one has passed."""
RESTARTS: Final = 10
"""Entries of earlier drivers that a term may find in its checkpoint."""
MIN_GRACE: Final = 1.0
MAX_GRACE: Final = 24 * 3600.0
_CONCURRENT: Final = "Multiple streaming jobs detected"
"""In what Spark says of a checkpoint (CONCURRENT_STREAM_LOG_UPDATE), and of a log that a source of files keeps there."""

MakeQuery = Callable[[], "DataStreamWriter"]
"""Makes the query of a term: all of it but where it writes to, and not started."""


class Leads(Protocol):
    """A `pares.Member`, as far as a guard needs it."""

    def terms(self, role: str, timeout: float | None = None) -> Iterator[Term]: ...

    @property
    def state(self) -> str: ...


def guard(member: Leads, role: str, *, grace: float | None = 30.0) -> Guard:
    """Runs streaming queries while `member` leads `role`.

        with pares.spark.guard(member, "orders") as g:
            g.start(lambda: orders.writeStream.option("checkpointLocation", folder), PostgresSink(url, "orders"))

    The `with` waits at its end until each query has ended by itself (`availableNow`), the member is closed, or one has failed:
    then it raises. When its body raises, queries are stopped. The role has one seat. `grace`: seconds, at least 1, that a query
    has to stop after the end of its term; then the whole process is killed by a watchdog, a small process of its own. None: no
    watchdog.

    Promised: the sink has the rows of each batch once, and batches in order without a hole, whenever drivers and executors die,
    freeze and wake up, if all that write to it do so by guards of this role. Not promised: that one query only runs at an
    instant (a frozen driver may wake up, and is refused), nor anything about side effects of the query outside the sink.
    """
    return Guard(member, role, grace)


class Guard:
    """See `guard`."""

    def __init__(self, member: Leads, role: str, grace: float | None) -> None:
        if grace is not None:
            grace = number("grace", grace, MIN_GRACE, MAX_GRACE)
        self._member, self._role, self._grace = member, role, grace
        self._jobs: list[_Job] = []
        self._stop = threading.Event()
        self._ended = False

    def start(self, make_query: MakeQuery, sink: Sink) -> None:
        """Begins to run a query in each term, and returns at once.

        `make_query`: called in each term anew; returns a `DataStreamWriter` that is not started, with its `checkpointLocation`,
        which all drivers of the role share. `sink`: where its batches are published. Several queries of a guard need a
        checkpoint, and a table or folder, each. Not for Spark Connect, where batches are delivered in another process.

        Raises `ConfigError` after the end of the `with`. What goes wrong later is raised by `wait`: `ConfigError` for what
        `make_query` may not return, and for a role of several seats; `Stale` when the sink has seen a higher token though the
        term goes on (another group, or another ledger, writes to it under this role); what Spark and the sink raise.
        """
        if self._ended:
            raise ConfigError("this guard is over: start queries inside its `with`")
        job = _Job(self._member, self._role, make_query, sink, self._grace, self._stop)
        self._jobs.append(job)
        job.thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Until each query has ended by itself or the member is closed, or `timeout` seconds are over; whether they have ended.
        Raises what ended one of them, when the others have stopped."""
        end = None if timeout is None else time.monotonic() + timeout
        while any(job.thread.is_alive() for job in self._jobs):
            if any(job.error is not None for job in self._jobs):
                self._stop.set()
            if end is not None and time.monotonic() > end:
                return False
            for job in self._jobs:
                job.thread.join(LOOK)  # in steps, so that a signal's handler runs
        for job in self._jobs:
            if job.error is not None:
                raise job.error
        return True

    def stop(self) -> None:
        """Stops all queries, and starts none any more. Returns at once; `wait` waits for their end."""
        self._stop.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if error is not None:
            self.stop()
        try:
            self.wait()
        except BaseException as second:
            self.stop()
            if error is None:
                raise
            log.warning("a guarded query has failed besides: %s", second)


class _Job:
    """One query of a guard, on a thread of its own, over all terms."""

    def __init__(
        self,
        member: Leads,
        role: str,
        make_query: MakeQuery,
        sink: Sink,
        grace: float | None,
        stop: threading.Event,
    ) -> None:
        self._member, self._role, self._make, self._sink = member, role, make_query, sink
        self._grace, self._stop = grace, stop
        self.error: BaseException | None = None
        self.thread: Final = threading.Thread(target=self._run, name=f"guard of {role!r}", daemon=True)

    def _run(self) -> None:
        try:
            with Leash(self._grace) as leash:
                self._lead(leash)
        except BaseException as error:
            self.error = error

    def _lead(self, leash: Leash) -> None:
        """Until the query has ended by itself, the member is closed, or this is stopped. A member that has failed raises."""
        last = -1
        while not self._stop.is_set() and self._member.state != "closed":
            for term in self._member.terms(self._role, timeout=STANDBY):
                if term.token > last and self._serve(term, leash):
                    return
                last = term.token
                while not self._stop.is_set() and not term.wait_lost(STANDBY):
                    pass
                if self._stop.is_set():
                    return

    def _serve(self, term: Term, leash: Leash) -> bool:
        """One term. Whether the query has ended by itself."""
        if term.seat:
            raise ConfigError(f"{self._role!r} has several seats: a query is guarded by a role with one seat")
        restarts = 0
        while term and not self._stop.is_set():
            run = _Run(term, self._sink)
            try:
                self._sink.open(run.held)
                return run.go(self._make(), leash, self._stop)
            except (Stale, LeadershipLost) as error:
                if not self._ends(term):
                    raise
                log.info("the query of %s is over: %s", self._role, error)
                return False
            except Exception as error:
                if not term:
                    log.info("the query of %s has ended with its term: %s", self._role, error)
                    return False
                restarts += 1
                if _CONCURRENT not in str(error) or restarts > RESTARTS:
                    raise
                log.warning(
                    "an earlier driver has written into the checkpoint of %s: the query starts again", self._role
                )
        return False

    def _ends(self, term: Term) -> bool:
        """Whether the term ends soon, or this is stopped. A term that another one has followed does: it is the sink that hears
        of the later one first where members may overlap. [waiting for ever: a sink that is used by another group under the same
        role would keep this one leading and doing nothing]"""
        end = time.monotonic() + DOUBT
        while not self._stop.is_set() and not term.wait_lost(LOOK):
            if time.monotonic() > end:
                return False
        return True


class _Run:
    """One query in one term."""

    def __init__(self, term: Term, sink: Sink) -> None:
        self.held: Final = Seat.of(term)
        self._term, self._sink = term, sink
        self._root: str | None = None
        self._started = threading.Event()
        self._query: StreamingQuery | None = None
        self._error: BaseException | None = None

    def go(self, writer: DataStreamWriter, leash: Leash, stop: threading.Event) -> bool:
        """Until the query has ended: by itself (True), or with the term or by `stop` (False). Raises what it has failed by."""
        check_writer(writer)
        self._term.check()
        with leash.on(self._term):
            try:
                query = self._query = writer.foreachBatch(self._deliver).start()
            finally:
                self._started.set()
            while query.isActive and self._term and not stop.is_set() and leash.error is None:
                self._term.wait_lost(LOOK)
            by_itself, failed = not query.isActive, self._error or leash.error
            while query.isActive:
                self._end(query)
        if by_itself and failed is None:
            failed = self._error or query.exception()
        if failed is not None:
            raise failed
        return by_itself

    def _end(self, query: StreamingQuery) -> None:
        """Spark's `stop` cancels the batch's jobs and waits for what of it runs in Python."""
        try:
            query.stop()
        except Exception as error:  # a stop that Spark's own timeout has ended: it is asked again
            log.warning("the query %s does not stop: %s", query.id, error)
            time.sleep(LOOK)

    def _deliver(self, df: DataFrame, batch: int) -> None:
        """On Spark's thread. What it raises ends the query; Spark would tell of it in its own words only."""
        try:
            self._started.wait()
            query = self._query
            if query is None:
                raise LeadershipLost(f"the query of {self.held.role!r} was not started")
            self._term.check()
            if self._root is None:
                self._root = root_of(query)
            extent = extent_of(df.sparkSession, self._root, str(query.id), batch)
            # The check spares a publication that the next term would find; the sink decides.
            deliver(self._sink, df, self.held, extent, check=self._term.check)
        except BaseException as error:
            self._error = self._error or error
            raise


def check_writer(writer: object) -> None:
    """Raises `ConfigError` for what is no `DataStreamWriter` of a session in this process."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if not isinstance(writer, DataStreamWriter):
        raise ConfigError(
            f"make_query returned {writer!r:.80}: return a DataStreamWriter, which is not started, of a Spark session in this "
            "process (not Spark Connect)"
        )
