"""When a member writes a snapshot for the group, and of which world (R10).

The first of those who could write one does so, often enough that retention always holds one, and when a joiner asks that found
no way in; for a joiner the next in line do so too, a little later. It is harmless when two write one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from pares.core.claims.chores.duties import (
    EAGER,
    PART_TEXT,
    SNAPSHOT_TEXT,
    judge_ns,
    snapshot_every_ns,
    snapshot_writer,
)
from pares.core.claims.config import Config
from pares.core.claims.decisions import Moves
from pares.core.claims.outbox import Outbox
from pares.core.events import Effect, Report, Trim
from pares.core.lease import MS
from pares.core.wire.reader import Reader
from pares.core.wire.records import Snapshot
from pares.core.wire.snapshots import Taken

SNAPSHOT_TRIES: Final = 5


class Snapshotting:
    """The part of `tick.Living` that has to do with snapshots."""

    def __init__(self, config: Config, reader: Reader, outbox: Outbox, moves: Moves) -> None:
        self.config = config
        self.reader = reader
        self.outbox = outbox
        self.moves = moves
        self._last_at = 0
        """When one was last written here, or last found right, of any writer."""
        self._verified = self._trimmed = -1
        self._snapshots = self._tries = 0
        self._asked_at = (-1, 0)
        self._judge_at: int | None = None
        self._unsaid: deque[dict[str, Any]] = deque()
        """Parts of the world in `reader.taken` that are still to be written."""
        self._say_at = 0
        self._defects = 0

    def begin(self, now: int) -> None:
        """The join has counted."""
        self._last_at = now

    def judge(self, now: int, wakes: list[int]) -> None:
        """Compares snapshots that were read, in a large group each member at its own time. At once if it has a world of its own
        to write: it does so until one was found right."""
        reader = self.reader
        reader.patient = len(reader.world.members) > EAGER
        if not reader.unjudged:
            self._judge_at = None
            return
        if self._judge_at is None:
            self._judge_at = now + judge_ns(reader.world, self.config.id)
        if now < self._judge_at and reader.taken is None:
            wakes.append(self._judge_at)
            return
        reader.judge()
        self._judge_at = None

    def act(self, now: int, wakes: list[int]) -> None:
        """Writes the world at a place, when it is this member's turn and time (R10). It keeps that world until a snapshot of
        it, by any member, has been read: a joiner that is adrift depends on it."""
        reader, world = self.reader, self.reader.world
        if reader.verified > self._verified:
            self._verified, self._last_at, self._tries = reader.verified, now, 0
        taken = reader.taken
        if taken is not None and (
            taken.upto <= reader.verified or (self._tries >= SNAPSHOT_TRIES and not self._unsaid)
        ):
            reader.taken, self._tries, taken = None, 0, None
        if taken is None or (self._unsaid and self._unsaid[0]["upto"] != taken.upto):
            self._unsaid.clear()
        first = snapshot_writer(world, self.moves.alive) == self.config.id
        if taken is not None and (first or (taken.asked and self._my_turn(taken, now))):
            self._last_at = now
            self._say(taken, now, wakes)
        elif first:
            retention = self.config.retention_ms
            every = snapshot_every_ns(world, None if retention is None else retention * MS)
            reader.wanted = reader.wanted or now >= self._last_at + every
            if not reader.wanted:
                wakes.append(self._last_at + every)

    def _my_turn(self, taken: Taken, now: int) -> bool:
        if self._asked_at[0] != taken.upto:
            self._asked_at = (taken.upto, now)
        return self.moves.in_line(self._asked_at[1] + self.config.session_ms * MS // 4, now)

    def _say(self, taken: Taken, now: int, wakes: list[int]) -> None:
        """In a large group, unless a joiner waits, a small part after each quarter of a session, and only the last one wakes
        the others. [a hundred members read all of it at the same moment, and their leases run out meanwhile]"""
        slowly = len(self.reader.world.members) > EAGER and not taken.asked
        if not self._unsaid:
            self._begin(taken, PART_TEXT if slowly else SNAPSHOT_TEXT)
        while self._unsaid and (not slowly or now >= self._say_at):
            urgent, last = self.outbox.urgent, len(self._unsaid) == 1
            self.outbox.write(self.reader.world, Snapshot, now, **self._unsaid.popleft())
            self.outbox.urgent = urgent or last or not slowly
            self._say_at = now + self.config.session_ms * MS // 4
        wakes += [self._say_at] if self._unsaid else []

    def _begin(self, taken: Taken, most: int) -> None:
        self._tries += 1
        self._snapshots += 1
        chunks = [taken.text[i : i + most] for i in range(0, len(taken.text), most)]
        said = {"id": f"{taken.upto}.{self._snapshots}", "upto": taken.upto, "parts": len(chunks)}
        self._unsaid.extend({**said, "part": part, "world": chunk} for part, chunk in enumerate(chunks))

    def report(self, effects: list[Effect]) -> None:
        """Worlds that differ, to a person; and what nobody needs any more."""
        reader = self.reader
        for defect in reader.defects[self._defects :]:
            text = (
                f"a snapshot by {defect.author} at {defect.upto} differs from the world that this member has read there"
            )
            effects.append(Report("defect", text))
        self._defects = len(reader.defects)
        if self._verified > self._trimmed:
            self._trimmed = self._verified
            effects.append(Trim(self._verified))
