"""The rules of the sinks, each broken on purpose, and the test of `test_sink_steps` or `test_extents` that notices it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import delta_mutants as delta
import manifest_mutants as files
import pyarrow as pa
import pytest
import test_extents
import test_sink_steps as steps
from msgspec import Struct

from pares.core.errors import ParesError
from pares.fence.base import Held
from pares.fence.file import FileFence
from pares.fence.sql import SqlFence
from pares.sim.mutant import Patch
from pares.spark.sinks import base
from pares.spark.sinks.base import Incomplete, Seat, Staged, Store
from pares.spark.sinks.extents import NotContiguous, OffsetExtent, StreamExtent
from pares.spark.sinks.sql import SqlSink

# pyright: reportPrivateUsage=false


class Broken(Struct, frozen=True):
    """One rule: what is done instead, the test that notices it (with its parameter), and what that ends with."""

    what: str
    patches: Callable[[], list[Patch]]
    test: Callable[..., None]
    kind: str | None = None
    ends: type[BaseException] = AssertionError

    @property
    def noticed_by(self) -> str:
        return self.test.__name__ if self.kind is None else f"{self.test.__name__}[{self.kind}]"


# What may follow what -----------------------------------------------------------------------------------------------


def _hole_is_published() -> list[Patch]:
    follows = StreamExtent.follows

    def passes(self: StreamExtent, last: StreamExtent) -> bool:
        return (self.query == last.query and self.batch > last.batch) or follows(self, last)

    return [(StreamExtent, "follows", passes)]


def _duplicate_is_published() -> list[Patch]:
    follows = StreamExtent.follows

    def passes(self: StreamExtent, last: StreamExtent) -> bool:
        return self == last or follows(self, last)

    return [(StreamExtent, "follows", passes)]


def _by_its_number_alone() -> list[Patch]:
    follows = StreamExtent.follows

    def drops(self: StreamExtent, last: StreamExtent) -> bool:
        return not (self.query == last.query and self.batch <= last.batch) and follows(self, last)

    return [(StreamExtent, "follows", drops)]


def _lost_checkpoint_begins() -> list[Patch]:
    follows = StreamExtent.follows

    def begins(self: StreamExtent, last: StreamExtent) -> bool:
        return (self.query != last.query and self.start is None) or follows(self, last)

    return [(StreamExtent, "follows", begins)]


def _beginning_is_not_cut_off() -> list[Patch]:
    return [(OffsetExtent, "follows", lambda self, last: self.next > last.next)]


def _smaller_range_is_published() -> list[Patch]:
    def passes(self: OffsetExtent, last: OffsetExtent) -> bool:
        if self.first < last.next < self.next:
            raise NotContiguous("begins before")
        return self != last

    return [(OffsetExtent, "follows", passes)]


# Staging ------------------------------------------------------------------------------------------------------------


def _parts_share_a_name() -> list[Patch]:
    def named(batches: Iterator[pa.RecordBatch], store: Store) -> Iterator[pa.RecordBatch]:
        for first in batches:
            if first.num_rows:
                rows = store("part", base._chained(first, batches))
                yield pa.RecordBatch.from_pydict({"part": ["part"], "rows": [rows]})

    return [(base, "_part", named)]


def _moves_all_that_is_staged() -> list[Patch]:
    def every(self: SqlSink, connection: Any, staged: Staged) -> None:
        connection.execute(f"INSERT INTO {self.target} (id) SELECT id FROM {self.staging}")

    return [(SqlSink, "_move", every)]


def _fewer_rows_will_do() -> list[Patch]:
    move = SqlSink._move

    def uncounted(self: SqlSink, connection: Any, staged: Staged) -> None:
        try:
            move(self, connection, staged)
        except Incomplete:
            return

    return [(SqlSink, "_move", uncounted)]


def _opened_without_a_sweep() -> list[Patch]:
    def only_checks(self: SqlSink, held: Seat) -> None:
        with self.transaction() as connection:
            self.fence.check(connection, held)
            self._make(connection)

    return [(SqlSink, "open", only_checks)]


def _files_are_not_swept() -> list[Patch]:
    return [(FileFence, "sweep", lambda self, role, seat=0: 0)]


def _sweeps_other_seats() -> list[Patch]:
    opens = SqlSink.open

    def sweeps(self: SqlSink, held: Seat) -> None:
        opens(self, held)
        with self.transaction() as connection:
            connection.execute(f"DELETE FROM {self.staging}")

    return [(SqlSink, "open", sweeps)]


# Publishing in a database -------------------------------------------------------------------------------------------


def _published_in_two_transactions() -> list[Patch]:
    move = SqlSink._move

    def commits(self: SqlSink, connection: Any, staged: Staged) -> None:
        move(self, connection, staged)
        connection.commit()

    return [(SqlSink, "_move", commits)]


def _listed_before_it_is_there() -> list[Patch]:
    move, lists = SqlSink._move, SqlSink._list

    def waits(self: SqlSink, connection: Any, staged: Staged) -> None:
        """Moved is after the batch is written down."""

    def lists_first(self: SqlSink, connection: Any, staged: Staged, number: int) -> None:
        lists(self, connection, staged, number)
        connection.commit()
        move(self, connection, staged)

    return [(SqlSink, "_move", waits), (SqlSink, "_list", lists_first)]


def _lower_token_is_not_refused() -> list[Patch]:
    return [(SqlFence, "_raise", lambda self, database, role, seat, token: True)]


def _token_is_put_back() -> list[Patch]:
    def puts(self: SqlFence, database: Any, role: str, seat: int, token: int) -> bool:
        row = self._row(role, seat) | {"token": token}
        names = ", ".join(row)
        marks = ", ".join(database.mark % name for name in row)
        return database.write(f"INSERT OR REPLACE INTO {self._table.name} ({names}) VALUES ({marks})", row)

    return [(SqlFence, "_raise", puts)]


def _opened_without_raising_the_token() -> list[Patch]:
    def sweeps(self: SqlSink, held: Seat) -> None:
        with self.transaction() as connection:
            connection.execute(self.fence.ddl)
            self._make(connection)
            row = self._seat(held) | {"token": held.token}
            where = f"{self._of('pares_group', 'pares_role', 'pares_seat')} AND pares_token < {self.mark % 'token'}"
            connection.execute(f"DELETE FROM {self.staging} WHERE {where}", row)

    return [(SqlSink, "open", sweeps)]


def _published_without_the_fence() -> list[Patch]:
    def unchecked(self: SqlSink, staged: Staged) -> bool:
        with self.transaction() as connection:
            last = self._last(connection, staged.held)
            if new := base.follows(staged.extent, last):
                self._move(connection, staged)
                self._list(connection, staged, 0 if last is None else last.number + 1)
            marks, row = self._parts(staged)
            connection.execute(f"DELETE FROM {self.staging} WHERE pares_part IN ({marks})", row)
            return new

    return [(SqlSink, "publish", unchecked)]


def _seats_share_a_last_batch() -> list[Patch]:
    key = SqlSink._key
    return [(SqlSink, "_key", lambda self, held: key(self, held) | {"role": "", "seat": 0})]


def _forgets_in_a_term_that_is_over() -> list[Patch]:
    def forgets(self: SqlSink, held: Held) -> None:
        with self.transaction() as connection:
            connection.execute(f"DELETE FROM {self.batches} WHERE {self._of(*self._key(held))}", self._key(held))

    return [(SqlSink, "forget", forgets)]


_KILLED: Final = steps.test_a_driver_killed_before_any_step_is_followed_by_one_that_loses_and_doubles_nothing
_FROZEN: Final = steps.test_a_driver_frozen_before_any_step_is_refused_when_it_wakes_up
_LEFT: Final = steps.test_what_an_attempt_left_that_no_task_named_is_not_published
_HOLE: Final = steps.test_a_batch_that_leaves_a_hole_is_refused_with_its_rows
_GONE: Final = steps.test_what_was_staged_and_is_gone_is_not_published_as_fewer_rows
_SEATS: Final = steps.test_seats_are_apart
_OVER: Final = steps.test_a_term_that_is_over_publishes_nothing_though_its_batch_would_follow
_TWICE: Final = steps.test_two_that_publish_a_batch_of_one_term_at_the_same_time_publish_it_once
_RANGES: Final = test_extents.test_whatever_ranges_come_no_offset_is_published_twice
_PUBLISHED: Final = pytest.fail.Exception
"""What `pytest.raises` ends with when nothing was refused."""
MUTANTS: Final = {
    "hole-is-published": Broken(
        "a batch of a stream follows whatever batch of its query came before",
        _hole_is_published,
        _HOLE,
        "sqlite",
        _PUBLISHED,
    ),
    "duplicate-is-published": Broken(
        "a batch that is the last one again is published again", _duplicate_is_published, _KILLED, "parquet"
    ),
    "number-is-enough": Broken(
        "a batch is dropped by its number, wherever it ends", _by_its_number_alone, _HOLE, "parquet", _PUBLISHED
    ),
    "lost-checkpoint-begins": Broken(
        "a query that begins anew follows another one", _lost_checkpoint_begins, _HOLE, "sqlite", _PUBLISHED
    ),
    "beginning-is-not-cut-off": Broken(
        "a range of offsets that begins before the end of the last one is published", _beginning_is_not_cut_off, _RANGES
    ),
    "smaller-range-is-published": Broken(
        "only the same range is dropped, and not one within what is published", _smaller_range_is_published, _RANGES
    ),
    "parts-share-a-name": Broken(
        "an attempt of a task writes under the name of another attempt",
        _parts_share_a_name,
        _LEFT,
        "sqlite",
        Incomplete,
    ),
    "moves-all-that-is-staged": Broken(
        "what is staged is published, whether a task has named it or not", _moves_all_that_is_staged, _LEFT, "sqlite"
    ),
    "fewer-rows-will-do": Broken(
        "moved rows are not compared with what the tasks have said", _fewer_rows_will_do, _GONE, "sqlite", _PUBLISHED
    ),
    "opened-without-a-sweep": Broken(
        "rows that earlier terms have staged stay in the table", _opened_without_a_sweep, _LEFT, "sqlite"
    ),
    "files-are-not-swept": Broken("files that earlier terms have staged stay", _files_are_not_swept, _LEFT, "parquet"),
    "sweeps-other-seats": Broken(
        "what other seats have staged is removed, too", _sweeps_other_seats, _SEATS, "sqlite", Incomplete
    ),
    "published-in-two-transactions": Broken(
        "rows are moved in one transaction, and the batch is written down in the next",
        _published_in_two_transactions,
        _KILLED,
        "sqlite",
    ),
    "listed-before-it-is-there": Broken(
        "the batch is written down in one transaction, and its rows are moved in the next",
        _listed_before_it_is_there,
        _KILLED,
        "sqlite",
    ),
    "lower-token-is-not-refused": Broken(
        "the fence of a database lets every token pass", _lower_token_is_not_refused, _OVER, "sqlite", _PUBLISHED
    ),
    "token-is-put-back": Broken(
        "a lower token takes the place of a higher one", _token_is_put_back, _OVER, "sqlite", _PUBLISHED
    ),
    "opened-without-raising-the-token": Broken(
        "a term shuts out earlier ones only with its first batch",
        _opened_without_raising_the_token,
        _OVER,
        "sqlite",
        _PUBLISHED,
    ),
    "published-without-the-fence": Broken(
        "the fence is asked when a term begins, and not in the transaction that publishes",
        _published_without_the_fence,
        _OVER,
        "sqlite",
        _PUBLISHED,
    ),
    "seats-share-a-last-batch": Broken(
        "what follows what is judged by the batches of all seats", _seats_share_a_last_batch, _SEATS, "sqlite"
    ),
    "forgets-in-a-term-that-is-over": Broken(
        "a term that is over may let the sink forget", _forgets_in_a_term_that_is_over, _OVER, "sqlite", _PUBLISHED
    ),
    "manifest-is-replaced": Broken(
        "a manifest is written over one of its number",
        files.manifest_is_replaced,
        _FROZEN,
        "parquet",
        FileNotFoundError,
    ),
    "manifest-is-made-after-a-look": Broken(
        "a manifest is looked for, and then written", files.manifest_is_written_after_a_look, _TWICE
    ),
    "judged-by-an-older-manifest": Broken(
        "a batch that was judged by one manifest is committed behind another", files.judged_by_an_older_manifest, _TWICE
    ),
    "lower-token-commits": Broken(
        "a manifest follows one of a higher token", files.lower_token_commits, _OVER, "parquet", _PUBLISHED
    ),
    "opened-without-a-manifest": Broken(
        "a term begins without a manifest of its own", files.opened_without_a_manifest, _OVER, "parquet", _PUBLISHED
    ),
    "opened-with-an-empty-manifest": Broken(
        "the manifest of a new term does not say which batch was the last",
        files.opened_with_an_empty_manifest,
        _KILLED,
        "parquet",
    ),
    "read-from-the-folder": Broken("readers list the folder", files.read_from_the_folder, _LEFT, "parquet"),
    "fewer-rows-of-files-will-do": Broken(
        "the files' rows are not compared with what the tasks have said",
        files.fewer_rows_of_files_will_do,
        _GONE,
        "parquet",
        _PUBLISHED,
    ),
    "delta-lower-token-commits": Broken(
        "a commit of a Delta table follows one of a higher token", delta.lower_token_commits, _OVER, "delta", _PUBLISHED
    ),
    "delta-commits-behind-whatever-there-is": Broken(
        "a batch that was judged by one version of a Delta table is committed behind another",
        delta.commits_behind_whatever_there_is,
        _FROZEN,
        "delta",
        ParesError,
    ),
    "delta-opened-without-a-commit": Broken(
        "a term begins without a commit of its own to the Delta table",
        delta.opened_without_a_commit,
        _OVER,
        "delta",
        _PUBLISHED,
    ),
    "delta-fewer-rows-will-do": Broken(
        "rows of a Delta table's new files are not compared with what the tasks have said",
        delta.fewer_rows_will_do,
        _GONE,
        "delta",
        _PUBLISHED,
    ),
    "delta-noted-beside-the-commit": Broken(
        "which batch was the last is written down after the commit to the Delta table, and not by it",
        delta.noted_beside_the_commit,
        _KILLED,
        "delta",
    ),
}
