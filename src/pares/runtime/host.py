"""The seam between a member and its world: clock, tasks, waits, bells, death locks, ledgers, chance.

Everything here that drives a member asks the *host* for these, and nothing else. In production the host is `OS`: threads and
the operating system. In the simulation it is virtual time, where a process may be stopped at every call through this seam; so
what the simulation plays is the code that ships. A lock or a clock that is not the host's can't be played: no other file of
this package imports `time`, `threading`, `select`, `queue` or `random` (tests/runtime/test_host.py).

A member asks `here()` once, when it is made, and hands what it gets to its parts. What is asked often (the clock, for every
check of a belief) is kept as a reference to the function itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty as Empty
from types import TracebackType
from typing import Any, Protocol, TypeVar

from pares.core.wire.records import Lock
from pares.ledger import Ledger, Log
from pares.ledger.registry import ClosableBus

T = TypeVar("T")


class Task(Protocol):
    """Something that runs beside others; `threading.Thread` is one. One task is one object: tasks are compared by identity."""

    @property
    def name(self) -> str: ...

    @property
    def ident(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class Flag(Protocol):
    """As `threading.Event`."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Guard(Protocol):
    """As `threading.Lock` or `threading.RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Condition(Guard, Protocol):
    """As `threading.Condition`."""

    def wait(self, timeout: float | None = None) -> bool: ...

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T: ...

    def notify(self, n: int = 1) -> None: ...

    def notify_all(self) -> None: ...


class Mailbox(Protocol[T]):
    """As `queue.SimpleQueue`: `put` never waits, and may be called where any lock is held. An empty one raises `Empty`."""

    def put(self, item: T) -> None: ...

    def get(self, block: bool = True, timeout: float | None = None) -> T: ...

    def get_nowait(self) -> T: ...

    def qsize(self) -> int: ...

    def empty(self) -> bool: ...


class Bells(Protocol):
    """Waiting for whatever comes first: an append by anybody, a death, a request from another task, or a time."""

    @property
    def listens(self) -> bool | None:
        """Whether an append to the log rings; None where there is no log."""
        ...

    def also(self, descriptors: list[int]) -> None:
        """Waits for these, too, from now on (and for no others that were named here before): what `Deaths.filenos` says."""
        ...

    def wait(self, seconds: float) -> bool:
        """Waits; afterwards the bells are silent, so that whatever comes next rings them again. Whether a bell of the log has
        rung."""
        ...

    def rest(self, seconds: float) -> None:
        """Waits for `ring` and for nothing else: bells are left to ring, and whatever ends this ends the next wait, too."""
        ...

    def ring(self) -> None:
        """Ends a wait, or the next one. From any task."""
        ...

    def close(self) -> None: ...

    def close_in_child(self) -> None: ...


class DeathLock(Protocol):
    """A member's lock on its own life (R7)."""

    @property
    def member(self) -> str:
        """The id of its member."""
        ...

    @property
    def statement(self) -> Lock:
        """What the member's `join` says about it."""
        ...

    @property
    def path(self) -> Path:
        """Where others find it."""
        ...

    @property
    def descriptor(self) -> int:
        """For a process that is to be covered by the proof; -1 where there is none."""
        ...

    def lost(self, *, thoroughly: bool = True) -> str:
        """Why it speaks for its member no more; "" while it does."""
        ...

    def release(self) -> None:
        """The member has left: its lock proves nothing that anybody needs."""
        ...

    def abandon(self) -> None:
        """The member is over without having left: let go, but there to be found, so that others can prove the death."""
        ...


class Deaths(Protocol):
    """Which of a changing set of members are proven dead. For one task."""

    def watch(self, members: Mapping[str, Lock]) -> None: ...

    @property
    def provable(self) -> frozenset[str]:
        """Of those that are watched and not proven dead: whose locks were found."""
        ...

    @property
    def proven(self) -> frozenset[str]: ...

    def filenos(self) -> list[int]: ...

    def check(self, now_ns: int) -> list[str]:
        """The members proven dead since the last check; each is returned once."""
        ...

    def poll_interval(self, now_ns: int) -> float | None:
        """Seconds after which to check again, without being woken; None when nothing can be proven of anybody."""
        ...

    def close(self) -> None: ...


class Chance(Protocol):
    """What no two processes have in common, and nobody can foresee."""

    def token_hex(self, nbytes: int) -> str: ...

    def randrange(self, stop: int) -> int: ...


class Leaver(Protocol):
    """A member, as far as the end of a process is concerned."""

    def close(self, timeout: float | None = None) -> None: ...

    def _die_in_child(self) -> None: ...


class Host(Protocol):
    """One process' world. Any call may let other tasks run, take its time, or raise what a machine raises (`OSError`,
    `MemoryError`)."""

    @property
    def now(self) -> Callable[[], int]:
        """The stopwatch, in nanoseconds; see `clock`. To be kept, and called without asking again."""
        ...

    @property
    def wall_us(self) -> Callable[[], int]:
        """The wall clock, in microseconds: written down for people, and never decided by."""
        ...

    @property
    def pid(self) -> int: ...

    @property
    def boot(self) -> str:
        """Of the machine, since it was started: locks say nothing beyond it. Empty where the system has none."""
        ...

    @property
    def hostname(self) -> str: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    # Tasks -----------------------------------------------------------------------------------------------------------

    def spawn(self, run: Callable[[], object], name: str) -> Task:
        """A new task, which runs already and keeps no process alive. Raises `RuntimeError` when none can be had any more, as
        at the end of a program."""
        ...

    def task(self) -> Task:
        """The one that calls."""
        ...

    def ident(self) -> int:
        """Of the task that calls: a number above 0 that no other living one has."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def lock(self) -> Guard: ...

    def rlock(self) -> Guard: ...

    def flag(self) -> Flag: ...

    def condition(self, lock: Any = None) -> Condition:
        """`lock`: one that `lock()` has made; None: one of its own."""
        ...

    def mailbox(self) -> Mailbox[Any]: ...

    # The life of the process -----------------------------------------------------------------------------------------

    def begin(self, member: Leaver) -> None:
        """From now on this member leaves at a normal exit, and is dead in forked children."""
        ...

    def end(self, member: Leaver) -> None:
        """It has left."""
        ...

    def without_forks(self) -> AbstractContextManager[object]:
        """While the body runs, no child is forked: it would have half of what the body makes."""
        ...

    def count(self, what: str) -> int:
        """How often this process has counted this, this time included."""
        ...

    # Ledgers and deaths ----------------------------------------------------------------------------------------------

    def open(self, url: str, **options: Any) -> Ledger: ...

    def open_bus(self, url: str, **options: Any) -> ClosableBus: ...

    def bells(self, ledger: Log | None, partitions: Sequence[int] = (0,)) -> Bells:
        """Those of these partitions of a log. None: nothing rings but `Bells.ring`."""
        ...

    def lock_folder(self, ledger: Log, given: str | os.PathLike[str] | None) -> Path | None:
        """Where the members of a ledger put their locks; None inside one process."""
        ...

    def death_lock(self, folder: Path, member: str) -> DeathLock:
        """Raises `CapabilityError` and `ConfigError` where there can be none."""
        ...

    def deaths(self, folder: Path, *, witness: bool = False) -> Deaths:
        """`witness`: for a process that does nothing else (R22). Raises `CapabilityError` where a witness can prove nothing."""
        ...

    def start_witness(self, settings: Mapping[str, Any]) -> None:
        """Starts a process with a `Witness` of these settings, which outlives this one, unless one runs already."""
        ...

    def forget(self, folder: Path, member: str, statement: Lock) -> object:
        """The lock of a member that was proven dead, and whose obituary is written, may go."""
        ...

    # Chance ----------------------------------------------------------------------------------------------------------

    def random(self) -> Chance: ...
