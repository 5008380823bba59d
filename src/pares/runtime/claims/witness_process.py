"""The process that `Member(witness=True)` starts: one witness for each folder, ledger and group of a host, while members live.

Several members may start one; a lock on a file in the folder decides which process stays. It ends when no member of the folder
is left. A member that starts at that moment takes its own lock before it starts a witness, and this process looks for members'
locks once more after it has let go of its own. So either this process sees the new member, or the new witness gets the lock,
and no member is left without a witness.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from pares.core.errors import ParesError
from pares.runtime.claims.witness import Witness
from pares.runtime.death.lock import anybody, is_at
from pares.runtime.here import here

LOOK: Final = 5.0
"""Seconds between two looks for members in the folder. The process ends when two looks in a row have found none."""
SUFFIX: Final = ".witness"


class Election:
    """Elects one process among those that would watch the same group of a ledger, in one folder."""

    def __init__(self, folder: Path, ledger: str, group: str) -> None:
        what = hashlib.sha256(f"{ledger}\0{group}".encode()).hexdigest()[:32]
        self.path = folder / (what + SUFFIX)
        self._descriptor = -1

    def win(self) -> bool:
        """Whether this process is elected. Never waits."""
        while self._descriptor < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
            if is_at(self.path, descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)  # the process before has just removed this file: try with the next one
        return True

    def resign(self) -> None:
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def serve(settings: dict[str, Any], look: float = LOOK) -> None:
    """Watches for as long as members of the folder live, if this process is elected."""
    folder = Path(settings["lock_folder"])
    election = Election(folder, settings["ledger"], settings["group"])
    if not election.win():
        return
    try:
        with Witness(settings.pop("ledger"), **settings, connect="background") as witness:
            sleep, alone = here().sleep, 0
            while witness.health().groups[witness.groups[0]].state not in ("failed", "closed"):
                sleep(look)
                alone = 0 if anybody(folder) else alone + 1
                if alone < 2:
                    continue
                election.resign()
                if not (anybody(folder) and election.win()):
                    return
                alone = 0
    finally:
        election.resign()


def main() -> None:
    """Reads the settings from standard input, and not from arguments, as they may have secrets."""
    try:
        serve(json.load(sys.stdin))
    except ParesError as error:
        sys.exit(f"pares: no witness: {error}")
