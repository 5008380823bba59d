"""Temporary folders: of this process, and what killed ones have left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pares.spark.host.folder import Folder, sweep, temporary

HOLDS = """
import sys
from pares.spark.host.folder import Folder
folder = Folder("of-", sys.argv[1])
(folder.path / "local").mkdir()
(folder.path / "local" / "rows").write_bytes(b"x" * 1000)
print(folder.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", HOLDS, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_killed_process_has_left_is_removed_and_what_lives_is_not(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, killed), holder(tmp_path) as (_, alive):
        process.send_signal(signal.SIGKILL)
        process.wait()
        sweep("other-", str(tmp_path))
        assert killed.exists(), "of another kind"
        sweep("of-", str(tmp_path))
        assert not killed.exists()
        assert (alive / "local" / "rows").exists()
    sweep("of-", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_was_forked_keeps_what_its_parent_held(tmp_path: Path) -> None:
    """It may be at work on it."""
    folder = Folder("of-", str(tmp_path))
    go, held = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        folder.remove()  # is the parent's
        os.close(go[1])
        os.write(held[1], b"y")
        os.read(go[0], 1)
        os._exit(0)
    os.read(held[0], 1)
    assert folder.path.exists()
    folder._close()  # pyright: ignore[reportPrivateUsage]
    sweep("of-", str(tmp_path))
    assert folder.path.exists()
    for end in (*go, *held):
        os.close(end)
    os.waitpid(child, 0)
    sweep("of-", str(tmp_path))
    assert not folder.path.exists()


def test_a_block_has_a_folder_and_removes_what_another_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holder(tmp_path) as (process, killed):
        process.kill()
        process.wait()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary("of-") as folder:
        assert list(tmp_path.iterdir()) == [folder]
        (folder / "some").mkdir()
    assert list(tmp_path.iterdir()) == []
    assert not killed.exists()


def test_what_is_left_for_a_person_stays(tmp_path: Path) -> None:
    folder = Folder("of-", str(tmp_path))
    (folder.path / "spark.log").write_text("out of luck")
    folder.leave()
    sweep("of-", str(tmp_path))
    assert (folder.path / "spark.log").read_text() == "out of luck"


def test_nothing_of_other_users_nor_behind_a_link_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir()
    mine.mkdir()
    (theirs / "held").touch()
    (theirs / "work").touch()
    (mine / "of-link").symlink_to(theirs)
    (mine / "of-linked").mkdir()
    (mine / "of-linked" / "held").symlink_to(theirs / "held")
    (mine / "of-file").touch()
    sweep("of-", str(mine))
    assert (theirs / "work").exists()
    assert (mine / "of-linked").exists()
    folder = Folder("of-", str(mine))
    folder._close()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(os, "getuid", lambda: folder.path.stat().st_uid + 1)
    sweep("of-", str(mine))
    assert folder.path.exists()
    monkeypatch.undo()
    sweep("of-", str(mine))
    assert not folder.path.exists()


def test_where_nothing_can_be_locked_nothing_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuses(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuses)
    folder = Folder("of-", str(tmp_path))
    assert list(folder.path.iterdir()) == []
    monkeypatch.undo()
    sweep("of-", str(tmp_path))
    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()
