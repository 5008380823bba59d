"""A disk that is full: said in words, with what to do, wherever something of pares' was to be written."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def room(place: str | Path, then: str) -> Generator[None, None, None]:
    """Raises `CapabilityError` where there is no room for what is written at `place`: make some, and `then`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not _full(error):
            raise
        raise CapabilityError(f"there is no room left at {place} ({error}): make some, and {then}") from error


def _full(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
