"""Reading along without being in the group: who leads what, for dashboards, routers and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pares.core.errors import ConfigError, LedgerGap, LedgerRewound, LedgerUnavailable
from pares.core.wire.changes import Change
from pares.core.wire.records import check_name
from pares.core.wire.world import World
from pares.ledger import Bus, Ledger, partition_of
from pares.runtime.config.protocols import INDUCED, TRAITS, Traits
from pares.runtime.detect import traits_in
from pares.runtime.driver.kit import Disagreement, Follows, Listens, Watches
from pares.runtime.here import here
from pares.runtime.host import Host
from pares.runtime.kits import follower_of, listener_of
from pares.runtime.views import Holder, Peer, holders, peers
from pares.runtime.work.closing import Closing


class Observer(Closing):
    """Reads a group's log, and writes nothing.

    Promised: what it says is what the log has decided, up to its end at the moment of the call (promise 5). Not promised: that
    the holder it names still believes; a holder that is silent keeps its seat until somebody claims it. It has no thread: it
    reads when it is asked. Safe to use from several threads.

    `ledger`: a URL or an opened ledger (one opened with `readonly=true` will do); `options`: for the ledger, when it is given
    as a URL. `group`: which group; one that is not there has no members and no leaders. `protocol`: "allcall" for a group that
    runs it: then it listens on a bus (core NATS too), on the bus' thread, and what it says was heard, and lives by this
    process' stopwatch: during a split it knows the side that it is on, and a whole group when it has listened for a beat.
    Raises `ConfigError` and `LedgerUnavailable`.
    """

    def __init__(
        self,
        ledger: str | Ledger | Bus,
        *,
        group: str,
        options: Mapping[str, Any] | None = None,
        protocol: str = "claims",
    ) -> None:
        self.group = check_name("group", group)
        self._host = here()
        asked = TRAITS.get(protocol)
        if asked is None or asked.partitions:
            raise ConfigError(f"protocol is {protocol!r}: an observer reads 'claims', or listens to 'allcall'")
        make: Listens = _OfLog if asked.on_log else listener_of(asked.name)
        self._watch: Watches = make(ledger, group, options, self._host)

    def read(self, timeout: float = 0.0) -> list[Change]:
        """Reads what is new, waiting up to `timeout` seconds for something. What it changed, in order.

        A log that was replaced, cut or emptied is read from its beginning again (R12). Raises `LedgerUnavailable` if nothing
        could be read, `CapabilityError` once the group writes a format that this version of pares can't read (R11): what it
        says from then on might be wrong.
        """
        return self._watch.read(timeout)

    @property
    def adrift(self) -> bool:
        """The log's beginning is gone and it holds no snapshot: nobody can know who leads (R12)."""
        return self._watch.adrift

    @property
    def world(self) -> World:
        """The group's state after everything that stands in the log now. Not to be changed. Of a group that runs NELI or Fast
        NELI it is put together from what the logs of all partitions tell: who came to lead each last, and has not said that
        it is over. Raises `CapabilityError` with ALLCALL: a world is folded from a log."""
        return self._watch.world

    def leader(self, role: str) -> Holder | None:
        """The holder of `role` (of several seats the first that is held), or None."""
        found = self.leaders(role)
        return found[0] if found else None

    def leaders(self, role: str) -> list[Holder]:
        """The holders of the seats of `role`, in the order of the seats. With ALLCALL: the claimants of `role`, the one whose
        claim counts first; there are others only while members can't hear each other (or one of them has just died)."""
        return self._watch.leaders(role)

    def members(self) -> list[Peer]:
        """The members of the group, administrators aside. With ALLCALL: those that were heard lately, with each one's view of
        the leaders."""
        return self._watch.members()

    def disagreement(self) -> Disagreement:
        """The roles of which members don't name the same leader, while that lasts: of each leader, the members that name it.
        Empty but for ALLCALL: elsewhere the log says who leads."""
        return self._watch.disagreement()

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
        self._watch.close()


class _OfLog:
    """See `driver.kit.Watches`: a group whose log is read. What it runs is not said, but found in the log."""

    def __init__(self, ledger: object, group: str, options: Mapping[str, Any] | None, host: Host) -> None:
        self._own = isinstance(ledger, str)
        self._host = host
        self._ledger = cast("Ledger", host.open(ledger, **(options or {})) if isinstance(ledger, str) else ledger)
        self._partition = partition_of(self._ledger.url)
        self._group = group
        self._lock = host.lock()
        try:
            self._identity, self._follows = self._attached()
        except BaseException:
            self.close()
            raise

    def _attached(self) -> tuple[str, Follows]:
        """Which log it is now, and what reads it from its beginning."""
        identity = self._ledger.identity()
        return identity, self._follower(traits_in(self._ledger, self._group, self._partition))

    def _follower(self, traits: Traits) -> Follows:
        return follower_of(traits.name)(self._ledger, self._group, self._partition, self._host)

    def read(self, timeout: float = 0.0) -> list[Change]:
        with self._lock:
            return self._read(timeout)

    def _read(self, timeout: float = 0.0) -> list[Change]:
        """By the thread that has the lock."""
        changes: list[Change] = []
        try:
            if self._ledger.identity() != self._identity:
                self._identity, self._follows = self._attached()
            if self._follows.read(changes, timeout):
                # Nothing counts for the claims protocol: it is another one that has begun since.
                self._follows = self._follower(INDUCED)
                changes.clear()
                self._follows.read(changes, 0.0)
            return changes
        except (LedgerGap, LedgerRewound):
            self._identity, self._follows = self._attached()
            return changes
        except LedgerUnavailable:
            if not changes:
                raise
            return changes  # they are read, and would never be told again; the next call says what the matter is

    @property
    def adrift(self) -> bool:
        self.read()
        return self._follows.adrift

    @property
    def world(self) -> World:
        self.read()
        return self._follows.world

    def leaders(self, role: str) -> list[Holder]:
        with self._lock:  # while this looks, nobody reads on
            self._read()
            return holders(self._follows.world, role)

    def members(self) -> list[Peer]:
        with self._lock:
            self._read()
            return peers(self._follows.world)

    def disagreement(self) -> Disagreement:
        return {}

    def close(self) -> None:
        if self._own:
            self._ledger.close()
