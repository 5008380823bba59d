"""A fence of files: what has been written is what the manifests say, and each manifest is made only once.

Each seat has a chain of manifests, numbered without a hole from 0, each with the token of the term that wrote it. To
commit is to create the next one, and creating fails if it exists; so the process that commits number n has seen number n - 1,
the newest then, and knows that its token is not higher than its own. By induction tokens never fall along the chain. A
writer of an old term that wakes up between its look at the newest manifest and its own finds the number taken, looks
again, and is refused.

Data files are written beforehand, to a folder of the writer's own, and count for nothing until a manifest names them:
readers take what they read from the chain and never from a listing of the data. A writer that dies half way leaves
files that nobody reads; they can go once the chain has a higher token, since from then on no manifest can ever name
them.

This needs one thing of a store: creating an object with its whole content, if and only if it is not there. In a folder
that is a hard link to a finished file; object stores have it as a conditional put, and can follow as another `Store`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pares.core.errors import CapabilityError, ConfigError, ParesError, Stale
from pares.fence.base import Held, check_held

_FORMAT: Final = 1


class Commit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One manifest: what the term with `token` added."""

    number: int
    token: int
    role: str
    seat: int
    group: str | None
    at_ms: int
    """The writer's wall clock, for people."""
    files: tuple[tuple[str, int], ...] = ()
    """Path within the seat's folder, and size in bytes, of each data file."""
    payload: dict[str, Any] = {}
    v: int = _FORMAT


class Store(Protocol):
    """What a chain of manifests needs of the place it is kept in. Names are relative, with `/`."""

    def create(self, name: str, content: bytes) -> bool:
        """Makes the object, whole and durable, if it is not there. False: it is there. Never anything between."""
        ...

    def read(self, name: str) -> bytes | None:
        """The whole content; None if it is not there. What has been created is seen by everybody from then on."""
        ...


class FolderStore:
    """A folder on a file system with hard links. Over a network it is as good as that file system's `link` is
    atomic."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def create(self, name: str, content: bytes) -> bool:
        path = self.folder / name
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.parents[1:]:
                sync(folder)
                if folder == self.folder:
                    break
        unfinished = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            return self._link(unfinished, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def _link(self, unfinished: Path, path: Path) -> bool:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            # Over NFS the answer to a link that was made can get lost, and the client's second try finds its own.
            if not os.path.samefile(unfinished, path):
                return False
        except OSError as error:
            raise CapabilityError(
                f"{path.parent} has no hard links ({error.strerror}), so nothing can be created there if and only if "
                "it is missing; keep the manifests on another file system"
            ) from error
        sync(path.parent)
        return True


class FileFence:
    """Commits files and values of a term, and refuses those of a term that is over.

        area = fence.stage(term)
        (area / "part-0.parquet").write_bytes(...)
        fence.commit(term, {"day": "2026-11-21"}, files=area.iterdir())

        for commit in fence.read("AAPL"): ...

    Promised: along the commits of a seat, tokens never fall; a commit is there as a whole or not at all, whenever its
    writer dies; once it is there it never changes, and it is on disk. Not promised: that a term that is over is
    refused before a higher token has been committed (an empty commit, right after acquiring, does that).

    `group` keeps groups that use one folder apart. One folder is for one file system; see `FolderStore`.
    """

    def __init__(self, folder: Path | str, group: str | None = None, *, store: Store | None = None) -> None:
        self.folder: Final = Path(folder)
        self.group: Final = group
        self._store = FolderStore(self.folder) if store is None else store
        self._newest: dict[tuple[str, int], int] = {}

    def place(self, role: str, seat: int = 0) -> Path:
        """The folder of a seat: `manifest` and `data` are in it, and the paths of a commit's files begin there."""
        return self.folder / self._place(role, seat)

    def stage(self, term: Held) -> Path:
        """A new empty folder for data files that `commit` is to name. Raises `Stale` if the term is over already."""
        role, seat, token = check_held(term)
        self.check(term)
        area = self.place(role, seat) / "data" / f"{token}-{secrets.token_hex(8)}"
        area.mkdir(parents=True)
        return area

    def check(self, term: Held) -> None:
        """Raises `Stale` if a higher token has been committed. Spares work that is in vain; only `commit` decides."""
        role, seat, token = check_held(term)
        newest = self.last(role, seat)
        if newest is not None and newest.token > token:
            raise Stale(token, newest.token)

    def commit(self, term: Held, payload: Mapping[str, Any] | None = None, *, files: Iterable[Path] = ()) -> Commit:
        """Adds a manifest with `payload` (values that JSON has) and `files`, which lie in a folder that `stage` gave.

        Raises `Stale(token, seen)` if a higher token has been committed for the seat, and `ConfigError` for files that
        are missing or elsewhere: nothing is committed then. The files are brought to disk first; don't touch them
        after.
        """
        role, seat, _ = check_held(term)
        named = self._bring_to_disk(self.place(role, seat), files)
        while True:
            newest = self.last(role, seat)
            commit = self._commit_after(newest, term, dict(payload or {}), named)
            if commit is not None:
                return commit

    def commit_after(
        self, newest: Commit | None, term: Held, payload: Mapping[str, Any] | None = None, *, files: Iterable[Path] = ()
    ) -> Commit | None:
        """As `commit`, if `newest`, which `last` has given, is still the newest (None: if there is none yet). None if there is
        another one by now; nothing is committed then. For a writer who derives what it commits from what was committed last."""
        role, seat, _ = check_held(term)
        named = self._bring_to_disk(self.place(role, seat), files)
        return self._commit_after(newest, term, dict(payload or {}), named)

    def _commit_after(
        self, newest: Commit | None, term: Held, payload: dict[str, Any], named: tuple[tuple[str, int], ...]
    ) -> Commit | None:
        role, seat, token = check_held(term)
        if newest is not None and newest.token > token:
            raise Stale(token, newest.token)
        number = 0 if newest is None else newest.number + 1
        commit = Commit(number, token, role, seat, self.group, time.time_ns() // 1_000_000, named, payload)
        try:
            content = msgspec.json.encode(commit)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"this payload can't stand in a manifest: {error}; use values that JSON has") from error
        if not self._store.create(self._manifest(role, seat, number), content):
            return None  # another writer has made this number
        self._newest[role, seat] = number
        return commit

    def last(self, role: str, seat: int = 0) -> Commit | None:
        """The newest commit of a seat; None if there is none. Finds it in a few steps, however long the chain is."""
        known = self._newest.get((role, seat), -1)
        step, low = 1, known
        found: Commit | None = None
        while (commit := self._at(role, seat, low + step)) is not None:
            low, found = low + step, commit
            step *= 2
        high = low + step  # not there; `low` is
        while high - low > 1:
            middle = (low + high) // 2
            if (commit := self._at(role, seat, middle)) is None:
                high = middle
            else:
                low, found = middle, commit
        if low < 0:
            return None
        self._newest[role, seat] = low
        return found or self._at(role, seat, low)

    def read(self, role: str, seat: int = 0, start: int = 0) -> Iterator[Commit]:
        """The commits of a seat in order, from number `start` on. Raises `ParesError` if the chain is not one that
        fences made."""
        token = 0
        number = start
        while (commit := self._at(role, seat, number)) is not None:
            if commit.token < token:
                raise ParesError(
                    f"manifest {number} of {role!r}/{seat} has token {commit.token} after {token}: something else than "
                    f"a fence has written to {self.place(role, seat)}; nothing from it on can be trusted"
                )
            token = commit.token
            yield commit
            number += 1

    def sweep(self, role: str, seat: int = 0) -> int:
        """Removes staged folders that no manifest names and, their token being lower than the newest, none ever can.
        How many."""
        newest = self.last(role, seat)
        data = self.place(role, seat) / "data"
        if newest is None or not data.is_dir():
            return 0
        named = {path.split("/")[1] for commit in self.read(role, seat) for path, _ in commit.files}
        removed = 0
        for area in data.iterdir():
            token = area.name.partition("-")[0]
            if token.isdecimal() and int(token) < newest.token and area.name not in named:
                shutil.rmtree(area)
                removed += 1
        return removed

    def _place(self, role: str, seat: int) -> str:
        return f"{encoded('group', self.group)}/{encoded('role', role)}/{seat}"

    def _manifest(self, role: str, seat: int, number: int) -> str:
        return f"{self._place(role, seat)}/manifest/{number:020d}.json"

    def _at(self, role: str, seat: int, number: int) -> Commit | None:
        name = self._manifest(role, seat, number)
        content = self._store.read(name)
        if content is None:
            return None
        try:
            commit = msgspec.json.decode(content, type=Commit)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ParesError(f"{name} is no manifest: {error}; something else than a fence has written it") from error
        if (commit.role, commit.seat, commit.group, commit.number) != (role, seat, self.group, number):
            raise ParesError(f"{name} is the manifest of another seat or number: it was moved or copied; put it back")
        return commit

    def _bring_to_disk(self, place: Path, files: Iterable[Path]) -> tuple[tuple[str, int], ...]:
        named: list[tuple[str, int]] = []
        folders: set[Path] = set()
        place = place.resolve()
        data = place / "data"
        for file in sorted(files):
            found = file.resolve()
            if not found.is_file() or not found.is_relative_to(data) or found.parent == data:
                raise ConfigError(
                    f"{file} can't be committed: it must be a file in a folder that stage() gave for this seat"
                )
            named.append((found.relative_to(place).as_posix(), found.stat().st_size))
            sync(found)
            folders.update(parent for parent in found.parents if parent.is_relative_to(place))
        for folder in folders:
            sync(folder)
        return tuple(named)


def encoded(kind: str, name: str | None) -> str:
    """A file name for a name of any kind: something to recognise it by, and a hash that tells it from all others.

    Names have up to 200 characters of any kind, also `/`, and some file systems don't tell `a` from `A`.
    """
    if name is None:
        return f"no-{kind}"
    shown = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
    return f"{shown}.{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def sync(path: Path) -> None:
    """Brings a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
