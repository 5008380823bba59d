"""Mutants of what proves a death, and of what a witness makes of it (R7, R22)."""

from __future__ import annotations

from typing import Any, Final

from pares.core import events as ev
from pares.core.claims import tick
from pares.core.claims.chores import deaths
from pares.core.wire.records import Lock
from pares.runtime.death import evidence
from pares.runtime.death.evidence import Found
from pares.sim.members.mutants.troubles import CALMLY
from pares.sim.mutant import Mutant, Patch


def _held_is_dead() -> list[Patch]:
    """The obituary is written whether the lock was had or not."""
    return [(evidence, "proves", lambda *, free, stated, there: stated and there)]


def _missing_is_dead() -> list[Patch]:
    is_stated = evidence.is_stated

    def careless(found: Found | None, member: str, statement: Lock) -> bool:
        return found is None or is_stated(found, member, statement)

    return [(evidence, "is_stated", careless)]


def _replaced_is_dead() -> list[Patch]:
    """A file of the right name and content will do."""

    def careless(found: Found | None, member: str, statement: Lock) -> bool:
        return found is not None and found.regular and found.content == member.encode()

    return [(evidence, "is_stated", careless)]


def _any_boot() -> list[Patch]:
    """The locks of other hosts are judged, too, where their files can be seen."""
    to_watch = deaths.to_watch

    def everybody(world: Any, me: str, alive: Any, witness: str = "") -> dict[str, Lock]:
        if not witness:
            return to_watch(world, me, alive)
        return {id: m.lock for id, m in world.members.items() if m.lock is not None}

    return [(evidence, "is_here", lambda statement, boot: True), (deaths, "to_watch", everybody)]


def _another_incarnation() -> list[Patch]:
    """The dead are told by their names, and not by their incarnations."""
    request = tick.Living.request

    def careless(self: tick.Living, event: ev.Event) -> None:
        world = self.reader.world
        dead = world.members.get(event.member) if isinstance(event, ev.Died) else None
        request(self, event if dead is None else ev.Died(world.names[dead.name][-1]))

    return [(tick.Living, "request", careless)]


def _says_it_late() -> list[Patch]:
    """A witness leaves the obituary to others, as if members of the host had to be there."""
    turn = deaths.turn

    def after_all(*those: Any, witness: bool, rings: Any) -> int:
        return 10_000 if witness else turn(*those, witness=witness, rings=rings)

    return [(deaths, "turn", after_all)]


WITNESSED: Final[dict[str, Any]] = {
    "proof": True,
    "witnesses": 1,
    "machines": 2,
    "members": 3,
    "acts": {},
    "overlap_ms": 0,
}

WITNESSES: Final = (
    Mutant(
        "held-is-dead",
        "R22",
        "an obituary is written without the lock",
        _held_is_dead,
        {**WITNESSED, "faults": {"freeze": 1.0}},
    ),
    Mutant(
        "missing-is-dead",
        "R22",
        "a lock file that is not there is taken for a death",
        _missing_is_dead,
        {**WITNESSED, "faults": {"tamper": 1.0, "close": 1.0}},
    ),
    Mutant(
        "replaced-is-dead",
        "R22",
        "another file under the name of a lock file is taken for it",
        _replaced_is_dead,
        {**WITNESSED, "faults": {"tamper": 1.0, "crash": 1.0}, "pace": 1.5},
    ),
    Mutant(
        "any-boot",
        "R22",
        "a lock of another boot is judged",
        _any_boot,
        {**WITNESSED, "faults": {"freeze": 1.0}, "shared": True},
    ),
    Mutant(
        "witness-waits",
        "R22",
        "a witness waits for members of the host, though none may be left there",
        _says_it_late,
        {
            **WITNESSED,
            "members": 2,
            "faults": {},
            "roles": 1,
            "seats": 1,
            "storm": 2.0,
            "calm": 16.0,
            "starving": 0.0,
            "barrier": -1.0,
            "weather": CALMLY,
        },
    ),
    Mutant(
        "another-incarnation",
        "R22",
        "the obituary names another incarnation than the one that is dead",
        _another_incarnation,
        {**WITNESSED, "faults": {"loop": 1.0, "crash": 1.0}, "storm": 20.0, "pace": 1.0},
    ),
)
