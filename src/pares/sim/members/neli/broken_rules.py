"""How each rule of NELI, Fast NELI and NELE is broken on purpose: what is patched in the code that ships."""

from __future__ import annotations

from typing import Any

from pares.core.events import Read, Yielded
from pares.core.lease import Sent
from pares.core.neli import classic
from pares.core.neli.budget import Share
from pares.core.neli.classic import Neli
from pares.core.neli.fast import Fast
from pares.core.neli.induced import Induced
from pares.core.neli.partition import Outbox, Partition
from pares.core.neli.partition_log import Track, Writer
from pares.core.neli.phases import EXCLUSIVE, GIVEN, NON_EXCLUSIVE, SEEKING, STANDING, Act, On, Phase, Row, Table
from pares.core.neli.roles import Roles
from pares.runtime.neli import kit
from pares.runtime.neli.binding import NeliBinding
from pares.sim.engine import MS
from pares.sim.mutant import Patch


def any_beat_fast() -> list[Patch]:
    def rests_until(self: Fast, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.lease_ns if part.phase in STANDING else 0

    # As in goNELI: no announcement is looked at either, so that the successor's beats keep the old owner alive.
    return [(Fast, "rests_until", rests_until), *no_announcement()]


def from_reading() -> list[Patch]:
    def rests_until(self: Fast, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.lease_ns if record.m == self.config.id and part.phase in STANDING else 0

    return [(Fast, "rests_until", rests_until)]


def no_announcement() -> list[Patch]:
    """The old owner does not look at its successor's announcement."""
    deaf = dict.fromkeys((On.RIVAL, On.RIVAL_LEADS))
    return [(EXCLUSIVE, phase, rows | deaf) for phase, rows in EXCLUSIVE.items()]


def no_grace() -> list[Patch]:
    def ready_at(self: Any, tenure: Any, stamp_ms: int, now: int) -> int:
        return now

    return [(Fast, "ready_at", ready_at), (Neli, "ready_at", ready_at)]


def resume() -> list[Patch]:
    """After a fence the old term goes on, with its old token."""
    return otherwise(EXCLUSIVE, {On.RAN_OUT: (Phase.GRACE, Act.FENCE)})


def otherwise(table: Table, rows: dict[On, Row | None]) -> list[Patch]:
    """A leader does something else when that happens."""
    return [(table, Phase.LEADING, table[Phase.LEADING] | rows)]


def local_time() -> list[Patch]:
    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        own = record.m == self.config.id and part.phase in STANDING
        return now + int(self.config.threshold_ms * MS * (1 - self.config.drift)) if own else 0

    return [(Neli, "rests_until", rests_until)]


def looks_apart() -> list[Patch]:
    """What passes between a look at the wall clock and the one at the stopwatch is not taken off a belief."""

    def reads(self: Any, partition: int, entries: Any, read_at: int, began: int, times: Any) -> Any:
        shown = self._host.wall_us()
        return Read(list(entries), partition, shown), self._host.now()

    return [(NeliBinding, "reads", reads)]


def any_beat_neli() -> list[Patch]:
    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        left_us = self.config.threshold_ms * 1000 - (wall_us - entry[1] * 1000)
        return now + int(left_us * 1000 * (1 - self.config.drift)) if part.phase in STANDING else 0

    return [(Neli, "rests_until", rests_until)]


def no_error_bound() -> list[Patch]:
    """The wait for a predecessor leaves out e."""

    def grace(self: Neli, within_ms: int) -> int:
        return int(max(0, within_ms - self.config.error_ms) * MS * (1 + self.config.drift)) + 1

    return [(Neli, "grace_ns", grace)]


def long_threshold() -> list[Patch]:
    """T + e may be longer than the session: the checks are off."""
    return [(classic, "check_threshold", lambda config: None), (kit, "check_sum", lambda *_: None)]


def stop_at_once() -> list[Patch]:
    """NELE: who loses a partition stops before anybody else leads."""
    lingering = NON_EXCLUSIVE[Phase.LINGERING] | {On.RIVAL: (Phase.IDLE, Act.FENCE, Act.OWE)}
    return [
        *otherwise(NON_EXCLUSIVE, {On.RIVAL: (Phase.SUPERSEDED, Act.FENCE, Act.OWE)}),
        (NON_EXCLUSIVE, Phase.LINGERING, lingering),
    ]


def revoked_is_lost() -> list[Patch]:
    """The group is let go on before the barrier has returned, and the log is told that the work is over."""

    def answer(self: Partition, effects: list[Any]) -> None:
        if self.revoked and self.owed is None:
            self.revoked = False
            effects.append(Yielded(self.number))

    return [
        *otherwise(EXCLUSIVE, {On.REVOKED: (Phase.STOPPING, Act.STOP, Act.OWE)}),
        (Partition, "answer", answer),
    ]


def no_budget() -> list[Patch]:
    """Everybody beats as often as it was told to, however many are on the topic."""
    return [(Share, "reckon", lambda *_: None)]


def budget_wins() -> list[Patch]:
    """However seldom that is."""
    reckon = Share.__dict__["reckon"]

    def unbound(self: Any, *words: Any) -> None:
        self._slowest = None
        reckon(self, *words)

    return [(Share, "reckon", unbound)]


def any_rival() -> list[Patch]:
    """NELE: a leader that goes on reading goes on leading, until it reads that another does."""

    def rests_until(self: Neli, part: Any, record: Any, entry: Any, now: int, wall_us: int) -> int:
        return now + self.threshold_ns if part.phase in GIVEN else 0

    return [(Neli, "rests_until", rests_until)]


def history_counts() -> list[Patch]:
    """A member that has ever written to the log counts as if it were there when somebody comes."""

    def date(self: Any, now: int) -> None:
        self.around |= {who: Writer(now, writer.due_ms, writer.owns) for who, writer in (self._before or {}).items()}
        self._before = None

    return [(Track, "_date", date)]


def width_ignored() -> list[Patch]:
    """Members that share out different numbers of partitions do not look at that."""
    fold = Track.__dict__["_fold"]

    def without(self: Track, record: Any, offset: int, stamp_ms: int, now: int) -> None:
        fold(self, record, offset, stamp_ms, now)
        self.width = 0

    return [(Track, "_fold", without)]


def old_log_not_awaited() -> list[Patch]:
    """Of another log, nobody asks who may still believe by the one before it."""
    jumped = Induced.__dict__["_jumped"]

    def at_once(self: Induced, event: Any, now: int, effects: list[Any]) -> None:
        jumped(self, event, now, effects)
        self.parts[event.partition].broke_until = now

    return [(Induced, "_jumped", at_once)]


def blindness_not_awaited() -> list[Patch]:
    return [(Track, "blind", lambda self, me: False)]


def late_announcement_counts() -> list[Patch]:
    """Whichever announcement of its own it reads first begins its tenure, though a later one is on its way."""
    announced = Induced.__dict__["_announced"]

    def any_of_them(self: Induced, part: Any, record: Any, entry: Any, now: int, effects: list[Any]) -> None:
        if part.phase in SEEKING:
            part.outbox.announced = record.n
        if part.phase not in STANDING:
            announced(self, part, record, entry, now, effects)

    return [(Induced, "_announced", any_of_them)]


def beats_wait() -> list[Patch]:
    """An owner's next beat waits for an interval after any record of its own, whatever that says."""
    hand_over = Outbox.__dict__["hand_over"]

    def digresses(self: Outbox, kind: type[Any], ticket: int, now: int, **fields: Any) -> bytes:
        payload = hand_over(self, kind, ticket, now, **fields)
        self.last_at, self.digresses = now, False
        return payload

    return [(Outbox, "hand_over", digresses)]


def settled_numbers_unseen() -> list[Patch]:
    """Roles that came to their numbers as no member answered are led from the next record about roles on."""
    await_numbers = Roles.__dict__["await_numbers"]

    def unseen(self: Roles, now: int, blind_ns: int, wakes: list[int]) -> bool:
        await_numbers(self, now, blind_ns, wakes)
        return False

    return [(Roles, "await_numbers", unseen)]


def leader_alone_answers() -> list[Patch]:
    return [(Roles, "_answer", lambda self, now, wakes: None)]


def own_records_are_a_clones() -> list[Patch]:
    """After its log was replaced a member takes its own records from before for somebody else's."""
    return [(Sent, "forget_log", lambda self: None)]
