"""Members by how much they hold, for placement: the one with the least is found without a look at each of them.

Members that placement can't tell apart but by what they hold are of one *kind*: same rank, weight and eligibility, and for
roles with several seats the same host and zone (R23). Each kind keeps its members in order. So a seat costs a look at each
kind, and at those few members of it that may not have the seat; most groups are of one kind. [each seat of the dead costs a
look at each of the living: where half of a group dies, that is the square of its size]
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from pares.core.wire.states import MemberState

Clash = tuple[int, int]
NO_CLASH: Clash = (0, 0)


class Kind:
    """Members of one kind, in the order of what they hold and then of their ids."""

    __slots__ = ("able", "like", "order", "rank", "weight")

    def __init__(self, like: MemberState, rank: int, able: frozenset[str] | None) -> None:
        self.like = like
        """One of them."""
        self.rank = rank
        self.weight = like.weight
        self.able = able
        self.order: list[tuple[float, str]] = []

    def takes(self, role: str) -> bool:
        return self.able is None or role in self.able

    def first(self, without: Set[str]) -> tuple[float, str] | None:
        """Of all but these, the one that holds the least."""
        return next((each for each in self.order if each[1] not in without), None)


class Loads:
    """What each member of a crew would hold. `places`: hosts and zones tell kinds apart, too."""

    def __init__(
        self,
        crew: Iterable[MemberState],
        rank: Mapping[str, int],
        able: Mapping[str, frozenset[str] | None],
        *,
        places: bool,
    ) -> None:
        self.load: dict[str, float] = {}
        self.of: dict[str, Kind] = {}
        kinds: dict[tuple[Any, ...], Kind] = {}
        for member in crew:
            mine = able[member.id]
            key = (rank[member.id], member.weight, mine, *((member.host, member.zone) if places else ()))
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = Kind(member, rank[member.id], mine)
            kind.order.append((0.0, member.id))
            self.load[member.id], self.of[member.id] = 0.0, kind
        self.kinds = list(kinds.values())
        for kind in self.kinds:
            kind.order.sort()

    def begin(self, load: Mapping[str, float]) -> None:
        """What they hold to begin with: cheaper than one by one."""
        self.load.update(load)
        for kind in self.kinds:
            kind.order = sorted((self.load[id], id) for _, id in kind.order)

    def add(self, member: str, weight: float) -> None:
        order, before = self.of[member].order, self.load[member]
        del order[bisect_left(order, (before, member))]
        self.load[member] = after = before + weight
        insort(order, (after, member))

    def relative(self, member: str) -> float:
        return self.load[member] / self.of[member].weight

    def even(self, lightest: float, little: float) -> bool:
        """Whether nothing of this weight, or more, would make the greater of two loads smaller, whichever two of one rank."""
        most: dict[int, float] = {}
        least: dict[int, float] = {}
        for kind in self.kinds:
            if kind.order:
                rank, top, low = kind.rank, kind.order[-1][0] / kind.weight, (kind.order[0][0] + lightest) / kind.weight
                most[rank], least[rank] = max(most.get(rank, top), top), min(least.get(rank, low), low)
        return all(least[rank] + little >= most[rank] for rank in most)

    def least(
        self,
        role: str,
        weight: float,
        without: Set[str],
        clashes: Callable[[MemberState], Clash] | None = None,
    ) -> tuple[tuple[int, Clash], str] | None:
        """The member that comes first for a seat of this weight, of all that are eligible but these: by rank, then by clashes,
        then by what it would hold. With its rank and clashes. None: there is none."""
        best: tuple[int, Clash, float, str] | None = None
        for kind in self.kinds:
            found = kind.first(without) if kind.takes(role) else None
            if found is not None:
                clash = NO_CLASH if clashes is None else clashes(kind.like)
                key = (kind.rank, clash, (found[0] + weight) / kind.weight, found[1])
                best = key if best is None else min(best, key)
        return None if best is None else ((best[0], best[1]), best[3])
