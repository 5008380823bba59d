"""Bells: that they ring, that nothing breaks when they are taken away, and that they leak nothing."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ledger_stages import SqliteStage, descriptors
from log_tools import HANG, rings

from pares.core.errors import ClosedError
from pares.ledger.bell import FileBell, PipeBell, make, ring


def test_a_pipe_bell_rings_until_cleared() -> None:
    bell = PipeBell()
    assert not rings(bell.fileno(), 0)
    bell.clear()
    for _ in range(100_000):
        bell.ring()
    assert rings(bell.fileno(), 0)
    bell.clear()
    assert not rings(bell.fileno(), 0)
    bell.close()
    bell.ring()
    with pytest.raises(ClosedError):
        bell.clear()


def test_a_file_bell_rings_for_each_write(tmp_path: Path) -> None:
    path = str(tmp_path / "bell")
    make(path)
    make(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    bell = FileBell(path, create=False)
    for _ in range(3):
        assert not rings(bell.fileno(), 0)
        ring(path)
        ring(path)
        assert rings(bell.fileno())
        bell.clear()
    bell.close()


def test_every_listener_hears_every_ring_however_many_nobody_has_read(tmp_path: Path) -> None:
    path = str(tmp_path / "bell")
    bells = [FileBell(path, create=True) for _ in range(3)]
    for number in range(200_000):  # a pipe holds 65,536 bytes
        ring(path)
        if number % 1000 == 0:
            for bell in bells:
                assert rings(bell.fileno(), 0), number
                bell.clear()
    for bell in bells:
        bell.close()


def test_who_comes_later_hears_only_what_is_rung_then(tmp_path: Path) -> None:
    path = str(tmp_path / "bell")
    early = FileBell(path, create=True)
    ring(path)
    late = FileBell(path, create=False)
    assert not rings(late.fileno(), 0)
    ring(path)
    assert rings(late.fileno())
    early.close()
    late.close()


def test_the_death_of_a_listener_silences_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "bell")
    bell = FileBell(path, create=True)
    code = "import sys, signal; from pares.ledger.bell import FileBell; b = FileBell(sys.argv[1], create=False);"
    code += "print(flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.communicate(timeout=HANG)
    bell.clear()
    ring(path)
    assert rings(bell.fileno())
    bell.close()


def test_what_is_no_pipe_is_no_bell(tmp_path: Path) -> None:
    before = descriptors()
    (tmp_path / "bell").write_bytes(b"mine")
    with pytest.raises(OSError, match="no named pipe"):
        FileBell(str(tmp_path / "bell"), create=True)
    assert descriptors() <= before


def test_without_a_file_there_is_no_bell_unless_it_may_be_made(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        FileBell(str(tmp_path / "bell"), create=False)
    assert descriptors() <= before
    FileBell(str(tmp_path / "bell"), create=True).close()
    assert (tmp_path / "bell").exists()


def test_ringing_never_raises(tmp_path: Path) -> None:
    ring(str(tmp_path / "absent" / "bell"))
    ring(str(tmp_path))
    make(str(tmp_path / "nobody-listens"))
    ring(str(tmp_path / "nobody-listens"))
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    ring(str(tmp_path / "link"))
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("how", ["delete", "rename", "replace"])
def test_a_file_bell_follows_its_path(tmp_path: Path, how: str) -> None:
    path = tmp_path / "bell"
    before = descriptors()
    bell = FileBell(str(path), create=True)
    for _ in range(3):
        if how == "delete":
            path.unlink()
        elif how == "rename":
            path.rename(tmp_path / "elsewhere")
        else:
            make(str(tmp_path / "other"))
            (tmp_path / "other").rename(path)
        bell.clear()
        assert not rings(bell.fileno(), 0)
        ring(str(path))
        assert rings(bell.fileno())
        bell.clear()
    bell.close()
    assert descriptors() <= before


def test_a_bell_whose_folder_is_gone_is_silent_until_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    bell = FileBell(str(folder / "bell"), create=True)
    (folder / "bell").unlink()
    folder.rmdir()
    bell.clear()
    bell.clear()
    assert not rings(bell.fileno(), 0)
    folder.mkdir()
    bell.clear()
    ring(str(folder / "bell"))
    assert rings(bell.fileno())
    bell.close()


def test_readers_go_on_when_the_bell_file_is_deleted(sqlite: SqliteStage) -> None:
    ledger, other = sqlite.open(), sqlite.open()
    bell_file = Path(f"{sqlite.path}-bell")
    for number in range(5):
        reader = threading.Timer(0.05, lambda: (bell_file.unlink(missing_ok=True), other.append(b"x")))
        reader.start()
        assert len(ledger.read(number, timeout=HANG)) == 1
        reader.join()
    assert bell_file.exists()


def test_readers_poll_where_there_is_no_bell(sqlite: SqliteStage) -> None:
    sqlite.open().append(b"x")
    bell_file = Path(f"{sqlite.path}-bell")
    bell_file.unlink()
    bell_file.symlink_to("absent")
    ledger, other = sqlite.open(), sqlite.open(readonly=True)
    assert ledger.bell() is None
    assert other.bell() is None
    timer = threading.Timer(0.1, ledger.append, [b"y"])
    timer.start()
    began = time.monotonic()
    assert len(other.read(1, timeout=HANG)) == 1
    assert time.monotonic() - began < HANG / 2
    timer.join()


def test_hundreds_of_bells_leak_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "bell")
    make(path)
    before = descriptors()
    for number in range(400):
        bell = FileBell(path, create=False)
        if number % 2:
            bell.close()
        del bell
    assert descriptors() <= before
