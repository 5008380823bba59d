"""One incarnation of a member: an id that was never used before, and a lock on its life (R7, R8)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pares.core.claims.protocol import Claims, Config
from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import VERSION
from pares.runtime.host import DeathLock, Host

log: Final = logging.getLogger("pares.member")


def default_name(host: Host) -> str:
    """A name that nobody else has: not another process of this host, nor another unnamed member of this one, nor, as the time
    in milliseconds is in it, an earlier start of a container, whose process id is the same each time."""
    number = host.count("members without a name")
    return f"{host.hostname}-{host.pid}-{host.wall_us() // 1000}" + (f"-{number}" if number > 1 else "")


def is_default_name(name: str, host: Host) -> bool:
    """Whether `default_name` made it in this process: then it is another one after each start."""
    mine = f"{host.hostname}-{host.pid}-"
    return name.startswith(mine) and re.fullmatch(r"\d{12,}(-\d+)?", name[len(mine) :]) is not None


def format_version(env: Mapping[str, str]) -> int:
    """The newest format version that members of this process write (R11): PARES_FORMAT, or the newest there is."""
    asked = env.get("PARES_FORMAT") or str(VERSION)
    if asked not in map(str, range(1, VERSION + 1)):
        raise ConfigError(f"PARES_FORMAT is {asked!r}: give a whole number from 1 to {VERSION}, or leave it unset")
    return int(asked)


def _say_once(host: Host, folder: Path, error: Exception) -> None:
    """Once for each folder and process: members that begin anew have nothing new to say. `health().no_proof` says it still."""
    if host.count(f"no proof in {folder}") > 1:
        return
    log.warning(
        "no proof of death: no lock can be had in %s (%s). What is lost: when this process dies, others wait for its session "
        "to pass where a proof would have taken milliseconds; nothing else is. Give lock_folder= a local folder that all "
        "members of this host can write to (PARES_LOCK_FOLDER, with Member.from_env)",
        folder,
        error,
    )


class Incarnation:
    """A protocol with its id and its lock. A witness (R22) has no lock, so that it is in nobody's ring: it looks for those of
    others in `folder`."""

    def __init__(
        self,
        host: Host,
        settings: dict[str, Any],
        folder: Path | None,
        seen: int = 0,
        make: Callable[[Config], Claims] = Claims,
        *,
        witness: bool = False,
    ) -> None:
        writes = format_version(host.env)
        id = f"{settings['name']}~{host.random().token_hex(4)}"
        self.folder, self.witness = folder, witness
        self.no_proof: str | None = None
        """Why this member's death can't be proven, if it can't: then only silence decides."""
        self.lock: DeathLock | None = None
        if folder is not None and not witness:
            try:
                self.lock = host.death_lock(folder, id)
            except (CapabilityError, ConfigError) as error:
                self.folder, self.no_proof = None, str(error)
                _say_once(host, folder, error)
        statement = None if self.lock is None else self.lock.statement
        fields: dict[str, Any] = {"writes": writes, "witness": host.boot if witness else "", **settings}
        self.claims = make(Config(id=id, lock=statement, seen=seen, **fields))

    def end(self) -> None:
        """It has left: its lock proves nothing that anybody needs."""
        if self.lock is not None:
            self.lock.release()

    def abandon(self) -> None:
        """It is over without having left: the lock is let go but the file stays, so that others can prove the death."""
        if self.lock is not None:
            self.lock.abandon()
