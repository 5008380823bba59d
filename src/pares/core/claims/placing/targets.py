"""What placement said, for as long as it holds, and how it is found with few steps where roles and members are alike (R23).

Placement takes a step for each seat of the group. A member that looks asks for few: the free ones, those of the dead, its own.
Where all roles have one seat and the same weight, and all members that may have them the same rank, weight and eligibility,
these few are found from how many seats each member holds (`Alike`), and the answers are those of `placement`:

* what nobody keeps goes seat by seat to the member that has least at that moment. So none of them has more than one seat more
  than another because of that, and balance, which moves seats only to members that have less by more than one, moves none of
  these, neither then nor later: it never makes smaller what the one with least has;
* what is moved for balance goes from the one that has most to the one that has least, so it follows from these numbers which
  member hands how many over, and to whom.

[one of a hundred members on a machine loses its lease; to claim its ten seats all others place a thousand, and lose theirs]
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Set
from heapq import heapreplace
from typing import Protocol

from pares.core.claims.placing.placement import EPSILON, crew_of
from pares.core.wire.changes import Change, SeatChanged
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, SeatState
from pares.core.wire.world import World

Placing = Callable[..., dict[Seat, str | None]]
"""Such as `placement.place`."""


class Target(Protocol):
    """The member that should hold each seat that takes a holder."""

    def get(self, seat: Seat) -> str | None: ...

    def follows(self, change: SeatChanged) -> bool:
        """Whether the seat went where it should, and nothing else is to be thought of because of that."""
        ...


class Whole:
    """All seats were placed."""

    def __init__(self, world: World, target: Mapping[Seat, str | None]) -> None:
        self._target = target
        self._for_once = {seat.seat for seat in world.seats.values() if _for_once(world, seat)}

    def get(self, seat: Seat) -> str | None:
        return self._target.get(seat)

    def follows(self, change: SeatChanged) -> bool:
        return (
            change.holder is not None and change.seat not in self._for_once and self.get(change.seat) == change.holder
        )


class Alike:
    """All seats, and all members, are alike: only what somebody asks for was placed. `chosen`: what nobody keeps; `order`: what
    each member holds with that, and the seats of `weight` that it keeps; `like`: the weight of each member."""

    def __init__(
        self,
        world: World,
        chosen: Mapping[Seat, str | None],
        order: list[tuple[float, str]],
        weight: float,
        like: float,
    ) -> None:
        self._world, self._chosen = world, chosen
        self._even = not order or (order[0][0] + weight) / like + EPSILON >= order[-1][0] / like
        self._takers: dict[str, list[str]] = {}
        if not self._even:
            moves = {id: len(world.held[id]) for _, id in order}
            for seat in world.vacant.pinned():
                holder = world.seats[seat].holder
                if holder in moves:
                    moves[holder] -= 1
            self._takers = _balanced(order, moves, weight, like)
        self._moved: dict[str, dict[Seat, str]] = {}

    def get(self, seat: Seat) -> str | None:
        if seat in self._chosen:
            return self._chosen[seat]
        kept = self._world.seats.get(seat)
        holder = None if kept is None else kept.holder
        if holder is None or holder not in self._takers:
            return holder
        moved = self._moved.get(holder)
        if moved is None:
            seats = [self._world.seats[seat] for seat in self._world.held[holder]]
            latest = [it.seat for it in sorted(seats, key=lambda it: -it.token) if not it.pinned]
            moved = self._moved[holder] = dict(zip(latest, self._takers[holder], strict=False))
        return moved.get(seat, holder)

    def follows(self, change: SeatChanged) -> bool:
        return self._even and change.holder is not None and self._chosen.get(change.seat) == change.holder


def _balanced(
    order: list[tuple[float, str]], moves: dict[str, int], weight: float, like: float
) -> dict[str, list[str]]:
    """To whom each member hands seats over for balance, in order, those first that it has held for the shortest time: as
    `placement` does it, from the one that has most to the one that has least while that makes the greater load smaller.
    `moves`: how many each has that may move."""
    takers: dict[str, list[str]] = {}
    while True:
        at = next((at for at in range(len(order) - 1, 0, -1) if moves[order[at][1]]), 0)
        (most, giver), (least, taker) = order[at], order[0]
        if (least + weight) / like + EPSILON >= most / like:
            return takers
        del order[at], order[0]
        insort(order, (most - weight, giver))
        insort(order, (least + weight, taker))
        moves[giver] -= 1
        takers.setdefault(giver, []).append(taker)


class Targets:
    """What one member knows of that.

    It holds while seats go where it said: then it is not thought of again, however many claims are read. [hundreds come or die,
    and each of the claims that follow has every member place all seats anew] Of a seat that was asked for, stepped down
    from, or lost by a member that is back under its name, placement says for once where it goes; so that is thought of again
    when the seat has gone there.

    `alike`: whether `placing` is such that what nobody keeps may be placed alone.
    """

    def __init__(self, placing: Placing, *, alike: bool = True) -> None:
        self._placing = placing
        self._alike = alike
        self._known: dict[tuple[Set[str], Set[str], Set[str]], Target] = {}
        self._of: tuple[World | None, int] = (None, -1)
        """The world, and its shape, that these are of."""

    def get(self, world: World, alive: Set[str], unsettled: Set[str], without: Set[str]) -> Target:
        """As `placement.place`; found again only when the world, or who is alive, has changed."""
        if self._of != (world, world.shape):
            self._known, self._of = {}, (world, world.shape)
        key = (alive, unsettled, without)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 4:
                self._known = {}
            found = alike(world, alive, without) if self._alike else None
            if found is None:
                found = Whole(world, self._placing(world, alive, unsettled=unsettled, without=without))
            self._known[key] = found
        return found

    def has_some(self, world: World, alive: Set[str]) -> bool:
        """Whether any seat has a member that it could go to, as far as can be said without placing it."""
        if not self._alike or world.pauses or world.vacant.one_weight() is None:
            return False
        crew = crew_of(world, alive, frozenset())
        return bool(crew) and _are_alike(world, crew)

    def read(self, world: World, changes: Iterable[Change]) -> None:
        """These have been read: what they do not follow is forgotten."""
        moved = [change for change in changes if type(change) is SeatChanged]
        if self._of[0] is not world or self._of[1] + len(moved) != world.shape:
            return  # something else has changed, too
        self._of = (world, world.shape)
        self._known = {key: it for key, it in self._known.items() if all(it.follows(change) for change in moved)}


def alike(world: World, alive: Set[str], without: Set[str]) -> Alike | None:
    """The same as `placement.place`; None where something is not alike, or a seat is to go to a member that is back under the
    name of who had it."""
    weight, crew = world.vacant.one_weight(), crew_of(world, alive, without)
    if weight is None or world.pauses or not _are_alike(world, crew):
        return None
    ids, held, has = {m.id for m in crew}, world.held, [0.0]
    seats = [world.seats[seat] for seat in world.vacant.seats()]
    seats += [world.seats[seat] for id, theirs in held.items() if theirs and id not in ids for seat in theirs]
    if any(_is_back(world, seat) for seat in seats):
        return None
    for _ in range(max((len(held[id]) for id in ids), default=0)):
        has.append(has[-1] + weight)
    # As many seats weigh as much to the last bit, in whatever order they were added: all of them weigh the same.
    order = sorted((has[len(held[id])], id) for id in ids)  # which is a heap
    chosen: dict[Seat, str | None] = {}
    for seat in sorted(seat.seat for seat in seats):
        least, id = order[0] if order else (0.0, None)
        chosen[seat] = id
        if id is not None:
            heapreplace(order, (least + weight, id))
    return Alike(world, chosen, sorted(order), weight, crew[0].weight if crew else 1.0)


def _are_alike(world: World, crew: list[MemberState]) -> bool:
    if not crew:
        return True
    rank, weight, able = crew[0].rank, crew[0].weight, world.able(crew[0])
    for member in crew:
        if member.rank != rank or member.weight != weight:
            return False
        its = world.able(member)
        if its is not able and its != able:  # a set is compared with itself name by name
            return False
    return world.vacant.all_in(able)


def _for_once(world: World, seat: SeatState) -> bool:
    return _is_back(world, seat) or seat.asked is not None or seat.avoid is not None


def _is_back(world: World, seat: SeatState) -> bool:
    """Whether another is in the group under the name of who holds it, or lost it."""
    holder = world.members.get(seat.holder or "")
    return seat.last in world.names if holder is None else len(world.names[holder.name]) > 1
