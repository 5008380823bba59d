"""An archive of Spark's classes, from which its JVM starts in a fraction of the time: class data sharing for applications.

A JVM loads and checks some ten thousand classes before it answers a first query. The first session of a kind has its JVM write
what it has loaded to a file in the user's cache as it ends, and later ones map that file.

Rules, each with what breaks without it:

* An archive is named by all that it depends on: the Java and the time at which that was installed, the folder of Spark's jars,
  pyspark's version, the collector. The JVM checks by itself that a file fits, and goes on without one that does not. [an
  update of Java under an archive that is never made anew]
* It is written under a name of its session's own, and takes its name only once the JVM has ended well. [a second session that
  maps half a file; two that write one]
* The JVM writes the head last, so a file with a head is whole. Its name says how long it is; one of another length is removed.
  [a JVM looks at the head of a file that was cut short, maps the rest, and dies of it]
* Nothing here is ever an error: without a folder that can be written, or with a Java that can't do it, the start takes as long
  as it took before. [an audit that fails for want of a cache]
* A writing that came to its end after its session had gone is adopted by the next start. [a slow machine writes an archive, and
  does not use it for a day]
* One session at a time is about to write it, and holds a lock for as long as it lives, or for a day. [a session that is killed,
  and all later ones start slowly for a day, as it looks as if it were still about to]
* A writing that did not come to its end is not tried again for a day. [each audit on a slow machine waits at its end for what
  it never gets]
* What no session has used for a month is removed when another archive is begun. [200 MB for each environment that there ever
  was]
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Final

from pares.spark.java import JavaHome

WRITING_SECONDS: Final = 30.0
"""How long the end of a session that writes an archive is waited for."""
_AGAIN_SECONDS: Final = 86_400.0
_UNUSED_SECONDS: Final = 30 * 86_400.0
_ENDING: Final = ".jsa"
_LOCK: Final = ".lock"
_DRAFT: Final = "-draft-"
_HEAD: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""What an archive of this kind begins with, in HotSpot, in the machine's own order of bytes."""


class Archive:
    """The archive for one kind of session: read if it is there, else written, if it can be."""

    def __init__(self, java: JavaHome, jars: Path, version: str) -> None:
        self.place: Path | None = None
        """The archive that is there."""
        self._draft: Path | None = None
        self._turn: _Turn | None = None
        with contextlib.suppress(OSError):
            from platformdirs import user_cache_path

            folder = user_cache_path("pares", appauthor=False)
            self._name = f"spark-{_kind(java, jars, version)}"
            self.place = _whole(folder, self._name) or _adopted(folder, self._name)
            if self.place is not None:
                os.utime(self.place)
            else:
                self._turn = _Turn.taken(folder / f"{self._name}{_LOCK}")
                if self._turn is not None:
                    _clear(folder)
                    self._draft = folder / f"{self._name}{_DRAFT}{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"

    @property
    def writing(self) -> bool:
        return self._draft is not None

    def option(self) -> str:
        """What the JVM is told; nothing where there is no archive to be had."""
        if self._draft is not None:
            return f' "-XX:ArchiveClassesAtExit={self._draft}"'
        return "" if self.place is None else f' "-XX:SharedArchiveFile={self.place}"'

    def ended(self, *, well: bool) -> None:
        """The JVM that was told to write it is gone; `well`: by itself, and with success."""
        if self._draft is None or self._turn is None:
            return
        draft, self._draft = self._draft, None
        whole = False
        with contextlib.suppress(OSError):
            whole = well and _has_head(draft)
            if whole:
                _named(draft, self._name)
        self._turn.over(in_vain=not whole)


class _Turn:
    """The right to write an archive: a file that is locked for as long as its process lives, unless that lets go of it."""

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def taken(cls, path: Path) -> _Turn | None:
        """None if another session has it, or has had it in vain, within a day."""
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        held = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = True
        except OSError:
            pass  # a folder of a network without locks: who writes at the same time does so under another name
        lately = 0 <= time.time() - os.fstat(file).st_mtime < _AGAIN_SECONDS
        if lately and (held or os.fstat(file).st_size > 0):
            os.close(file)
            return None
        os.ftruncate(file, 0)
        os.utime(file)
        return cls(file)

    def over(self, *, in_vain: bool) -> None:
        with contextlib.suppress(OSError):
            if in_vain:
                os.pwrite(self._file, b"in vain\n", 0)
                os.utime(self._file)
        os.close(self._file)


def _whole(folder: Path, name: str) -> Path | None:
    """The archive of that name that is as long as it says."""
    for path in folder.glob(f"{name}-[0-9]*{_ENDING}"):
        if path.stem.rpartition("-")[2] == str(path.stat().st_size) and _has_head(path):
            return path
        path.unlink()
    return None


def _adopted(folder: Path, name: str) -> Path | None:
    """A draft that came to its end when nobody waited for it any more. Those that never will are removed after a day."""
    for draft in folder.glob(f"{name}{_DRAFT}*{_ENDING}"):
        with contextlib.suppress(FileNotFoundError):
            if _has_head(draft):
                return _named(draft, name)
            if time.time() - draft.stat().st_mtime > _AGAIN_SECONDS:
                draft.unlink()
    return None


def _clear(folder: Path) -> None:
    """Removes what is unused."""
    for path in folder.glob("spark-*"):
        if path.suffix in (_ENDING, _LOCK):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                    path.unlink()


def _has_head(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_HEAD)) == _HEAD


def _named(draft: Path, name: str) -> Path:
    """Gives the draft the name of a whole archive, unless there is one by now."""
    there = _whole(draft.parent, name)
    if there is None:
        return draft.replace(draft.with_name(f"{name}-{draft.stat().st_size}{_ENDING}"))
    draft.unlink()
    return there


def _kind(java: JavaHome, jars: Path, version: str) -> str:
    binary, home = java.java.resolve(), java.home.resolve()
    told = (home, java.version, binary, binary.stat().st_mtime_ns, jars.resolve(), jars.stat().st_mtime_ns, version)
    return hashlib.sha256(repr(tuple(map(str, told))).encode()).hexdigest()[:16]
