"""What a member tells of its group: a view of what its driver has read. Each family of protocols has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.records import Seat
from pares.core.wire.world import World
from pares.runtime.host import DeathLock
from pares.runtime.views import Holder, Peer, holders, peers

if TYPE_CHECKING:
    from pares.runtime.driver.lifecycle import Life


def no_partitions(protocol: str, role: str) -> CapabilityError:
    """The error for a caller that asks for a role's partition under a protocol that shares out no partitions."""
    return CapabilityError(
        f"role {role!r} has no partition: protocol {protocol!r} gives out each role by itself; partitions are shared out by "
        "'neli', 'nele' and 'fast-neli'"
    )


class View(Protocol):
    """What `Member` asks about what its driver has read. Methods that have a body here are defaults."""

    @property
    def id(self) -> str: ...

    @property
    def lock(self) -> DeathLock | None:
        return None

    @property
    def no_proof(self) -> str | None:
        return None

    @property
    def linger(self) -> float:
        """Seconds that leaving may take beyond barriers and appends."""
        return 0.0

    @property
    def bad_records(self) -> int:
        return 0

    @property
    def uncounted_records(self) -> int:
        return 0

    def held(self) -> dict[Seat, int]:
        """The seats that are given to this member, led or not, and since when it could lead them, by the stopwatch. Empty where
        a protocol gives no seats out."""
        return {}

    def members(self) -> list[Peer]: ...

    def leaders(self, role: str) -> list[Holder]: ...

    def roles(self) -> dict[str, int]: ...

    def partition(self, role: str, seat: int) -> int:
        """Raises `CapabilityError` if the protocol shares out no partitions."""
        ...

    def known(self, role: str) -> bool: ...

    def paused(self, role: str) -> bool:
        """Whether the role, or its whole group, is paused."""
        return False

    def expects(self, role: str) -> bool:
        """Whether it makes sense to wait for this role: by default always."""
        return True

    def resolve(self, member: str, group: str) -> str: ...

    def check(self, what: str) -> None:
        """Raises `CapabilityError` if the protocol does not have the request `what`."""

    def check_role(self, seats: int, weight: float, spread: str) -> None:
        """Raises `CapabilityError` if a role can't be added with these."""


class Followed(Protocol):
    """A binding that follows a world."""

    @property
    def me(self) -> str: ...

    @property
    def world(self) -> World: ...

    @property
    def lock(self) -> DeathLock | None: ...

    @property
    def no_proof(self) -> str | None: ...

    @property
    def bad_records(self) -> int: ...

    @property
    def uncounted_records(self) -> int: ...

    def now(self) -> int: ...


class WorldView(View):
    """The view of the claims protocol: everything is in the world."""

    def __init__(self, followed: Followed, life: Life) -> None:
        self._followed = followed
        self._life = life

    @property
    def id(self) -> str:
        return self._followed.me

    @property
    def world(self) -> World:
        return self._followed.world

    @property
    def lock(self) -> DeathLock | None:
        return self._followed.lock

    @property
    def no_proof(self) -> str | None:
        return self._followed.no_proof

    @property
    def bad_records(self) -> int:
        return self._followed.bad_records

    @property
    def uncounted_records(self) -> int:
        return self._followed.uncounted_records

    def held(self) -> dict[Seat, int]:
        held, now = list(self._followed.world.held.get(self.id, ())), self._followed.now()
        return {seat: self._life.turned.get(seat, now) for seat in held}

    def members(self) -> list[Peer]:
        return peers(self._followed.world, self.id)

    def leaders(self, role: str) -> list[Holder]:
        return holders(self._followed.world, role, self._life.since)

    def roles(self) -> dict[str, int]:
        world = self._followed.world
        return {r.name: r.seats for r in sorted(world.roles.values(), key=lambda r: r.name) if not r.removed}

    def partition(self, role: str, seat: int) -> int:
        raise no_partitions("claims", role)

    def known(self, role: str) -> bool:
        return role in self._followed.world.roles

    def paused(self, role: str) -> bool:
        pauses = list(self._followed.world.pauses.values())
        return any(pause.scope is None or pause.scope == role for pause in pauses)

    def resolve(self, member: str, group: str) -> str:
        found = [m for m in list(self._followed.world.members.values()) if member in (m.id, m.name)]
        if not found:
            there = ", ".join(sorted({p.name for p in self.members()})[:10]) or "none"
            raise ConfigError(f"group {group!r} has no member {member!r}; it has: {there}")
        return max(found, key=lambda m: m.joined).id
