"""R7, proof of death: the operating system itself says that a process is gone.

Silence proves nothing, so without more a group must wait a whole session before it takes a silent member's seats. On
one host there is a witness: a member holds an flock on a file of its own for as long as it lives, and the kernel gives
the lock up when the last process that has the open file is gone, however it went. A process that gets that very lock knows.

What "that very lock" takes, and what breaks without it:

- The lock is taken before the file has its final name, and the file is named in the log only after that. [Somebody
  could 'prove' the death of a member that is just starting.]
- The same boot, the same device and inode, the member's id as content, no symbolic link, and after the lock was
  obtained the path must still lead to that inode. [Another file under the same name, or another file with a number
  used again, is nobody's lock.] A file that is missing proves nothing.
- flock, never POSIX record locks: those vanish when *any* descriptor of the file is closed in the process.
- A forked child closes its copy and never unlocks it: unlocking acts on the open file, which it shares with its parent.
  [The parent would look dead.] A child that keeps it (one that `pares run` starts, on purpose) is covered by the proof.
- Only local file systems. [Over a network, locks are emulated, get lost with a server, and know nothing of `boot`.]

A lock is probed by taking it. Members hold theirs exclusively and provers probe with a shared one, which is to be had if
and only if nobody holds it exclusively: so any number of provers, woken by one death, see it at once. [With exclusive
probes one in two failed, and tried again a millisecond later.] Only who removes a file takes it exclusively, for some
microseconds: a failed attempt says "not now", never "alive". A prover unlocks in so many words, because a process forked
in that moment shares its open file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from pathlib import Path
from typing import Final, Protocol

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import Lock
from pares.ledger.local.mounts import is_local
from pares.ledger.local.stamp import boot_id
from pares.ledger.weak_set import WeakBag
from pares.runtime.death import evidence
from pares.runtime.death.evidence import SUFFIX, Found

UNNAMED: Final = ".taking"
"""A lock file that has not got its final name yet."""
MAX_CONTENT: Final = 2048
STALE_AFTER: Final = 3600.0
"""Seconds for which a file must have been known as a dead member's before `sweep` removes it: long beyond every
session."""
_MAX_INFO: Final = 4096
_LIVING: Final = 0o600
_FOUND_DEAD: Final = 0o400


class Inherited(Protocol):
    """Something that has descriptors which a forked child must close."""

    def close_in_child(self) -> None: ...


class _Forks:
    """One handler for all locks and watches of the process, which it knows by weak references only.

    Code that opens a descriptor and enters it here does both under `guard`, and a fork waits for it: so no child is born
    with a descriptor that nobody knows of.
    """

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self._known: WeakBag[Inherited] = WeakBag()
        os.register_at_fork(before=self.guard.acquire, after_in_parent=self.guard.release, after_in_child=self._child)

    def add(self, holder: Inherited) -> None:
        self._known.add(holder)

    def _child(self) -> None:
        for holder in self._known:
            holder.close_in_child()
        self._known.clear()
        self.guard.release()


forks: Final = _Forks()


class DeathLock:
    """A member's lock on its own life.

    Promised: from before `take` returns until the process (and every process that was given `descriptor`) is gone or
    `release` is called, `prove` is False for everybody. After the process is gone, it becomes True at once, whatever
    ended it. Not promised: that death can be proven at all. A child forked behind Python's back keeps the lock alive,
    and a file that somebody removes proves nothing; then only silence decides.
    """

    def __init__(self, path: Path, member: str, descriptor: int) -> None:
        self.path = path
        self.member = member
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self.statement: Final = Lock(
            boot=boot_id(), device=str(found.st_dev), inode=str(found.st_ino), file=path.name, pid=os.getpid()
        )
        """What the member's `join` says about this lock."""
        self._told = _has_lock(descriptor)
        """Whether the kernel tells which open file has a lock."""

    @classmethod
    def take(cls, folder: Path, member: str) -> DeathLock:
        """The lock of `member`, on a new file in `folder`, which is made (for its owner only) when it is missing.

        Raises `CapabilityError` where locks can't prove anything (a network file system, no boot id) and `ConfigError`
        when the folder can't be used.
        """
        content = member.encode()
        if not member or len(content) > MAX_CONTENT:
            raise ConfigError(f"a member id has 1 to {MAX_CONTENT} bytes, this one has {len(content)}: {member[:60]!r}")
        try:
            check_place(folder)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / (os.urandom(16).hex() + SUFFIX)
            with forks.guard:
                lock = cls(path, member, _create(path, content))
                forks.add(lock)
        except OSError as error:
            raise ConfigError(
                f"no lock file can be made in {folder}: {error.strerror or error}; name a folder that can be written"
            ) from error
        return lock

    @property
    def descriptor(self) -> int:
        """The open file. A process that inherits it (`pass_fds`) is covered by the proof. -1 after `release` or a
        fork."""
        return self._descriptor

    def lost(self, *, thoroughly: bool = True) -> str:
        """Why this lock no longer speaks for this process, so that others may "prove" its death while it lives (A3); "" while
        all is well. Code that closes "all" descriptors closes this one too, and its number is soon another file's.

        The lock belongs to the open file, not to the number and not to the path: so the descriptor is looked at, whether it is
        still that file. `thoroughly`: also whether that open file has the lock, which the kernel tells (Linux) and which costs
        some ten microseconds; somebody who has the same open file may have unlocked it.
        """
        if self._descriptor < 0:
            return "it was given up"
        try:
            found = os.fstat(self._descriptor)
        except OSError:
            return f"its descriptor {self._descriptor} was closed"
        if (str(found.st_dev), str(found.st_ino)) != (self.statement.device, self.statement.inode):
            return f"its descriptor {self._descriptor} was closed, and is another file now"
        if thoroughly and self._told and not _has_lock(self._descriptor):
            return (
                f"its descriptor {self._descriptor} has the lock no longer: it was unlocked, or closed and opened again"
            )
        return ""

    def release(self) -> None:
        """Gives the lock up and removes its file; for a member that has left. May be called twice, and in a forked
        child."""
        with forks.guard:
            if self._descriptor < 0:
                return
            # Removed while it is still locked: afterwards a prover could take it for a death, or for a file of its own.
            _remove(self.path, self._descriptor)
            self.close_in_child()

    def abandon(self) -> None:
        """Its member is over without having left: let go, but the file stays, so that others can prove the death."""
        with forks.guard:
            self.close_in_child()

    def close_in_child(self) -> None:
        if self._descriptor >= 0:
            if not self.lost(thoroughly=False):  # or it would close what is somebody else's by now
                os.close(self._descriptor)
            self._descriptor = -1


class Candidate:
    """A lock file that was found to be the one that a member stated, held open so that it can be tried again and again.

    Not safe for several threads at once.
    """

    def __init__(self, path: Path, member: str, statement: Lock, descriptor: int) -> None:
        self._path = path
        self._member = member
        self._statement = statement
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, member: str, statement: Lock) -> Candidate | None:
        """None when there is no such file (here, since this boot, of this member): then nothing can be proven."""
        if not evidence.is_here(statement, boot_id()):
            return None
        path = folder / statement.file
        try:
            # O_NONBLOCK: a pipe in the place of the file must not stop the reader.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            with forks.guard:
                candidate = cls(path, member, statement, os.open(path, flags))
                forks.add(candidate)
        except (OSError, ValueError):  # ValueError: a NUL in the name
            return None
        if evidence.is_stated(candidate._found(), member, statement):
            return candidate
        candidate.close()
        return None

    def attempt(self, *, remove: bool = False) -> bool:
        """True: the member's process is gone for good. False: not proven, now. Never waits. `remove` as in `forget`."""
        if self._descriptor < 0:
            return False
        free = _lock(self._descriptor, shared=not remove)
        try:
            stated = evidence.is_stated(self._found(), self._member, self._statement)
            proven = evidence.proves(free=free, stated=stated, there=is_at(self._path, self._descriptor))
            if proven and remove:
                _remove(self._path, self._descriptor)
            return proven
        finally:
            if free:
                _unlock(self._descriptor)

    @property
    def descriptor(self) -> int:
        """Of the open file, for whatever is to say when others close it; -1 when it was closed here."""
        return self._descriptor

    def close(self) -> None:
        with forks.guard:
            self.close_in_child()

    def close_in_child(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _found(self) -> Found | None:
        try:
            found = os.fstat(self._descriptor)
            if not stat.S_ISREG(found.st_mode):
                return Found(False, "", "", b"")
            content = os.pread(self._descriptor, MAX_CONTENT + 1, 0)
        except OSError:
            return None
        return Found(True, str(found.st_dev), str(found.st_ino), content)


def prove(folder: Path, member: str, statement: Lock) -> bool:
    """Whether `member`, whose `join` stated this lock, is gone for good. One attempt, which never waits.

    Promised: True means that every process that had the lock has ended. False means nothing but "not proven now": the
    member lives, its file is gone, or somebody is just removing it; ask again shortly.
    """
    return _attempt(folder, member, statement, remove=False)


def forget(folder: Path, member: str, statement: Lock) -> bool:
    """Removes the lock file of `member` if it is proven dead: for a member that has proven it *and* written the obituary.

    Whether it was removed. A member whose file is gone can no longer be proven dead by anybody.
    """
    return _attempt(folder, member, statement, remove=True)


def _attempt(folder: Path, member: str, statement: Lock, *, remove: bool) -> bool:
    candidate = Candidate.open(folder, member, statement)
    if candidate is None:
        return False
    try:
        return candidate.attempt(remove=remove)
    finally:
        candidate.close()


def anybody(folder: Path) -> bool:
    """Whether any process holds a lock of a member in `folder`."""
    try:
        paths = [folder / entry.name for entry in os.scandir(folder) if entry.name.endswith((SUFFIX, UNNAMED))]
    except OSError:
        return False
    return any(_is_held(path) for path in paths)


def _is_held(path: Path) -> bool:
    try:
        with forks.guard:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        free = _lock(descriptor, shared=True)
        if free:
            _unlock(descriptor)
        return not free
    finally:
        os.close(descriptor)


def sweep(folder: Path, older: float = STALE_AFTER) -> int:
    """Removes the files of members that have been known as dead for `older` seconds. How many it removed.

    A file's age says nothing: its member may have lived for months and died just now, and its file is what proves
    that. So the first sweep that gets a file's lock marks it as a dead member's (its mode), and only a later one,
    `older` seconds after the mark, removes it.
    """
    removed = 0
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return 0
    for name in names:
        if name.endswith((SUFFIX, UNNAMED)):
            removed += _sweep_one(folder / name, older)
    return removed


def _sweep_one(path: Path, older: float) -> bool:
    try:
        with forks.guard:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not _lock(descriptor):
            return False
        try:
            if not is_at(path, descriptor):
                return False
            if stat.S_IMODE(found.st_mode) != _FOUND_DEAD:
                os.fchmod(descriptor, _FOUND_DEAD)  # also sets st_ctime: the time of the mark
                return False
            return time.time() - found.st_ctime >= older and _remove(path, descriptor)
        finally:
            _unlock(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether `path` itself (no link) is the open file."""
    try:
        there, here = os.stat(path, follow_symlinks=False), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def check_place(folder: Path) -> None:
    """Raises `CapabilityError` where no lock in `folder` can prove anything."""
    if not boot_id():
        raise CapabilityError("this system has no boot id, so no lock can prove a death here; go on without proof")
    if not is_local(folder):
        raise CapabilityError(
            f"{folder} is not known to be on a local file system, and elsewhere a lock proves nothing; name a folder on a "
            "local disk, or go on without proof of death"
        )


def _create(path: Path, content: bytes) -> int:
    """A new file at `path`, locked before it got that name. It is renamed, not linked: not every file system has links,
    and the random part of the name has it that nothing is overwritten."""
    unnamed = path.with_suffix(UNNAMED)
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _LIVING)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # nobody but a sweep can have it, and that for microseconds
        os.fchmod(descriptor, _LIVING)  # in case that sweep has marked it
        os.write(descriptor, content)
        os.rename(unnamed, path)
        if not is_at(path, descriptor):
            raise OSError(f"{path} was replaced while it was made")
        return descriptor
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(unnamed)
        raise


def _remove(path: Path, descriptor: int) -> bool:
    """Unlinks `path` if it still is the open file, whose lock the caller has."""
    if not is_at(path, descriptor):
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _has_lock(descriptor: int) -> bool:
    """Whether the kernel says that this open file has an flock; False if it can't be asked."""
    return shows_lock(f"/proc/self/fdinfo/{descriptor}")


def shows_lock(info: str) -> bool:
    """Whether this `fdinfo` of the kernel's is of an open file that has an flock; False if it can't be read."""
    try:
        # A file object costs four times as much, and this is asked before each beat.
        descriptor = os.open(info, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        text = os.read(descriptor, _MAX_INFO)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return any(line.startswith(b"lock:") and b"FLOCK" in line for line in text.splitlines())


def _unlock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
