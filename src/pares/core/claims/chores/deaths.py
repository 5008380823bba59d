"""Whose lock a member watches, whose death it writes down, and whom it has the group forget (R7, R20)."""

from __future__ import annotations

from typing import Final

from pares.core.claims.chores.duties import EAGER, Rings, standby_ms, to_watch, turn
from pares.core.claims.config import Config
from pares.core.claims.decisions import Moves
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.fitness.readiness import Readiness
from pares.core.claims.outbox import Outbox
from pares.core.claims.outlook import MIN_STEP_MS
from pares.core.claims.silence import Stopwatches
from pares.core.events import Effect, Watch
from pares.core.lease import MS
from pares.core.wire import forgetting, records
from pares.core.wire.reader import Reader


class Deaths:
    """The part of `tick.Living` that has to do with members that are dead, or silent."""

    def __init__(
        self,
        config: Config,
        reader: Reader,
        outbox: Outbox,
        moves: Moves,
        watches: Stopwatches,
        pace: Pace,
        readiness: Readiness,
    ) -> None:
        self._config, self._reader, self._outbox, self._moves = config, reader, outbox, moves
        self._watches, self._pace, self._readiness = watches, pace, readiness
        self._me: Final = config.id
        self.proven: dict[str, int] = {}
        """The members that are proven dead, and since when that is known; 0 = since now."""
        self._watch_key: object = None
        self._watching: object = None
        self._watch_at = 0

    def died(self, member: str) -> None:
        """That it is dead is proven."""
        self.proven.setdefault(member, 0)
        self._watch_at = 0

    def bury(self, now: int, *, closing: bool) -> None:
        """Obituaries, and in the same append the claims of what they free and placement gives to this member (R7). One
        watcher writes them at once, an heir if there is one among them; the others would only be in its way (an append
        waits for the one before it to reach the disk), and wait a little."""
        world = self._reader.world
        dead = {id: since for id, since in self.proven.items() if id in world.members}
        self.proven = dead  # who is still in the world has its obituary yet to come, or again
        if not dead:
            return
        alive = self._moves.alive.difference(dead)
        target = self._moves.after(world, alive)
        rings, now_due = Rings(world), list[str]()
        for id in sorted(dead):
            dead[id] = since = dead[id] or now
            heirs = {target.get(seat) for seat in world.held[id]}
            behind = turn(world, id, self._me, alive, heirs, witness=bool(self._config.witness), rings=rings)
            if self._moves.due(since + behind * MIN_STEP_MS * MS, now):
                self._outbox.write(world, records.Obituary, now, of=id)
                now_due.append(id)
        if closing or not self._readiness.able:
            return
        roles = {seat[0] for seat in world.held.get(self._me, ())}
        for seat in sorted(seat for id in now_due for seat in world.held[id]):
            if target.get(seat) == self._me and seat[0] not in roles and self._outbox.room():
                self._outbox.write(world, records.Claim, now, seat=seat)
                roles.add(seat[0])

    def forget(self, now: int) -> None:
        """Says which members are to be forgotten, when there are too many that are silent and hold nothing (R20). [a machine
        that is too slow for its members makes them silent, and each that is forgotten begins anew, and makes it slower]"""
        world, alive = self._reader.world, self._moves.alive
        if len(world.members) - len(alive) <= forgetting.KEPT or not self._readiness.can_say(world):
            return
        if not self._pace.well or now < self._watches.late_until(world, now):
            return  # the others are as late as itself, for all that it can tell
        silent = self._watches.silent(world, now, standby_ms(0, len(alive)), self._pace.well_since)
        for (_, id), (since, _) in zip(silent, silent[forgetting.KEPT :], strict=False):
            if self._moves.in_line(since, now) and self._outbox.room():
                self._outbox.write(world, records.Forget, now, of=id, over=world.members[id].offset)

    def watch(self, now: int, effects: list[Effect], wakes: list[int]) -> None:
        """In a large group once a session at most, or after a death, as the next one to be watched may be dead as well. [where
        hundreds come each has other neighbours in its ring every moment]"""
        world = self._reader.world
        key = (world.shape, self._moves.alive)
        if key == self._watch_key:
            return
        if now < self._watch_at and len(world.members) > EAGER:
            wakes.append(self._watch_at)
            return
        self._watch_key, self._watch_at = key, now + self._config.session_ms * MS
        locks = to_watch(world, self._me, self._moves.alive, self._config.witness)
        if locks != self._watching:
            self._watching = locks
            effects.append(Watch(locks))
