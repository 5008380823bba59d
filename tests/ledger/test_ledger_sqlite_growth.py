"""Files stay small: the write-ahead log under constant readers, and the database after trims."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from ledger_stages import SqliteStage, integrity

READER = """
import sys
import pares.ledger
ledger = pares.ledger.open(sys.argv[1])
print("ready", flush=True)
position = 0
while True:
    for entry in ledger.read(position):
        position = entry.offset + 1
        if entry.payload == b"end":
            sys.exit()
"""


@pytest.mark.processes
def test_constant_readers_do_not_let_the_write_ahead_log_grow(sqlite: SqliteStage) -> None:
    ledger = sqlite.open(synchronous="normal")
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, sqlite.url], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    log = Path(f"{sqlite.path}-wal")
    largest = 0
    for _ in range(8000):
        ledger.append(b"x" * 1000)
        largest = max(largest, log.stat().st_size)
    ledger.append(b"end")
    for reader in readers:
        assert reader.wait(60) == 0
        assert reader.stdout is not None
        reader.stdout.close()
    # 8000 appends write 100 MB to it, were it never begun anew.
    assert largest < 24 << 20


def test_a_log_that_is_trimmed_as_it_grows_stays_small(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    for _ in range(60):
        ledger.append_many([b"x" * 1000] * 500)
        ledger.trim(ledger.end() - 500)
    assert sqlite.path.stat().st_size < 4 << 20


def test_a_burst_is_given_back_to_the_file_system(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    for _ in range(20):
        ledger.append_many([b"x" * 2000] * 1000)
    ledger.close()
    assert sqlite.path.stat().st_size > 40_000_000
    ledger = sqlite.open()
    ledger.trim(19_990)
    ledger.close()
    assert sqlite.path.stat().st_size < 6_000_000
    assert integrity(sqlite.path) == "ok"
    assert len(sqlite.open().read(19_990)) == 10
    assert sqlite.open().append(b"x") == 20_000


def test_trimming_lets_others_write_in_between(sqlite: SqliteStage) -> None:
    ledger = sqlite.open()
    for _ in range(20):
        ledger.append_many([b"x" * 200] * 10_000)
    trimming = threading.Thread(target=sqlite.open().trim, args=(200_000,))
    trimming.start()
    between = 0
    while trimming.is_alive():
        ledger.append(b"beat")
        between += 1
        time.sleep(0)
    trimming.join()
    assert between > 10
    assert ledger.start() == 200_000


def test_a_trim_that_was_cut_short_is_seen_in_start(sqlite: SqliteStage) -> None:
    ledger = sqlite.impatient()
    for _ in range(20):
        ledger.append_many([b"x" * 200] * 10_000)
    stopped: list[BaseException] = []

    def trim() -> None:
        try:
            ledger.trim(200_000)
        except BaseException as error:
            stopped.append(error)

    trimming = threading.Thread(target=trim)
    trimming.start()
    while ledger.start() == 0:
        pass
    with sqlite.outage():
        trimming.join()
    assert len(stopped) == 1
    start = ledger.start()
    assert 0 < start < 200_000
    assert ledger.read(start)[0].offset == start
    ledger.trim(200_000)
    assert ledger.start() == 200_000


def test_a_read_that_stops_early_holds_nothing(sqlite: SqliteStage) -> None:
    """Else its snapshot would keep the write-ahead log from being begun anew."""
    ledger = sqlite.open()
    for _ in range(20):
        ledger.append(b"x" * (1 << 20))
    assert len(ledger.read(0)) < 20
    assert len(ledger.read(0, max_records=3)) == 3
    ledger.append(b"later")
    with closing(sqlite3.connect(sqlite.path)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
