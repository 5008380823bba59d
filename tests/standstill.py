"""Processes that stand still, but not in the middle of a write: who has SQLite's write lock then keeps everybody out."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any


def stop(process: subprocess.Popen[Any]) -> None:
    """SIGSTOP for a child of this process; returns when it stands still."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def stop_between_writes(process: subprocess.Popen[Any], file: Path) -> None:
    """The same while it can't be writing into that SQLite file."""
    with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        stop(process)
        connection.execute("rollback")
