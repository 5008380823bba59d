"""One incarnation of a member: an id that was never used before, and a lock on its life (R7, R8)."""

from __future__ import annotations

import itertools
import logging
import os
import re
from pathlib import Path
from typing import Any, Final

from pares.core.claims.protocol import Claims, Config
from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import VERSION
from pares.ledger import Log
from pares.runtime.clock import stopwatch, wall_us
from pares.runtime.death.lock import DeathLock, forks, sweep

log: Final = logging.getLogger("pares.member")

SWEEP_EVERY: Final = 600_000_000_000


_unnamed = itertools.count(1)


def default_name() -> str:
    """A name that nobody else has: not another process of this host, nor another unnamed member of this one, nor, as the time
    in milliseconds is in it, an earlier start of a container, whose process id is the same each time."""
    number = next(_unnamed)
    return f"{os.uname().nodename}-{os.getpid()}-{wall_us() // 1000}" + (f"-{number}" if number > 1 else "")


def is_default_name(name: str) -> bool:
    """Whether `default_name` made it in this process: then it is another one after each start."""
    mine = f"{os.uname().nodename}-{os.getpid()}-"
    return name.startswith(mine) and re.fullmatch(r"\d{12,}(-\d+)?", name[len(mine) :]) is not None


def lock_folder(ledger: Log, given: str | os.PathLike[str] | None = None) -> Path | None:
    """Where the members of a ledger put their locks: where it was said, next to the ledger, or in the user's state folder. None
    inside one process."""
    if given is not None:
        return Path(given).expanduser().absolute()
    if ledger.place is not None:
        return ledger.place
    if ledger.kind == "memory":
        return None
    from platformdirs import user_state_path  # here: most members have no use for it, and it weighs a megabyte

    return user_state_path("pares") / "locks"


def format_version() -> int:
    """The newest format version that members of this process write (R11): PARES_FORMAT, or the newest there is."""
    asked = os.environ.get("PARES_FORMAT") or str(VERSION)
    if asked not in map(str, range(1, VERSION + 1)):
        raise ConfigError(f"PARES_FORMAT is {asked!r}: give a whole number from 1 to {VERSION}, or leave it unset")
    return int(asked)


_swept: dict[Path, int] = {}


def _sweep_now_and_then(folder: Path) -> None:
    """Lock files of the long dead are removed by whoever comes along, but not by everybody each time."""
    now = stopwatch()
    if now >= _swept.get(folder, 0):
        _swept[folder] = now + SWEEP_EVERY
        sweep(folder)


_told: set[Path] = set()


def _say_once(folder: Path, error: Exception) -> None:
    """Once for each folder and process: members that begin anew have nothing new to say. `health().no_proof` says it still."""
    if folder in _told:
        return
    _told.add(folder)
    log.warning(
        "no proof of death: no lock can be had in %s (%s). What is lost: when this process dies, others wait for its session "
        "to pass where a proof would have taken milliseconds; nothing else is. Give lock_folder= a local folder that all "
        "members of this host can write to (PARES_LOCK_FOLDER, with Member.from_env)",
        folder,
        error,
    )


class Incarnation:
    """A protocol with its id and its lock."""

    def __init__(self, settings: dict[str, Any], folder: Path | None, seen: int = 0) -> None:
        writes = format_version()
        id = f"{settings['name']}~{os.urandom(4).hex()}"
        self.folder = folder
        self.no_proof: str | None = None
        """Why this member's death can't be proven, if it can't: then only silence decides."""
        self.lock: DeathLock | None = None
        if folder is not None:
            try:
                _sweep_now_and_then(folder)
                self.lock = DeathLock.take(folder, id)
            except (CapabilityError, ConfigError) as error:
                self.folder, self.no_proof = None, str(error)
                _say_once(folder, error)
        statement = None if self.lock is None else self.lock.statement
        fields: dict[str, Any] = {"writes": writes, **settings}
        self.claims = Claims(Config(id=id, lock=statement, seen=seen, **fields))

    def end(self) -> None:
        """It has left: its lock proves nothing that anybody needs."""
        if self.lock is not None:
            self.lock.release()

    def abandon(self) -> None:
        """It is over without having left: the lock is let go but the file stays, so that others can prove the death."""
        if self.lock is not None:
            with forks.guard:
                self.lock.close_in_child()
