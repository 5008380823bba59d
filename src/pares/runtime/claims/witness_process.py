"""The process that `Member(witness=True)` starts: one witness for each folder, ledger and group of a host, while members live.

Which of several is the one is decided by a lock on a file in the folder. It ends when no member of the folder is left. A member
that starts in that moment has taken its own lock before it starts a witness, and this process looks for such locks once more
after it has let go of its own: so one of the two sees the other, and no member is left without a witness.
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
"""Seconds between two looks at whether any member of the folder is left. It ends when two of them have found none."""
SUFFIX: Final = ".witness"


class Election:
    """Of one witness among those that watch the same."""

    def __init__(self, folder: Path, ledger: str, group: str) -> None:
        what = hashlib.sha256(f"{ledger}\0{group}".encode()).hexdigest()[:32]
        self.path = folder / (what + SUFFIX)
        self._descriptor = -1

    def win(self) -> bool:
        """Whether this process is the one; never waits."""
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
                os.close(descriptor)  # the one before has just removed it
        return True

    def resign(self) -> None:
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def serve(settings: dict[str, Any], look: float = LOOK) -> None:
    """Watches as long as it is the one, and members of its folder live."""
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
    """Its settings come by standard input, for they may have secrets."""
    try:
        serve(json.load(sys.stdin))
    except ParesError as error:
        sys.exit(f"pares: no witness: {error}")
