"""Members that have nothing to do in a group that shares out partitions (seeds 000 and 002: M about P, and no more than R)."""

from __future__ import annotations

from collections.abc import Iterator

from pares.core.neli.induced import Induced
from pares.ledger import Membership
from pares.runtime.neli.claims_group import ClaimsMembership


def group_members(core: Induced, membership: Membership | None, now: int) -> dict[str, str]:
    """The members that are there, as far as can be known, each with its host: those that have written lately, and, where claims
    share partitions out, those in the assignment (under their ids there). `now`: by the member's stopwatch."""
    memory = now - int(max(2 * core.config.session_ms, 1000) * 1e6)
    found = {core.me: core.config.host}
    for part in core.parts:
        there = part.track.writers(memory, now)
        found |= {m: found.get(m, "") for g, m in there if g == core.config.group}
        found |= {t.member: t.host for t in list(part.track.open.values()) if t.member in found}
    if isinstance(membership, ClaimsMembership):
        known = {id.rpartition("~")[0] for id in found}
        found |= {peer.id: peer.host for peer in membership.peers() if peer.name not in known}
    return found


def uneven(partitions: int, seats: int, roles: int, members: int) -> Iterator[tuple[str, str]]:
    """Reports about these numbers: (kind, text) for each that a person may want to change."""
    block = partitions // seats
    if members > partitions and roles > block:
        yield (
            "idle-members",
            f"{members} members share out {partitions} partitions of {roles} roles, so {members - partitions} of them lead "
            f"nothing while others lead several: open the ledger with ?partitions={seats * min(roles, -(-members // seats))}",
        )
    if 0 < roles < block and members > 1:
        yield (
            "idle-partitions",
            f"{roles} roles stand in {seats * block} partitions, of which {seats * (block - roles)} carry none: a member that "
            f"owns only those leads nothing; use {seats * roles} partitions on a new ledger, or more roles",
        )
