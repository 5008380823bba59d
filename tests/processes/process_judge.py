"""What may not be, whatever happened to the processes: one function a promise. Each returns what it found wrong, in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from process_beliefs import Belief


class Write(NamedTuple):
    """An accepted row of the sink; in the order of the commits."""

    role: str
    token: int
    member: str
    kind: str


def overlaps(beliefs: Iterable[Belief]) -> list[str]:
    """Promise 1: at no instant do two members believe that they hold the same seat."""
    wrong: list[str] = []
    latest: dict[int, Belief] = {}
    for belief in sorted(beliefs, key=lambda b: b.first):
        before = latest.get(belief.role)
        if before is not None and before.member != belief.member and belief.first <= before.last:
            both = (min(before.last, belief.last) - belief.first) / 1e6
            wrong.append(f"role {belief.role}: {before.member} and {belief.member} both believed for {both:.3f} ms")
        if before is None or belief.last > before.last:
            latest[belief.role] = belief
    return wrong


def falling_tokens(beliefs: Iterable[Belief]) -> list[str]:
    """Promise 4: whoever comes later has a higher token, and no token is used twice."""
    wrong: list[str] = []
    roles: dict[int, list[Belief]] = {}
    for belief in beliefs:
        roles.setdefault(belief.role, []).append(belief)
    for role, found in roles.items():
        for before, after in pairwise(sorted(found, key=lambda b: b.first)):
            if after.token <= before.token:
                wrong.append(f"role {role}: {before.token} of {before.member}, then {after.token} of {after.member}")
    return wrong


def zombie_writes(writes: Iterable[Write]) -> list[str]:
    """What fences are for: once a higher token has written, a lower one never does."""
    wrong: list[str] = []
    highest: dict[str, Write] = {}
    owners: dict[tuple[str, int], str] = {}
    for write in writes:
        before = highest.get(write.role)
        if before is not None and write.token < before.token:
            wrong.append(
                f"{write.role}: {write.member} wrote under {write.token} after {before.member}'s {before.token}"
            )
        if before is None or write.token > before.token:
            highest[write.role] = write
        if write.kind == "zombie":
            wrong.append(f"{write.role}: {write.member} wrote as a zombie under {write.token}")
        owner = owners.setdefault((write.role, write.token), write.member)
        if owner != write.member:
            wrong.append(f"{write.role}: token {write.token} was used by {owner} and {write.member}")
    return wrong
