"""Which partitions a consumer claims, and which it gives up: `Moves`, for partitions that are shared out on terms (C6).

Claims themselves, waits behind a silent holder, handovers and their order are those of every member (R3, R6, R13, R20). What a
consumer adds: it claims within what it takes at most, and only partitions that its own source has; and for a while it leaves
alone what it gave up because it could not keep up (C7), if another could take that.
"""

from __future__ import annotations

from typing import Final

from pares.core import reasons
from pares.core.claims.decisions import Give, Moves, Take
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Tenures
from pares.core.consume.names import Partition, Terms
from pares.core.consume.sharing import share
from pares.core.lease import MS
from pares.core.wire.fold import may_take
from pares.core.wire.records import Seat
from pares.core.wire.world import World

COOL_DOWN: Final = 60_000 * MS
"""For how long a consumer leaves alone, if another could take it, what it could not keep up with."""


class Shares(Moves):
    """A consumer's view of who should hold what."""

    placing = staticmethod(share)
    alike = False

    def __init__(self, me: str, session_ms: int, watches: Stopwatches, tenures: Tenures, pace: Pace) -> None:
        super().__init__(me, session_ms, watches, tenures, pace)
        self.willing: frozenset[str] = frozenset()
        """Roles of partitions that its source has."""
        self.first: set[Seat] = set()
        """Seats that nobody had ever held when this member last claimed them (C2)."""
        self._cooling: dict[Seat, int] = {}

    def terms(self, world: World, member: str) -> Terms:
        """Of a member; of one that is no consumer: it takes nothing."""
        there = world.members.get(member)
        found = None if there is None else Terms.of(there.labels)
        return found or Terms(frozenset())

    def cools(self, seat: Seat, now: int) -> None:
        """This consumer could not keep up with it."""
        self._cooling[seat] = now + COOL_DOWN

    # Claims ----------------------------------------------------------------------------------------------------------

    def takes(self, world: World, now: int) -> list[Take]:
        mine = self.terms(world, self.me)
        found = super().takes(world, now)
        if mine.greedy:
            there = {take.seat for take in found}
            free = (seat for seat in self._free if seat not in there and may_take(world, world.members[self.me], seat))
            found += [Take(seat, None) for seat in free]
        units = self._units(world, mine)
        chosen: list[Take] = []
        for take in found:
            unit = _unit(take.seat, mine)
            full = mine.most is not None and len(units) >= mine.most and unit not in units
            partition = Partition.of(take.seat[0])
            mine_to_take = take.seat[0] in self.willing and partition is not None and mine.takes(partition)
            if mine.keys and not world.in_force:
                mine_to_take = False  # seats of two divisions could be held (C12)
            if not take.free and (not mine_to_take or full or self._leaves_alone(world, take.seat, now)):
                continue
            chosen.append(take)
            if not take.free:
                units.add(unit)
                self._note(world, take)
        return chosen

    def _units(self, world: World, mine: Terms) -> set[str]:
        return {_unit(seat, mine) for seat in world.held[self.me]}

    def _leaves_alone(self, world: World, seat: Seat, now: int) -> bool:
        until = self._cooling.get(seat)
        if until is None or self.due(until, now):
            self._cooling.pop(seat, None)
            return False
        return self.others(world, now).get(seat) is not None

    def _note(self, world: World, take: Take) -> None:
        if take.over is None and world.seats[take.seat].token == 0:
            self.first.add(take.seat)
        else:
            self.first.discard(take.seat)

    # Giving up -------------------------------------------------------------------------------------------------------

    def gives(self, world: World, now: int, *, closing: str = "") -> list[Give]:
        found = super().gives(world, now, closing=closing)
        mine = self.terms(world, self.me)
        if not mine.greedy or mine.whole:
            return found
        over = mine.most is not None and len(self._units(world, mine)) > mine.most
        return [give for give in found if give.why != reasons.BALANCE or over]

    def takes_it(self, world: World, to: str, seat: Seat) -> bool:
        return super().takes_it(world, to, seat) and not self._unwilling(world, to, seat)

    def refuses(self, world: World, to: str, seat: Seat) -> str:
        return (
            super().refuses(world, to, seat)
            if to == self.me
            else self._unwilling(world, to, seat) or super().refuses(world, to, seat)
        )

    def _unwilling(self, world: World, to: str, seat: Seat) -> str:
        """Why that consumer would not want it; "" if it would."""
        theirs, partition = self.terms(world, to), Partition.of(seat[0])
        if to not in world.members or partition is None:
            return ""
        if partition.topic not in theirs.topics:
            return f"does not consume {partition.topic!r}"
        if not theirs.takes(partition):
            return f"claims {theirs.claims()}"
        units = {_unit(held, theirs) for held in world.held[to]}
        if theirs.most is not None and len(units) >= theirs.most and _unit(seat, theirs) not in units:
            return f"takes {theirs.most} at most"
        return ""


def _unit(seat: Seat, terms: Terms) -> str:
    """What is counted: a partition, or its topic."""
    partition = Partition.of(seat[0])
    return partition.source if terms.whole and partition is not None else seat[0]
