"""Says who else on this host may write a ledger's files, and so disrupt leadership.

Everything is made for its owner only (0600, folders 0700). Modes are changed by hand to share a ledger with a Unix group on
purpose; that is a note here. A file that everybody may write is nobody's purpose.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

GOOD: Final = "good"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"
_SHOWN: Final = 6


def who_may_write(ledger: str, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(level, text) of who may write these files, and the folder that `ledger` is in. Opens nothing."""
    open_to_all: list[str] = []
    open_to_group: list[str] = []
    for name in files:
        try:
            mode = os.lstat(name).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            yield PROBLEM, f"{name} is a symbolic link: its maker decides what is written; remove it"
        elif mode & stat.S_IWOTH:
            open_to_all.append(f"{name} ({stat.S_IMODE(mode):04o})")
        elif mode & stat.S_IWGRP:
            open_to_group.append(f"{name} ({stat.S_IMODE(mode):04o})")
    folder = os.path.dirname(ledger)
    mode = os.stat(folder).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        open_to_all.append(
            f"the folder {folder} ({stat.S_IMODE(mode):04o}), so that anybody can put another file in its place"
        )
    if open_to_all:
        yield WARNING, f"every user of this host can write {_some(open_to_all)}, and so decide who leads: chmod o-w"
    if open_to_group:
        yield (
            NOTE,
            f"every member of the Unix group can write {_some(open_to_group)}, and so decide who leads: chmod g-w, unless that "
            "is meant",
        )
    if not open_to_all and not open_to_group:
        yield GOOD, f"nobody but its owner may write {ledger}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
