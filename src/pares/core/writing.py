"""What a member writes into the logs of the partitions that a group shares out, and when (see `induced` for the rules).

One append is under way at a time in each partition, and what is owed comes first: a `yield`; then a `width`, without which
nobody leads; then an announcement; then roles; then a beat, if one is due. Numbers, contents and times of records are fixed
by `part`, and what is said of a tenure by each protocol.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core import beacons
from pares.core.beacons import NAMES, Announce, Width, Work, Yield
from pares.core.holding import Holding
from pares.core.lease import MS
from pares.core.part import STANDING, Part, Phase
from pares.core.records import MAX_BASE
from pares.core.shares import Config, Effect, Landed, Missed

LOOKS: Final = 2
"""How often a log is read, since its partition became wanted, before the member announces itself there."""


class Writing(Holding):
    """The part of `induced.Induced` that writes."""

    name = ""
    within_ms = 0
    """What its announcements say: for how long after a record of its own its owner may believe."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.live = False
        """Everything that stood in the logs when they were attached to has been read."""
        self.largest = config.seen
        """No token that this process has seen is greater."""
        self._tickets = 0
        self._early_ns = 0
        """By how much a beat may come before it is due, in this tick."""
        self._flights: dict[int, Part] = {}
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
        """Between two beats, or beacons, as the budget has it at present."""
        return self._interval_ns(self.parts[0])

    def _interval_ns(self, part: Part) -> int:
        return self.config.interval_ms * MS

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
        if not part.wide and self.live and part.attached and part.quiet and not self.closing:
            self._settle_roles(part)
            fields = {"of": self.config.partitions, "seats": self.config.seats, "roles": tuple(part.add)[:NAMES]}
            self._put(part, Width, now, effects, at=at_ms, **fields)
            return
        claims = self._claims(now) if part.phase is Phase.WANTED else None
        if claims is not None:
            wakes.append(claims.until(self.config.drift))
        elif part.phase is Phase.WANTED and self._may_announce(part):
            self._put(part, Announce, now, effects, base=self._base(part, wall_us), **self._said(at_ms))
            return
        if not self.live or not part.track.entered or not part.attached:
            return
        if self.closing and part.phase is not Phase.LINGERING:
            return  # who closes speaks for nothing but what it leads until another does: that is not to seem silent
        if (part.add or part.drop) and part.wide and part.quiet and not self.closing:
            self._put(part, Work, now, effects, add=tuple(part.add)[:NAMES], drop=tuple(part.drop)[:NAMES], at=at_ms)
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
            fields = {"of": self.config.partitions, "seats": self.config.seats, "roles": tuple(again)}
            self._put(part, Width, now, effects, at=at_ms, **fields)
        else:
            wakes.append(due)

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
        fields: dict[str, Any] = {"name": c.name, "host": c.host, "protocol": self.mode, "of": c.partitions}
        fields |= {"session": c.session_ms, "seats": c.seats}
        return fields | {"within": self.within_ms, "drift": c.drift, "at": at_ms}

    def _try_announce(self) -> None:
        """Raises `ConfigError` if what this member says of itself does not fit into a record."""
        beacons.encode(Announce(v=1, g=self.config.group, m=self.me, n=1, b=0, s=0, **self._said(0)))

    def _landed(self, event: Landed, now: int, effects: list[Effect]) -> None:
        part = self._flights.pop(event.ticket, None)
        if part is not None and part.in_flight == event.ticket:
            part.landed(event.offset, now)
            self._yield_over(part, effects)

    def _missed(self, event: Missed, now: int, effects: list[Effect]) -> None:
        part = self._flights.pop(event.ticket, None)
        if part is not None and part.in_flight == event.ticket:
            part.missed(now, event.unknown)
            self._yield_over(part, effects)

    def _yield_over(self, part: Part, effects: list[Effect]) -> None:
        """Whatever became of it: who comes next can do without, it only has to wait longer."""
        if part.giving:
            part.giving, part.owed, part.stands = False, None, 0
            self._answer(part, effects)
