"""The member that should hold each seat (R13): a pure function of the world and of who is alive. It knows no time.

In this order: only members that are eligible, alive, ready (R19) and not draining; one seat of a role to a member; lower
rank first; seats of one role on different hosts, then in different zones; balanced within one, by weight; and sticky: a
seat stays where it is unless one of these says otherwise, so that only the surplus moves.

Every member computes this for itself, and two that see different members alive may differ. That is harmless: placement says
who *should* act first, the log decides who did (R3). What it must not do is move more than the surplus, for each move is an
interruption of somebody's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

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


class _Placement:
    def __init__(self, world: World, alive: Set[str], unsettled: Set[str], without: Set[str]) -> None:
        self.world = world
        crew = [m for id, m in sorted(world.members.items()) if id in alive and id not in without]
        self.crew = [m for m in crew if not m.draining and not m.administrator and m.id not in world.unready]
        last = max((m.rank for m in self.crew), default=0)
        self.rank = {m.id: last if m.id in unsettled else m.rank for m in self.crew}
        self.able = {m.id: None if m.eligible is None else frozenset(m.eligible) for m in self.crew}
        self.by_id = {m.id: m for m in self.crew}
        self.load = {m.id: 0.0 for m in self.crew}
        self.seats = [s for s in world.seats.values() if world.open(s.seat) and not world.paused(s.role)]
        self.seats.sort(key=lambda s: s.seat)
        self.target: dict[Seat, str | None] = {}
        self.in_role: dict[str, list[MemberState]] = {}
        self.restarted: set[Seat] = set()
        """Seats whose holder was lost and is back under its name: they are its own again (R8)."""

    def run(self) -> dict[Seat, str | None]:
        wanting: list[SeatState] = []
        for seat in self.seats:
            if self._keeps(seat):
                self._put(seat, self.by_id[seat.holder or ""])
            else:
                wanting.append(seat)
        # What is held goes to its place first: a seat that was just given must not be taken away again.
        self._prefer()
        wanting.sort(key=lambda s: (-self._weight(s), s.seat))
        for seat in wanting:
            self._choose(seat)
        # Seats that nobody keeps move at no cost, so they are balanced first; and until nothing more follows from it, for
        # what comes out must be what would come out again once everybody has followed it.
        fixed = self.restarted
        loose = [s for s in wanting if self.target[s.seat] is not None and s.asked is None and s.seat not in fixed]
        while self._balance(loose) | self._balance(self._movable()):
            pass
        return self.target

    # Where a seat may go ---------------------------------------------------------------------------------------------

    def _weight(self, seat: SeatState) -> float:
        return self.world.roles[seat.role].weight

    def _keeps(self, seat: SeatState) -> bool:
        """Whether the holder may stay: it can hold it, and nobody asked for the seat to go elsewhere."""
        holder = seat.holder
        if holder not in self.by_id or not self._able(holder, seat.role):
            return False
        return seat.asked is None or not self._asked(seat)

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

    def _candidates(self, seat: SeatState) -> list[MemberState]:
        inside = self.in_role.get(seat.role, ())
        found = [m for m in self.crew if self._able(m.id, seat.role) and m not in inside]
        if seat.asked is not None:
            asked = {m.id for m in self._asked(seat)}
            return [m for m in found if m.id in asked] or found
        others = [m for m in found if m.id != seat.avoid]
        return others or found

    def _clashes(self, seat: SeatState, member: MemberState) -> tuple[int, int]:
        """How many *other* seats of the role this member's host, and its zone, would have."""
        role = self.world.roles[seat.role]
        if role.seats == 1 or role.spread == "none":
            return (0, 0)
        holding = self.target.get(seat.seat)
        inside = [m for m in self.in_role.get(seat.role, ()) if m is not member and m.id != holding]
        hosts = sum(1 for m in inside if m.host and m.host == member.host)
        zones = sum(1 for m in inside if m.zone and m.zone == member.zone)
        return (hosts, zones) if role.spread == "host" else (zones, hosts)

    # Putting ---------------------------------------------------------------------------------------------------------

    def _put(self, seat: SeatState, member: MemberState) -> None:
        self.target[seat.seat] = member.id
        self.load[member.id] += self._weight(seat)
        self.in_role.setdefault(seat.role, []).append(member)

    def _move(self, seat: SeatState, member: MemberState) -> None:
        before = self.by_id[self.target[seat.seat] or ""]
        self.load[before.id] -= self._weight(seat)
        self.in_role[seat.role].remove(before)
        self._put(seat, member)

    def _choose(self, seat: SeatState) -> None:
        """A seat without a holder that can stay. The dead holder's namesake comes first: it is a restart (R8)."""
        candidates = self._candidates(seat)
        if not candidates:
            self.target[seat.seat] = None
            return
        # A member that holds another seat of the role would have to lose that one first.
        candidates = [m for m in candidates if not self.world.holds_in_role(m.id, seat.role)] or candidates
        holder = self.world.members.get(seat.holder or "")
        name = seat.last
        if holder is not None and holder.id not in self.by_id:
            name = holder.name
        if len(candidates) == 1:
            self._put(seat, candidates[0])
            return
        weight = self._weight(seat)

        def key(m: MemberState) -> tuple[bool, int, tuple[int, int], float, str]:
            return (
                m.name != name,
                self.rank[m.id],
                self._clashes(seat, m),
                (self.load[m.id] + weight) / m.weight,
                m.id,
            )

        chosen = min(candidates, key=key)
        self._put(seat, chosen)
        if chosen.name == name:
            self.restarted.add(seat.seat)

    # Moving what is held ---------------------------------------------------------------------------------------------

    def _movable(self) -> list[SeatState]:
        return [s for s in self.seats if self.target.get(s.seat) == s.holder and s.holder is not None and not s.pinned]

    def _prefer(self) -> None:
        """Rank, then spread, draw seats away from holders that could stay."""
        ranks = set(self.rank.values())
        for seat in self._movable():
            role = self.world.roles[seat.role]
            if len(ranks) == 1 and role.seats == 1:
                continue
            holder = self.by_id[seat.holder or ""]
            best = min(
                (m for m in self._candidates(seat)),
                key=lambda m: (self.rank[m.id], self._clashes(seat, m), self.load[m.id] / m.weight, m.id),
                default=None,
            )
            if best is not None and (self.rank[best.id], self._clashes(seat, best)) < (
                self.rank[holder.id],
                self._clashes(seat, holder),
            ):
                self._move(seat, best)

    def _balance(self, movable: list[SeatState]) -> bool:
        """Moves a seat from who has more to who has less, as long as that makes the greater of the two loads smaller. Whether
        anything was moved."""
        held: dict[str, list[SeatState]] = {m.id: [] for m in self.crew}
        for seat in movable:
            held[self.target[seat.seat] or ""].append(seat)
        for seats in held.values():
            seats.sort(key=lambda s: s.token)
        moved = False
        while self._one_move(held):
            moved = True
        return moved

    def _one_move(self, held: dict[str, list[SeatState]]) -> bool:
        def relative(m: MemberState) -> float:
            return self.load[m.id] / m.weight

        order = sorted(self.crew, key=lambda m: (relative(m), m.id))
        for giver in reversed(order):
            if not held[giver.id]:
                continue
            for taker in order:
                if relative(taker) + EPSILON >= relative(giver):
                    break
                for seat in reversed(held[giver.id]):
                    if self._improves(seat, giver, taker):
                        held[giver.id].remove(seat)
                        self._move(seat, taker)
                        return True
        return False

    def _improves(self, seat: SeatState, giver: MemberState, taker: MemberState) -> bool:
        after = (self.load[taker.id] + self._weight(seat)) / taker.weight
        return (
            after + EPSILON < self.load[giver.id] / giver.weight
            and self.rank[taker.id] == self.rank[giver.id]
            and self._able(taker.id, seat.role)
            and seat.avoid != taker.id
            and taker not in self.in_role[seat.role]
            and self._clashes(seat, taker) <= self._clashes(seat, giver)
        )
