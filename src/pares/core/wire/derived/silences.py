"""Which member without seats has been silent for longest, in a group so full that each join asks (R20).

A heap of what was last known of each member's count: it is looked at only from the top, and put right there. A member that
has written since, or that holds something now, is moved when it comes to the top, so a look costs no more than what has been
written since the last one, and the logarithm of the members to each of these. [each join into a full group costs every reader
a look at each member]

Nothing of it is part of the world: it is made from the world alone when it is first asked, and forgotten when one is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState

SPARE = 64
"""Entries of members that are gone, besides one for each that is there, before they are cleared away."""


class Silences:
    """Kept for one world, whose `members` and `held` it is told."""

    def __init__(self, members: Mapping[str, MemberState], held: Mapping[str, set[Seat]]) -> None:
        self._members, self._held = members, held
        self._heap: list[tuple[int, str]] = []
        self._holders: set[str] = set()
        """Members that were found to hold something: nobody looks at them until they give something up."""
        self._clear()

    def add(self, member: MemberState) -> None:
        """A join has counted."""
        heappush(self._heap, (member.count, member.id))
        if len(self._heap) > 2 * len(self._members) + SPARE:
            self._clear()

    def let_go(self, member: str) -> None:
        """It has given something up."""
        if member in self._holders and not self._held[member]:
            self._holders.discard(member)
            heappush(self._heap, (self._members[member].count, member))

    def longest(self) -> MemberState | None:
        """The member without seats of which nothing has counted for longest; None if there is none."""
        heap, members = self._heap, self._members
        while heap:
            count, id = heap[0]
            member = members.get(id)
            if member is None:
                heappop(heap)
            elif self._held[id]:
                heappop(heap)
                self._holders.add(id)
            elif member.count != count:
                heapreplace(heap, (member.count, id))
            else:
                return member
        return None

    def _clear(self) -> None:
        self._heap = [(member.count, member.id) for member in self._members.values()]
        heapify(self._heap)
        self._holders = set()
