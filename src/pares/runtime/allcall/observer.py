"""Listening to an ALLCALL group without being in it, as `Observer` does for protocol="allcall"."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from pares.core.allcall.listener import Overheard
from pares.core.allcall.messages import token
from pares.core.errors import CapabilityError
from pares.core.wire.changes import Change
from pares.core.wire.records import check_name
from pares.core.wire.world import World
from pares.runtime.allcall.settings import medium_of
from pares.runtime.driver.kit import Disagreement
from pares.runtime.here import here
from pares.runtime.host import Host
from pares.runtime.views import Holder, Peer

MOST: Final = 100_000
"""The most changes that are kept until they are read; of more, the oldest are dropped."""


class AllCallObserver:
    """See `driver.kit.Watches`. It sends nothing, and works on the thread of the bus. Safe to use from several threads."""

    def __init__(
        self, ledger: object, group: str, options: Mapping[str, Any] | None = None, host: Host | None = None
    ) -> None:
        self.group = check_name("group", group)
        self._host = host or here()
        bus: Any = self._host.open_bus(ledger, **(options or {})) if isinstance(ledger, str) else ledger
        self._bus = medium_of(bus)
        self._own = self._bus is not ledger
        self.overheard = Overheard(group)
        """The group as it was heard. Read it under `lock`."""
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
        return False

    @property
    def world(self) -> World:
        raise CapabilityError(
            "protocol 'allcall' has no log, and so no world: ask for members(), leaders() and disagreement()"
        )

    def leaders(self, role: str) -> list[Holder]:
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

    def disagreement(self) -> Disagreement:
        with self.lock:
            self._take(self.overheard.pass_time(self._host.now()))
            return self.overheard.disagreement(self._host.now())

    def close(self) -> None:
        """Stops listening, and closes the bus if this observer opened it. May be called twice."""
        self._stop()
        self._close_bus()

    def _close_bus(self) -> None:
        if self._own:
            self._bus.close()


def _name(member: str) -> str:
    return member.rpartition("~")[0] or member
