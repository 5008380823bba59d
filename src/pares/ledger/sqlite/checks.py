"""What `pares doctor` says of a SQLite ledger's files: who else on this host may write them, and so disrupt leadership.

Everything is made for its owner only (0600, folders 0700), and SQLite gives `-wal` and `-shm` the mode of the database. Modes
are changed by hand to share a ledger with a Unix group on purpose; that is a note here. A file that everybody may write is
nobody's purpose.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
_BESIDE: Final = ("", "-wal", "-shm", "-bell", "-locks")


def checks(path: str) -> Iterator[tuple[str, str]]:
    """(level, text) of everything there is to say of the ledger at `path`. Opens nothing: SQLite's locks go when any
    descriptor of the file is closed."""
    open_to_all: list[str] = []
    open_to_group: list[str] = []
    for name in (f"{path}{suffix}" for suffix in _BESIDE):
        try:
            mode = os.lstat(name).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            yield PROBLEM, f"{name} is a symbolic link: whoever made it decides what is written; remove it"
        elif mode & stat.S_IWOTH:
            open_to_all.append(f"{name} ({stat.S_IMODE(mode):04o})")
        elif mode & stat.S_IWGRP:
            open_to_group.append(f"{name} ({stat.S_IMODE(mode):04o})")
    folder = os.path.dirname(path)
    mode = os.stat(folder).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        open_to_all.append(
            f"the folder {folder} ({stat.S_IMODE(mode):04o}), so that anybody can put another file in its place"
        )
    if open_to_all:
        yield (
            WARNING,
            f"every user of this host can write {', '.join(open_to_all)}, and so decide who leads: chmod o-w",
        )
    if open_to_group:
        yield (
            NOTE,
            f"whoever is in the Unix group can write {', '.join(open_to_group)}, and so decide who leads: chmod g-w, unless "
            "that is meant",
        )
    if not open_to_all and not open_to_group:
        yield GOOD, f"nobody but its owner may write {path}"
