"""The few things that are done to a history's folder, each of which is done whole or not at all.

The folder is on a file system that all workers see: a local disk for a Spark of one host, a shared mount for others. Links must
work there (`create`), as they do on local file systems and on NFS.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DRAFT = ".draft-"
"""How the names of files and folders begin that are no part of a history yet."""


@contextmanager
def draft(folder: Path) -> Iterator[Path]:
    """A file in the folder to be written and then moved, by one of the functions below; what is left of it is removed."""
    make(folder)
    descriptor, name = tempfile.mkstemp(prefix=DRAFT, dir=folder)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """A folder within `root` for what several tasks hand to each other; it is removed with all that is in it."""
    make(root)
    folder = Path(tempfile.mkdtemp(prefix=DRAFT, dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(draft: Path, place: Path) -> None:
    """Puts the draft in its place; if there is one already, it is replaced, and was the same."""
    _sync(draft)
    os.replace(draft, place)
    _sync(place.parent)


def create(draft: Path, place: Path) -> bool:
    """Puts the draft in its place unless there is something. Of all that try at once, one gets True."""
    _sync(draft)
    try:
        os.link(draft, place)
    except FileExistsError:
        # A file server that did it, and whose answer was lost, is asked again and finds the link that it has made.
        if not os.path.samefile(draft, place):
            return False
    _sync(place.parent)
    return True


def make(folder: Path) -> None:
    """A folder that stays: a power cut must not take away one in which files have been synced."""
    if not folder.is_dir():
        make(folder.parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
