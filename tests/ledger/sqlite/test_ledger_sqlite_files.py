"""The file of a SQLite ledger: how it is made, what is refused, and that nothing foreign is ever written to."""

import errno
import fcntl
import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from ledger_stages import as_ordinary_user, integrity
from sqlite_tools import open_file, refused

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.sqlite import schema
from pares.ledger.sqlite.log import SqliteLedger
from pares.ledger.sqlite.schema import inspect


def contents(folder: Path) -> dict[str, str]:
    """Names and hashes of all files, by a process of its own: closing a file here would drop this process' locks."""
    program = "import sys, pathlib, hashlib; " + (
        "[print(hashlib.sha256(p.read_bytes()).hexdigest(), p) for p in pathlib.Path(sys.argv[1]).rglob('*') if p.is_file()]"
    )
    output = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in output.stdout.splitlines())}


def test_makes_file_and_folder_for_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b c" / "ledger.db"
    ledger = pares.ledger.open(f"sqlite:///{tmp_path}/a/b%20c/ledger.db?create=1")
    ledger.append(b"x")
    assert sorted(os.listdir(path.parent)) == ["ledger.db", "ledger.db-bell", "ledger.db-shm", "ledger.db-wal"]
    for name in os.listdir(path.parent):
        assert stat.S_IMODE(os.stat(path.parent / name).st_mode) == 0o600
    assert ledger.place == path.parent / "ledger.db-locks"
    ledger.close()
    assert integrity(path) == "ok"
    assert "create" not in ledger.url, "what it is reached by from now on, and not how it came to be"


def test_a_mistyped_folder_is_no_second_world(tmp_path: Path) -> None:
    path = tmp_path / "typo" / "deeper" / "ledger.db"
    refused(path, ConfigError, f"there is no folder {path.parent} for the ledger")
    refused(path, ConfigError, "create=1")
    with pytest.raises(ConfigError, match=r"there is no folder .*--create"):
        pares.Member(f"sqlite:///{path}", group="g", roles=["A"])
    assert os.listdir(tmp_path) == []
    refused(path, ConfigError, "leave one of them out", create=True, readonly=True)
    assert os.listdir(tmp_path) == []
    with pares.Member(f"sqlite:///{path}", group="g", roles=["A"], options={"create": True}) as me:
        assert me.wait("A", 60)
    with closing(open_file(path)) as ledger:
        assert ledger.end() > 0


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nothing_is_open_to_others_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Not even under a umask that takes nothing away: what a member leaves in the ledger's folder is its user's alone."""
    program = (
        "import os, pathlib, stat, sys, pares\n"
        "os.umask(int(sys.argv[2]))\n"
        "with pares.Member(f'sqlite:///{sys.argv[1]}', group='g', roles=['A'], session=5) as me:\n"
        "    assert me.wait('A', 60)\n"
        "    for path in sorted(pathlib.Path(sys.argv[1]).parent.rglob('*')):\n"
        "        print(path.name, oct(stat.S_IMODE(path.lstat().st_mode)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "work.db"), str(umask)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    modes = dict(line.split() for line in ran.stdout.splitlines())
    locks = [name for name in modes if name.endswith(".alive")]
    assert len(locks) == 1
    assert modes.pop("work.db-locks") == "0o700"
    assert modes == dict.fromkeys(["work.db", "work.db-bell", "work.db-shm", "work.db-wal", *locks], "0o600")


def test_files_that_others_may_write_are_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = open_file(path)
    assert isinstance(ledger, SqliteLedger)
    ledger.append(b"x")
    assert [level for level, _ in ledger.checks()] == ["good"]
    os.chmod(f"{path}-wal", 0o620)
    ((level, text),) = ledger.checks()
    assert (level, f"{path}-wal (0620)" in text, "chmod g-w" in text) == ("note", True, True)
    for name in (f"{path}", f"{path}-wal", f"{path}-shm", f"{path}-bell"):
        before = stat.S_IMODE(os.stat(name).st_mode)
        os.chmod(name, 0o602)
        text = dict(ledger.checks())["warning"]
        assert f"{name} (0602)" in text
        assert "chmod o-w" in text
        os.chmod(name, before)
    os.chmod(f"{path}-wal", 0o600)
    os.mkdir(f"{path}-locks", 0o700)
    os.chmod(f"{path}-locks", 0o777)
    assert f"{path}-locks (0777)" in dict(ledger.checks())["warning"]
    os.chmod(f"{path}-locks", 0o700)
    os.chmod(tmp_path, 0o777)
    assert f"the folder {tmp_path} (0777)" in dict(ledger.checks())["warning"]
    os.chmod(tmp_path, 0o1777)
    assert [level for level, _ in ledger.checks()] == ["good"], "as /tmp is: only a file's owner can replace it"
    os.unlink(f"{path}-bell")
    os.symlink("elsewhere", f"{path}-bell")
    assert "is a symbolic link" in dict(ledger.checks())["problem"]
    os.chmod(tmp_path, 0o700)
    ledger.close()


def test_a_file_of_many_makers_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    start = threading.Barrier(8)
    identities: list[str] = []

    def make() -> None:
        start.wait()
        with closing(open_file(path)) as ledger:
            identities.append(ledger.identity())
            ledger.append(b"x")

    makers = [threading.Thread(target=make) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(identities) == 8
    assert len(set(identities)) == 1
    with closing(open_file(path)) as ledger:
        assert ledger.end() == 8


def test_what_a_killed_maker_left_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for name in ("-new", "-new-journal", "-wal", "-shm"):
        Path(f"{path}{name}").write_bytes(b"rubbish" * 1000)
    with closing(open_file(path)) as ledger:
        assert ledger.append(b"x") == 0
    assert sorted(os.listdir(tmp_path)) == ["ledger.db", "ledger.db-bell"]
    assert integrity(path) == "ok"


def test_what_is_not_on_the_disk_yet_is_not_to_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it is brought there once, before it gets its name: not by SQLite, time and again while others wait."""
    path = tmp_path / "ledger.db"
    sync = os.fsync

    def broken(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    refused(path, LedgerUnavailable, "can't be made now: Input/output error")
    assert not path.exists()
    monkeypatch.setattr(os, "fsync", sync)
    with closing(open_file(path)) as ledger:
        assert ledger.append(b"x") == 0
    assert integrity(path) == "ok"


def test_whoever_waits_for_a_maker_goes_on_when_it_is_through_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    with (tmp_path / "ledger.db-bell").open("w") as maker:
        fcntl.flock(maker, fcntl.LOCK_EX)
        with monkeypatch.context() as patch:
            patch.setattr(schema, "_CREATION_PATIENCE", 0.1)
            refused(path, LedgerUnavailable, "being made by another process for over 0.1 s: look for a stopped process")
        waiting = threading.Thread(target=lambda: open_file(path).close())
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert not path.exists()
    waiting.join(60)
    assert integrity(path) == "ok"


@pytest.mark.parametrize("content", [b"x", b"this is no database\n" * 500, bytes(8192)])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    before = contents(tmp_path)
    for readonly in (False, True):
        refused(path, ConfigError, "is no SQLite database; it was left as it is", readonly=readonly)
    assert contents(tmp_path) == before


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    refused(path, ConfigError, "is an empty file")
    assert os.listdir(tmp_path) == ["empty.db"]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_somebody_elses_database_is_left_alone(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as app:
        app.execute(f"PRAGMA journal_mode={mode}")
        app.execute("CREATE TABLE users (name)")
        app.execute("PRAGMA user_version=1")
    before = contents(tmp_path)
    for readonly in (False, True):
        refused(path, ConfigError, "but no pares ledger (its application_id is 0x0", readonly=readonly)
    assert contents(tmp_path) == before


def test_somebody_elses_locks_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as app:
        app.execute("CREATE TABLE users (name)")
        app.execute("BEGIN EXCLUSIVE")
        refused(path, ConfigError, "but no pares ledger")
        program = (
            "import sys, sqlite3; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None); "
            "c.execute('BEGIN IMMEDIATE')"
        )
        other = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
        assert "database is locked" in other.stderr
        app.execute("ROLLBACK")


def test_a_ledger_of_a_newer_layout(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_file(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=2")
    before = contents(tmp_path)
    for readonly in (False, True):
        refused(
            path, CapabilityError, "layout 2, made by a newer pares; this one knows layouts up to 1", readonly=readonly
        )
    assert contents(tmp_path) == before


def test_a_file_in_the_middle_of_a_checkpoint_is_not_damaged(tmp_path: Path) -> None:
    """Its first page counts pages that are not in the file yet; a moment later they are."""
    path = tmp_path / "ledger.db"
    with closing(open_file(path)) as ledger:
        ledger.append_many([b"x" * 300] * 500)
    whole = path.read_bytes()
    assert len(whole) > 100_000
    path.write_bytes(whole[:4096])
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.DatabaseError, match="malformed"):
        connection.execute("PRAGMA application_id")

    def finish() -> None:
        with path.open("ab") as file:
            file.write(whole[4096:])

    checkpoint = threading.Timer(0.3, finish)
    checkpoint.start()
    inspect(str(path))
    checkpoint.join()
    with closing(open_file(path)) as ledger:
        assert len(ledger.read(0)) == 500


def test_a_damaged_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_file(path)) as ledger:
        ledger.append_many([b"x" * 300] * 500)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))

    def use() -> None:
        with closing(open_file(path)) as ledger:
            ledger.read(0)

    with pytest.raises(LedgerUnavailable, match="is damaged"):
        use()


def test_paths_that_can_not_be_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(tmp_path, ConfigError, "is a folder")
    refused(tmp_path / "file" / "ledger.db", ConfigError, "Not a directory")
    refused(tmp_path / ("x" * 300), ConfigError, "File name too long")
    in_proc = Path("/proc/pares/ledger.db")
    refused(in_proc, ConfigError, "there is no folder /proc/pares for the ledger /proc/pares/ledger.db")
    refused(in_proc, ConfigError, "the folder /proc/pares for /proc/pares/ledger.db can't be made", create=True)
    refused(Path("/proc/ledger.db"), ConfigError, "can't be")
    refused(Path("/dev/null"), ConfigError, "is no regular file")
    refused(tmp_path / "absent.db", ConfigError, "readonly makes nothing", readonly=True)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    def attempt() -> None:
        refused(tmp_path / "ledger.db", ConfigError, f"the folder {tmp_path} can't be written by this process")
        refused(tmp_path / "more" / "ledger.db", ConfigError, f"the folder {tmp_path / 'more'} for", create=True)

    tmp_path.chmod(0o500)
    try:
        as_ordinary_user(attempt)
    finally:
        tmp_path.chmod(0o700)
    assert os.listdir(tmp_path) == []


def test_links_lead_to_one_ledger(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with closing(open_file(tmp_path / "real" / "x.db")) as one, closing(open_file(tmp_path / "link" / "x.db")) as two:
        assert one.url == two.url
        assert one.identity() == two.identity()
        bell = two.bell()
        assert bell is not None
        bell.clear()
        one.append(b"x")
        bell.clear()
        bell.close()


def test_hashes_are_of_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    assert contents(tmp_path) == {str(tmp_path / "x"): hashlib.sha256(b"x").hexdigest()}
