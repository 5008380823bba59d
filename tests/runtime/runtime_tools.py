"""What the runtime's tests share: ledgers to stand on, members that are closed at the end, waiting for what must come.

Sessions are long where nothing waits for one (joining, claiming and handing over take milliseconds, whatever the session), so
that a busy machine makes no test's leader lose its lease; they are short only where silence itself is tested.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pares
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import Anchored, Bell, Capabilities, Entry, Ledger, Log, Stamped
from pares.runtime.here import HERE
from pares.runtime.os_host import OsHost

CALM = 5.0
"""A session that no test waits for."""
QUICK = 0.4
"""A session that a test does wait for."""
PATIENCE = float(os.environ.get("PARES_PATIENCE", "30"))
"""Seconds after which something that must come is taken for lost: a bound for hangs, and no measure of speed."""

T = TypeVar("T")


def driver(member: pares.Member) -> Any:
    """What drives this member."""
    return member._loop  # pyright: ignore[reportPrivateUsage]


def binding(member: pares.Member) -> Any:
    """What joins this member's driver to its protocol."""
    return driver(member).binding


def life(member: pares.Member) -> Any:
    """What this member's effects are carried out by: beliefs, barriers, events, figures."""
    return member._life  # pyright: ignore[reportPrivateUsage]


def break_down(member: pares.Member) -> None:
    """Its driver fails in its next round."""
    driver(member).each_round = lambda: 1 / 0


def until(what: Callable[[], T], saying: str, within: float = PATIENCE) -> T:
    """What `what()` says as soon as it says something true."""
    end = time.monotonic() + within
    while not (found := what()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within:g} s: {saying}")
        time.sleep(0.002)
    return found


def rewound(admin: pares.Admin, marks: Mapping[tuple[str, int], int]) -> bool:
    """False while somebody holds one of these seats, as far as the administrator has read."""
    try:
        admin.rewind(marks)
    except ConfigError:
        return False
    return True


def fresh_url(kind: str, folder: Path) -> str:
    """A ledger that nobody else uses."""
    return f"memory://{uuid.uuid4().hex}" if kind == "memory" else f"sqlite:///{folder}/group-{uuid.uuid4().hex[:8]}.db"


class Elsewhere(OsHost):
    """This process, but that a test says what its clocks show."""

    def __init__(self) -> None:
        super().__init__()
        self.real_now, self.real_wall_us = self.now, self.wall_us
        self.stopwatch, self.wall = self.now, self.wall_us
        self.now, self.wall_us = lambda: self.stopwatch(), lambda: self.wall()


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """What is made in the body is made on this host."""
    host = Elsewhere()
    token = HERE.set(host)
    try:
        yield host
    finally:
        HERE.reset(token)


class Crew:
    """Makes members of one group, which are closed at the end of the test."""

    made: ClassVar[list[Crew]] = []

    def __init__(self, ledger: str | Ledger, group: str = "g") -> None:
        self.ledger = ledger
        self.group = group
        self.members: list[pares.Member] = []
        self.made.append(self)

    def member(self, name: str = "a", roles: Sequence[str] = ("A",), **settings: Any) -> pares.Member:
        """A member; with a long session, and quick to balance."""
        ledger: Any = settings.pop("ledger", self.ledger)
        settings = {"barrier_timeout": 10.0} | settings
        shared = settings.get("protocol", "claims") != "claims" and settings.get("seats", 1) == 1
        native = ledger.startswith("kafka:") if isinstance(ledger, str) else hasattr(ledger, "join")  # a `Group`
        if not (shared and native) and not isinstance(settings.get("protocol"), pares.AllCall):  # which has a lease
            # Elsewhere it is a broker that shares out and balances, by a session of its client's settings.
            settings = {"session": CALM, "settle": 0.05} | settings
        member = pares.Member(ledger, group=self.group, roles=roles, name=name, **settings)
        self.members.append(member)
        return member

    def leader(self, name: str = "a", roles: Sequence[str] = ("A",), **settings: Any) -> pares.Member:
        """A member that leads all its roles."""
        member = self.member(name, roles, **settings)
        for role in roles:
            assert member.wait(role, PATIENCE)
        return member

    def standby(self, name: str = "b", roles: Sequence[str] = ("A",), **settings: Any) -> pares.Member:
        """A member that is in the group, and that the others know of."""
        member = self.member(name, roles, **settings)
        until(lambda: member.state == "live", f"{name} is in the group")
        others = [other for other in self.members if other.state == "live"]
        until(lambda: all(member.id in ids(other) for other in others), f"everybody knows {name}")
        if not settings:
            until(
                lambda: all(takes_for_living(other, member) for other in others), f"everybody knows that {name} lives"
            )
        return member

    def close(self) -> None:
        if isinstance(self.ledger, Faulty):
            self.ledger.heal()
        for member in self.members:
            if member.state not in ("closed", "failed"):
                member.close(timeout=5)


def takes_for_living(member: pares.Member, other: pares.Member) -> bool:
    """Whether `member` could hand something to `other`: it has read more of it than its join (R6)."""
    core = binding(member).core
    return not hasattr(core, "watches") or other.id in core.watches.heard(core.living.moves.alive)


def ids(member: pares.Member) -> set[str]:
    """The ids of the members that `member` knows of."""
    return {peer.id for peer in member.members()}


class Recorder:
    """A barrier that keeps the events it was called with, and can be told to hold a `Revoked` back."""

    def __init__(self) -> None:
        self.events: list[pares.Event] = []
        self.entered = threading.Event()
        """Set when a `Revoked` has come in."""
        self.let_go = threading.Event()
        self.let_go.set()
        self.threads: set[int] = set()

    def __call__(self, event: pares.Event) -> None:
        self.threads.add(threading.get_ident())
        self.events.append(event)
        if isinstance(event, pares.Revoked):
            self.entered.set()
            self.let_go.wait(PATIENCE)

    def hold(self) -> None:
        """From now on a `Revoked` is held back until `let_go` is set."""
        self.let_go.clear()

    def kinds(self, *kinds: type[pares.Event]) -> list[str]:
        """The names of the events so far, of these kinds (Acquired, Revoked, Fenced if none are given)."""
        wanted = kinds or (pares.Acquired, pares.Revoked, pares.Fenced)
        return [type(event).__name__ for event in list(self.events) if isinstance(event, wanted)]


class Faulty:
    """A real ledger with faults: what `break_reads` and `break_appends` say is raised; `hold_appends` keeps them waiting."""

    def __init__(self, inner: Ledger) -> None:
        self._inner = inner
        self.break_reads: Callable[[], BaseException] | None = None
        self.break_appends: Callable[[], BaseException] | None = None
        self.lose_acknowledgements = False
        self.append_seconds = 0.0
        """How long an append takes, at the least."""
        self.free = threading.Event()
        self.free.set()
        self.held = threading.Event()
        """Set when an append has come in that is held back."""

    def away(self) -> None:
        """The ledger is out of reach."""
        self.break_reads = self.break_appends = lambda: LedgerUnavailable("out of reach, by the test")

    def back(self) -> None:
        self.break_reads = self.break_appends = None

    def heal(self) -> None:
        """No fault is left."""
        self.back()
        self.lose_acknowledgements = False
        self.append_seconds = 0.0
        self.free.set()

    def hold_appends(self) -> None:
        """Appends wait until `free` is set; each wait is 30 s at most."""
        self.held.clear()
        self.free.clear()

    @property
    def kind(self) -> str:
        return self._inner.kind

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def partitions(self) -> int:
        return self._inner.partitions

    @property
    def retention(self) -> float | None:
        return self._inner.retention

    @property
    def place(self) -> Path | None:
        return self._inner.place

    def append(self, payload: bytes, partition: int = 0) -> int:
        return self.append_many([payload], partition)[0]

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        if not self.free.is_set():
            self.held.set()
            self.free.wait(PATIENCE)
        time.sleep(self.append_seconds)
        if self.break_appends is not None:
            raise self.break_appends()
        offsets = self._inner.append_many(payloads, partition, urgent=urgent)
        if self.lose_acknowledgements:
            raise LedgerUnavailable("the acknowledgement was lost, by the test", unknown=True)
        return offsets

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        self._reads()
        return self._inner.read(offset, partition, max_records, timeout)

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        self._reads()
        return cast(Stamped, self._inner).read_stamped(offset, partition, max_records)

    def has(self, offset: int, payload: bytes, partition: int = 0) -> bool:
        return cast(Anchored, self._inner).has(offset, payload, partition)

    def start(self, partition: int = 0) -> int:
        self._reads()
        return self._inner.start(partition)

    def end(self, partition: int = 0) -> int:
        self._reads()
        return self._inner.end(partition)

    def trim(self, before: int, partition: int = 0) -> None:
        self._inner.trim(before, partition)

    def identity(self) -> str:
        self._reads()
        return self._inner.identity()

    def bell(self, partition: int = 0) -> Bell | None:
        return self._inner.bell(partition)

    def topic(self, name: str, partitions: int = 4) -> Log:
        return self._inner.topic(name, partitions)

    def close(self) -> None:
        self._inner.close()

    def _reads(self) -> None:
        if self.break_reads is not None:
            raise self.break_reads()


def descriptors() -> dict[str, str]:
    """This process' open descriptors, and what they are."""
    found: dict[str, str] = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass  # the one that listed the folder
    return found


def until_only(before: Collection[threading.Thread]) -> None:
    """Waits until no thread is left but these; one of them may have ended meanwhile."""
    until(lambda: {*threading.enumerate()} <= {*before}, "nothing of it is left running")


def pares_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def in_child(body: Callable[[], object]) -> str:
    """What `body` returns in a forked child, as text; an exception as its type's name and message."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(body())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode()[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
