"""What a protocol provides: a `Kit` that makes members which run it, `Watches` for observers, `Steers` for administrators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.changes import Change
from pares.core.wire.world import World
from pares.ledger import Bus, Ledger, Log
from pares.ledger.base import offers
from pares.runtime.config.protocols import ProtocolSettings
from pares.runtime.config.settings import Spread
from pares.runtime.driver.binding import Drives
from pares.runtime.driver.inbox import Inbox
from pares.runtime.driver.lifecycle import Life
from pares.runtime.driver.view import View
from pares.runtime.host import Host
from pares.runtime.views import Health, Holder, Peer, Rewound, State

log: Final = logging.getLogger("pares.member")

Disagreement = dict[str, dict[str | None, list[str]]]
"""By role: for each leader that members name, the members that name it."""


class Medium(NamedTuple):
    """What a member writes to."""

    ledger: Any
    """A `Ledger`, or a bus."""
    own: bool
    """Whether it was opened for this member, and is closed with it."""

    def close(self) -> None:
        if self.own:
            self.ledger.close()


class Engine(NamedTuple):
    """What drives a member."""

    loop: Drives
    view: View
    eligible: tuple[str, ...] | None
    """The roles that it may lead; None: any."""
    session: float


class Contends(Protocol):
    """A `Member`, as far as a protocol makes use of one that runs the claims protocol."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> State: ...

    def members(self) -> list[Peer]: ...

    def health(self) -> Health: ...

    def hand_over(self, role: str, to: str | None = None, why: str = "") -> None: ...

    def pause(self, role: str | None = None, *, seconds: float) -> None: ...

    def resume(self, role: str | None = None) -> None: ...

    def close(self, timeout: float | None = None) -> None: ...


class Contender(NamedTuple):
    """Such a member, and what else a protocol asks of it."""

    member: Contends
    read_first: Callable[[Callable[[bool], object]], None]
    paused: Callable[[str], bool]


def contends(make: Callable[..., Any]) -> Callable[..., Contender]:
    """A function that makes members of the claims protocol, for protocols that rest on a claims group. `make`: the class
    `Member`."""

    def contender(ledger: Ledger, **settings: Any) -> Contender:
        made = make(ledger, **settings)
        return Contender(made, made._loop.read_first, made._view.paused)

    return contender


class Parts(NamedTuple):
    """What a member of any protocol is put together from."""

    own: ProtocolSettings | None
    """The settings that only its protocol has (None for claims)."""
    checked: dict[str, Any]
    """All other settings, checked, as `config.settings` returns them."""
    given: dict[str, Any]
    """The same settings as they were given to `Member`."""
    inbox: Inbox
    life: Life
    host: Host
    contender: Callable[..., Contender]
    """Makes a member of the claims protocol, with a ledger and settings."""


class Watches(Protocol):
    """What observes a group: see `Observer`."""

    @property
    def adrift(self) -> bool: ...

    @property
    def world(self) -> World: ...

    def read(self, timeout: float = 0.0) -> list[Change]: ...

    def leaders(self, role: str) -> list[Holder]: ...

    def members(self) -> list[Peer]: ...

    def disagreement(self) -> Disagreement: ...

    def close(self) -> None: ...


class Listens(Protocol):
    """What makes an observer of a group on a bus. `ledger`: a bus, a log in whose place it is used, or a URL of one."""

    def __call__(self, ledger: object, group: str, options: Mapping[str, Any] | None, host: Host) -> Watches: ...


class Follows(Protocol):
    """What reads along with a group in a log, for an observer; made with the ledger, the group, its partition and a host, on
    the log as it is then. Not for several threads at once."""

    @property
    def adrift(self) -> bool: ...

    @property
    def world(self) -> World: ...

    def read(self, into: list[Change], timeout: float) -> bool:
        """Adds what is new, up to the end of the log, after up to `timeout` seconds. Whether the group turns out to run another
        protocol, whose records say nothing here. Raises what a ledger's `read` raises; what was read by then is added."""
        ...


class Steers(Protocol):
    """What steers a group: see `Admin`."""

    def roles(self) -> dict[str, int]: ...

    def add_role(self, name: str, seats: int, weight: float, spread: Spread) -> None: ...

    def remove_role(self, name: str) -> None: ...

    def pause(self, role: str | None, *, seconds: float) -> None: ...

    def resume(self, role: str | None) -> None: ...

    def hand_over(self, role: str, to: str | None, seat: int | None) -> None: ...

    def drain(self, member: str) -> None: ...

    def positions(self) -> dict[tuple[str, int], int]: ...

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> list[Rewound]: ...

    def close(self) -> None: ...


class Steerer(Protocol):
    """What makes an administrator, if the group runs its protocol; None: it does not, as its records say. `name`: shown as who
    asked. `again`: makes one of another group in the same ledger. Raises `CapabilityError` where its protocol can't be
    steered."""

    def __call__(
        self, ledger: Ledger, group: str, name: str | None, host: Host, again: Callable[[str], Steers]
    ) -> Steers | None: ...


class Kit(Protocol):
    """One protocol: a module of these functions."""

    def check(self, given: Mapping[str, Any]) -> None:
        """Checks what can be checked of a member's settings without a ledger. Raises `ConfigError` and `CapabilityError`."""
        ...

    def open(
        self,
        ledger: str | Ledger | Bus,
        options: Mapping[str, Any],
        given: Mapping[str, Any],
        host: Host,
    ) -> Medium:
        """Opens what a member with these settings writes to. Raises as `Member` does."""
        ...

    def assemble(self, parts: Parts, ledger: Any) -> Engine:
        """Puts a member together on its ledger. Raises `ConfigError` and `CapabilityError`."""
        ...


def seat_to_move(role: str, seat: int | None, held: list[int]) -> int:
    """The seat that a holder is asked to hand over: the one that was named, or the first of those that are held. Raises
    `ConfigError` if it has no holder."""
    if not held or (seat is not None and seat not in held):
        what = f"{role!r}" if seat is None else f"seat {seat} of {role!r}"
        raise ConfigError(f"nobody holds {what} now, so nobody can hand it over")
    return held[0] if seat is None else seat


def open_log(ledger: str | Ledger | Bus, options: Mapping[str, Any], host: Host) -> Medium:
    """The log that a member writes to: opened by its URL, or given opened. Raises `ConfigError` and `CapabilityError`."""
    opened = host.open(ledger, **options) if isinstance(ledger, str) else ledger
    if not offers(opened, Log):
        raise ConfigError(f"ledger is {ledger!r}: give a URL such as file:work, or an opened ledger")
    if opened.capabilities.readonly:
        if opened is not ledger:
            opened.close()
        raise CapabilityError(f"{opened.url} is opened read-only, and a member writes: use an Observer to look on")
    return Medium(opened, opened is not ledger)


def keep_retention(checked: dict[str, Any], ledger: Ledger) -> None:
    """Takes the retention over from the ledger, if it has one."""
    if ledger.retention is not None:
        checked["retention_ms"] = int(ledger.retention * 1000)
