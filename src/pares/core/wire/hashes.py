"""Hashes: of names, for logs; and of worlds, for readers to compare.

A digest of a world is taken at every place (R10), so it costs no more than what has changed since the last one: the hashes of
the single parts are summed up, and only those of what has changed are made again. What moves all the time has terms of its own
in that sum, so that it is not all of its part that is hashed again: of members what beats change, of seats the positions.
[with consumers every beat moves some positions: whole seats, hashed again, were a fifth of what a replay cost]

There are quick ones, which one process can compare, and lasting ones, which any process can."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from pares.core.wire.records import Seat
from pares.core.wire.states import MemberState, SeatState

Key = tuple[str, Any]
"""A part of the world: the name of its table and its key there."""
TABLES: Final = ("members", "seats", "roles", "pauses", "gone", "unready", "followed", "ahead", "ranges")
"""Those of a world whose parts are hashed."""
MOST_TERMS: Final = 20_000
"""Terms of which it is known which seat each is of."""
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def stable_hash(key: str | bytes) -> int:
    """A hash that is part of what logs say: the same in every process, version and language, for ever. BLAKE2b of `key` with a
    digest of 8 bytes, big-endian; a text is its UTF-8. Raises `UnicodeEncodeError` for lone surrogates."""
    return int.from_bytes(blake2b(key.encode() if isinstance(key, str) else key, digest_size=8).digest(), "big")


def hash_of(key: Any, value: Any) -> int:
    """The quick hash of the part of a world that has this key; of a seat, without its marks."""
    if type(value) is SeatState:  # what changes most by far, and it can be hashed as it is
        _, _, holder, token, _, _, *rest = msgspec.structs.astuple(value)
        return hash((key, value.role, value.index, holder, token, *rest))
    return hash(_encoder.encode((key, _still(value))))


def lasting_hash_of(key: Any, value: Any) -> int:
    """The lasting hash of the same."""
    return stable_hash(_encoder.encode((key, _still(value))))


def lasting_hash(values: tuple[Any, ...]) -> int:
    """The lasting hash of numbers and texts; the quick one is `hash`."""
    return stable_hash(repr(values))


def _lasting_moving(members: Mapping[str, MemberState]) -> int:
    """Of what every beat changes of members, the lasting hash. [one for each of them takes four times as long]"""
    moving = [(m.id, m.n, m.offset, m.due_ms, m.count) for _, m in sorted(members.items())]
    return stable_hash(_encoder.encode(moving))


def _still(value: Any) -> Any:
    """What is hashed of a part when it changes; what every beat changes of a member is hashed at each place instead."""
    if type(value) is MemberState:
        return msgspec.structs.replace(value, n=0, offset=0, due_ms=0, count=0)
    return value


def _still_alike(part: Any, other: Any) -> bool:
    """Whether two members are the same, but for what every beat changes."""
    return type(part) is MemberState and type(other) is MemberState and bool(_still(part) == _still(other))


class Tables(Protocol):
    """A world, as far as it is asked for here; and the other tables that keys of `dirty` name."""

    @property
    def seats(self) -> Mapping[Seat, SeatState]: ...


class Digests:
    """Of one world. `lasting`: the same in every process, and of all releases that know the format: so a seat is hashed as a
    whole there, as it always was; that costs more."""

    def __init__(self, *, lasting: bool) -> None:
        self.lasting = lasting
        self.dirty: set[Key] = set()
        """Parts that have changed, marks aside."""
        self.moved: set[Seat] = set()
        """Seats whose marks have moved: what changes most."""
        self.terms: dict[int, SeatState] = {}
        """Seats by the token of a term of theirs, as a loop over beats has met them: a number is found sooner than a name."""
        self.raised: set[int] = set()
        """The same as `moved`, by tokens that are in `terms`."""
        self._hashes: dict[Key, int] = {}
        self._marks: dict[Seat, int] = {}
        self._sum = 0

    def digest(self, world: Tables, members: Mapping[str, MemberState], parts: tuple[Any, ...]) -> str:
        """`world`: has the tables that the keys of `dirty` name. `parts`: what else it consists of, as numbers."""
        if self.lasting:
            self._whole_seats()
            self._still(world)
            total = lasting_hash((*parts[:5], len(members), _lasting_moving(members), self._sum, *parts[5:]))
        else:
            self._raised()
            self._marked(world.seats)
            self._still(world)
            moving = sum([hash((m.id, m.n, m.offset, m.due_ms, m.count)) for m in members.values()])
            total = hash((parts, len(members), moving, self._sum))
        self.dirty.clear()
        self.moved.clear()
        self.raised.clear()
        if len(self.terms) > MOST_TERMS:
            self.terms.clear()  # most of them are over
        return f"{total & 0xFFFFFFFFFFFFFFFF:016x}"

    def borrow(self, world: Tables, other: Tables, theirs: Digests) -> None:
        """Before the first digest of `world`: of its parts that `other` has as well, as when that was last digested, take the
        hashes that are known there. [a snapshot is read a moment after its place, so hardly anything else has changed]"""
        if theirs.lasting:
            theirs._whole_seats()
        for table in TABLES:
            parts, same = getattr(world, table), getattr(other, table)
            for name, part in parts.items():
                key = (table, name)
                known, like = theirs._hashes.get(key), same.get(name)
                if known is None or key in theirs.dirty or not (part == like or _still_alike(part, like)):
                    self.dirty.add(key)
                else:
                    self._hashes[key] = known
                    self._sum += known
                    if table == "seats" and not self.lasting:
                        self.moved.add(name)

    def _whole_seats(self) -> None:
        """Where seats are hashed as a whole, their marks are parts of them."""
        self.dirty.update([("seats", seat) for seat in self.moved])
        self.dirty.update([("seats", self.terms[token].seat) for token in self.raised])

    def _still(self, world: Tables) -> None:
        hashes = self._hashes
        for key in sorted(self.dirty) if self.lasting else self.dirty:
            part = getattr(world, key[0]).get(key[1])
            fresh = 0 if part is None else (lasting_hash_of if self.lasting else hash_of)(key, part)
            self._sum += fresh - hashes.pop(key, 0)
            if fresh:
                hashes[key] = fresh

    def _raised(self) -> None:
        """Before `_marked`: a seat that was dropped since, or is another one now, is dirty."""
        marks, terms, changed = self._marks, self.terms, 0
        for token in self.raised:
            state = terms[token]
            seat = (state.role, state.index)
            fresh = hash((seat, state.mark, state.taken))
            changed += fresh - marks.get(seat, 0)
            marks[seat] = fresh
        self._sum += changed

    def _marked(self, seats: Mapping[Seat, SeatState]) -> None:
        """A seat that has come or gone is dirty, and its marks with it."""
        marks, changed = self._marks, 0
        self.moved.update([key[1] for key in self.dirty if key[0] == "seats"])
        for seat in self.moved:
            state = seats.get(seat)
            fresh = 0 if state is None else hash((seat, state.mark, state.taken))
            changed += fresh - marks.pop(seat, 0)
            if fresh:
                marks[seat] = fresh
        self._sum += changed
