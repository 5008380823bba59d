"""Listening to an ALLCALL group without being in it: see `Observer`, which makes one of these for protocol="allcall"."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pares.core.allcall.listener import Overheard
from pares.core.allcall.messages import token
from pares.core.errors import CapabilityError
from pares.core.wire.changes import Change
from pares.core.wire.records import check_name
from pares.core.wire.world import World
from pares.ledger import Bus, Ledger
from pares.runtime.allcall.settings import medium_of
from pares.runtime.here import here
from pares.runtime.observer import Observer
from pares.runtime.views import Holder, Peer

MOST: Final = 100_000
"""Changes kept until somebody reads them; then the oldest go."""


class AllcallObserver(Observer):
    """Listens, and says nothing.

    Promised: what it says was heard, and lives by this process' stopwatch. Not promised: that it hears everybody. During a
    split it knows the side that it is on. It knows a whole group when it has listened for a beat. It has the thread of the
    bus. Safe to use from several threads.
    """

    def __init__(
        self,
        ledger: str | Ledger | Bus,
        *,
        group: str,
        options: Mapping[str, Any] | None = None,
        protocol: str = "allcall",
    ) -> None:
        self.group = check_name("group", group)
        self.protocol = protocol
        self._host = here()
        bus: Any = self._host.open_bus(ledger, **(options or {})) if isinstance(ledger, str) else ledger
        self._bus = medium_of(bus)
        self._own = self._bus is not ledger
        self.overheard = Overheard(group)
        """What was heard. Read it under `lock`."""
        self.lock = self._host.lock()
        self._changes: deque[Change] = deque(maxlen=MOST)
        self._come = self._host.condition(self.lock)
        try:
            self._stop = self._bus.listen(group, self._hear)
        except BaseException:
            self._close_bus()
            raise

    def _hear(self, payload: bytes) -> None:
        with self.lock:
            self._take(self.overheard.hear(payload, self._host.now(), self._host.wall_us() // 1000))

    def _take(self, changes: list[Change]) -> None:
        if changes:
            self._changes.extend(changes)
            self._come.notify_all()

    def read(self, timeout: float = 0.0) -> list[Change]:
        """What was heard to change since the last call, in order; waits up to `timeout` seconds for something."""
        end = self._host.now() + int(timeout * 1e9)
        with self.lock:
            while True:
                self._take(self.overheard.pass_time(self._host.now()))
                left = (end - self._host.now()) / 1e9
                if self._changes or left <= 0:
                    found = [*self._changes]
                    self._changes.clear()
                    return found
                self._come.wait(min(left, 0.1))

    @property
    def adrift(self) -> bool:
        """Never: there is no log whose beginning could be missing."""
        return False

    @property
    def world(self) -> World:
        """Raises `CapabilityError`: a world is folded from a log."""
        raise CapabilityError(
            "protocol 'allcall' has no log, and so no world: ask for members(), leaders() and disagreement()"
        )

    def leaders(self, role: str) -> list[Holder]:
        """The claimants of `role` now: the one whose claim counts, then any other, of which there are some only while members
        can't hear each other (or one of them has just died)."""
        with self.lock:
            self._take(self.overheard.pass_time(self._host.now()))
            hosts = {speaker.id: speaker.host for speaker in self.overheard.members()}
            found: list[Holder] = []
            for claim in self.overheard.claims(role, self._host.now()):
                name = token(claim.term, claim.holder)
                found.append(
                    Holder(claim.holder, _name(claim.holder), hosts.get(claim.holder, ""), role, 0, name, None)
                )
            return found

    def members(self) -> list[Peer]:
        """The members heard lately, with each one's view of the leaders."""
        with self.lock:
            self._take(self.overheard.pass_time(self._host.now()))
            leaders = {
                role: held for role in self.overheard.roles() if (held := self.overheard.claims(role, self._host.now()))
            }
            return [
                Peer(
                    speaker.id,
                    speaker.name,
                    speaker.host,
                    "",
                    {},
                    speaker.rank,
                    1.0,
                    speaker.lease_ms / 1000,
                    False,
                    tuple(role for role, held in leaders.items() if any(claim.holder == speaker.id for claim in held)),
                    dict(speaker.views),
                )
                for speaker in self.overheard.members()
            ]

    def disagreement(self) -> dict[str, dict[str | None, list[str]]]:
        """The roles of which members don't name the same leader, while that lasts: of each leader, who believes in it."""
        with self.lock:
            self._take(self.overheard.pass_time(self._host.now()))
            return self.overheard.disagreement(self._host.now())

    def events(self, timeout: float | None = None) -> Iterator[Change]:
        """Changes as they are heard. Ends when nothing has happened for `timeout` seconds (None: never)."""
        quiet_since = self._host.now()
        while timeout is None or self._host.now() - quiet_since < timeout * 1e9:
            changes = self.read(timeout=0.25 if timeout is None else min(0.25, timeout))
            if changes:
                quiet_since = self._host.now()
            yield from changes

    def close(self) -> None:
        """Stops listening, and closes the bus if this observer opened it. May be called twice."""
        self._stop()
        self._close_bus()

    def _close_bus(self) -> None:
        if self._own:
            self._bus.close()


def _name(member: str) -> str:
    return member.rpartition("~")[0] or member
