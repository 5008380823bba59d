"""The world: what everybody who has read the log up to some place knows (promise 5).

It is data and nothing else: `fold` changes it, record by record, and never looks at a clock. Whatever is not a function of
the records in order (when something was *read*, for example) is kept elsewhere, so that two readers of one prefix hold
equal worlds, and equal hashes of them.

A world goes into a snapshot whole (R10). What is derived from it for speed (`held`, `reads`, `names`) is rebuilt when one is
loaded.

What version 2 of the format adds (R11) is in force from the first record of version 2 that counts: `in_force`. Before that
place a world is the one that release 0.1 folds, rule by rule, and a snapshot of it has the form that 0.1 loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from pares.core.wire.derived.eligible import Eligible
from pares.core.wire.derived.silences import Silences
from pares.core.wire.derived.vacant import Vacant
from pares.core.wire.divided.siblings import Siblings
from pares.core.wire.hashes import TABLES, Digests, Key
from pares.core.wire.records import MAX_INT, Beat, Leave, Seat
from pares.core.wire.states import (
    NOTHING_AHEAD,
    AheadState,
    Frozen,
    MemberState,
    PauseState,
    RoleState,
    Run,
    SeatState,
    Two,
    cross_check,
    new_seat,
)

FORGET: Final = 10_000
"""Counted records of the group after which a silent member without seats is forgotten (R13), and so is who is gone."""
FORGET_FOR: Final = 200
"""Members up to which that holds. In a larger group it takes more records, in proportion: standbys beat the more seldom the
more there are (R16), and a member that beats in order not to be forgotten must not have to do so more often than its share
allows. In version 2 members count only when they have been in the group for long (R20): the dead add nothing."""
PLACE_EVERY: Final = 16
"""A place for snapshots comes when so many records, plus four for each member, have counted since the last one (R10).

Four to a member, because hashing a place costs in proportion to the members; a lone holder, which writes four records in a
session, still comes to a place every five sessions.
"""


class World:
    """Members, seats, roles, pauses and the base in force, after some prefix of the log."""

    __slots__ = (
        "_eligible",
        "_readers",
        "_silences",
        "ahead",
        "base",
        "count",
        "digests",
        "elders",
        "followed",
        "gone",
        "held",
        "highest",
        "last",
        "lasting",
        "members",
        "names",
        "noted",
        "pauses",
        "placed",
        "ranges",
        "reads",
        "roles",
        "seats",
        "shape",
        "siblings",
        "stride",
        "unready",
        "vacant",
        "version",
        "widths",
    )

    def __init__(self, *, lasting: bool = False) -> None:
        self.lasting = lasting
        """Whether its digest must be the same in other processes: it then costs more (see `digest`)."""
        self.base = 0
        """0 until a genesis has counted; then part of every record that counts (R9)."""
        self.last = -1
        """The offset of the group's last counted record."""
        self.count = 0
        self.placed = 0
        """`count` at the last place for a snapshot."""
        self.highest = 0
        """The highest format version among the counted records (R11)."""
        self.members: dict[str, MemberState] = {}
        self.seats: dict[Seat, SeatState] = {}
        self.roles: dict[str, RoleState] = {}
        self.pauses: dict[int, PauseState] = {}
        self.gone: dict[str, int] = {}
        """The members that left or were declared dead, with `count` at that time: such an id never returns (R2)."""
        self.unready: dict[str, str] = {}
        """Members that have not said that they are ready, or have said that they are not, and why (R19)."""
        self.stride = 0
        """How many records there are between the last place and the next one (version 2)."""
        self.elders = 0
        """How many members are known to have lived for long (version 2): that joined before the place noted last, and wrote
        after it."""
        self.noted = (0, 0)
        """A place, as (`count`, offset), from which the elders will be counted next."""
        self.followed: dict[str, tuple[int, int]] = {}
        """Incarnations that have a successor (version 2): `count` and the offset of the join that they are to answer (R20)."""
        self.ahead: dict[Seat, AheadState] = {}
        """What is done above the positions of seats, where anything is (version 2, C9)."""
        self.ranges: dict[Seat, tuple[Run, ...]] = {}
        """The ranges of slots that are not done, in order, and the last one anyhow (version 2, C11)."""
        self.held: dict[str, set[Seat]] = {}
        self.names: dict[str, list[str]] = {}
        """The incarnations of each name, in the order of their joins."""
        self.reads = MAX_INT
        self.version = 0
        """Rises with every change that is more than a sign of life, and with marks."""
        self.shape = 0
        """Rises with every change that may matter to who should hold what: readers see by it whether to think again."""
        self.digests = Digests(lasting=lasting)
        self._silences: Silences | None = None
        self.widths: dict[str, int] = {}
        """By role: one more than the highest number that a seat of it had. Derived from the seats."""
        self.siblings = Siblings(())
        """Derived from the seats, as the next one: which slots belong to one partition (C11, C12)."""
        self.vacant = Vacant(self.seats, self.roles)
        self._eligible = Eligible(self.members)
        self._readers: Counter[int] = Counter()
        """How many members read up to which version of the format."""

    def changed(self, *keys: Key) -> None:
        """The fold calls this after a change to anything but marks, with what has changed."""
        self.digests.dirty.update(keys)
        self.vacant.changed(keys)
        self.version += 1
        self.shape += 1

    def marked(self, seat: Seat) -> None:
        """The fold calls this after a mark has moved: nobody need think again about who holds what."""
        self.digests.moved.add(seat)
        self.version += 1
        if (self.ahead and seat in self.ahead) or (self.ranges and seat in self.ranges):
            self._passed(seat)

    def raise_marks(self, told: Sequence[Beat | Leave]) -> None:
        """The fold calls this for what records say of seats that their senders hold (R15), with none between them that moves a
        seat. Marks only rise: so the newest come first, and most others raise nothing. No token is of two seats."""
        seats, digests, plain = self.seats, self.digests, not (self.ahead or self.ranges)
        terms, raised = digests.terms, digests.raised
        for record in reversed(told):
            for role, index, token, mark in record.marks or ():
                seat = terms.get(token)
                if seat is None:
                    seat = seats.get((role, index))
                    if seat is None or seat.token != token:
                        continue
                    terms[token] = seat
                if mark > seat.mark and seat.holder == record.m and seat.token == token and seat.seat == (role, index):
                    seat.mark = mark
                    if plain:
                        raised.add(token)
                    else:
                        self.marked(seat.seat)
        self.version += 1

    def _passed(self, seat: Seat) -> None:
        """What its mark has passed of what is above it is forgotten."""
        state = self.seats[seat]
        known, runs = self.ahead.get(seat), self.ranges.get(seat, ())
        if known is not None and known.upto <= max(state.mark, state.taken):
            self._set("ahead", seat, None)
        if len(runs) > 1 and runs[0][1] <= max(state.mark, state.taken):
            left = tuple(run for run in runs[:-1] if run[1] > max(state.mark, state.taken))
            self._set("ranges", seat, (*left, runs[-1]))

    def keep(self, seat: Seat, known: AheadState) -> None:
        """The fold calls this with what is done above the position of a seat now (C9)."""
        self._set("ahead", seat, None if known == NOTHING_AHEAD else known)
        self.marked(seat)

    def own(self, seat: Seat, runs: tuple[Run, ...]) -> None:
        """The fold calls this with the ranges that a slot has now (C11)."""
        self._set("ranges", seat, runs)
        self.version += 1

    def rewound(self, seat: SeatState, position: int) -> None:
        """The fold calls this to move a position in either direction: what was done above it is to be done again (C5)."""
        seat.mark = seat.taken = position
        for name in ("ahead", "ranges"):
            self._set(name, seat.seat, None)
        self.marked(seat.seat)

    def add_seat(self, role: str, index: int) -> None:
        """The fold calls this for a seat that a role has; nobody has held it if it is new."""
        if (role, index) not in self.seats:
            self.seats[role, index] = new_seat(role, index)
            self.siblings.add((role, index))
            self.widths[role] = max(index + 1, self.widths.get(role, 0))
        self.changed(("seats", (role, index)))

    def drop(self, seat: Seat) -> None:
        """The fold calls this for a seat that its role no longer has."""
        del self.seats[seat]
        self.siblings.drop(seat)
        for name in ("ahead", "ranges"):
            self._set(name, seat, None)
        self.changed(("seats", seat))

    def _set(self, name: str, seat: Seat, known: AheadState | tuple[Run, ...] | None) -> None:
        """In the table of that name; None: nothing is there any more."""
        table: dict[Seat, Any] = getattr(self, name)
        if known is not None:
            table[seat] = known
        elif table.pop(seat, None) is None:
            return
        self.digests.dirty.add((name, seat))

    @property
    def in_force(self) -> bool:
        """Whether what version 2 of the format adds is in force here: all members read it, and one has written it."""
        return self.highest >= 2

    def raise_version(self, version: int) -> None:
        """The fold calls this when a record of a version has counted that is above all before."""
        before, self.highest = self.in_force, version
        if self.in_force and not before:
            self.stride = PLACE_EVERY + 4 * len(self.members)
            self.elders, self.noted = len(self.members), (self.count, self.last + 1)

    def place(self) -> None:
        """The fold calls this at a place, when the silent have been forgotten."""
        if self.in_force:
            self.stride = PLACE_EVERY + 4 * len(self.members)
            if self.count - self.noted[0] >= max(FORGET, self.memory() // 2):
                # The living write when a quarter of the memory has passed. It shrinks by half at most: a member that has
                # been silent for a quarter of the old one has still time to write.
                lived = sum(1 for m in self.members.values() if m.joined < self.noted[1] <= m.offset)
                self.elders, self.noted = max(lived, self.elders // 2), (self.count, self.last + 1)

    def next_place(self) -> int:
        """The `count` at which the next place comes, whatever it is that counts. In version 2 it is fixed at the place before.
        [joins that follow one another closely push it away for ever]"""
        return self.placed + (self.stride if self.in_force else PLACE_EVERY + 4 * len(self.members))

    def add(self, member: MemberState) -> None:
        """The fold calls this when a join has counted."""
        self.members[member.id] = member
        self.held[member.id] = set()
        self.names.setdefault(member.name, []).append(member.id)
        self._readers[member.reads] += 1
        self.reads = min(self.reads, member.reads)
        self.able(member)
        if self._silences is not None:
            self._silences.add(member)
        self.changed(("members", member.id))

    def let_go(self, member: str, seat: Seat) -> None:
        """The fold calls this when a member no longer holds a seat."""
        self.held[member].discard(seat)
        if self._silences is not None:
            self._silences.let_go(member)

    def longest_silent(self) -> MemberState | None:
        """The member without seats of which nothing has counted for longest. Cheap, however many members there are."""
        if self._silences is None:
            self._silences = Silences(self.members, self.held)
        return self._silences.longest()

    def remove(self, member: MemberState) -> None:
        """The fold calls this for a member without seats that is no longer in the group, for whatever reason."""
        del self.members[member.id], self.held[member.id]
        namesakes = self.names[member.name]
        namesakes.remove(member.id)
        if not namesakes:
            del self.names[member.name]
        if self.unready.pop(member.id, None) is not None:
            self.changed(("unready", member.id))
        if self.followed.pop(member.id, None) is not None:
            self.changed(("followed", member.id))
        self._readers[member.reads] -= 1
        if not self._readers[member.reads]:
            del self._readers[member.reads]
            self.reads = min(self._readers, default=MAX_INT)
        self.changed(("members", member.id))

    def quick_view(self, member: str) -> tuple[dict[str, MemberState], int, int, MemberState | None, int]:
        """What a loop over beats needs, until something else than a beat has counted or a place has come: the members, the
        base, the newest version of which a record counts without changing more than its sender, `member`, and `next_place`."""
        members = self.members
        return members, self.base, min(self.reads, self.highest), members.get(member), self.next_place()

    def memory(self) -> int:
        """For how many counted records a silent member without seats is remembered."""
        return max(FORGET, FORGET * (self.elders if self.in_force else len(self.members)) // FORGET_FOR)

    def paused(self, role: str) -> bool:
        return bool(self.pauses) and any(p.scope is None or p.scope == role for p in self.pauses.values())

    def may_hold(self, member: MemberState, role: str) -> bool:
        """Whether the member is eligible for the role, by its own `join`."""
        able = self.able(member)
        return able is None or role in able

    def able(self, member: MemberState) -> frozenset[str] | None:
        """The roles that it is eligible for; None: all of them."""
        return self._eligible.roles(member)

    def open(self, seat: Seat) -> bool:
        """Whether the seat takes holders: its role is there, not removed, and has that many seats (R3a)."""
        role = self.roles.get(seat[0])
        return role is not None and not role.removed and seat[1] < role.seats and seat in self.seats

    def holds_in_role(self, member: str, role: str) -> bool:
        """Whether the member holds a seat of the role, also one that the role no longer has."""
        held = self.held.get(member)
        if not held:
            return False
        # Whichever are fewer. Loops take a third of the time that `any` takes, and every claim asks.
        width = self.widths.get(role, 0)
        if width <= len(held):
            for index in range(width):  # noqa: SIM110
                if (role, index) in held:
                    return True
            return False
        for seat in held:  # noqa: SIM110
            if seat[0] == role:
                return True
        return False

    def begin_anew(self, base: int, offset: int, version: int) -> None:
        """The fold calls this for a genesis that counts (R9)."""
        self.members, self.seats, self.roles, self.pauses, self.gone = {}, {}, {}, {}, {}
        self.unready, self.followed, self.ahead, self.ranges = {}, {}, {}, {}
        self.base, self.last, self.count, self.placed, self.highest = base, offset, 1, 0, version
        self.refresh()

    def refresh(self) -> None:
        """Rebuilds what is derived from the rest."""
        self.held = {id: set() for id in self.members}
        self.names = {}
        for member in sorted(self.members.values(), key=lambda m: m.joined):
            self.names.setdefault(member.name, []).append(member.id)
        self.widths = {}
        for seat in self.seats.values():
            self.widths[seat.role] = max(seat.index + 1, self.widths.get(seat.role, 0))
            if seat.holder is not None:
                self.held[seat.holder].add(seat.seat)
        self._readers = Counter(m.reads for m in self.members.values())
        self.reads = min(self._readers, default=MAX_INT)
        self._eligible, self.siblings = Eligible(self.members), Siblings(self.seats)
        self.vacant, self.digests = Vacant(self.seats, self.roles), Digests(lasting=self.lasting)
        self._silences = None
        self.changed(*((table, key) for table in TABLES for key in getattr(self, table)))

    # Hashes and snapshots ------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """A hash of the whole world, equal for equal worlds however they came about, within one process.

        It never leaves the process (snapshots carry worlds, and a reader of one hashes it itself), so Python's own keyed hash
        serves; unless the world is `lasting`, as that of a reader whose state is kept.
        """
        parts = (self.base, self.last, self.count, self.placed, self.highest)
        if self.in_force:
            parts = (*parts, self.stride, self.elders, self.noted)
        return self.digests.digest(self, self.members, parts)

    def dump(self) -> str:
        """The world as the text that snapshots carry."""
        frozen = Frozen(
            base=self.base,
            last=self.last,
            count=self.count,
            placed=self.placed,
            highest=self.highest,
            members=[self.members[id] for id in sorted(self.members)],
            seats=[self.seats[seat] for seat in sorted(self.seats)],
            roles=[self.roles[name] for name in sorted(self.roles)],
            pauses=[self.pauses[offset] for offset in sorted(self.pauses)],
            gone=self.gone,
        )
        if self.in_force:
            ahead = [(*seat, self.ahead[seat]) for seat in sorted(self.ahead)]
            ranges = [(*seat, self.ranges[seat]) for seat in sorted(self.ranges)]
            frozen.two = Two(self.unready, self.stride, self.elders, self.noted, self.followed, ahead, ranges)
        return _encoder.encode(frozen).decode()

    @classmethod
    def load(cls, text: str, *, lasting: bool = False, like: World | None = None) -> World:
        """The world that `dump` wrote. Raises ValueError for a text that is none, or that contradicts itself. `like`: another,
        if nothing is asked of this one but its digest: what both have in common is not hashed again, and nothing is derived."""
        try:
            frozen = _decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"not a world: {error}") from None
        world = cls(lasting=lasting)
        world.base, world.last, world.count = frozen.base, frozen.last, frozen.count
        world.placed, world.highest = frozen.placed, frozen.highest
        world.members = {m.id: m for m in sorted(frozen.members, key=lambda m: m.joined)}
        world.seats = {s.seat: s for s in frozen.seats}
        world.roles = {r.name: r for r in frozen.roles}
        world.pauses = {p.offset: p for p in frozen.pauses}
        world.gone = frozen.gone
        if (frozen.two is UNSET) == world.in_force:
            raise ValueError("not a world: what version 2 adds stands there where it is in force, and nowhere else")
        if frozen.two is not UNSET:
            two = frozen.two
            world.unready, world.stride, world.elders = two.unready, two.stride, two.elders
            world.noted, world.followed = two.noted, two.followed
            world.ahead = {(role, index): known for role, index, known in two.ahead}
            world.ranges = {(role, index): runs for role, index, runs in two.ranges}
        cross_check(world)
        if like is None:
            world.refresh()
        else:
            world.digests.borrow(world, like, like.digests)
        return world


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Frozen)
