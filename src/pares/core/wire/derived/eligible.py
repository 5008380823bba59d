"""What members are eligible for, each list of roles once (R23).

A member that declares roles is eligible for those, so hundreds state one and the same list of hundreds. [each has a list of its
own: a group of a thousand is a million names in each reader's memory, and each claim costs a walk through one of the lists]

Nothing of it is part of the world: it is what the joins say, in another form.
"""

from __future__ import annotations

from collections.abc import Mapping

from pares.core.wire.states import MemberState

SPARE = 64
"""Lists that nobody states any more, besides one for each member, before they are forgotten."""

Roles = tuple[tuple[str, ...], frozenset[str]]


class Eligible:
    """Kept for one world, whose `members` it is told."""

    def __init__(self, members: Mapping[str, MemberState]) -> None:
        self._members = members
        self._lists: dict[tuple[str, ...], Roles] = {}
        self._of: dict[str, Roles] = {}
        for member in members.values():
            self.roles(member)

    def roles(self, member: MemberState) -> frozenset[str] | None:
        """The roles that it is eligible for, by its join; None: all of them. The same value for the same list."""
        stated = member.eligible
        if stated is None:
            return None
        known = self._of.get(member.id)
        if known is None or known[0] is not stated:
            known = self._lists.get(stated)
            if known is None:
                known = self._lists[stated] = (stated, frozenset(stated))
            self._of[member.id] = known
            member.eligible = known[0]
            if len(self._of) > 2 * len(self._members) + SPARE:
                self._of = {id: known for id, known in self._of.items() if id in self._members}
                self._lists = {known[0]: known for known in self._of.values()}
        return known[1]
