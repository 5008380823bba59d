"""Writers that wait for the write lock: a few at the front, and none that can keep the others from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

from log_tools import HANG, payloads
from sqlite_tools import open_file

from pares.ledger.bell import make
from pares.ledger.sqlite import front
from pares.ledger.sqlite.front import PLACES, Front

AT_THE_FRONT = """
import sys
from pares.ledger.sqlite.front import Front, PLACES
fronts = [Front(sys.argv[1]) for _ in range(PLACES)]
for each in fronts:
    each.pause()
print("there", flush=True)
sys.stdin.readline()
"""


def occupied(bell: Path) -> subprocess.Popen[str]:
    """A process that has all places."""
    process = subprocess.Popen(
        [sys.executable, "-c", AT_THE_FRONT, str(bell)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def free(bell: Path) -> int:
    """How many places can be had."""
    fronts = [Front(str(bell)) for _ in range(PLACES + 1)]
    try:
        return sum(each._take() for each in fronts)  # pyright: ignore[reportPrivateUsage]
    finally:
        for each in fronts:
            each.leave()


def test_there_are_so_many_places_and_they_come_back(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    assert free(bell) == 0, "where there is no bell"
    make(str(bell))
    for _ in range(3):
        assert free(bell) == PLACES
    process = occupied(bell)
    assert free(bell) == 0
    process.kill()
    process.communicate()
    assert free(bell) == PLACES, "of a process that died"


def test_a_place_is_given_up_although_a_fork_has_copied_it(tmp_path: Path) -> None:
    bell = tmp_path / "bell"
    make(str(bell))
    held = Front(str(bell))
    held.pause()
    go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go[0], 1)
        os._exit(0)
    try:
        assert free(bell) == PLACES - 1
        held.leave()
        assert free(bell) == PLACES
    finally:
        os.write(go[1], b"!")
        os.waitpid(child, 0)
        for descriptor in go:
            os.close(descriptor)


def test_writers_get_on_though_all_places_are_lost(tmp_path: Path) -> None:
    """A process that was stopped there has them all: who waits for the lock tries more rarely, and gets it."""
    path = tmp_path / "ledger.db"
    with closing(open_file(path, busy_timeout=HANG)) as ledger:
        stopped = occupied(Path(f"{path}-bell"))
        stopped.send_signal(signal.SIGSTOP)
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE'); "
            "print('held', flush=True); sys.stdin.readline()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        writers = [threading.Thread(target=ledger.append, args=(b"x",)) for _ in range(3)]
        for writer in writers:
            writer.start()
        writers[0].join(4 * front.RARELY)
        assert payloads(ledger) == [], "the lock is held"
        holder.communicate("\n", timeout=HANG)
        for writer in writers:
            writer.join(HANG)
        assert payloads(ledger) == [b"x"] * 3
        stopped.kill()
        stopped.communicate()
