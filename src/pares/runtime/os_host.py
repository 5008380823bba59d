"""The host in production: threads and the operating system. See `host` for what each call is for."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from pares.core.wire.records import Lock
from pares.ledger import Ledger, Log
from pares.ledger import open as open_ledger
from pares.ledger import open_bus as open_any_bus
from pares.ledger.local.stamp import boot_id
from pares.ledger.registry import ClosableBus
from pares.runtime.clock import stopwatch, wall_us
from pares.runtime.death import exit_hooks
from pares.runtime.death import lock as proof
from pares.runtime.death.watcher import DeathWatch
from pares.runtime.driver.doorbell import Doorbell
from pares.runtime.host import Leaver
from pares.runtime.work.mailbox import Mailbox

log: Final = logging.getLogger("pares.member")

_WITNESS: Final = """
import os
if os.fork(): os._exit(0)
from pares.runtime.claims.witness_process import main
main()
"""
"""The process that is started ends at once, so that its child is nobody's here, and is not waited for."""
SWEEP_EVERY: Final = 600_000_000_000
"""Nanoseconds between two looks of a process for the locks of the long dead in a folder."""


class SystemChance:
    """Asks the operating system each time: a forked child and its parent get different answers."""

    def token_hex(self, nbytes: int) -> str:
        return os.urandom(nbytes).hex()

    def randrange(self, stop: int) -> int:
        return int.from_bytes(os.urandom(8), "big") % stop


class OsHost:
    """One process, as the operating system has it."""

    def __init__(self) -> None:
        self.now: Callable[[], int] = stopwatch
        self.wall_us: Callable[[], int] = wall_us
        self._counts: dict[str, itertools.count[int]] = {}
        self._chance = SystemChance()
        self._swept: dict[Path, int] = {}

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def boot(self) -> str:
        return boot_id()

    @property
    def hostname(self) -> str:
        return os.uname().nodename

    @property
    def env(self) -> Mapping[str, str]:
        return os.environ

    # Tasks -----------------------------------------------------------------------------------------------------------

    def spawn(self, run: Callable[[], object], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def task(self) -> threading.Thread:
        return threading.current_thread()

    def ident(self) -> int:
        return threading.get_ident()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self) -> threading.Lock:
        return threading.Lock()

    def rlock(self) -> threading.RLock:
        return threading.RLock()

    def flag(self) -> threading.Event:
        return threading.Event()

    def condition(self, lock: Any = None) -> threading.Condition:
        return threading.Condition(lock)

    def mailbox(self) -> Mailbox[Any]:
        return Mailbox()

    # The life of the process -----------------------------------------------------------------------------------------

    def begin(self, member: Leaver) -> None:
        exit_hooks.register(member)

    def end(self, member: Leaver) -> None:
        exit_hooks.unregister(member)

    def without_forks(self) -> AbstractContextManager[object]:
        return proof.forks.guard

    def count(self, what: str) -> int:
        return next(self._counts.setdefault(what, itertools.count(1)))

    # Ledgers and deaths ----------------------------------------------------------------------------------------------

    def open(self, url: str, **options: Any) -> Ledger:
        return open_ledger(url, **options)

    def open_bus(self, url: str, **options: Any) -> ClosableBus:
        return open_any_bus(url, **options)

    def bells(self, ledger: Log | None, partitions: Sequence[int] = (0,)) -> Doorbell:
        return Doorbell(ledger, partitions)

    def lock_folder(self, ledger: Log, given: str | os.PathLike[str] | None) -> Path | None:
        """Where it was said, next to the ledger, or in the user's state folder."""
        if given is not None:
            return Path(given).expanduser().absolute()
        if ledger.place is not None:
            return ledger.place
        if ledger.capabilities.scope == "process":
            return None
        from platformdirs import user_state_path  # here: most members have no use for it, and it weighs a megabyte

        return user_state_path("pares") / "locks"

    def death_lock(self, folder: Path, member: str) -> proof.DeathLock:
        """Locks of the long dead are removed by whatever member comes along, but not by each one each time."""
        now = self.now()
        if now >= self._swept.get(folder, 0):
            self._swept[folder] = now + SWEEP_EVERY
            proof.sweep(folder)
        return proof.DeathLock.take(folder, member)

    def deaths(self, folder: Path, *, witness: bool = False) -> DeathWatch:
        if witness:
            proof.check_place(folder)
        return DeathWatch(folder, witness=witness)

    def start_witness(self, settings: Mapping[str, Any]) -> None:
        import json
        import subprocess  # here: most members have no use for it

        nothing = subprocess.DEVNULL  # a reader of this process' output must not wait for the end of that one
        command = [sys.executable, "-c", _WITNESS]
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
            )
        except OSError as error:
            log.warning("no witness can be started here: %s", error)
            return
        with child, contextlib.suppress(BrokenPipeError):
            assert child.stdin is not None
            child.stdin.write(json.dumps(settings, default=str).encode())

    def forget(self, folder: Path, member: str, statement: Lock) -> bool:
        return proof.forget(folder, member, statement)

    def random(self) -> SystemChance:
        return self._chance
