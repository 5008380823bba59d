"""Temporary folders of this process, and those that killed ones have left.

A process that is killed, by a person or for want of memory, removes nothing; one that is started again and again would fill the
disk. [1.7 GB of one audit] So each folder is held for as long as its process lives, by a lock on a file in it, and the next
process of the same user removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_HELD: Final = "held"
"""The file that is locked. It is there only when it is, and goes last, so that whoever ends in between leaves a folder that can
be told for what it is."""


class Folder:
    """A new one, where `within` says, or where programs put what is temporary."""

    def __init__(self, prefix: str, within: str | None = None) -> None:
        self.path: Final = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
        self._by: Final = os.getpid()
        self._file = _locked(self.path)

    def remove(self) -> None:
        """With all that is in it; not by a forked child, as it is its parent's."""
        if os.getpid() == self._by:
            _remove(self.path)
            self._close()

    def leave(self) -> None:
        """For a person to look at: nobody removes it."""
        (self.path / _HELD).unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextmanager
def temporary(prefix: str) -> Generator[Path, None, None]:
    """A folder for as long as the block lasts. Those that were left under this prefix are removed."""
    sweep(prefix)
    folder = Folder(prefix)
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep(prefix: str, within: str | None = None) -> None:
    """Removes those that this user's killed processes have left there. What can't be removed stays."""
    for folder in Path(within or tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            _sweep(folder)


def _sweep(folder: Path) -> None:
    """Raises `OSError` for one that is held, or none of ours."""
    what = folder.lstat()
    if what.st_uid != os.getuid() or not stat.S_ISDIR(what.st_mode):
        return  # another user's, or a link to who knows where
    file = os.open(folder / _HELD, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(file)


def _locked(folder: Path) -> int | None:
    """None where files can't be locked: then nobody can tell whether a folder is in use, and nobody removes it."""
    draft = folder / f"{_HELD}.draft"
    file = os.open(draft, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(folder / _HELD)
    except OSError:
        os.close(file)
        draft.unlink(missing_ok=True)
        return None
    return file


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for found in os.scandir(folder):
            if found.is_dir(follow_symlinks=False):
                shutil.rmtree(found.path, ignore_errors=True)
            elif found.name != _HELD:
                os.unlink(found.path)
    shutil.rmtree(folder, ignore_errors=True)
