"""Rules of slots of keys (C12), broken on purpose."""

from __future__ import annotations

from typing import Any, Final

from pares.core.consume import protocol, sharing
from pares.core.wire import fold
from pares.core.wire.divided import keys, ranges
from pares.core.wire.divided.keys import reached
from pares.runtime.consume.divided import keying
from pares.runtime.consume.feeder import Feeder
from pares.runtime.consume.tenancy import Tenancy
from pares.sim.members.consume.biases import AT_MOST, KEYED, MIXED
from pares.sim.mutant import Mutant, Patch


def _divisions_side_by_side() -> list[Patch]:
    return [(module, "barred", lambda world, role: False) for module in (fold, sharing)]


def _key_of_two_slots() -> list[Patch]:
    return [(keying, "place_of", lambda key, offset: offset)]


def _handed_over_in_flight() -> list[Patch]:
    from pares.runtime.work.barriers import Barriers

    return [(Barriers, "begin", lambda self, key, thread=None: None), (Barriers, "finish", lambda self, body: None)]


def _handed_over_beside_a_take() -> list[Patch]:
    whole = Feeder._asks  # pyright: ignore[reportPrivateUsage]

    def asks(self: Any, tenancy: Any, fetched: Any) -> bool:
        before = len(tenancy.taking)
        found = whole(self, tenancy, fetched)
        if len(tenancy.taking) > before:
            self.member.works.finish(tenancy.taking[-1].body)
        return found

    return [(Feeder, "_asks", asks)]


def _batches_of_a_slot_side_by_side() -> list[Patch]:
    def full(self: Any, ahead: int) -> bool:
        return self.waiting + len(self.taking) >= 1 + ahead or self.progress.unfinished >= 16

    return [(Tenancy, "full", full)]


def _knows_of_its_own_seat_alone() -> list[Patch]:
    whole = keys.begins

    def begins(world: Any, seat: Any) -> Any:
        return whole(world, seat)[0], ()

    return [(protocol, "begins", begins)]


def _settled_by_one_slot() -> list[Patch]:
    def settled(world: Any, role: str) -> int:
        return max(reached(each) for each in (world.seats[role, 0], *keys.parts(world, role)))

    return [(module, "settled", settled) for module in (keys, ranges)]


def _rewound_without_its_slots() -> list[Patch]:
    return [(fold, "rewind", lambda world, seat, position: world.rewound(seat, position))]


OF_KEYS: Final = (
    Mutant(
        "divisions-side-by-side",
        "C12",
        "a key that two handlers run at once: seats of two divisions of a partition are held",
        _divisions_side_by_side,
        MIXED,
    ),
    Mutant(
        "batches-of-a-slot-side-by-side",
        "C12",
        "a key that two handlers run at once: several batches of a slot are out",
        _batches_of_a_slot_side_by_side,
        {**KEYED, "faults": {"rate": 1.0}, "workers": 2, "batch": 1, "keys": 3},
    ),
    Mutant(
        "key-of-two-slots",
        "C12",
        "a record goes to a slot by its offset, though it has a key",
        _key_of_two_slots,
        {**KEYED, "faults": {"rate": 1.0}},
    ),
    Mutant(
        "slot-handed-over-in-flight",
        "C12",
        "a slot is handed over with work of it in flight",
        _handed_over_in_flight,
        {**KEYED, "faults": {"close": 1.0}, "acts": {"step_down": 3.0, "hand_over": 3.0}, "act_pace": 1.0},
    ),
    Mutant(
        "handed-over-beside-a-take",
        "C4",
        "a handover does not wait for the word of a take that is under way",
        _handed_over_beside_a_take,
        {
            **KEYED,
            "delivery": "at-most-once",
            "one_by_one": True,
            "acts": {"step_down": 3.0, "hand_over": 3.0},
            "act_pace": 0.3,
        },
    ),
    Mutant(
        "division-knows-of-itself-alone",
        "C12",
        "what another division has done is given out again",
        _knows_of_its_own_seat_alone,
        {**AT_MOST, **MIXED, "delivery": "at-most-once"},
    ),
    Mutant(
        "settled-by-one-slot",
        "C12",
        "a division begins where the foremost slot of another one is",
        _settled_by_one_slot,
        MIXED,
    ),
    Mutant(
        "rewound-without-its-slots",
        "C5",
        "a rewind moves a partition, and leaves its slots of keys where they are",
        _rewound_without_its_slots,
        {**KEYED, "faults": {"rate": 1.0}, "acts": {"rewind": 3.0}, "act_pace": 1.0},
    ),
)
