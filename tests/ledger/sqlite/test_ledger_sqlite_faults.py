"""Writers that hang, are killed, or find the disk full: an append happened or it raised, and nothing is half there."""

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger_stages import SqliteStage, in_child, integrity, start_writer

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.ledger import Ledger
from pares.ledger.sqlite import front
from pares.ledger.sqlite.errors import unavailable
from standstill import stopped_with_the_index

HANG = 60.0
IN_TRANSACTION = """
import sys, time
import pares.ledger
ledger = pares.ledger.open(sys.argv[1])
ledger.append(b"before")
with ledger._file().transaction("append") as (side, connection):
    connection.execute("INSERT INTO entries VALUES ((1 << 40) + 1, 0, x'00')")
    connection.execute("UPDATE logs SET next = 2 WHERE log = 1")
    print("inside", flush=True)
    time.sleep(600)
"""
"""A process that stays in the middle of an append for ever."""


def read_payloads(ledger: Ledger) -> list[bytes]:
    found: list[bytes] = []
    while entries := ledger.read(len(found)):
        found += [entry.payload for entry in entries]
    return found


@pytest.mark.processes
@pytest.mark.parametrize("frozen", [False, True])
def test_a_writer_that_hangs_in_its_transaction_and_is_killed(sqlite: SqliteStage, frozen: bool) -> None:
    ledger = sqlite.open(busy_timeout=0.1)
    writer = subprocess.Popen([sys.executable, "-c", IN_TRANSACTION, sqlite.url], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "inside\n"
    if frozen:
        writer.send_signal(signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(LedgerUnavailable, match="frozen") as caught:
            ledger.append(b"x")
        assert caught.value.unknown is False
    assert read_payloads(ledger) == [b"before"]
    waiting = threading.Thread(target=lambda: sqlite.open(busy_timeout=60).append(b"waited"))
    waiting.start()
    writer.kill()
    writer.wait()
    writer.stdout.close()
    waiting.join(30)
    assert not waiting.is_alive()
    assert ledger.append(b"after") == 2
    assert read_payloads(ledger) == [b"before", b"waited", b"after"]
    assert integrity_after(sqlite, ledger) == "ok"


def integrity_after(sqlite: SqliteStage, ledger: Ledger) -> str:
    ledger.close()
    sqlite.close()
    return integrity(sqlite.path)


def test_waiting_ends_soon_after_the_lock_is_free(sqlite: SqliteStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it has waited, it looks again within a millisecond or so. SQLite's own waiting, with up to 100 ms between
    two looks, has no part in it."""
    ledger = sqlite.open(busy_timeout=HANG)
    pauses: list[float] = []
    often = threading.Event()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= 300:
            often.set()
        sleep(seconds)

    sleep = time.sleep
    monkeypatch.setattr(front, "time", SimpleNamespace(sleep=pause))
    with closing(sqlite3.connect(sqlite.path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=ledger.append, args=[b"x"])
        waiting.start()
        assert often.wait(HANG), "it does not look again by itself"
        holder.execute("ROLLBACK")
        before = len(pauses)
    waiting.join(HANG)
    assert ledger.end() == 1
    assert max(pauses) <= 0.002
    assert len(pauses) <= before + 1, "the look after that found the lock free"


@pytest.mark.processes
def test_kill_9_of_writers(sqlite: SqliteStage) -> None:
    """Ten rounds of three writers killed at random moments: what they printed is there, once, in order; nothing is torn."""
    ledger = sqlite.open()
    given: dict[str, list[int]] = {}
    for number in range(10):
        writers = {f"{number}/{which}": start_writer(sqlite.url, f"{number}/{which}", 100_000) for which in range(3)}
        for writer in writers.values():
            assert writer.stdout is not None
            assert writer.stdin is not None
            assert writer.stdout.readline() == "ready\n"
            writer.stdin.write("go\n")
            writer.stdin.flush()
        time.sleep(random.uniform(0.02, 0.1))
        for writer in writers.values():
            writer.kill()
        for name, writer in writers.items():
            output, _ = writer.communicate()
            given[name] = [int(line) for line in output.split("\n")[:-1]]
        assert ledger.append(b"still alive") >= 0
    found = read_payloads(ledger)
    assert len(found) == ledger.end()
    for name, offsets in given.items():
        written = [number for number, payload in enumerate(found) if payload.startswith(f"{name} ".encode())]
        assert [found[offset] for offset in written] == [f"{name} {number}".encode() for number in range(len(written))]
        # The last one may have been written and not yet printed.
        assert written[: len(offsets)] == offsets
        assert len(written) <= len(offsets) + 1
    assert sum(map(len, given.values())) > 0
    assert integrity_after(sqlite, ledger) == "ok"


def test_a_full_disk(sqlite: SqliteStage) -> None:
    """The limit on file size stands in for the disk: the write is refused the same way, and it needs no privileges."""
    sqlite.open().append(b"first")

    def child() -> None:
        ledger = pares.ledger.open(sqlite.url)
        written = [b"first"]
        for _ in range(3):
            room = max(sqlite.path.stat().st_size, Path(f"{sqlite.path}-wal").stat().st_size) + 200_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            failures: list[LedgerUnavailable] = []
            while len(failures) < 5:
                batch = [os.urandom(3000) for _ in range(random.randrange(1, 20))]
                try:
                    ledger.append_many(batch)
                    written += batch
                except LedgerUnavailable as error:
                    failures.append(error)
                assert ledger.end() == len(written)
            assert not any(error.unknown for error in failures)
            assert all("disk" in str(error) for error in failures)
            assert read_payloads(ledger) == written
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert ledger.append(b"room again") == len(written)
            written.append(b"room again")
        assert read_payloads(ledger) == written
        ledger.close()

    in_child(child)
    ledger = sqlite.open()
    assert read_payloads(ledger).count(b"room again") == 3
    assert integrity_after(sqlite, ledger) == "ok"


def test_no_room_to_make_a_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        with pytest.raises(LedgerUnavailable, match="make the ledger"):
            pares.ledger.open(url)

    in_child(child)
    assert not (tmp_path / "ledger.db").exists()
    with closing(pares.ledger.open(url)) as ledger:
        assert ledger.append(b"x") == 0


def test_no_descriptors_left(sqlite: SqliteStage) -> None:
    def child() -> None:
        ledger = pares.ledger.open(sqlite.url)
        ledger.append(b"x")
        # Several, as what an earlier test has left open may take the number right behind the first one's.
        used = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(used) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/dev/null", os.O_RDONLY)
        assert ledger.append(b"y") == 1
        assert ledger.bell() is None
        assert len(ledger.read(0)) == 2
        assert ledger.read(2, timeout=0.02) == []
        with pytest.raises(LedgerUnavailable, match="can't be opened"):
            pares.ledger.open(sqlite.url)
        for descriptor in used:
            os.close(descriptor)
        pares.ledger.open(sqlite.url).close()
        ledger.close()

    sqlite.open()
    in_child(child)


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("SQLITE_BUSY", False),
        ("SQLITE_PROTOCOL", False),
        ("SQLITE_FULL", False),
        ("SQLITE_READONLY", False),
        ("SQLITE_IOERR_WRITE", False),
        ("SQLITE_IOERR_FSYNC", True),
        ("SQLITE_IOERR_SHMMAP", True),
        ("SQLITE_NOMEM", True),
        ("SQLITE_CORRUPT", True),
    ],
)
def test_what_a_failed_commit_means(name: str, unknown: bool) -> None:
    """A sync that fails can't be arranged without a broken disk; the reading of SQLite's codes is tested by itself."""
    error = sqlite3.OperationalError("some text")
    error.sqlite_errorcode = int(getattr(sqlite3, name))
    error.sqlite_errorname = name
    assert unavailable(error, "x.db", "append", at_commit=True).unknown is unknown
    assert unavailable(error, "x.db", "append").unknown is False
    text = str(unavailable(error, "x.db", "append", at_commit=True))
    assert name in text
    assert ("unknown" in text) is unknown


@pytest.mark.processes
def test_a_process_that_is_frozen_with_the_index_is_told_of(sqlite: SqliteStage) -> None:
    """SQLite waits for it by itself, some ten seconds, and then calls it a matter of protocol."""
    ledger = sqlite.open(busy_timeout=0.1)
    ledger.append(b"before")
    holder = stopped_with_the_index(sqlite.path)
    with pytest.raises(LedgerUnavailable, match="may be frozen") as caught:
        ledger.append(b"x")
    assert caught.value.unknown is False
    holder.send_signal(signal.SIGCONT)
    assert holder.wait(HANG) == 0
    assert ledger.append(b"after") == 1


def test_an_interrupted_append_leaves_a_usable_ledger(sqlite: SqliteStage) -> None:
    """Ctrl-C at any moment of an append. In a child, which a signal that comes late may then hit."""

    def child() -> None:
        ledger = pares.ledger.open(sqlite.url)
        interrupted = 0
        for _ in range(40):
            timer = threading.Timer(random.uniform(0.0, 0.004), lambda: os.kill(os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    ledger.append(b"x")
            except KeyboardInterrupt:
                interrupted += 1
            timer.join()
        assert interrupted == 40
        ledger.append(b"last")
        assert len(read_payloads(ledger)) == ledger.end()
        ledger.close()

    in_child(child)
    assert read_payloads(sqlite.open())[-1] == b"last"
