"""Forks: the child inherits nothing that could harm the parent's ledger, and may open it anew."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from ledger_stages import SqliteStage, descriptors, in_child, integrity

import pares.ledger
from pares.core.errors import ForkedError
from pares.ledger.sqlite.log import SqliteLedger

HANG = 60.0


def append_some(url: str, name: str, count: int) -> None:
    with closing(pares.ledger.open(url)) as ledger:
        for number in range(count):
            ledger.append(f"{name} {number}".encode())


def test_a_child_opens_the_ledger_anew_while_the_parent_uses_it(sqlite: SqliteStage) -> None:
    """If the child shared SQLite's view of the locks, the parent's close would delete the log that the child writes."""
    for number in range(5):
        ledger = pares.ledger.open(sqlite.url)
        ledger.append(b"parent")
        child = multiprocessing.get_context("fork").Process(target=append_some, args=(sqlite.url, f"{number}", 200))
        child.start()
        ledger.append(b"parent")
        ledger.close()
        pares.ledger.open(sqlite.url).close()
        child.join(HANG)
        assert child.exitcode == 0
    with closing(pares.ledger.open(sqlite.url)) as ledger:
        found = ledger.read(0, max_records=5000)
        assert [entry.offset for entry in found] == list(range(5 * 202))
        for number in range(5):
            name = f"{number} ".encode()
            mine = [entry.payload for entry in found if entry.payload.startswith(name)]
            assert mine == [name + b"%d" % other for other in range(200)]
    assert integrity(sqlite.path) == "ok"


def test_forks_beside_busy_threads(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    ended = threading.Event()
    counts = [0, 0]
    errors: list[BaseException] = []

    def write(which: int) -> None:
        try:
            while not ended.is_set():
                ledger.append(b"%d" % which)
                ledger.read(ledger.end())
                counts[which] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()

    def child() -> None:
        with pytest.raises(ForkedError):
            ledger.append(b"x")
        append_some(sqlite.url, "child", 5)

    for _ in range(20):
        in_child(child)
    ended.set()
    for thread in threads:
        thread.join(HANG)
    assert not errors
    assert min(counts) > 0
    assert ledger.end() == sum(counts) + 20 * 5
    sqlite.close()
    assert integrity(sqlite.path) == "ok"


def test_a_fork_in_the_middle_of_a_transaction(sqlite: SqliteStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a signal handler: the connection can't be closed before the fork, so the child must keep off the file."""
    from pares.ledger.sqlite import connections

    monkeypatch.setattr(connections, "_FORK_PATIENCE", 0.05)
    ledger = sqlite.open()
    assert isinstance(ledger, SqliteLedger)

    def child() -> None:
        for _ in range(2):
            with pytest.raises(ForkedError, match="forked while its parent was using"):
                pares.ledger.open(sqlite.url)
        with closing(pares.ledger.open(f"sqlite:///{sqlite.folder}/another.db")) as another:
            assert another.append(b"x") == 0

    with ledger._file().transaction("append") as (_, connection):
        connection.execute("INSERT INTO entries VALUES ((1 << 40), 0, x'00')")
        connection.execute("UPDATE logs SET next = 1")
        in_child(child)
    assert ledger.append(b"y") == 1
    assert [entry.payload for entry in sqlite.open().read(0)] == [b"\0", b"y"]


def test_a_child_that_ends_as_usual_does_no_harm(sqlite: SqliteStage) -> None:
    """It runs exit handlers and frees every object, the inherited ones too."""
    ledger = sqlite.open()
    ledger.append(b"x")
    for _ in range(3):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0,))
        child.start()
        child.join(HANG)
        pid = os.fork()
        if pid == 0:
            del ledger
            os.execvp("true", ["true"])
        os.waitpid(pid, 0)
        assert ledger.append(b"x") > 0
    assert ledger.end() == 4
    assert sqlite.open().read(3)


def test_forks_leak_no_descriptors(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    ledger.append(b"x")
    before = descriptors()
    for _ in range(20):
        in_child(lambda: None)
        ledger.append(b"x")
        ledger.read(0)
    assert descriptors() <= before


NATIVE = """
import ctypes, os, sys
import pares.ledger
from pares.core.errors import ForkedError
ledger = pares.ledger.open(sys.argv[1])
ledger.append(b"x")
child = ctypes.PyDLL(None).fork()
if child == 0:
    noticed = 0
    try:
        for use in (lambda: ledger.append(b"y"), lambda: pares.ledger.open(sys.argv[1])):
            try:
                use()
            except ForkedError:
                noticed += 1
    finally:
        os._exit(noticed)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), ledger.append(b"y"))
"""


def test_native_forks_are_noticed(sqlite: SqliteStage) -> None:
    """A fork by a C library runs none of Python's hooks. In a process of its own, of one thread: nobody else's may hold the
    interpreter's lock at that fork, as nobody would let go of it in the child."""
    done = subprocess.run([sys.executable, "-c", NATIVE, sqlite.url], capture_output=True, text=True, timeout=HANG)
    assert done.stdout.split() == ["2", "1"], done.stderr
