"""The consumer that should hold each partition (C6): what `claims.placement` is to roles, on terms that each consumer states.

A pure function of the world and of the members alive. In this order: only consumers of that topic that are alive, ready, not
draining and below what they take at most; the one that had it and came back under its name (R8); balanced within one, by
weight; and sticky. The unit that is shared out is a partition, or a slot of one where consumers take ranges (C11), or a whole
topic if any consumer alive takes whole ones.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Set
from heapq import heappop, heapreplace
from typing import Final

from pares.core.consume.names import WHOLE, Partition, Terms, consumers
from pares.core.wire.divided.divisions import barred
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, SeatState
from pares.core.wire.world import World

EPSILON: Final = 1e-9
NOBODY: Final[frozenset[str]] = frozenset()

Unit = list[SeatState]
"""Seats that go together, the lowest partition first."""
Takers = tuple[set[str], list[tuple[float, str]]]
"""The consumers that take what is like a unit, if they have room; and the same as a heap, by what each would have with one
more. Units of a sort share it. [with a thousand partitions each consumer asks itself about each of them, for each claim that
it reads, and a group that comes has no time for anything else]"""


def share(
    world: World, alive: Set[str], *, unsettled: Set[str] = NOBODY, without: Set[str] = NOBODY
) -> dict[Seat, str | None]:
    """The consumer that should hold each seat that takes a holder; None where none can. Arguments as of `placement.place`;
    consumers have no ranks, so who has settled says nothing here."""
    return _Sharing(world, alive, without).run()


class _Sharing:
    def __init__(self, world: World, alive: Set[str], without: Set[str]) -> None:
        self.world = world
        self.crew: dict[str, MemberState] = {
            id: member
            for id, member in sorted(world.members.items())
            if id in alive and id not in without and not member.draining and id not in world.unready
        }
        self.terms: dict[str, Terms] = consumers(self.crew.values())
        self.names = {self.crew[id].name for id in self.terms}
        self.load = dict.fromkeys(self.terms, 0)
        self.whole = any(terms.whole for terms in self.terms.values())
        self.holders: dict[int, str] = {}
        """The one that should hold each unit, by its place in `units`."""
        self.units = self._units()
        self._sorts: dict[tuple[str, bool, int], Takers] = {}
        self.takers = [self._takers(unit) for unit in self.units]
        self.kept: set[int] = set()

    def _units(self) -> list[Unit]:
        found: dict[str, list[tuple[Partition, SeatState]]] = {}
        shut: dict[tuple[str, int, int, bool], bool] = {}
        for seat in self.world.seats.values():
            partition = Partition.of(seat.role)
            if partition is None or not self.world.open(seat.seat) or self.world.paused(seat.role):
                continue
            if seat.holder is None:  # all free seats of one division take a holder, or none does (C12)
                division = (partition.source, partition.number, partition.keys, partition.slot == WHOLE)
                if division not in shut:
                    shut[division] = barred(self.world, seat.role)
                if shut[division]:
                    continue
            together = self.whole and partition.slot == WHOLE
            found.setdefault(partition.source if together else seat.role, []).append((partition, seat))
        return [[seat for _, seat in sorted(found[key], key=lambda each: each[0])] for key in sorted(found)]

    def run(self) -> dict[Seat, str | None]:
        order = sorted(range(len(self.units)), key=lambda number: (self._since(number), number))
        for number in order:
            keeper = self._keeper(number)
            if keeper is not None:
                self.kept.add(number)
                self._put(number, keeper)
        for number in range(len(self.units)):
            if number not in self.kept:
                chosen = self._choose(number)
                if chosen is not None:
                    self._put(number, chosen)
        self._balance()
        return {seat.seat: self.holders.get(number) for number, unit in enumerate(self.units) for seat in unit}

    def _since(self, number: int) -> int:
        """Those that have been held for longest are kept first, by a consumer that holds more than it takes."""
        return min((seat.token for seat in self.units[number] if seat.holder is not None), default=0)

    def _put(self, number: int, member: str) -> None:
        self.holders[number] = member
        self.load[member] += 1

    def _takes(self, member: str, number: int) -> bool:
        """Whether it takes one more, and of that topic."""
        most = self.terms[member].most
        return member in self.takers[number][0] and (most is None or self.load[member] < most)

    def _takers(self, unit: Unit) -> Takers:
        partition = Partition.of(unit[0].role)
        assert partition is not None, "units are made of partitions"
        sort = (partition.topic, partition.slot == WHOLE, partition.keys)
        found = self._sorts.get(sort)
        if found is None:
            ids = {id for id, terms in self.terms.items() if terms.takes(partition)}
            found = self._sorts[sort] = (ids, sorted((self._one_more(id), id) for id in ids))
        return found

    def _one_more(self, member: str) -> float:
        """What it would have, by its weight, with one more."""
        return (self.load[member] + 1) / self._weight(member)

    def _least(self, number: int) -> str | None:
        """Of those that take it, the one that would have least with it. While units are chosen for, loads only grow: what
        stands in the heap is right, or too little."""
        heap = self.takers[number][1]
        while heap:
            known, id = heap[0]
            now = self._one_more(id)
            if not self._takes(id, number):
                heappop(heap)
            elif known == now:
                return id
            else:
                heapreplace(heap, (now, id))
        return None

    def _keeper(self, number: int) -> str | None:
        """The holder that may stay: of whole topics, that of the first partition that is held."""
        unit = self.units[number]
        holder = next((s.holder for s in unit if s.holder in self.terms), None)
        if holder is None or not self._takes(holder, number):
            return None
        asked = next((seat.asked for seat in unit if seat.asked is not None), None)
        if asked is not None and any(self._asked_for(asked[0], id, number) for id in self.terms if id != holder):
            return None
        return holder

    def _asked_for(self, to: str | None, member: str, number: int) -> bool:
        return (to is None or to == member) and self._takes(member, number)

    def _choose(self, number: int) -> str | None:
        unit = self.units[number]
        names = {self._name(seat) for seat in unit}
        if names.isdisjoint(self.names) and not any(seat.asked or seat.avoid for seat in unit):
            return self._least(number)
        able = [id for id in self.terms if self._takes(id, number)]
        asked = next((seat for seat in unit if seat.asked is not None), None)
        if asked is not None and asked.asked is not None:
            to = asked.asked[0]
            able = [id for id in able if id != asked.holder and to in (None, id)] or able
        avoid = {seat.avoid for seat in unit}
        able = [id for id in able if id not in avoid] or able
        return min(able, key=lambda id: (self.crew[id].name not in names, self._one_more(id), id), default=None)

    def _name(self, seat: SeatState) -> str | None:
        """Of the one that has lost it, or is losing it now."""
        holder = self.world.members.get(seat.holder or "")
        return seat.last if holder is None or holder.id in self.terms else holder.name

    def _weight(self, member: str) -> float:
        return self.crew[member].weight

    # Balance ---------------------------------------------------------------------------------------------------------

    def _movable(self, number: int) -> bool:
        holder = self.holders[number]
        if any(seat.pinned or seat.asked for seat in self.units[number]):
            return False
        if number not in self.kept:
            return self.crew[holder].name not in {self._name(seat) for seat in self.units[number]}
        return not self.terms[holder].greedy

    def _balance(self) -> None:
        """Moves a unit from the one with most to the one with least, as long as the greater of the two loads gets smaller."""
        held: dict[str, list[int]] = {id: [] for id in self.terms}
        for number in sorted(self.holders, key=lambda number: (number not in self.kept, self._since(number), number)):
            if self._movable(number):
                held[self.holders[number]].append(number)
        order = sorted((self._has(id), id) for id in self.terms)
        while (moved := self._one_move(held, order)) is not None:
            for id in moved:
                insort(order, (self._has(id), id))

    def _has(self, member: str) -> float:
        """What it has, by its weight."""
        return self.load[member] / self._weight(member)

    def _one_move(self, held: dict[str, list[int]], order: list[tuple[float, str]]) -> tuple[str, str] | None:
        """The two between whom a unit was moved, which are taken out of `order`."""
        for before, giver in reversed(order):
            for has, taker in order:
                if taker == giver or self._one_more(taker) + EPSILON >= before:
                    break
                numbers = held[giver]
                for at in range(len(numbers) - 1, -1, -1):
                    number = numbers[at]
                    if self._takes(taker, number) and all(seat.avoid != taker for seat in self.units[number]):
                        del (
                            numbers[at],
                            order[bisect_left(order, (before, giver))],
                            order[bisect_left(order, (has, taker))],
                        )
                        self.load[giver] -= 1
                        self._put(number, taker)
                        return giver, taker
        return None
