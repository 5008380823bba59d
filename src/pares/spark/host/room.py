"""A disk that is full: said in words, with what to do, wherever something of pares' was to be written."""

from __future__ import annotations

import errno
import os
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
    except Exception as error:
        said = _said(error)
        if said is None:
            raise
        raise CapabilityError(f"there is no room left at {place} ({said}): make some, and {then}") from error


def _said(error: Exception) -> str | None:
    """What it says of a disk that is full; None if it is about something else."""
    if isinstance(error, OSError):
        return str(error) if error.errno in FULL else None
    if isinstance(error, sqlite3.Error):
        return str(error) if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL else None
    # What a task of Spark's has met stands among pages of Java.
    return next((why for why in map(os.strerror, FULL) if f"java.io.IOException: {why}" in str(error)), None)
