"""When an entry has no stamp: its writer's stopwatch is another one, unknown, or says what can't be."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

import pares.ledger
from pares.ledger import Ledger, Stamped
from pares.ledger.file.frame import RECORD, frame
from pares.ledger.local import stamp

pytestmark = pytest.mark.skipif(not stamp.SHARED, reason="there is no stopwatch that processes share")

APPEND = "import sys, pares.ledger; pares.ledger.open(sys.argv[1]).append(sys.argv[2].encode())"
KINDS = ("file", "sqlite")


def url(kind: str, folder: Path) -> str:
    return f"{kind}:///{folder}/ledger" if kind == "sqlite" else f"file://{folder}/ledger"


def stamps(ledger: Ledger) -> dict[bytes, int | None]:
    """What is said of each payload."""
    entries, found = cast(Stamped, ledger).read_stamped(0)
    return {entry.payload: stamp for entry, stamp in zip(entries, found, strict=True)}


def forge(kind: str, folder: Path, clock: bytes, at: int) -> None:
    """Append `forged`, or have it appended, with this stamp of a stopwatch of this name."""
    if kind == "file":
        (segment,) = (folder / "ledger" / "log" / "0").glob("*.log")
        with segment.open("ab") as file:
            file.write(frame(RECORD, [b"forged"], (0, 0), 1, at, clock, urgent=True).encoded())
        return
    with closing(pares.ledger.open(url(kind, folder))) as ledger:
        ledger.append(b"forged")
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('UPDATE stamps SET clock = ?, stopwatch_ns = ? "
        "WHERE id = (SELECT max(id) FROM stamps)', (bytes.fromhex(sys.argv[2]), int(sys.argv[3]))); c.commit()"
    )
    subprocess.run([sys.executable, "-c", program, str(folder / "ledger"), clock.hex(), str(at)], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_in_another_time_namespace(kind: str, tmp_path: Path) -> None:
    """Its stopwatch is shifted: what it says is not ours to compare, and the other way round."""
    apart = ["unshare", "--time", "--boottime", "1000", "--fork"]
    if os.geteuid() != 0:
        apart[1:1] = ["--user", "--map-root-user"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("no time namespaces may be made here")
    with closing(pares.ledger.open(url(kind, tmp_path))) as ledger:
        ledger.append(b"here")
        subprocess.run([*apart, sys.executable, "-c", APPEND, ledger.url, "there"], check=True)
        subprocess.run([sys.executable, "-c", APPEND, ledger.url, "beside"], check=True)
        found = stamps(ledger)
        assert found[b"there"] is None
        assert found[b"here"] is not None
        assert found[b"beside"] is not None
        # Its number may be that of the first, which is gone by now.
        apart[apart.index("1000")] = "2000"
        look = (
            "import sys, pares.ledger; entries, stamps = pares.ledger.open(sys.argv[1]).read_stamped(0); "
            "print([stamp is None for stamp in stamps])"
        )
        seen = subprocess.run(
            [*apart, sys.executable, "-c", look, ledger.url], check=True, capture_output=True, text=True
        )
        assert seen.stdout.strip() == "[True, True, True]", "a third namespace has a third stopwatch"
        apart[apart.index("2000")] = "1000"
        seen = subprocess.run(
            [*apart, sys.executable, "-c", look, ledger.url], check=True, capture_output=True, text=True
        )
        assert seen.stdout.strip() == "[True, False, True]", "one that is shifted as the first was has its stopwatch"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clock", [b"", b"\xff\x00\xfe", b"x" * 500, b"0123456789abcdef", stamp.NO_CLOCK])
def test_of_a_stopwatch_that_nobody_knows(kind: str, clock: bytes, tmp_path: Path) -> None:
    with closing(pares.ledger.open(url(kind, tmp_path))) as ledger:
        ledger.append(b"ours")
        forge(kind, tmp_path, clock, 5)
        found = stamps(ledger)
        assert found.pop(b"forged", None) is None
        assert found.keys() == {b"ours"}
        assert found[b"ours"] is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("says", "believed"),
    [
        (lambda now: now + 3600 * 10**9, False),
        (lambda now: now - 1, True),
        (lambda now: 0, False),
        (lambda now: -now, False),
    ],
    ids=["ahead", "before", "0", "negative"],
)
def test_ahead_of_the_readers_stopwatch(kind: str, says: Callable[[int], int], believed: bool, tmp_path: Path) -> None:
    """Nothing was written later than it was read. 0 and less is before the machine started."""
    forged = says(stamp.stopwatch())
    with closing(pares.ledger.open(url(kind, tmp_path))) as ledger:
        ledger.append(b"ours")
        forge(kind, tmp_path, stamp.clock(), forged)
        found = stamps(ledger)
        assert found[b"forged"] == (forged if believed else None)
        assert found[b"ours"] is not None


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_system_names_no_boot(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that both know no name may be on two machines for all they know."""
    with closing(pares.ledger.open(url(kind, tmp_path))) as ledger:
        ledger.append(b"known")
        monkeypatch.setattr(stamp, "boot_id", lambda: "")
        with closing(pares.ledger.open(url(kind, tmp_path))) as nameless:
            nameless.append(b"nameless")
            assert stamps(nameless) == {b"known": None, b"nameless": None}
        assert stamps(ledger)[b"known"] is not None
        assert stamps(ledger)[b"nameless"] is None


def test_a_shift_that_cannot_be_told_names_no_stopwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(error: Exception) -> Callable[[str], str]:
        def readlink(path: str) -> str:
            raise error

        return readlink

    if not stamp.boot_id():
        pytest.skip("the system names no boot")
    own = stamp.clock()
    monkeypatch.setattr(os, "readlink", refuse(PermissionError()))
    assert stamp.clock() == stamp.NO_CLOCK
    monkeypatch.setattr(os, "readlink", lambda path: path)
    assert stamp.clock() == stamp.NO_CLOCK, "this process is to have its children in another namespace"
    monkeypatch.setattr(os, "readlink", refuse(FileNotFoundError()))
    assert stamp.clock() not in (own, stamp.NO_CLOCK), "a kernel without such namespaces has one stopwatch a boot"


# SQLite: a database of release 0.1 ---------------------------------------------------------------------------------------

LAYOUT_1 = """
PRAGMA auto_vacuum=INCREMENTAL; PRAGMA application_id=1346458181; PRAGMA user_version=1;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE logs (log INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    first INTEGER NOT NULL DEFAULT 0, next INTEGER NOT NULL DEFAULT 0, UNIQUE (topic, partition));
CREATE TABLE entries (id INTEGER PRIMARY KEY, timestamp_ms INTEGER NOT NULL, payload BLOB NOT NULL);
INSERT INTO meta VALUES ('id', 'abcd'); INSERT INTO logs (topic, partition) VALUES ('', 0); PRAGMA journal_mode=WAL;
"""


class FirstRelease:
    """Appends and trims as release 0.1 does, in a process of its own, as SQLite's locks are a process'."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _do(self, program: str, *arguments: str) -> str:
        opening = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20); "
        done = subprocess.run(
            [sys.executable, "-c", opening + program, str(self._path), *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def begin(self) -> None:
        self._do("c.executescript(sys.argv[2])", LAYOUT_1)

    def append(self, payload: str) -> None:
        self._do(
            "c.execute('BEGIN IMMEDIATE'); (at,) = c.execute('SELECT next FROM logs WHERE log = 1').fetchone(); "
            "c.executemany('INSERT INTO entries VALUES (?, ?, ?)', [((1 << 40) + at, 0, sys.argv[2].encode())]); "
            "c.execute('UPDATE logs SET next = ? WHERE log = 1', (at + 1,)); c.execute('COMMIT')",
            payload,
        )

    def trim(self, before: int) -> None:
        self._do(
            "c.execute('DELETE FROM entries WHERE id < ?', ((1 << 40) + int(sys.argv[2]),)); "
            "c.execute('UPDATE logs SET first = ? WHERE log = 1', (int(sys.argv[2]),))",
            str(before),
        )

    def payloads(self) -> str:
        return self._do("print([bytes(p).decode() for _, _, p in c.execute('SELECT * FROM entries ORDER BY id')])")


def test_releases_without_and_with_stamps_share_a_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    first = FirstRelease(path)
    first.begin()
    first.append("old")
    with closing(pares.ledger.open(f"sqlite:///{path}?readonly=1")) as looker:
        assert stamps(looker) == {b"old": None}
        with closing(pares.ledger.open(f"sqlite:///{path}")) as ledger:
            assert stamps(ledger) == {b"old": None}
            ledger.append(b"new")
            first.append("old again")
            ledger.append(b"newer")
            found = stamps(ledger)
            assert [payload for payload, stamp in found.items() if stamp is None] == [b"old", b"old again"]
            assert stamps(looker) == found, "a handle that was open before the table was made sees it"
    assert first.payloads().strip() == "['old', 'new', 'old again', 'newer']", "rolled back"
    first.append("last")
    with closing(pares.ledger.open(f"sqlite:///{path}")) as ledger:
        assert [*stamps(ledger)] == [b"old", b"new", b"old again", b"newer", b"last"], "and forward"


def test_a_new_database_is_one_that_the_first_release_can_write(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    pares.ledger.open(f"sqlite:///{path}").close()
    FirstRelease(path).append("old")
    with closing(pares.ledger.open(f"sqlite:///{path}")) as ledger:
        assert stamps(ledger) == {b"old": None}


def test_stamps_of_what_the_first_release_trimmed_go_with_the_next_trim(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(pares.ledger.open(f"sqlite:///{path}")) as ledger:
        for number in range(12):
            ledger.append(b"%d" % number)
        FirstRelease(path).trim(5)
        ledger.trim(10)
        entries, found = cast(Stamped, ledger).read_stamped(10)
        assert [entry.payload for entry in entries] == [b"10", b"11"]
        assert None not in found
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM stamps").fetchone() == (2,)


def test_a_stamp_is_of_the_time_before_the_wait_for_the_write_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with closing(pares.ledger.open(f"sqlite:///{path}?busy_timeout=60")) as ledger:
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE'); "
            "print('held', flush=True); sys.stdin.readline()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        writer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                APPEND.replace(
                    "pares.ledger.open(sys.argv[1]).append(",
                    ("ledger = pares.ledger.open(sys.argv[1]); print('asks', flush=True); ledger.append("),
                ),
                ledger.url,
                "x",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "asks\n"
        time.sleep(0.3)  # for the writer to ask; if it is slower than that, the test has seen less, and still passes
        let_go = stamp.stopwatch()
        holder.communicate("\n", timeout=60)
        writer.communicate(timeout=60)
        found = stamps(ledger)[b"x"]
        assert found is not None
        assert found < let_go
