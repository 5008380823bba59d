"""The member that should hold each seat (R13): a pure function of the world and of who is alive. It knows no time.

In this order: only members that are eligible, alive, ready (R19) and not draining; one seat of a role to a member; lower
rank first; seats of one role on different hosts, then in different zones; balanced within one, by weight; and sticky: a
seat stays where it is unless one of these says otherwise, so that only the surplus moves.

Every member computes this for itself, and two that see different members alive may differ. That is harmless: placement says
who *should* act first, the log decides who did (R3). What it must not do is move more than the surplus, for each move is an
interruption of somebody's work.

It takes a step for each member and each seat, and for each seat that moves as many more as there are kinds of members
(`loads`). Only a seat that somebody asked for costs a look at all members.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Set
from heapq import merge
from typing import Final

from pares.core.claims.placing.loads import NO_CLASH, Clash, Kind, Loads
from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, SeatState
from pares.core.wire.world import World

EPSILON: Final = 1e-9
NOBODY: Final[frozenset[str]] = frozenset()


def place(
    world: World, alive: Set[str], *, unsettled: Set[str] = NOBODY, without: Set[str] = NOBODY
) -> dict[Seat, str | None]:
    """The member that should hold each seat that takes a holder; None where nobody can.

    `alive`: ids of members that are not overdue. `unsettled`: those that came (back) so lately that their rank does not count
    yet. `without`: members that want nothing (closing, not ready). Seats under a pause, or that their role no longer has, are
    not in the answer: their holders release them.
    """
    return _Placement(world, alive, unsettled, without).run()


def crew_of(world: World, alive: Set[str], without: Set[str]) -> list[MemberState]:
    """The members that may be given something, in no order."""
    unready = world.unready
    return [
        m
        for id, m in world.members.items()
        if id in alive and id not in without and id not in unready and not m.draining and m.eligible != ()
    ]


class _Placement:
    def __init__(self, world: World, alive: Set[str], unsettled: Set[str], without: Set[str]) -> None:
        self.world = world
        self.crew = sorted(crew_of(world, alive, without), key=lambda m: m.id)
        last = max((m.rank for m in self.crew), default=0)
        self.rank = {m.id: last if m.id in unsettled else m.rank for m in self.crew}
        self.able = {m.id: world.able(m) for m in self.crew}
        self.by_id = {m.id: m for m in self.crew}
        self.named: dict[str, list[str]] = {}
        for m in self.crew:
            self.named.setdefault(m.name, []).append(m.id)
        takes = [seat for seat in sorted(world.seats) if world.open(seat)]
        self.seats = [world.seats[seat] for seat in takes if not (world.pauses and world.paused(seat[0]))]
        self.target: dict[Seat, str | None] = {}
        self.in_role: dict[str, list[str]] = {}
        self.holders: dict[str, set[str]] = {}
        """The members that hold a seat of a role now, also one that the role no longer has."""
        self.restarted: set[Seat] = set()
        """Seats whose holder was lost and is back under its name: they are its own again (R8)."""
        self.loads = Loads(self.crew, self.rank, self.able, places=False)
        self.spread = self.loads
        """The same, with hosts and zones told apart, where there are roles for which they matter."""
        if any(role.seats > 1 and role.spread != "none" for role in world.roles.values()):
            self.spread = Loads(self.crew, self.rank, self.able, places=True)

    def run(self) -> dict[Seat, str | None]:
        load, roles = dict.fromkeys(self.by_id, 0.0), self.world.roles
        for seat in self.world.seats.values():
            if seat.holder is not None:
                self.holders.setdefault(seat.role, set()).add(seat.holder)
        wanting = self._keep(load)
        self.loads.begin(load)
        if self.spread is not self.loads:
            self.spread.begin(load)
        # What is held goes to its place first: a seat that was just given must not be taken away again.
        self._prefer()
        wanting.sort(key=lambda s: -roles[s.role].weight)  # of one weight: as they are sorted already
        for seat in wanting:
            if not self._choose_plainly(seat):
                self._choose(seat)
        # Seats that nobody keeps move at no cost, so they are balanced first; and until nothing more follows from it, for
        # what comes out must be what would come out again once everybody has followed it.
        fixed = self.restarted
        loose = [s for s in wanting if self.target[s.seat] is not None and s.asked is None and s.seat not in fixed]
        while self._balance(loose) | self._balance(self._movable()):
            pass
        return self.target

    def _keep(self, load: dict[str, float]) -> list[SeatState]:
        """Enters holders that may stay: they can hold what they hold, and nobody asked for it to go elsewhere. Returns the
        other seats. Written out, and without calls: there may be ten thousand."""
        wanting: list[SeatState] = []
        roles, able, target, in_role = self.world.roles, self.able, self.target, self.in_role
        for seat in self.seats:
            holder, role = seat.holder, seat.role
            stays = holder in able and ((of := able[holder]) is None or role in of)
            if holder is None or not stays or (seat.asked is not None and self._asked(seat)):
                wanting.append(seat)
            else:
                target[role, seat.index] = holder
                in_role.setdefault(role, []).append(holder)
                load[holder] += roles[role].weight
        return wanting

    # Where a seat may go ---------------------------------------------------------------------------------------------

    def _weight(self, seat: SeatState) -> float:
        return self.world.roles[seat.role].weight

    def _asked(self, seat: SeatState) -> list[MemberState]:
        """The members that could take a seat that was asked for."""
        to = seat.asked[0] if seat.asked else None
        taken = {self.world.seats[s].holder for s in self._siblings(seat)}
        return [
            m
            for m in self.crew
            if m.id != seat.holder and (to is None or m.id == to) and self._able(m.id, seat.role) and m.id not in taken
        ]

    def _siblings(self, seat: SeatState) -> Iterable[Seat]:
        """The other seats of its role."""
        count = self.world.roles[seat.role].seats
        return [s for i in range(count) if i != seat.index and (s := (seat.role, i)) in self.world.seats]

    def _able(self, member: str, role: str) -> bool:
        able = self.able[member]
        return able is None or role in able

    def _without(self, seat: SeatState) -> list[set[str]]:
        """The members that may not have it, or had better not: the first of these that leaves anybody counts. A member that
        holds another seat of the role would have to lose that one first."""
        inside = set(self.in_role.get(seat.role, ()))
        avoided = inside if seat.avoid is None else inside | {seat.avoid}
        holders = self.holders.get(seat.role)
        return [avoided | holders, avoided, inside | holders, inside] if holders else [avoided, inside]

    def _asked_of(self, seat: SeatState) -> list[set[str]]:
        """The same, for a seat that was asked for."""
        asked, inside = {m.id for m in self._asked(seat)}, set(self.in_role.get(seat.role, ()))
        others = {m.id for m in self.crew} - asked
        holders = self.holders.get(seat.role, set[str]())
        found = (others | inside, inside)
        return [each for most in found for each in (most | holders, most)]

    def _least(self, seat: SeatState, weight: float, without: Set[str]) -> tuple[tuple[int, Clash], str] | None:
        role = self.world.roles[seat.role]
        if role.seats == 1 or role.spread == "none":
            return self.loads.least(seat.role, weight, without)
        but = (self.target.get(seat.seat),)
        return self.spread.least(seat.role, weight, without, lambda like: self._clashes_beside(seat, like, but))

    def _clashes(self, seat: SeatState, member: MemberState) -> Clash:
        """How many *other* seats of the role this member's host, and its zone, would have."""
        return self._clashes_beside(seat, member, (member.id, self.target.get(seat.seat)))

    def _clashes_beside(self, seat: SeatState, like: MemberState, but: tuple[str | None, ...]) -> Clash:
        """The same for any member on the host and in the zone of that one. `but`: whose seats of the role are not counted."""
        role = self.world.roles[seat.role]
        if role.seats == 1 or role.spread == "none":
            return NO_CLASH
        inside = [self.by_id[id] for id in self.in_role.get(seat.role, ()) if id not in but]
        hosts = sum(1 for m in inside if m.host and m.host == like.host)
        zones = sum(1 for m in inside if m.zone and m.zone == like.zone)
        return (hosts, zones) if role.spread == "host" else (zones, hosts)

    # Putting ---------------------------------------------------------------------------------------------------------

    def _enter(self, seat: SeatState, member: str) -> None:
        self.target[seat.seat] = member
        self.in_role.setdefault(seat.role, []).append(member)

    def _put(self, seat: SeatState, member: str) -> None:
        self._enter(seat, member)
        self._load(member, self._weight(seat))

    def _load(self, member: str, weight: float) -> None:
        self.loads.add(member, weight)
        if self.spread is not self.loads:
            self.spread.add(member, weight)

    def _move(self, seat: SeatState, member: str) -> None:
        before = self.target[seat.seat] or ""
        self._load(before, -self._weight(seat))
        self.in_role[seat.role].remove(before)
        self._put(seat, member)

    def _choose_plainly(self, seat: SeatState) -> bool:
        """What `_choose` does, for the only seat of a role, of which nothing else is to be thought. Whether it is such a
        seat."""
        role = seat.role
        if seat.asked is not None or seat.avoid is not None or role in self.in_role or self.world.roles[role].seats > 1:
            return False
        if self._lost_by(seat) in self.named or not self.by_id.keys().isdisjoint(self.holders.get(role, ())):
            return False
        weight = self.world.roles[role].weight
        found = self.loads.least(role, weight, NOBODY)
        if found is None:
            self.target[role, seat.index] = None
        else:
            self._put(seat, found[1])
        return True

    def _choose(self, seat: SeatState) -> None:
        """A seat without a holder that can stay. The dead holder's namesake comes first: it is a restart (R8)."""
        self.target[seat.seat] = None
        weight = self._weight(seat)
        for without in self._without(seat) if seat.asked is None else self._asked_of(seat):
            found = self._least(seat, weight, without)
            if found is not None:
                chosen = self._namesake(seat, without) or found[1]
                again = self.by_id[chosen].name == self._lost_by(seat)
                # Where there is no choice it is nobody's restart.
                if again and self._least(seat, weight, without | {chosen}) is not None:
                    self.restarted.add(seat.seat)
                self._put(seat, chosen)
                return

    def _lost_by(self, seat: SeatState) -> str | None:
        holder = self.world.members.get(seat.holder or "")
        return seat.last if holder is None or holder.id in self.by_id else holder.name

    def _namesake(self, seat: SeatState, without: Set[str]) -> str | None:
        ids = self.named.get(self._lost_by(seat) or "", ())
        found = [id for id in ids if id not in without and self._able(id, seat.role)]
        weight = self._weight(seat)

        def key(id: str) -> tuple[int, Clash, float, str]:
            m = self.by_id[id]
            return (self.rank[id], self._clashes(seat, m), (self.loads.load[id] + weight) / m.weight, id)

        return min(found, key=key, default=None)

    # Moving what is held ---------------------------------------------------------------------------------------------

    def _movable(self) -> list[SeatState]:
        return [s for s in self.seats if self.target.get(s.seat) == s.holder and s.holder is not None and not s.pinned]

    def _prefer(self) -> None:
        """Rank, then spread, draw seats away from holders that could stay."""
        ranks = set(self.rank.values())
        if len(ranks) < 2 and self.spread is self.loads:
            return
        first = min(ranks, default=0)
        for seat in self._movable():
            holder = self.by_id[seat.holder or ""]
            now = (self.rank[holder.id], self._clashes(seat, holder))
            if now == (first, NO_CLASH):
                continue
            inside = set(self.in_role[seat.role])
            for without in self._to_prefer(seat, inside):
                best = self._least(seat, 0.0, without)
                if best is not None:
                    if best[0] < now:
                        self._move(seat, best[1])
                    break

    def _to_prefer(self, seat: SeatState, inside: set[str]) -> Iterator[set[str]]:
        if seat.asked is not None:
            asked = {m.id for m in self._asked(seat)}
            yield inside | (self.by_id.keys() - asked)
        elif seat.avoid is not None:
            yield inside | {seat.avoid}
        yield inside

    def _balance(self, movable: list[SeatState]) -> bool:
        """Moves a seat from who has more to who has less, as long as that makes the greater of the two loads smaller. Whether
        anything was moved."""
        if not movable or self.loads.even(min(map(self._weight, movable)), EPSILON):
            return False
        held: dict[str, list[SeatState]] = {}
        for seat in movable:
            held.setdefault(self.target[seat.seat] or "", []).append(seat)
        for seats in held.values():
            seats.sort(key=lambda s: s.token)
        lightest = {id: min(map(self._weight, seats)) for id, seats in held.items()}
        """Of what each had to begin with: it has nothing lighter."""
        givers = sorted((self.loads.relative(id), id) for id in held)
        moved = False
        while self._one_move(held, givers, lightest):
            moved = True
        return moved

    def _one_move(
        self, held: dict[str, list[SeatState]], givers: list[tuple[float, str]], lightest: dict[str, float]
    ) -> bool:
        for before, giver in reversed(givers):
            seats = held[giver]
            for taker in self._takers(giver, before, seats, lightest[giver]):
                for at in range(len(seats) - 1, -1, -1):
                    if self._improves(seats[at], giver, taker):
                        self._hand(seats.pop(at), giver, taker, held, givers)
                        return True
        return False

    def _takers(self, giver: str, load: float, seats: list[SeatState], lightest: float) -> Iterator[str]:
        """Those that may have less than the giver also with the lightest of its seats: the one with least comes first."""
        rank = self.rank[giver]

        def of(kind: Kind) -> Iterator[tuple[float, str]]:
            for has, id in kind.order:
                if (has + lightest) / kind.weight + EPSILON >= load:
                    return
                yield has / kind.weight, id

        kinds = [
            k for k in self.loads.kinds if k.rank == rank and (k.able is None or any(k.takes(s.role) for s in seats))
        ]
        return (id for _, id in (of(kinds[0]) if len(kinds) == 1 else merge(*map(of, kinds))))

    def _hand(
        self, seat: SeatState, giver: str, taker: str, held: dict[str, list[SeatState]], givers: list[tuple[float, str]]
    ) -> None:
        """The seat goes to the taker, and both go to their places among those that have something to give."""
        both = [id for id in (giver, taker) if id in held]
        for id in both:
            del givers[bisect_left(givers, (self.loads.relative(id), id))]
        if not held[giver]:
            del held[giver]
            both.remove(giver)
        self._move(seat, taker)
        for id in both:
            insort(givers, (self.loads.relative(id), id))

    def _improves(self, seat: SeatState, giver: str, taker: str) -> bool:
        to, weight = self.by_id[taker], self._weight(seat)
        after = (self.loads.load[taker] + weight) / to.weight
        return (
            after + EPSILON < self.loads.relative(giver)
            and self._able(taker, seat.role)
            and seat.avoid != taker
            and taker not in self.in_role[seat.role]
            and self._clashes(seat, to) <= self._clashes(seat, self.by_id[giver])
        )
