"""The folder of a ledger: what tells it from another folder, and from another ledger.

    ledger                what it is, its id, and how many partitions it was made with, as JSON
    log/0/, log/1/, ...   a folder of segments for each partition in which something was written
    log/partitions-4      there are four now; the greatest number counts
    topics/NAME/          a topic, with `topic` in the place of `ledger`, and its partitions
    bell                  a named pipe that is rung after each append (`pares.ledger.bell`)
    locks/                the lock files of members (R7)

A mark (`ledger`, `topic`) is written whole under another name and then linked to its place. So no process sees half of one, and
of two processes that begin a ledger at once, one finds the other's. All else is made when a process needs it, and making it
twice does no harm: a process that is killed or frozen in between leaves nothing that stops others.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from hashlib import sha256
from typing import Final
from urllib.parse import quote

import msgspec

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.file.segment import unavailable

LAYOUT: Final = 1
"""The newest layout that this code reads and writes."""
LEDGER, TOPIC = "ledger", "topic"
WHAT: Final = "file ledger"
_GROWN: Final = re.compile(r"partitions-(\d+)")
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_MAX_MARK: Final = 64 * 1024
RECENT: Final = 50_000_000
"""Nanoseconds after a change of a file or folder in which another might bear the same time."""
_HALF_MADE: Final = 2.0
"""Seconds that a mark may be empty, where there are no hard links and it is written in its place."""
_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in a mark."""

    pares: str
    layout: int
    id: str
    partitions: int
    topic: str = ""


class Home:
    """The folder of one log: of the ledger's own, or of a topic."""

    def __init__(self, root: str, topic: str) -> None:
        self.root = root
        self.topic = topic
        if topic:
            self.mark = f"{root}/topics/{_safe(topic)}/{TOPIC}"
            self.folder = os.path.dirname(self.mark)
        else:
            self.mark, self.folder = f"{root}/{LEDGER}", f"{root}/log"
        self.mode = 0o600
        """The mode of new files: that of the mark, so that sharing a ledger with a Unix group takes one change of a mode."""
        self._known: tuple[tuple[int, int, int], Mark] | None = None

    def look(self) -> tuple[Mark, str]:
        """What stands in the mark, and which log it is. Raises `LedgerUnavailable` if it is gone."""
        try:
            found = os.stat(self.mark)
            # With the time, as a file that is made anew may be given the inode that the deleted one had.
            file = (found.st_dev, found.st_ino, found.st_ctime_ns)
            known = self._known
            if known is None or known[0] != file or abs(time.time_ns() - file[2]) < RECENT:
                self.mode = stat.S_IMODE(found.st_mode) & 0o666
                known = self._known = (file, read_mark(self.mark))
        except FileNotFoundError as error:
            what = (
                "it was deleted, or begun anew; ask the ledger for it again"
                if self.topic
                else "put it back, or open it anew"
            )
            raise LedgerUnavailable(f"{self.mark} is gone: {what}") from error
        except ConfigError as error:
            raise LedgerUnavailable(f"{self.mark} was replaced by something else: {error}") from error
        except OSError as error:
            raise unavailable(error, self.mark, "look at the ledger") from error
        mark = known[1]
        return mark, f"{mark.id}:{file[0]}:{file[1]}"

    def partitions(self) -> int:
        """How many there are."""
        mark, _ = self.look()
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise unavailable(error, self.folder, "count the partitions") from error
        return max([mark.partitions, *(int(found[1]) for name in names if (found := _GROWN.fullmatch(name)))])

    def grow(self, partitions: int) -> None:
        """There are so many from now on, if there were fewer."""
        try:
            self.make_folder(self.folder)
            self._close(
                os.open(f"{self.folder}/partitions-{partitions}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, self.mode)
            )
            sync_folder(self.folder)
        except OSError as error:
            raise unavailable(error, self.folder, "add partitions") from error

    def _close(self, descriptor: int) -> None:
        try:
            os.fchmod(descriptor, self.mode)
        finally:
            os.close(descriptor)

    def make_folder(self, folder: str) -> None:
        """Make this folder, below the ledger's own, and those above it, and bring their names to the disk. Raises `OSError`."""
        if os.path.isdir(folder):
            return
        above = os.path.dirname(folder)
        if above != self.root:
            self.make_folder(above)
        mode = self.mode | (self.mode & 0o444) >> 2 | os.stat(above).st_mode & stat.S_ISGID
        try:
            os.mkdir(folder, mode)
            os.chmod(folder, mode)
        except FileExistsError:
            pass
        sync_folder(above)

    def there(self) -> bool:
        """Whether there is such a log."""
        return os.path.exists(self.mark)


def begin(home: Home, partitions: int, mode: int = 0o600) -> None:
    """Make the mark of a log, unless it is there. Raises `OSError`."""
    mark = Mark(WHAT, LAYOUT, os.urandom(8).hex(), partitions, home.topic)
    content = msgspec.json.encode(mark) + b"\n"
    folder = os.path.dirname(home.mark)
    new = f"{folder}/.{os.path.basename(home.mark)}-{os.urandom(8).hex()}"
    _write(new, content, mode)
    try:
        os.link(new, home.mark)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            _write(home.mark, content, mode)
        except FileExistsError:
            pass
    finally:
        os.unlink(new)
    sync_folder(folder)


def _write(path: str, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        os.fchmod(descriptor, mode)
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_mark(path: str) -> Mark:
    """What stands in the mark at this path. Raises `OSError`; `ConfigError` if it is none, `CapabilityError` for one of a later
    layout."""
    until = time.monotonic() + _HALF_MADE
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = os.read(descriptor, _MAX_MARK)
        finally:
            os.close(descriptor)
        if content or time.monotonic() > until:
            break
        time.sleep(0.01)
    try:
        mark = msgspec.json.decode(content, type=Mark)
        if mark.pares != WHAT:
            raise ValueError(f"it says {mark.pares!r}")
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{path} is no mark of a file ledger ({error}); it was left as it is: use another folder"
        ) from None
    if mark.layout > LAYOUT:
        raise CapabilityError(
            f"{path} is of layout {mark.layout}, made by a newer pares; this one knows layouts up to {LAYOUT}: upgrade pares "
            "in this process"
        )
    return mark


def prepare(root: str, partitions: int, *, readonly: bool, above: bool) -> None:
    """Make the ledger if it isn't there; raise if what is there can't be used. `above`: also make folders above it."""
    try:
        if not os.path.lexists(root):
            if readonly:
                raise ConfigError(f"{root} is not there, and readonly makes nothing: start a member first")
            _make_root(root, above=above)
        _inspect(root, partitions, readonly=readonly)
    except OSError as error:
        if error.errno in _PASSING:
            raise LedgerUnavailable(
                f"{root} can't be made now: {error.strerror}; try again once that is over"
            ) from error
        raise ConfigError(f"{root} can't be used: {error.strerror} ({error.filename}); use another folder") from error


def _make_root(root: str, *, above: bool) -> None:
    parent = os.path.dirname(root)
    if above:
        os.makedirs(parent, exist_ok=True)
    elif not os.path.isdir(parent):
        raise ConfigError(
            f"there is no folder {parent} for the ledger {root}: check the path; if a new ledger is to begin there, make the "
            "folder, or ask for it by create=1 (on the command line: --create)"
        )
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        pass
    sync_folder(parent)


def _inspect(root: str, partitions: int, *, readonly: bool) -> None:
    if not os.path.isdir(root):
        raise ConfigError(
            f"{root} is no folder, so it can't be a file ledger: name a folder, or for a SQLite file sqlite:///FILE"
        )
    home = Home(root, "")
    if not _may(root, os.R_OK | os.X_OK):
        raise ConfigError(f"the folder {root} can't be read: give this user the permission, or use another folder")
    if not home.there():
        others = [name for name in sorted(os.listdir(root)) if not name.startswith(".") and name != "lost+found"]
        if others and not home.there():
            raise ConfigError(
                f"{root} holds other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}) and no ledger; they "
                "were left as they are: use an empty folder, or one that is not there yet"
            )
        if readonly:
            raise ConfigError(f"{root} holds no ledger, and readonly makes nothing: start a member first")
        _check_writable(root)
        begin(home, partitions)
    read_mark(home.mark)
    if not readonly:
        _check_writable(root)


def _check_writable(root: str) -> None:
    for folder in (root, f"{root}/log"):
        if os.path.isdir(folder) and not _may(folder, os.W_OK | os.X_OK):
            raise ConfigError(
                f"the folder {folder} can't be written by this process: give this user the permission, or open the ledger with "
                "readonly=1 to look on only"
            )


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _safe(topic: str) -> str:
    """The topic's name as that of a folder: as much of it as there is room for, and what tells it from all others."""
    return f"{quote(topic, safe='')[:80]}-{sha256(topic.encode()).hexdigest()[:16]}"


def sync_folder(folder: str) -> None:
    """Bring the names in the folder to the disk. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system on which folders can't be synced
            raise
    finally:
        os.close(descriptor)
