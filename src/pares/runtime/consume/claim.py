"""What a consumer knows of partitions: its own, and those of its group."""

from __future__ import annotations

from collections.abc import Iterable

from pares.core.consume.names import WHOLE, Partition
from pares.core.wire.divided.divisions import barred
from pares.core.wire.divided.keys import parts
from pares.core.wire.divided.ranges import slots
from pares.core.wire.world import World
from pares.runtime.consume.divided.ranging import lags_of_slot
from pares.runtime.consume.kit import Seated
from pares.runtime.consume.tenancy import Tenancy
from pares.runtime.views import Claim


def claims_of(member: Seated, tenancies: Iterable[Tenancy], *, all: bool) -> list[Claim]:
    """In order of topics and numbers. Without `all`, those that the member may believe that it holds."""
    mine = {tenancy.role: tenancy for tenancy in tenancies if tenancy.term}
    found = [_mine(member.id, tenancy) for tenancy in mine.values()]
    world = member.world
    for seat in list(world.seats.values()) if all else ():
        partition = Partition.of(seat.role)
        if partition is None or seat.role in mine or (seat.holder is None and _is_no_use(world, seat.role)):
            continue
        holder = None if seat.holder is None else world.members.get(seat.holder)
        free = "paused" if world.paused(seat.role) else "free"
        state = free if holder is None else member.freshness(holder)
        position = max(seat.mark, seat.taken)
        place = (partition.topic, partition.number, seat.holder, state, seat.token, position, None, None)
        found.append(Claim(*place, *_slot_of(partition)))
    return sorted(found, key=lambda claim: (claim.topic, claim.partition, -1 if claim.slot is None else claim.slot))


def lag_of(member: Seated, tenancies: Iterable[Tenancy]) -> int:
    """Offsets of these partitions that are not done, in all; see `Consumer.lag`."""
    lags: dict[tuple[Partition, int], int] = {}
    for tenancy in tenancies:
        partition, lag = tenancy.partition, tenancy.lag
        whole = (partition.whole, WHOLE)
        if tenancy.ranges is not None:
            free, lag = lags_of_slot(member.world, tenancy)
            lags[whole] = max(lags.get(whole, 0), free)
        key = whole if partition.keys else (partition.whole, partition.slot)
        lags[key] = max(lags.get(key, 0), lag)
    return sum(lags.values())


def _is_no_use(world: World, role: str) -> bool:
    """Whether a free seat stands for nothing now: another division of its partition is in use (C11, C12)."""
    return barred(world, role) or any(part.holder is not None for part in parts(world, role)) or any(slots(world, role))


def _slot_of(partition: Partition) -> tuple[int | None, int | None]:
    return None if partition.slot == WHOLE else partition.slot, partition.keys or None


def _mine(id: str, tenancy: Tenancy) -> Claim:
    partition, position = tenancy.partition, tenancy.progress.position
    place = (partition.topic, partition.number, id, "fresh", tenancy.term.token)
    return Claim(*place, position, tenancy.end, tenancy.lag, *_slot_of(partition))
