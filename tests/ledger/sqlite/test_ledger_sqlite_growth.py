"""Files stay small: the write-ahead log under constant readers, and the database after trims."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger_stages import SqliteStage, integrity

import pares.ledger.sqlite.log
from pares.core.errors import LedgerUnavailable
from pares.ledger import Ledger

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
    # 8000 appends write 100 MB to it, were it never begun anew; a reader that waits for a processor in the middle of a read
    # keeps it from that for so long.
    assert largest < 48 << 20


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


@pytest.fixture
def many(sqlite: SqliteStage) -> Ledger:
    """200,000 entries, which take many slices to trim."""
    ledger = sqlite.impatient()
    for _ in range(20):
        ledger.append_many([b"x" * 200] * 10_000)
    return ledger


def at_each_rest(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Has it done wherever a trim rests."""

    def rest(seconds: float) -> None:
        what()
        time.sleep(seconds)

    monkeypatch.setattr(
        pares.ledger.sqlite.log, "time", SimpleNamespace(monotonic=time.monotonic, time_ns=time.time_ns, sleep=rest)
    )


def test_trimming_lets_others_write_in_between(
    sqlite: SqliteStage, many: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, starts = sqlite.impatient(), [0]

    def write() -> None:
        starts.append(many.start())
        other.append(b"beat")

    at_each_rest(monkeypatch, write)
    many.trim(200_000)
    between = [start for start in starts if 0 < start < 200_000]
    assert len(between) > 3
    assert max(after - before for before, after in pairwise([*between, 200_000])) < 100_000
    assert many.start() == 200_000
    assert many.end() == 200_000 + len(starts) - 1


def test_writers_of_other_threads_get_on_while_one_trims(sqlite: SqliteStage, many: Ledger) -> None:
    writer = sqlite.open()
    trimming = threading.Thread(target=sqlite.open().trim, args=(200_000,))
    trimming.start()
    written = 0
    while trimming.is_alive() or not written:
        writer.append(b"beat")
        written += 1
    trimming.join()
    assert (many.start(), many.end()) == (200_000, 200_000 + written)


def test_a_trim_that_was_cut_short_is_seen_in_start(
    sqlite: SqliteStage, many: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else comes in its first rest, and stays."""
    with ExitStack() as stack:
        with monkeypatch.context() as patch:
            at_each_rest(patch, lambda: stack.enter_context(sqlite.outage()))
            with pytest.raises(LedgerUnavailable):
                many.trim(200_000)
        start = many.start()
        assert 0 < start < 200_000
        assert many.read(start)[0].offset == start
    many.trim(200_000)
    assert many.start() == 200_000


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
