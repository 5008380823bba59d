"""What commands say, and how they end.

One rule for all of them: results go to standard output, everything else to standard error, so that `pares ... --json | jq`
always works. An error that pares raises on purpose is a sentence that says what to do; a traceback above it would only hide
it. Errors that pares does *not* foresee keep their traceback: those are defects, and their place is what one needs.
"""

from __future__ import annotations

import errno
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BROKEN: Final = 3
INTERRUPTED: Final = 130
"""What a shell reports for a process that Ctrl-C ended."""

EXTRAS: Final = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "pyarrow": "spark",
    "numpy": "spark",
    "confluent_kafka": "kafka",
    "deltalake": "delta",
    "nats": "nats",
    "psycopg": "postgres",
}
"""The extra that installs a module which may be missing."""

_PERMISSIONS: Final = "check who owns it, and how its disk is mounted"
_ROOM: Final = "make room on its disk"
FILE_TROUBLE: Final = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EROFS: _PERMISSIONS,
    errno.ENOTDIR: "check its path",
    errno.EISDIR: "check its path",
    errno.ENAMETOOLONG: "check its path",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
}
"""Errors of files that the user can mend, and what to do; any other error is a defect and keeps its traceback."""


def console(*, error: bool = False) -> Console:
    """A console on standard output (or error). Where that is no terminal, tables keep their width and lines don't wrap."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        return Console(stderr=error, highlight=False)
    return Console(stderr=error, highlight=False, width=200)


def print_json(data: Any, *, line: bool = False) -> None:
    """One JSON document (with `line`, on one line) on standard output."""
    text = json.dumps(data, ensure_ascii=False, indent=None if line else 2)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say(message: str) -> None:
    """A remark for people, on standard error."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def grid(*columns: str) -> Any:
    """A table with these columns; `:right` behind a title sets it to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        title, _, side = column.partition(":")
        table.add_column(title, justify="right" if side else "left", no_wrap=title != "why", overflow="ellipsis")
    return table


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def seconds(value: float | None) -> str:
    """A length of time, short enough for a column."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def clock(at_ms: int) -> str:
    """A wall-clock time, local, with the date where it is not today's."""
    from datetime import datetime

    at = datetime.fromtimestamp(at_ms / 1000)
    text = at.strftime("%H:%M:%S.") + f"{at_ms % 1000:03d}"
    return text if at.date() == datetime.now().date() else at.strftime("%Y-%m-%d ") + text


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns what pares raises on purpose into one line and an exit code."""
    from pares.core.errors import ConfigError, ParesError

    try:
        yield
    except ConfigError as error:
        say(f"pares: {_one_line(error)}")
        raise SystemExit(USAGE) from None
    except ParesError as error:
        say(f"pares: {_one_line(error)}")
        raise SystemExit(FAILED) from None
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        say(f"pares: this needs {error.name}, which is not installed; run: pip install 'pares[{extra}]'")
        raise SystemExit(FAILED) from None
    except OSError as error:
        if error.errno not in FILE_TROUBLE:
            raise
        advice = FILE_TROUBLE[error.errno]
        say(f"pares: {error.filename or 'a file'} can't be used: {error.strerror}; {advice}, or name another")
        raise SystemExit(FAILED) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _one_line(error: Exception) -> str:
    from pares.ledger.address import without_readonly

    return without_readonly(" ".join(str(error).split())) or type(error).__name__
