"""Processes that stand still, but not in the middle of a write: who has SQLite's write lock then keeps everybody out."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any


def stop_between_writes(process: subprocess.Popen[Any], file: Path) -> None:
    """SIGSTOP for a child of this process while it can't be writing into that SQLite file; returns when it stands still."""
    with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        connection.execute("rollback")
