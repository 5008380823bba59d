"""Mutants of what a member believes and when it may claim: R3, R4, R5, R8, R12."""

from __future__ import annotations

from typing import Any, Final

from pares.core.claims import protocol, silence, tick
from pares.core.claims.chores import duties
from pares.core.claims.outbox import Outbox
from pares.core.claims.silence import Stopwatches
from pares.core.claims.tenure import Phase, Tenure, Tenures
from pares.core.events import Acked, Effect, Follow
from pares.core.lease import MS, Sent
from pares.sim.members.mutants.troubles import CALMLY, FROZEN, MOVED, QUIET
from pares.sim.mutant import Mutant, Patch


def _challenger_waits_too_short() -> list[Patch]:
    whole = silence.challenge_ns

    def half(session_ms: int, holder_drift: float, own_drift: float) -> int:
        return whole(session_ms, holder_drift, own_drift) // 2

    return [(silence, "challenge_ns", half)]


def _lease_longer_than_session() -> list[Patch]:
    def longer(session_ms: int, drift: float, overlap_ms: int = 0) -> int:
        return int(session_ms * MS * 1.25) + overlap_ms * MS

    return [(protocol, "lease_ns", longer)]


def _lease_from_reading() -> list[Patch]:
    """Counted from when a record was read back, and not from when it was sent."""
    update = Tenures.update

    def late(self: Tenures, world: Any, sent: Sent, changes: Any, now: int) -> list[Effect]:
        counted, since = sent.counted, self.__dict__.get("_read_back", (None, 0))
        if counted is None:
            return update(self, world, sent, changes, now)
        if since[0] != counted:
            since = self.__dict__["_read_back"] = (counted, now)
        sent.counted = since[1]
        try:
            return update(self, world, sent, changes, now)
        finally:
            sent.counted = counted

    return [(Tenures, "update", late)]


def _believes_until_released() -> list[Patch]:
    """The belief ends when the release is read, and not before the barrier is called."""
    stop, compare = Tenures.stop, Tenures._compare  # pyright: ignore[reportPrivateUsage]

    def quiet(self: Tenures, given: Tenure, why: str, now: int, **more: Any) -> list[Effect]:
        return [effect for effect in stop(self, given, why, now, **more) if type(effect) is not Follow]

    def loud(self: Tenures, world: Any, changes: Any, now: int) -> list[Effect]:
        given = {seat: t for seat, t in self.by_seat.items() if t.phase is Phase.GIVEN}
        effects = compare(self, world, changes, now)
        for seat, old in given.items():
            if self.by_seat.get(seat) is not old:
                effects.append(Follow(seat, old.token, old.why, False, now))
        return effects

    return [(Tenures, "stop", quiet), (Tenures, "_compare", loud)]


def _believes_again() -> list[Patch]:
    """When the append that gave a term up has failed, the term is taken back."""

    def failed(self: Tenures, ticket: int) -> None:
        for given in self.by_seat.values():
            if given.sent_to == ticket:
                given.phase, given.sent_to = Phase.WAITING, None

    return [(Tenures, "failed", failed)]


def _believes_after_leave() -> list[Patch]:
    """A leave is written while terms go on."""
    leave, gives = tick.Living._leave, tick.Moves.gives  # pyright: ignore[reportPrivateUsage]

    def at_once(self: tick.Living, now: int) -> None:
        terms, self.tenures.by_seat = self.tenures.by_seat, {}
        leave(self, now)
        self.tenures.by_seat = terms

    def nothing(self: Any, world: Any, now: int, **closing: Any) -> Any:
        return [] if any(closing.values()) else gives(self, world, now, **closing)

    return [(tick.Living, "_leave", at_once), (tick.Moves, "gives", nothing)]


def _session_that_changes() -> list[Patch]:
    """Silence is judged by what a record says of the next one, and holders promise more than their session says."""
    silent_at = Stopwatches.silent_at
    beat_ms = duties.beat_ms

    def by_the_record(self: Stopwatches, member: Any) -> int:
        return silent_at(self, member) - max(0, member.session_ms - 4 * member.due_ms) * MS

    def hasty(world: Any, me: str, session_ms: int, alive: Any, *, hurry: bool = False) -> int:
        return max(1, session_ms // 8) if world.held.get(me) else beat_ms(world, me, session_ms, alive, hurry=hurry)

    made = Stopwatches.claimable_at

    def claimable(self: Stopwatches, seat: Any, holder: Any) -> int:
        return made(self, seat, holder) - max(0, holder.session_ms - 4 * holder.due_ms) * MS

    return [
        (Stopwatches, "silent_at", by_the_record),
        (Stopwatches, "claimable_at", claimable),
        (tick, "beat_ms", hasty),
    ]


def _retry_renews_its_time() -> list[Patch]:
    """After a failure of unknown outcome the same records are appended again, as if they had been made only now."""
    flush, failed = Outbox.flush, Outbox.failed

    def again(self: Outbox, now: int) -> Any:
        mine = self.__dict__
        if mine.get("_lost"):
            sent = self.sent._records  # pyright: ignore[reportPrivateUsage]
            for n, (_, payload) in list(sent.items()):
                if payload in mine["_lost"]:
                    sent[n] = (now, payload)
            self._batch = list(mine.pop("_lost"))  # pyright: ignore[reportPrivateUsage]
        append = flush(self, now)
        if append is not None:
            mine["_last"] = append.payloads
        return append

    def keep(self: Outbox, ticket: int, now: int, unknown: bool) -> bool:
        ours = failed(self, ticket, now, unknown)
        if ours and unknown:
            self.__dict__["_lost"] = self.__dict__.get("_last")
        return ours

    return [(Outbox, "flush", again), (Outbox, "failed", keep)]


def _acknowledged_is_accepted() -> list[Patch]:
    """The sender takes for accepted what was acknowledged, whether the world has counted it or not."""
    acked = protocol.Claims._acked  # pyright: ignore[reportPrivateUsage]

    def believed(self: protocol.Claims, event: Any, now: int, effects: list[Effect]) -> None:
        ours = event.ticket == self.outbox.in_flight
        acked(self, event, now, effects)
        if ours and self.stage is protocol.Stage.LIVE:
            self.outbox.sent.counted = max(self.outbox.sent.counted or 0, self.outbox.last_at)
            effects += self.tenures.update(self.reader.world, self.outbox.sent, [], now)

    return [(protocol.HANDLERS, Acked, believed)]  # type: ignore[list-item]


def _name_is_enough() -> list[Patch]:
    """A member that starts under the name of a holder takes its seats, without proof and without waiting."""
    silent_at, claimable_at = Stopwatches.silent_at, Stopwatches.claimable_at

    def silent(self: Stopwatches, member: Any) -> int:
        return 0 if member.name == self.me.rpartition("~")[0].partition("-")[0] else silent_at(self, member)

    def claimable(self: Stopwatches, seat: Any, holder: Any) -> int:
        return 0 if holder.name == self.me.rpartition("~")[0].partition("-")[0] else claimable_at(self, seat, holder)

    return [(Stopwatches, "silent_at", silent), (Stopwatches, "claimable_at", claimable)]


def _deaf_but_beating() -> list[Patch]:
    """A member that reads nothing goes on beating."""
    return [(Outbox, "deaf", lambda self, now, until: False), (Outbox, "doubtful", lambda self, now: False)]


BELIEFS: Final = (
    Mutant(
        "challenger-waits-too-short", "R3", "a challenger waits half a session", _challenger_waits_too_short, FROZEN
    ),
    Mutant(
        "lease-longer-than-session", "R4", "a lease lasts a session and a quarter", _lease_longer_than_session, FROZEN
    ),
    Mutant(
        "lease-from-reading",
        "R4",
        "a lease counts from when the record was read back",
        _lease_from_reading,
        {"faults": {"mute": 1.0}, "acts": {}, "overlap_ms": 0, "drift": 0.0, "cut": 3.0, "pace": 1.0, "proof": False},
    ),
    Mutant(
        "believes-until-released",
        "R4c",
        "the belief is kept until the release has been read",
        _believes_until_released,
        MOVED,
    ),
    Mutant(
        "believes-again",
        "R4c",
        "a term that was given up is taken back when the append has failed",
        _believes_again,
        {**MOVED, "faults": {"mute": 1.0, "crash": 1.0}},
    ),
    Mutant(
        "believes-after-leave",
        "R4c",
        "a leave is written while terms go on",
        _believes_after_leave,
        {"faults": {"close": 3.0, "freeze": 1.0}, "pace": 1.5},
    ),
    Mutant(
        "session-that-changes",
        "R4",
        "sessions change while leases of the old length run",
        _session_that_changes,
        FROZEN,
    ),
    Mutant(
        "retry-renews-its-time",
        "R4",
        "a retried record counts from its last append",
        _retry_renews_its_time,
        {
            **FROZEN,
            "faults": {"nothing_back": 3.0, "freeze": 1.0, "freeze_at": 1.0, "mute": 1.0},
            "cut": 1.0,
            "pace": 2.5,
            "storm": 30.0,
        },
    ),
    Mutant(
        "acknowledged-is-accepted",
        "R2",
        "the sender counts a record that the world has rejected, or not yet judged",
        _acknowledged_is_accepted,
        {
            "faults": {"forge": 1.0, "deaf": 2.0},
            "acts": {},
            "overlap_ms": 0,
            "members": 2,
            "roles": 1,
            "seats": 1,
            "cut": 4.0,
            "pace": 2.0,
            "weather": CALMLY,
        },
    ),
    Mutant(
        "name-is-enough",
        "R8",
        "a restart under a name takes its seats without proof",
        _name_is_enough,
        {"faults": {"twin": 3.0, "freeze": 1.0}, "pace": 1.0, "overlap_ms": 0, "acts": {}},
    ),
    Mutant(
        "deaf-but-beating",
        "R2",
        "a member that reads nothing goes on beating",
        _deaf_but_beating,
        {**QUIET, "faults": {"deaf": 1.0}, "pace": 0.1, "cut": 25.0, "storm": 30.0},
    ),
)
