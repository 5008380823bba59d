"""Reading along without being in the group: who leads what, for dashboards, routers and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self, cast

from pares.core.errors import CapabilityError, ConfigError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.wire.changes import Change
from pares.core.wire.reader import Reader, State
from pares.core.wire.records import check_name
from pares.core.wire.world import World
from pares.ledger import Bus, Ledger, partition_of
from pares.runtime.config.protocols import TRAITS, USUAL
from pares.runtime.detect import newest, runs_induced
from pares.runtime.here import here
from pares.runtime.neli.world import Tenures
from pares.runtime.views import Holder

CHUNK: Final = 1000


class Observer:
    """Reads a group's log, and writes nothing.

    Promised: what it says is what the log has decided, up to its end at the moment of the call (promise 5). Not promised: that
    the holder it names still believes; a holder that is silent keeps its seat until somebody claims it. It has no thread: it
    reads when it is asked. Safe to use from several threads.

    `ledger`: a URL or an opened ledger (one opened with `readonly=true` will do); `options`: for the ledger, when it is given
    as a URL. `group`: which group; one that is not there has no members and no leaders. `protocol`: "allcall" for a group that
    runs it: then it listens on a bus (core NATS too), and knows what it has heard (see `AllcallObserver`, which adds
    `members()` and `disagreement()`). Raises `ConfigError` and `LedgerUnavailable`.
    """

    def __new__(cls, *_: Any, **given: Any) -> Any:
        asked = TRAITS.get(given.get("protocol", USUAL.name))
        if cls is not Observer or asked is None or asked.on_log:
            return super().__new__(cls)
        from pares.runtime.allcall.observer import AllcallObserver

        return object.__new__(AllcallObserver)

    def __init__(
        self,
        ledger: str | Ledger | Bus,
        *,
        group: str,
        options: Mapping[str, Any] | None = None,
        protocol: str = "claims",
    ) -> None:
        check_name("group", group)
        if protocol != USUAL.name:
            raise ConfigError(f"protocol is {protocol!r}: an observer reads 'claims', or listens to 'allcall'")
        self._own = isinstance(ledger, str)
        self._host = here()
        self._ledger = cast("Ledger", self._host.open(ledger, **(options or {})) if isinstance(ledger, str) else ledger)
        self._partition = partition_of(self._ledger.url)
        self.group = group
        self.reader = Reader(group)
        self._lock = self._host.lock()
        self._identity = ""
        self._tenures: Tenures | None = None
        """Of a group that runs NELI or Fast NELI."""
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        identity = self._ledger.identity()
        induced = runs_induced(self._ledger, self.group, self._partition)
        tenures = Tenures(self._ledger, self.group, self._host) if induced else None
        self.reader.attach(self._ledger.start(self._partition), self._ledger.end(self._partition))
        # Last: if the ledger is out of reach before, this is yet to be done.
        self._identity, self._tenures = identity, tenures

    def read(self, timeout: float = 0.0) -> list[Change]:
        """Reads what is new, waiting up to `timeout` seconds for something. What it changed, in order.

        A log that was replaced, cut or emptied is read from its beginning again (R12). Raises `LedgerUnavailable` if nothing
        could be read, `CapabilityError` once the group writes a format that this version of pares can't read (R11): what it
        says from then on might be wrong.
        """
        with self._lock:
            return self._read(timeout)

    def _read(self, timeout: float = 0.0) -> list[Change]:
        """By who has the lock."""
        changes: list[Change] = []
        try:
            if self._ledger.identity() != self._identity:
                self._attach()
            if self._tenures is not None:
                return [change for change, _ in self._tenures.read(timeout)]
            while True:
                entries = self._ledger.read(self.reader.position, self._partition, CHUNK, timeout)
                before = self.reader.position
                changes += self.reader.feed(entries)
                if self.reader.too_new:
                    raise CapabilityError(self.reader.upgrade)
                timeout = 0.0
                if not self.reader.world.base and newest(entries, self.group):
                    # Nothing counts for the claims protocol: it is another one that has begun since.
                    self._tenures = Tenures(self._ledger, self.group, self._host)
                    return [change for change, _ in self._tenures.read()]
                if not entries and self.reader.position == before:
                    return changes
        except (LedgerGap, LedgerRewound):
            self._attach()
            return changes
        except LedgerUnavailable:
            if not changes:
                raise
            return changes  # they are read, and would never be told again; the next call says what the matter is

    @property
    def adrift(self) -> bool:
        """The log's beginning is gone and it holds no snapshot: nobody can know who leads (R12)."""
        self.read()
        return self._tenures is None and self.reader.state is State.ADRIFT

    @property
    def world(self) -> World:
        """The group's state after everything that stands in the log now. Not to be changed. Of a group that runs NELI or Fast
        NELI it is put together from what the logs of all partitions tell: who came to lead each last, and has not said that
        it is over."""
        self.read()
        return self.reader.world if self._tenures is None else self._tenures.world

    def leader(self, role: str) -> Holder | None:
        """The holder of `role` (of several seats the first that is held), or None."""
        found = self.leaders(role)
        return found[0] if found else None

    def leaders(self, role: str) -> list[Holder]:
        """The holders of the seats of `role`, in the order of the seats."""
        with self._lock:  # while this looks, nobody reads on
            self._read()
            return holders(self.reader.world if self._tenures is None else self._tenures.world, role)

    def events(self, timeout: float | None = None) -> Iterator[Change]:
        """Changes of the group as they are read: seats, members, roles, pauses, and what members say of their beliefs.

        Ends when nothing has happened for `timeout` seconds (None: never).
        """
        quiet_since = self._host.now()
        while timeout is None or self._host.now() - quiet_since < timeout * 1e9:
            changes = self.read(timeout=0.25 if timeout is None else min(0.25, timeout))
            if changes:
                quiet_since = self._host.now()
            yield from changes

    def close(self) -> None:
        """Closes the ledger, if this observer opened it. May be called twice."""
        if self._own:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def holders(world: World, role: str, since: Mapping[tuple[str, int], float] | None = None) -> list[Holder]:
    """The holders of the seats of `role` in this world, in the order of the seats."""
    found: list[Holder] = []
    seats = sorted((s for s in list(world.seats.values()) if s.role == role), key=lambda s: s.index)
    for seat in seats:
        holder = world.members.get(seat.holder or "")
        if holder is not None:
            at = None if since is None else since.get(seat.seat)
            found.append(Holder(holder.id, holder.name, holder.host, role, seat.index, seat.token, at))
    return found
