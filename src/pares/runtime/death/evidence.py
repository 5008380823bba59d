"""What proves a death, as a judgement over facts (R7): the same for the operating system (`lock`) and for the simulation.

A lock file is looked for by the name that the member's `join` stated, opened, and tried. There are these facts then, and
nothing else: where it runs, what it has opened, whether it got the lock, and whether the name still leads to what it opened.
Each check closes a hole:

* another boot, or another host: the lock that is free here is not the one that the member took. [a folder that hosts share
  shows the files of members that live elsewhere, and their locks do not travel with them]
* no file, or another one under that name: nobody's lock. [a cleaner removes the file of a member that lives; somebody makes one
  of the same name and content, and nobody holds a lock on it]
* the right file, and the lock not had: its member lives, or its last word is not known yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pares.core.wire.records import Lock

SUFFIX: Final = ".alive"


class Found(NamedTuple):
    """An open file, as the file system describes it."""

    regular: bool
    device: str
    inode: str
    content: bytes


def is_here(statement: Lock, boot: str) -> bool:
    """Whether this lock was taken on this host, since it was booted, and names a file that can be looked for in a folder."""
    name = statement.file
    return statement.boot == boot != "" and name.endswith(SUFFIX) and "/" not in name and "\0" not in name


def is_stated(found: Found | None, member: str, statement: Lock) -> bool:
    """Whether what was opened is the file that this member stated. None: there was nothing to open."""
    return (
        found is not None
        and found.regular
        and (found.device, found.inode) == (statement.device, statement.inode)
        and found.content == member.encode()
    )


def proves(*, free: bool, stated: bool, there: bool) -> bool:
    """Whether the member is gone for good. `free`: its lock was had just now; `stated`: by `is_stated`, looked at while it was
    had; `there`: the stated name still leads to what was opened."""
    return free and stated and there
