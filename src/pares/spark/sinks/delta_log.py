"""The log of a Delta table, by delta-rs, as far as a sink needs it: a snapshot, and a commit right behind it or none.

Each version of a table is a file of its log that is created only if it is not there. delta-rs, left alone, does not take a
commit that came first for a reason to fail: it looks whether the two get in each other's way, which appends never do, and
tries the next number. What was judged by a snapshot would then stand behind one that nobody has judged. So a commit here has
no retries: its number is the snapshot's and one more, and it fails if that is taken, by whomever and with whatever.

A commit carries numbers under names of the application's (`txn` actions), of which a table keeps the last of each name for
good, whatever becomes of its old log files. delta-rs hands back the last, and refuses no lower one: that is the caller's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from errno import ENOSPC
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import CapabilityError, ConfigError
from pares.fence.file import sync
from pares.spark.host.room import FULL

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

log: Final = logging.getLogger("pares.spark.delta")

LOG: Final = "_delta_log"
"""In a table's folder: where Delta keeps its log."""
INFO: Final = "pares"
"""In the information of a commit: what it was, for people and for `DeltaSink.published`."""
_LOWEST: Final = (1, 6)
"""Before, a commit lost its application's numbers without a word."""
_HARMLESS: Final = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns"),
        *("timestampNtz", "deletionVectors", "columnMapping", "vacuumProtocolCheck", "v2Checkpoint"),
    }
)
"""Features of a table that ask nothing of one who adds files, unless its settings or columns say that they are in use."""
_SETTINGS: Final = ("delta.constraints.", "delta.columnMapping.mode", "delta.setTransactionRetentionDuration")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m|\u21b3")
_COLUMNS: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.")


def check_installed() -> None:
    """Raises `CapabilityError` without deltalake, or with one that is too old."""
    try:
        found = version("deltalake")
        import deltalake  # noqa: F401
    except (PackageNotFoundError, ImportError) as error:
        raise CapabilityError(f"deltalake is not installed here ({error}): pip install 'pares[delta]'") from None
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if numbers < _LOWEST:
        raise CapabilityError(f"deltalake {found} is too old: pip install 'pares[delta]' brings one from 1.6 on")


class DeltaLog:
    """The log of the table in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def snapshot(self) -> DeltaTable:
        """The table as it is now. Raises `ConfigError` where there is none, or one to which files can't just be added."""
        from deltalake.exceptions import TableNotFoundError

        try:
            table = self.table()
        except TableNotFoundError:
            raise ConfigError(
                f"{self.folder} is no Delta table: make it before, with the query's columns (deltalake.DeltaTable.create, or "
                "CREATE TABLE ... USING delta)"
            ) from None
        _check(table, self.folder)
        return table

    def table(self) -> DeltaTable:
        """The table as it is now, whatever it asks of its writers. Raises what delta-rs raises."""
        from deltalake import DeltaTable

        return DeltaTable(str(self.folder))

    def create(self, fields: pa.Schema, settings: Mapping[str, str]) -> None:
        """Makes a table without rows in the folder, which is there, unless another one has just made it. It is on disk when
        this returns. Raises what delta-rs raises."""
        from deltalake import CommitProperties, DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        place, name = str(self.folder), self.folder.name
        # Of two that make it at once, delta-rs has the later one try again, and make it over the first one's.
        once = CommitProperties(max_commit_retries=0)
        try:
            schema = Schema.from_arrow(fields)
            DeltaTable.create(place, schema, "error", name=name, configuration=settings, commit_properties=once)
        except DeltaError as error:
            if not DeltaTable.is_deltatable(place):
                raise _of_the_system(error) from error
        except Exception as error:
            raise _of_the_system(error) from error
        self._sync(0)
        sync(self.folder)

    def commit(
        self, table: DeltaTable, adds: list[AddAction], numbers: Mapping[str, int], info: str, fields: pa.Schema | None
    ) -> bool:
        """Commits right behind the snapshot `table`: files that are added, the application's numbers by their names, and what
        is said about it. False: another commit is there by now, and this one is not. The columns of the files are `fields`;
        None: there are no files.

        The commit is on disk when this returns. Raises what delta-rs raises, if the commit is not there then: behind it
        delta-rs may still make a checkpoint of the log, and fail by that.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        if fields is not None and not fields.equals(columns(table)):
            raise ConfigError(
                f"{self.folder} has other columns by now than when the batch was staged: start the query again"
            )
        properties = CommitProperties(
            custom_metadata={INFO: info},
            max_commit_retries=0,
            app_transactions=[Transaction(name, number) for name, number in numbers.items()],
        )
        try:
            table.create_write_transaction([*adds], "append", table.schema(), commit_properties=properties)
        except CommitFailedError:
            if self.snapshot().version() == table.version():
                raise  # nobody else has committed: it has failed by itself
            return False
        except Exception as error:
            if not self._has(numbers):
                raise _of_the_system(error) from error
            log.warning("the commit to %s is there, though delta-rs says %s", self.folder, error)
        self._sync(table.version() + 1)
        return True

    def _has(self, numbers: Mapping[str, int]) -> bool:
        table = self.table()
        return all(table.transaction_version(name) == number for name, number in numbers.items())

    def _sync(self, number: int) -> None:
        """A commit, and that it is there. [a power cut leaves its file empty, and nobody reads the table any more]"""
        log = self.folder / LOG
        for path in (log / f"{number:020d}.json", log):
            sync(path)

    def without_logged(self, names: Iterable[str]) -> set[str]:
        """Those of these file names that the log has never had, as far as its files go back."""
        left = set(names)
        for file in (self.folder / LOG).glob("*.json"):
            if not left:
                break
            try:
                text = file.read_text("utf-8")
            except FileNotFoundError:
                continue  # an old one, which was just removed
            left = {name for name in left if name not in text}
        return left


def columns(table: DeltaTable) -> pa.Schema:
    """The columns of a table, as its files have them."""
    import pyarrow as pa

    found: Any = table.schema().to_arrow()
    return pa.schema(found).remove_metadata()


def _check(table: DeltaTable, folder: Path) -> None:
    data, text = table.metadata(), table.schema().to_json()
    if data.partition_columns:
        raise ConfigError(
            f"the Delta table {folder} is partitioned by {', '.join(data.partition_columns)}: a sink writes to tables without "
            "partitions; cluster it, or partition it by a job behind the sink"
        )
    settings = [
        name for name, value in data.configuration.items() if name.startswith(_SETTINGS) and value not in ("none", None)
    ]
    features = set(table.protocol().writer_features or ()) - _HARMLESS
    found = [*settings, *(name for name in _COLUMNS if f'"{name}' in text), *sorted(features)]
    if found:
        raise ConfigError(
            f"the Delta table {folder} asks of its writers what a sink does not do ({', '.join(found)}): use a table without it"
        )


def _of_the_system(error: Exception) -> Exception:
    """Of a full disk there is only what delta-rs said, in several lines and colours."""
    if any(f"(os error {number})" in str(error) for number in FULL):
        return OSError(ENOSPC, " ".join(_COLOURS.sub("", str(error)).split()))
    return error
