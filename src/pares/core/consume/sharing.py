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

from msgspec import Struct

from pares.core.consume.names import WHOLE, Partition, Terms, consumers
from pares.core.wire.divided.divisions import barred
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, SeatState
from pares.core.wire.world import World

EPSILON: Final = 1e-9
NOBODY: Final[frozenset[str]] = frozenset()

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


class _Unit(Struct, eq=False, gc=False):
    """Seats that go together, the lowest partition first: with one seat, but for whole topics. What is asked of a unit again
    and again is found out once, when it is made. [a thousand partitions are placed anew whenever somebody comes or goes]"""

    seats: list[SeatState]
    takers: Takers
    holder: str | None
    """Of the first seat that a consumer of the crew holds."""
    since: int
    """Those that have been held for longest are kept first, by a consumer that holds more than it takes."""
    plain: bool
    """Nobody asked for any of its seats, stepped down from one, or pinned it."""
    kept: bool = False


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
        self._sorts: dict[tuple[str, bool, int], Takers] = {}
        self.units = [self._unit(*found) for _, found in sorted(self._found().items())]

    def _found(self) -> dict[str, tuple[Partition, list[SeatState]]]:
        """Seats that take a holder, by what they go by, with the first partition of each."""
        world, roles = self.world, self.world.roles
        found: dict[str, tuple[Partition, list[SeatState]]] = {}
        together: dict[str, list[tuple[Partition, SeatState]]] = {}
        shut: dict[tuple[str, int, int, bool], bool] = {}
        divided, pauses = world.in_force and bool(world.siblings), bool(world.pauses)
        for seat in world.seats.values():
            name = seat.role
            partition, role = Partition.of(name), roles.get(name)
            if partition is None or role is None or role.removed or seat.index >= role.seats:
                continue
            if pauses and world.paused(name):
                continue
            if divided and seat.holder is None:  # all free seats of one division take a holder, or none does (C12)
                division = (partition.source, partition.number, partition.keys, partition.slot == WHOLE)
                if division not in shut:
                    shut[division] = barred(world, name)
                if shut[division]:
                    continue
            if self.whole and partition.slot == WHOLE:
                together.setdefault(partition.source, []).append((partition, seat))
            else:
                found[name] = (partition, [seat])
        for name, several in together.items():
            several.sort(key=lambda each: each[0])
            found[name] = (several[0][0], [seat for _, seat in several])
        return found

    def _unit(self, partition: Partition, seats: list[SeatState]) -> _Unit:
        takers, first = self._takers(partition), seats[0]
        if len(seats) == 1:
            holder = first.holder if first.holder in self.terms else None
            plain = first.asked is None and first.avoid is None and not first.pinned
            return _Unit(seats, takers, holder, 0 if first.holder is None else first.token, plain)
        holder = next((seat.holder for seat in seats if seat.holder in self.terms), None)
        since = min((seat.token for seat in seats if seat.holder is not None), default=0)
        plain = all(seat.asked is None and seat.avoid is None and not seat.pinned for seat in seats)
        return _Unit(seats, takers, holder, since, plain)

    def run(self) -> dict[Seat, str | None]:
        units = self.units
        for number in sorted((n for n, unit in enumerate(units) if unit.holder), key=lambda n: (units[n].since, n)):
            unit = units[number]
            if unit.holder is not None and self._keeps(unit, unit.holder):
                unit.kept = True
                self._put(number, unit.holder)
        for number, unit in enumerate(units):
            if not unit.kept:
                chosen = self._choose(unit)
                if chosen is not None:
                    self._put(number, chosen)
        self._balance()
        holders = self.holders
        return {(s.role, s.index): holders.get(number) for number, unit in enumerate(units) for s in unit.seats}

    def _put(self, number: int, member: str) -> None:
        self.holders[number] = member
        self.load[member] += 1

    def _takes(self, member: str, unit: _Unit) -> bool:
        """Whether it takes one more, and of that topic."""
        most = self.terms[member].most
        return member in unit.takers[0] and (most is None or self.load[member] < most)

    def _takers(self, partition: Partition) -> Takers:
        sort = (partition.topic, partition.slot == WHOLE, partition.keys)
        found = self._sorts.get(sort)
        if found is None:
            ids = {id for id, terms in self.terms.items() if terms.takes(partition)}
            found = self._sorts[sort] = (ids, sorted((self._one_more(id), id) for id in ids))
        return found

    def _one_more(self, member: str) -> float:
        """What it would have, by its weight, with one more."""
        return (self.load[member] + 1) / self._weight(member)

    def _least(self, unit: _Unit) -> str | None:
        """Of those that take it, the one that would have least with it. While units are chosen for, loads only grow: what
        stands in the heap is right, or too little."""
        heap = unit.takers[1]
        while heap:
            known, id = heap[0]
            now = self._one_more(id)
            if not self._takes(id, unit):
                heappop(heap)
            elif known == now:
                return id
            else:
                heapreplace(heap, (now, id))
        return None

    def _keeps(self, unit: _Unit, holder: str) -> bool:
        """Whether the holder may stay: of whole topics, that of the first partition that is held."""
        if not self._takes(holder, unit):
            return False
        asked = None if unit.plain else next((seat.asked for seat in unit.seats if seat.asked is not None), None)
        return asked is None or not any(self._asked_for(asked[0], id, unit) for id in self.terms if id != holder)

    def _asked_for(self, to: str | None, member: str, unit: _Unit) -> bool:
        return (to is None or to == member) and self._takes(member, unit)

    def _choose(self, unit: _Unit) -> str | None:
        if unit.plain and len(unit.seats) == 1 and self._name(unit.seats[0]) not in self.names:
            return self._least(unit)
        names = self._names(unit)
        if names.isdisjoint(self.names) and (unit.plain or not any(seat.asked or seat.avoid for seat in unit.seats)):
            return self._least(unit)
        able = [id for id in self.terms if self._takes(id, unit)]
        asked = next((seat for seat in unit.seats if seat.asked is not None), None)
        if asked is not None and asked.asked is not None:
            to = asked.asked[0]
            able = [id for id in able if id != asked.holder and to in (None, id)] or able
        avoid = {seat.avoid for seat in unit.seats}
        able = [id for id in able if id not in avoid] or able
        return min(able, key=lambda id: (self.crew[id].name not in names, self._one_more(id), id), default=None)

    def _names(self, unit: _Unit) -> set[str | None]:
        """Of those that have lost it, or are losing it now."""
        return {self._name(seat) for seat in unit.seats}

    def _name(self, seat: SeatState) -> str | None:
        holder = None if seat.holder is None else self.world.members.get(seat.holder)
        return seat.last if holder is None or holder.id in self.terms else holder.name

    def _weight(self, member: str) -> float:
        return self.crew[member].weight

    # Balance ---------------------------------------------------------------------------------------------------------

    def _movable(self, unit: _Unit, holder: str) -> bool:
        if not unit.plain and any(seat.pinned or seat.asked for seat in unit.seats):
            return False
        if not unit.kept:
            return self.crew[holder].name not in self._names(unit)
        return not self.terms[holder].greedy

    def _balance(self) -> None:
        """Moves a unit from the one with most to the one with least, as long as the greater of the two loads gets smaller."""
        order = sorted((self._has(id), id) for id in self.terms)
        if not order or self._is_balanced(order):
            return
        held: dict[str, list[int]] = {id: [] for id in self.terms}
        units = self.units
        for number in sorted(self.holders, key=lambda n: (not units[n].kept, units[n].since, n)):
            if self._movable(units[number], self.holders[number]):
                held[self.holders[number]].append(number)
        while (moved := self._one_move(held, order)) is not None:
            for id in moved:
                insort(order, (self._has(id), id))

    def _is_balanced(self, order: list[tuple[float, str]]) -> bool:
        """Whether nothing can move: any other would have no less with one more than the one with most."""
        least = min(self._one_more(id) for id in self.terms)
        return least + EPSILON >= order[-1][0]

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
                    unit = self.units[numbers[at]]
                    if self._takes(taker, unit) and (unit.plain or all(s.avoid != taker for s in unit.seats)):
                        self.load[giver] -= 1
                        self._put(numbers.pop(at), taker)
                        del order[bisect_left(order, (before, giver))], order[bisect_left(order, (has, taker))]
                        return giver, taker
        return None
