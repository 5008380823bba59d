"""Mutants of what members do for each other: obituaries (R7), placement (R13), rates (R16), who is given things and who lets go
(R6, R18 to R20)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from pares.core.claims import decisions, outlook, tick
from pares.core.claims.chores.deaths import Deaths
from pares.core.claims.comebacks import Comebacks
from pares.core.claims.fitness.appetite import Appetite
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.placing.placement import _Placement  # pyright: ignore[reportPrivateUsage]
from pares.core.claims.placing.targets import Targets
from pares.core.claims.silence import Stopwatches
from pares.core.lease import MS
from pares.core.wire import fold, forgetting
from pares.core.wire.world import World
from pares.sim.members.mutants.troubles import CALMLY, QUIET
from pares.sim.mutant import Mutant, Patch


def _obituary_without_proof() -> list[Patch]:
    bury = Deaths.bury

    def guess(self: Any, now: int, *, closing: bool) -> None:
        """Overdue is taken for dead."""
        members, alive = self._reader.world.members, self._moves.alive
        self.proven |= {id: 0 for id, m in members.items() if id not in alive and m.lock is not None}
        bury(self, now, closing=closing)

    return [(Deaths, "bury", guess)]


def _everything_moves() -> list[Patch]:
    """Seats are dealt out anew at every change, instead of moving the surplus."""
    keep = _Placement._keep  # pyright: ignore[reportPrivateUsage]

    def dealt(self: _Placement, load: dict[str, float]) -> list[Any]:
        wanting = keep(self, load)
        for seat in [seat for seat in self.seats if seat.seat in self.target and not seat.pinned]:
            holder = self.target.pop(seat.seat) or ""
            self.in_role[seat.role].remove(holder)
            load[holder] -= self.world.roles[seat.role].weight
            wanting.append(seat)
        return sorted(wanting, key=lambda seat: seat.seat)

    return [(_Placement, "_keep", dealt), (outlook.Outlook, "alike", False)]


def _placed_once() -> list[Patch]:
    """What placement has said holds for good, whatever changes in the world, until other members are alive."""
    get = Targets.get

    def once(self: Targets, world: World, *who: Any) -> Any:
        self._of = (world, world.shape)  # pyright: ignore[reportPrivateUsage]
        return get(self, world, *who)

    return [(Targets, "get", once), (Targets, "read", lambda self, world, changes: None)]


def _no_budget() -> list[Patch]:
    def careless(world: Any, me: str, session_ms: int, alive: Any, *, hurry: bool = False) -> int:
        return max(1, session_ms // 4) if world.held.get(me) else session_ms

    return [(tick, "beat_ms", careless)]


def _not_ready_is_given() -> list[Patch]:
    """Neither the fold nor placement asks whether a member is ready."""
    may_take, begin = fold.may_take, _Placement.__init__

    def careless(world: World, member: Any, seat: Any) -> bool:
        with _all_ready(world):
            return may_take(world, member, seat)

    def anybody(self: _Placement, world: World, *more: Any) -> None:
        with _all_ready(world):
            begin(self, world, *more)

    return [
        (fold, "may_take", careless),
        (decisions, "may_take", careless),
        (_Placement, "__init__", anybody),
        (outlook.Outlook, "alike", False),
    ]


@contextmanager
def _all_ready(world: World) -> Generator[None, None, None]:
    unready, world.unready = world.unready, {}
    try:
        yield
    finally:
        world.unready = unready


def _slow_holds_on() -> list[Patch]:
    """A holder whose round trips are too long keeps what it holds."""
    return [(Pace, "slow", property(lambda self: False))]


def _ghosts_are_waited_for() -> list[Patch]:
    """Nobody asks who has outlived a silent holder, and each in line is waited for in turn."""

    def wait(self: decisions.Moves, world: World, seat: Any, designated: str | None, crew: Any, step: int) -> int:
        able = [id for id in self.crew if id != designated and world.may_hold(world.members[id], seat[0])]
        return (2 + (able.index(self.me) if self.me in able else len(able))) * step

    return [(Stopwatches, "survivors", lambda self, holder, among: frozenset()), (decisions.Moves, "_wait", wait)]


def _unshown_is_given() -> list[Patch]:
    """A member that writes is handed things, whether it has shown that it reads or not."""
    return [
        (Stopwatches, "heard", lambda self, alive: frozenset(alive)),
        (Pace, "shown", lambda self, now, due_ms: True),
    ]


def _losses_are_nothing() -> list[Patch]:
    """A lease that ran out says nothing, and a trip near the limit is as good as any."""

    def ran_out(self: Pace, now: int) -> None:
        pass

    short = Pace._short  # pyright: ignore[reportPrivateUsage]
    return [(Pace, "ran_out", ran_out), (Pace, "_well_inside", short)]


def _insatiable() -> list[Patch]:
    def all_there_is(self: Appetite, now: int, share: int, seats: int, *, late: bool, members: int) -> int:
        return seats

    return [(Appetite, "left", all_there_is)]


def _nobody_is_superseded() -> list[Patch]:
    """Incarnations are remembered beside their successors."""

    def keep(world: World, offset: int, name: str, changes: Any) -> None:
        pass

    return [(fold, "supersede", keep), (forgetting, "supersede", keep)]


def _the_silent_stay() -> list[Patch]:
    """Nobody says that they are to be forgotten."""
    return [(Deaths, "forget", lambda self, now: None)]


def _forgotten_at_once() -> list[Patch]:
    """A member that holds nothing is called silent a moment after its last record."""
    whole = Stopwatches.silent

    def hasty(self: Stopwatches, world: World, now: int, beat_ms: int, since: int) -> list[tuple[int, str]]:
        longest, known = max(member.session_ms for member in world.members.values()), self.looked_at
        self.looked_at += 2 * longest * MS
        found = whole(self, world, now, beat_ms, 0)
        self.looked_at = known
        return [(min(at, now), id) for at, id in found]

    return [(Stopwatches, "silent", hasty)]


def _comebacks_say_nothing() -> list[Patch]:
    """That one came back tells nothing of the others that are silent."""
    return [(Comebacks, "note", lambda self, silence, now, session_ms: None)]


NEAR: Final[dict[str, Any]] = {
    **QUIET,
    "members": 3,
    "roles": 3,
    "seats": 1,
    "session_ms": 1000,
    "sessions": (1000,) * 3,
    "drift": 0.01,
    "rates": (1.0,) * 3,
    "slow": (0.5, 0.0, 0.5),
    "storm": 3.0,
    "calm": 50.0,
    "settle": 0.2,
    "barrier": -1.0,
}
"""Two of three are near the limit of what lets them lead, and nothing else happens."""
OVERLOADED: Final[dict[str, Any]] = {
    **QUIET,
    "faults": {"half": 1.0},
    "pace": 0.01,
    "storm": 3.0,
    "calm": 40.0,
    "members": 8,
    "roles": 32,
    "seats": 1,
    "session_ms": 200,
    "sessions": (200,) * 8,
    "drift": 0.01,
    "rates": (1.0,) * 8,
    "machines": 1,
    "burden_us": 600,
    "scale": {"eager": 2},
    "starving": 0.0,
    "starts": (False,) * 8,
    "styles": ("wait",) * 8,
    "step_ms": 400.0,
    "barrier": -1.0,
    "bells": True,
    "proof": False,
    "settle": 0.5,
    "weather": {
        **CALMLY,
        **dict.fromkeys(("doubled", "copied", "hole", "split", "part"), 0.0),
        "send": (MS // 10, MS // 5),
        "ack": (MS // 10, MS // 5),
        "read": (MS // 20, MS // 10),
        "lag": 0,
    },
}
"""A group that counts as large. Its machine can just carry it: what all read of one record a seat takes most of a session."""

NAMES: Final[dict[str, Any]] = {
    **QUIET,
    "faults": {"names": 1.0},
    "members": 3,
    "storm": 60.0,
    "proof": False,
    "scale": {"keep": 4},
}

GROUP: Final = (
    Mutant(
        "not-ready-is-given",
        "R19",
        "seats are given to members that are not ready",
        _not_ready_is_given,
        {"members": 4, "warm": ("never", "later", "ready", "ready"), "acts": {}, "calm": 16.0},
    ),
    Mutant(
        "slow-holds-on",
        "R18",
        "a holder that can't lead keeps its seats",
        _slow_holds_on,
        {
            **QUIET,
            "members": 3,
            "roles": 1,
            "seats": 1,
            "slow": (0.9, 0.9, 0.0),
            "calm": 30.0,
        },
    ),
    Mutant(
        "losses-are-nothing",
        "R18",
        "a member near the limit takes its seats back each time",
        _losses_are_nothing,
        NEAR,
    ),
    Mutant(
        "insatiable",
        "R18",
        "a member of a large group claims all that there is, however late it is itself",
        _insatiable,
        OVERLOADED,
    ),
    Mutant(
        "ghosts-are-waited-for",
        "R20",
        "each of those that died with the leader is waited for",
        _ghosts_are_waited_for,
        {
            **QUIET,
            "faults": {"half": 1.0},
            "members": 8,
            "roles": 1,
            "seats": 1,
            "session_ms": 200,
            "storm": 20.0,
            "pace": 0.1,
            "starving": 0.0,
            "barrier": -1.0,
            "proof": False,
            "weather": {
                **CALMLY,
                "part": 0.0,
                "send": (MS // 10, MS // 5),
                "ack": (MS // 10, MS // 5),
                "read": (MS // 20, MS // 10),
                "lag": 0,
            },
        },
    ),
    Mutant(
        "unshown-is-given",
        "R6",
        "a member that writes and does not read is handed things",
        _unshown_is_given,
        {"faults": {"deaf": 1.0, "cut": 1.0}, "acts": {}, "cut": 8.0, "pace": 0.7, "starts": (False,) * 5},
    ),
    Mutant(
        "nobody-is-superseded",
        "R20",
        "an incarnation is remembered beside its successors",
        _nobody_is_superseded,
        {**QUIET, "faults": {"loop": 3.0}, "storm": 40.0, "proof": False, "scale": {"keep": 1000}},
    ),
    Mutant(
        "the-silent-stay",
        "R20",
        "members that are silent and hold nothing are remembered, whatever their number",
        _the_silent_stay,
        NAMES,
    ),
    Mutant(
        "forgotten-at-once",
        "R20",
        "a member that holds nothing is forgotten without being out-waited",
        _forgotten_at_once,
        {**NAMES, "scale": {"keep": 0}, "members": 5},
    ),
    Mutant(
        "comebacks-say-nothing",
        "R20",
        "members are forgotten, though others have come back from such a silence lately",
        _comebacks_say_nothing,
        {**NAMES, "faults": {"freeze": 3.0}, "scale": {"keep": 0}, "members": 6},
    ),
    Mutant(
        "obituary-without-proof",
        "R7",
        "a member that is overdue is declared dead",
        _obituary_without_proof,
        {"faults": {"freeze": 1.0}, "proof": True, "overlap_ms": 0},
    ),
    Mutant(
        "everything-moves",
        "R13",
        "placement moves more than the surplus",
        _everything_moves,
        {
            "faults": {"crash": 1.0},
            "acts": {},
            "seats": 1,
            "members": 3,
            "roles": 4,
            "pace": 0.2,
        },
    ),
    Mutant(
        "placed-once",
        "R23",
        "what placement has said holds for good, though seats have gone elsewhere",
        _placed_once,
        {"faults": {"crash": 1.0}, "acts": {"step_down": 2.0, "hand_over": 1.0}, "seats": 1, "members": 3, "roles": 3},
    ),
    Mutant(
        "no-budget",
        "R16",
        "standbys beat as often as they like",
        _no_budget,
        {
            "faults": {"wall": 1.0},
            "acts": {},
            "members": 8,
            "roles": 1,
            "seats": 1,
            "session_ms": 20,
            "weather": CALMLY,
            "sessions": (20,) * 8,
            "storm": 100.0,
            "pace": 0.01,
        },
    ),
)
