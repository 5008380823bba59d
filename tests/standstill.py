"""Processes that stand still: not in the middle of a write, as whoever has SQLite's write lock keeps everybody out; or just
where they have another of its locks."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 60.0


def stop(process: subprocess.Popen[Any]) -> None:
    """SIGSTOP for a child of this process; returns when it stands still."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def _alone(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("begin immediate")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def stop_between_writes(process: subprocess.Popen[Any], file: Path) -> None:
    """The same while it can't be writing into that SQLite file."""
    with contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        end = time.monotonic() + PATIENCE
        while not _alone(connection):
            assert time.monotonic() < end, f"{file} is never free"
            # SQLite's own patience looks ten times a second: members that write all the time would come first.
            time.sleep(0.0005)
        stop(process)
        connection.execute("rollback")


_WITH_THE_INDEX: Final = """
import fcntl, os, signal, sys
index = open(sys.argv[1], "r+b")
fcntl.lockf(index, fcntl.LOCK_EX, 5, 123)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def stopped_with_the_index(file: Path) -> subprocess.Popen[bytes]:
    """A process that stands still where it has, as anybody has for a moment, the locks by which one begins to read that SQLite
    file (five bytes of the shared index). It ends when it goes on."""
    process = subprocess.Popen([sys.executable, "-c", _WITH_THE_INDEX, f"{file}-shm"])
    os.waitpid(process.pid, os.WUNTRACED)
    return process
