"""What a consumer asks of a topic about all of its partitions at once: which have something new, and where they end.

Of a thousand partitions most have nothing new at most times. [each of them costs a look of its own, twenty times a second; and
on a service a request of its own, behind which the consumer hears of nothing else]
"""

from __future__ import annotations

from collections.abc import Iterable

from pares.core.consume.names import WHOLE
from pares.core.errors import ClosedError, LedgerUnavailable
from pares.runtime.consume.tenancy import Tenancy


def find_still(tenancies: Iterable[Tenancy], now: int) -> None:
    """Notes of each whether a fetch would bring nothing now (`still`). Slots of a partition are at places of their own in it,
    and say so themselves."""
    asked: dict[str, dict[int, Tenancy]] = {}
    for tenancy in tenancies:
        tenancy.still = False
        partition = tenancy.partition
        if partition.slot == WHOLE and tenancy.fetched is None and tenancy.looked and tenancy.may_be_read(now):
            asked.setdefault(partition.topic, {}).setdefault(partition.number, tenancy)
    for of in asked.values():
        if len(of) < 2:
            continue  # a fetch is one look, too
        source = next(iter(of.values())).source
        try:
            changed = frozenset(source.changed({number: tenancy.progress.next for number, tenancy in of.items()}))
        except (LedgerUnavailable, ClosedError):
            continue  # each fetch says so, and what follows is said of each
        for number, tenancy in of.items():
            tenancy.still = number not in changed


def look_at_ends(tenancies: Iterable[Tenancy], *, strict: bool = False) -> list[Tenancy]:
    """Asks where the partitions of those end whose terms last. Those of which that is known now; with `strict` it raises
    `LedgerUnavailable` if it is not known of all."""
    asked: dict[str, list[Tenancy]] = {}
    for tenancy in tenancies:
        if tenancy.term:
            asked.setdefault(tenancy.partition.topic, []).append(tenancy)
    found: list[Tenancy] = []
    for of in asked.values():
        try:
            ends = of[0].source.ends({tenancy.partition.number for tenancy in of})
        except LedgerUnavailable:
            if strict:
                raise
            continue
        for tenancy in of:
            end = ends.get(tenancy.partition.number)
            if end is not None:
                tenancy.end = end
                found.append(tenancy)
            elif strict:
                raise LedgerUnavailable(f"{tenancy.role}: where it ends can't be asked now")
    return found
