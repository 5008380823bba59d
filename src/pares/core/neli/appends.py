"""What a member writes into the logs of the partitions that a group shares out, and when (see `induced` for the rules).

One append is under way at a time in each partition, and what is owed comes first: a `yield`; then a `width`, without which
nobody leads; then an announcement; then roles; then a beat, if one is due. Numbers, contents and times of records are fixed
by `partition`, and what is said of a tenure by each protocol.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core.events import Acked, Effect, Failed
from pares.core.lease import MS
from pares.core.neli.config import Config
from pares.core.neli.partition import Part
from pares.core.neli.partitions import Holding
from pares.core.neli.phases import SEEKING, STANDING, Phase
from pares.core.wire import neli_records
from pares.core.wire.neli_records import (
    NAMES,
    NUMBERED,
    Announce,
    Number,
    PartitionCount,
    Place,
    RolesChanged,
    Share,
    Yield,
)
from pares.core.wire.records import MAX_BASE

LOOKS: Final = 2
"""How often a log is read, since its partition became wanted, before the member announces itself there."""


class Writing(Holding):
    """The part of `induced.Induced` that writes."""

    name = ""
    within_ms = 0
    """What its announcements say: for how long after a record of its own its owner may believe."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.largest = config.seen
        """No token that this process has seen is greater."""
        self._tickets = 0
        self._early_ns = 0
        """By how much a beat may come before it is due, in this tick."""
        self._flights: dict[int, Part] = {}
        self._restating: list[str] = []
        """Names whose numbers are to be written down again in partition 0."""
        self._try_announce()

    @property
    def mode(self) -> str:
        """What this member says that it runs: all members of a group run the same."""
        return self.name

    # What each protocol says for itself --------------------------------------------------------------------------------

    def _beat(self, part: Part, now: int, at_ms: int) -> tuple[type[Any], dict[str, Any]] | None:
        """What to write when a beat is due here; None: nothing is ever due."""
        raise NotImplementedError

    @property
    def pace_ns(self) -> int:
        """Between two beats, or beacons, of an owner, as the budget has it at present."""
        return self.config.interval_ms * MS

    def _interval_ns(self, part: Part) -> int:
        return self.pace_ns

    def _due_ms(self, part: Part, kind: type[Any]) -> int:
        """By when this member's next record in this partition is due (R16), after one of that kind."""
        return self._interval_ns(part) // MS

    # Writing -------------------------------------------------------------------------------------------------------------

    def _write(self, part: Part, wall_us: int, now: int, effects: list[Effect], wakes: list[int]) -> None:
        at_ms = wall_us // 1000
        if part.owed is not None:
            fields: dict[str, Any] = {"term": part.stands, "led": part.led and part.stands == part.token}
            if fields["led"]:
                fields |= {"began": at_ms - (now - part.began_at) // MS, "ended": at_ms - (now - part.ended_at) // MS}
            self._put(part, Yield, now, effects, at=at_ms, why=part.owed, **fields)
            return
        if (not part.wide or part.wants_width) and self.live and part.attached and part.quiet and not self.closing:
            self._say_width(part, now, effects, at_ms)
            return
        if part.number == 0 and self._say_numbers(part, now, effects, at_ms):
            return
        if self.numbered and self._say_roles(part, now, effects, at_ms):
            return  # before it leads, so that it leads them at once
        claims = self._claims(now) if part.phase in SEEKING else None
        if claims is not None:
            part.wanted_at = now
            wakes.append(claims.until(self.config.drift))
        elif part.phase in SEEKING and self._may_announce(part):
            self._put(part, Announce, now, effects, base=self._base(part, wall_us), **self._said(at_ms))
            return
        if not self.live or not part.track.entered or not part.attached:
            return
        if self.closing and part.phase not in (Phase.LINGERING, Phase.STOPPING):
            # A member that closes speaks for what it leads until another does, and for what its barrier still runs for.
            # [in silence the tenure is over a deadline after the last beat, and the next owner leads beside the barrier]
            return
        if self._say_roles(part, now, effects, at_ms):
            return
        self._restate(part, now)
        if part.phase in STANDING and part.deaf(now, self.within_ms * MS):
            return  # its beats would keep others waiting for what it will never know of
        beat = self._beat(part, now, at_ms)
        if beat is None:
            return
        due = part.last_at + self._interval_ns(part)
        if now >= due - self._early_ns or part.beat_now:
            self._put(part, beat[0], now, effects, **beat[1])
        elif part.restating:
            again, part.restating = part.restating[:NAMES], part.restating[NAMES:]
            self._say_again(part, again, now, effects, at_ms)
        else:
            wakes.append(due)

    # What the group shares out ---------------------------------------------------------------------------------------------

    def _say_width(self, part: Part, now: int, effects: list[Effect], at_ms: int) -> None:
        self._settle_roles(part)
        shape: dict[str, Any] = {"of": self.config.partitions, "seats": self.config.seats}
        part.wants_width = False
        if self.numbered:
            self._put(part, Share, now, effects, at=at_ms, **shape)
        else:
            self._put(part, PartitionCount, now, effects, at=at_ms, roles=tuple(part.add)[:NAMES], **shape)

    def _say_numbers(self, part: Part, now: int, effects: list[Effect], at_ms: int) -> bool:
        """In partition 0: names that have no number yet; and now and then all numbers, for a log that forgets."""
        if not (self.numbered and self.live and self.numbering.complete and part.wide and part.quiet) or self.closing:
            return False
        names = self.numbering.missing({role: True for role, add in self.wishes.items() if add})[:NAMES]
        if names:
            self._put(part, Number, now, effects, at=at_ms, names=tuple(names))
        elif self._restating:
            again, self._restating = self._restating[:NAMES], self._restating[NAMES:]
            of = self.numbering.of
            numbers = tuple(of[name] for name in again)
            self._put(part, Number, now, effects, at=at_ms, names=tuple(again), numbers=numbers, whole=len(of))
        else:
            return False
        return True

    def _say_roles(self, part: Part, now: int, effects: list[Effect], at_ms: int) -> bool:
        """Roles that come or go, if any do. One record for each way: a name that is its own number has none from the log."""
        ready = self.live and part.attached and part.track.entered and part.wide and part.quiet and not self.closing
        if not ready or not (part.add or part.drop):
            return False
        add, drop = tuple(part.add)[:NAMES], tuple(part.drop)[:NAMES]
        if not self.numbered:
            self._put(part, RolesChanged, now, effects, add=add, drop=drop, at=at_ms)
        elif drop:
            self._put(part, RolesChanged, now, effects, drop=drop, at=at_ms)
        else:
            self._say_places(part, add, now, effects, at_ms)
        return True

    def _say_again(self, part: Part, roles: list[str], now: int, effects: list[Effect], at_ms: int) -> None:
        """Writes the roles down anew: retention may remove the first record of them."""
        if self.numbered:
            self._say_places(part, tuple(role for role in roles if self._belongs(role, part)), now, effects, at_ms)
        else:
            shape: dict[str, Any] = {"of": self.config.partitions, "seats": self.config.seats}
            self._put(part, PartitionCount, now, effects, at=at_ms, roles=tuple(roles), **shape)

    def _say_places(self, part: Part, roles: tuple[str, ...], now: int, effects: list[Effect], at_ms: int) -> None:
        numbers = tuple(self.numbering.of.get(role, -1) for role in roles)
        self._put(part, Place, now, effects, at=at_ms, roles=roles, numbers=numbers)

    def _restate_numbers(self, part: Part, now: int) -> None:
        """The leader of partition 0 writes the numbers down again in time; of all others whoever finds that nobody does."""
        after = self.config.restate_ms * (1 if part.phase is Phase.LEADING else 2) * MS
        numbering = self.numbering
        due = after and now >= numbering.said_at + after
        if due and self.numbered and numbering.complete and numbering.of and not self._restating:
            numbering.said_at = now
            self._restating = list(numbering.of)

    def _put(
        self, part: Part, kind: type[Any], now: int, effects: list[Effect], base: int | None = None, **fields: Any
    ) -> None:
        self._tickets += 1
        self._flights[self._tickets] = part
        due_ms = self._due_ms(part, kind)
        base = part.track.base if base is None else base
        effects.append(part.write(kind, self.me, base, due_ms, self._tickets, now, **fields))

    def _may_announce(self, part: Part) -> bool:
        """Only who has begun to read the log since it wants the partition, and has no announcement of its own unread. The first
        read may have been under way before: a process that was frozen with a full buffer hears of that first. [it, or a member
        that can't read, would push others aside for nothing]"""
        return (
            all(p.wide for p in self.parts)
            and part.attached
            and part.track.entered
            and part.quiet
            and part.looks >= LOOKS
            and not self.closing
        )

    def _base(self, part: Part, wall_us: int) -> int:
        """The base in force while tokens grow under it; else the wall clock, or more if a larger token was given (R9)."""
        track = part.track
        top = max(track.top, self.largest)
        if track.base and track.base + track.position > top:
            return track.base
        return min(max(wall_us, top + 1), MAX_BASE - 1)

    def _said(self, at_ms: int) -> dict[str, Any]:
        c = self.config
        runs = self.mode + (NUMBERED if self.numbered else "")
        fields: dict[str, Any] = {"name": c.name, "host": c.host, "protocol": runs, "of": c.partitions}
        fields |= {"session": c.session_ms, "seats": c.seats}
        return fields | {"within": self.within_ms, "drift": c.drift, "at": at_ms}

    def _try_announce(self) -> None:
        """Raises `ConfigError` if what this member says of itself does not fit into a record."""
        neli_records.encode(Announce(v=1, g=self.config.group, m=self.me, n=1, b=0, s=0, **self._said(0)))

    def _acked(self, event: Acked, now: int, effects: list[Effect]) -> None:
        part = self._flights.pop(event.ticket, None)
        if part is not None and part.in_flight == event.ticket:
            part.acked(event.offset, now)
            self._yield_over(part, effects)

    def _failed(self, event: Failed, now: int, effects: list[Effect]) -> None:
        part = self._flights.pop(event.ticket, None)
        if part is not None and part.in_flight == event.ticket:
            part.failed(now, event.unknown)
            self._yield_over(part, effects)

    def _yield_over(self, part: Part, effects: list[Effect]) -> None:
        """Whatever became of it: who comes next can do without, it only has to wait longer."""
        if part.giving:
            part.giving, part.owed, part.stands = False, None, 0
            self._answer(part, effects)
