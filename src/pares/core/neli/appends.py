"""What a member writes into the logs of the partitions that a group shares out, and when (see `induced` for the rules).

In each partition one append is under way at a time. What is due is written in this order: a `yield`; a `share` (or `width`),
without which no member leads; numbers of names and roles; an announcement; a beat. A group that goes by hashes writes its roles
after the announcement. An owner's beat that is due goes before numbers and roles. `partition` fixes the number, content and
time of each record; the protocol decides what is said of a tenure.
"""

from __future__ import annotations

from typing import Any, Final

from pares.core.events import Acked, Effect, Failed
from pares.core.lease import MS
from pares.core.neli.classic import Neli
from pares.core.neli.conflicts import Conflicts
from pares.core.neli.fast import Fast
from pares.core.neli.partition import Partition
from pares.core.neli.phases import SEEKING, STANDING, Phase
from pares.core.neli.roles import Roles
from pares.core.wire import neli_records
from pares.core.wire import neli_records as records
from pares.core.wire.neli_records import NAMES, NUMBERED
from pares.core.wire.records import MAX_BASE

LOOKS: Final = 2
"""How often a log is read, since its partition became wanted, before the member announces itself there."""

Record = tuple[type[Any], dict[str, Any]]
"""The kind of a record, and its fields without those that all kinds have."""


class Writer:
    """This member's appends to all partitions."""

    def __init__(self, rules: Neli | Fast, parts: list[Partition], roles: Roles, conflicts: Conflicts) -> None:
        self._rules = rules
        self._config = rules.config
        self._parts = parts
        self._roles = roles
        self._conflicts = conflicts
        self.closing = False
        self.largest = rules.config.seen
        """No token that this process has seen is greater."""
        self._tickets = 0
        self._flights: dict[int, Partition] = {}
        # Raises `ConfigError` if what this member says of itself does not fit into a record.
        neli_records.encode(
            records.Announce(v=1, g=self._config.group, m=self._config.id, n=1, b=0, s=0, **self._said(0))
        )

    def write(
        self, part: Partition, wall_us: int, now: int, early_ns: int, effects: list[Effect], wakes: list[int]
    ) -> None:
        """Writes what is due in a partition, if anything is. `early_ns`: by how much a beat may come before it is due."""
        if part.outbox.in_flight is not None:
            return
        if now < part.outbox.retry_at:
            wakes.append(part.outbox.retry_at)
            return
        record = self._due(part, wall_us, now, early_ns, wakes)
        if record is None:
            return
        kind, fields = record
        self._tickets += 1
        self._flights[self._tickets] = part
        base = self._base(part, wall_us) if kind is records.Announce else part.track.base
        due_ms = self._rules.due_ms(part, kind)
        effects.append(part.write(kind, self._config.id, base, due_ms, self._tickets, now, **fields))

    def over(self, event: Acked | Failed, now: int, effects: list[Effect]) -> None:
        """An append has come to its end."""
        part = self._flights.pop(event.ticket, None)
        if part is None or part.outbox.in_flight != event.ticket:
            return
        if isinstance(event, Acked):
            part.outbox.acked(event.offset, part.track.position, now)
        else:
            part.outbox.failed(now, event.unknown)
        part.yielded()
        part.answer(effects)

    # What is due, in order -----------------------------------------------------------------------------------------------

    def _due(self, part: Partition, wall_us: int, now: int, early_ns: int, wakes: list[int]) -> Record | None:
        at_ms = wall_us // 1000
        if part.owed is not None:
            return self._yield(part, now, at_ms)
        # Roles may take many records: an owner's beats go between them. [the owner's lease runs out while it writes them down]
        beats = part.phase in STANDING and part.outbox.digresses
        beats = beats and now >= part.outbox.last_at + self._rules.interval_ns(part)
        if not beats and (told := self._shape(part, at_ms)) is not None:
            return told
        if part.phase in SEEKING:
            claims = self._conflicts.claims(now)
            if claims is not None:
                part.wanted_at = now
                wakes.append(claims.until(self._config.drift))
            elif self._may_announce(part):
                return records.Announce, self._said(at_ms)
        if not self._roles.known or not part.entered:
            return None
        if self.closing and part.phase not in (Phase.LINGERING, Phase.STOPPING):
            # A member that closes goes on beating for what it still leads, and for what a barrier still runs for. [without
            # beats the tenure is over a deadline after the last one, and the next owner leads while the barrier runs]
            return None
        if not beats and not self._roles.numbered and (told := self._changes(part, at_ms)) is not None:
            return told
        self._roles.restate(part, now)
        if part.phase in STANDING and part.deaf(now, self._rules.within_ms * MS):
            return None  # it could not read that its beats came back: they would only keep others waiting
        return self._beat(part, now, at_ms, early_ns, wakes)

    def _yield(self, part: Partition, now: int, at_ms: int) -> Record:
        led = part.led and part.stands == part.token
        fields: dict[str, Any] = {"term": part.stands, "led": led, "at": at_ms, "why": part.owed}
        if led:
            fields |= {"began": at_ms - (now - part.began_at) // MS, "ended": at_ms - (now - part.ended_at) // MS}
        return records.Yield, fields

    def _beat(self, part: Partition, now: int, at_ms: int, early_ns: int, wakes: list[int]) -> Record | None:
        beat = self._rules.beat(part, now, at_ms)
        if beat is None:
            return None
        due = part.outbox.last_at + self._rules.interval_ns(part)
        if now >= due - early_ns or part.beat_now:
            return beat
        wishes = self._roles.of[part.number]
        if not wishes.again:
            wakes.append(due)
            return None
        again, wishes.again = wishes.again[:NAMES], wishes.again[NAMES:]
        if not self._roles.numbered:
            return records.PartitionCount, {**self._width(at_ms), "roles": tuple(again)}
        return self._places(tuple(role for role in again if self._roles.belongs(role, part)), at_ms)

    # What the group shares out -------------------------------------------------------------------------------------------

    def _shape(self, part: Partition, at_ms: int) -> Record | None:
        """What comes before an announcement: this member's number of partitions, the numbers of names, and roles."""
        roles = self._roles
        if not roles.known or self.closing or not part.attached or not part.quiet:
            return None
        if not part.wide or part.wants_width:
            part.wants_width = False
            add = tuple(roles.settle(part).add)[:NAMES]
            shape = self._width(at_ms)
            return (records.Share, shape) if roles.numbered else (records.PartitionCount, {**shape, "roles": add})
        if roles.numbered and part.number == 0 and (numbers := self._numbers(at_ms)) is not None:
            return numbers
        # Roles are written before the announcement, so that the member leads them as soon as it leads at all.
        return self._changes(part, at_ms) if roles.numbered else None

    def _width(self, at_ms: int) -> dict[str, Any]:
        return {"of": self._config.partitions, "seats": self._config.seats, "at": at_ms}

    def _numbers(self, at_ms: int) -> Record | None:
        """Names that have no number yet; and now and then all numbers again, because a log may forget old records."""
        roles, numbering = self._roles, self._roles.numbering
        if not numbering.complete:
            return None
        names = numbering.missing({role: True for role, add in roles.wishes.items() if add})[:NAMES]
        if names:
            return records.Number, {"at": at_ms, "names": tuple(names)}
        if not roles.again:
            return None
        again, roles.again = roles.again[:NAMES], roles.again[NAMES:]
        numbers = tuple(numbering.of[name] for name in again)
        return records.Number, {"at": at_ms, "names": tuple(again), "numbers": numbers, "whole": len(numbering.of)}

    def _changes(self, part: Partition, at_ms: int) -> Record | None:
        """Roles that come or go. Where roles are numbered, `work` takes them away and `place` adds them with their numbers."""
        wishes = self._roles.of[part.number]
        if not part.entered or not part.wide or not part.quiet or not (wishes.add or wishes.drop):
            return None
        add, drop = tuple(wishes.add)[:NAMES], tuple(wishes.drop)[:NAMES]
        if not self._roles.numbered:
            return records.RolesChanged, {"at": at_ms, "add": add, "drop": drop}
        return (records.RolesChanged, {"at": at_ms, "drop": drop}) if drop else self._places(add, at_ms)

    def _places(self, roles: tuple[str, ...], at_ms: int) -> Record:
        numbers = tuple(self._roles.numbering.of.get(role, -1) for role in roles)
        return records.Place, {"at": at_ms, "roles": roles, "numbers": numbers}

    # Announcements -------------------------------------------------------------------------------------------------------

    def _may_announce(self, part: Partition) -> bool:
        """Whether this member has read the log since it wanted the partition, and has no announcement of its own unread. It
        takes `LOOKS` reads, as the first may have begun before: a process that was frozen with a full buffer reads old records
        first. [such a process, or a member that can't read, pushes others aside for nothing]"""
        return (
            all(p.wide for p in self._parts)
            and part.entered
            and part.quiet
            and part.looks >= LOOKS
            and not self.closing
        )

    def _base(self, part: Partition, wall_us: int) -> int:
        """The base in force, if tokens still grow under it; else the wall clock, or more if a larger token was given (R9)."""
        track = part.track
        top = max(track.top, self.largest)
        if track.base and track.base + track.position > top:
            return track.base
        return min(max(wall_us, top + 1), MAX_BASE - 1)

    def _said(self, at_ms: int) -> dict[str, Any]:
        c = self._config
        runs = self._rules.mode + (NUMBERED if self._roles.numbered else "")
        fields: dict[str, Any] = {"name": c.name, "host": c.host, "protocol": runs, "of": c.partitions}
        fields |= {"session": c.session_ms, "seats": c.seats}
        return fields | {"within": self._rules.within_ms, "drift": c.drift, "at": at_ms}
