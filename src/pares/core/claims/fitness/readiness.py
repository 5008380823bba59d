"""Whether a member may be given seats, and how it tells the group (R19).

**R19** Readiness stands in the join and in every change of it: a `join` with `ready` false, or a record `ready`, from which
place on the fold gives nothing to that member (`fold.may_take`), and placement does not know it. So it is designated for
nothing, it is nobody's heir, and no claim of its own stands, from its first record on; and what it holds when it says so it
hands over. It says that it is ready by a record of the same kind, in the same incarnation. [a member that is asked only
after it has joined is given roles, leads them, gives them back, without end]

Two things make a member not ready: its user's own check (`Ready`), and that it is slow (R18).

Where the group does not write version 2 of the format (a member reads version 1 only, or this one is told to write that,
R11), the log has no words for this. Then

* a member that is not ready yet does not join: it reads, and joins when it is ready;
* a member that stops being ready drains, as in release 0.1, and begins anew when it is ready: a member that has drained
  holds nothing again;
* a slow member hands over what it holds, claims nothing, and says of each record that the next one is due at once
  (`AT_ONCE`), so that the others leave it out of placement.

A log that is begun anew, and any log in which nothing of version 2 has counted yet, is joined by a join of version 1, which
readers of either version can read. If all members read version 2, the record `ready` follows in the same append."""

from __future__ import annotations

from pares.core import reasons
from pares.core.claims.config import Config
from pares.core.claims.fitness.pace import Pace
from pares.core.claims.outbox import Outbox
from pares.core.wire import records
from pares.core.wire.world import World


class Readiness:
    """This member's own."""

    def __init__(self, config: Config, outbox: Outbox, pace: Pace) -> None:
        self.me = config.id
        self.ready = config.ready
        """What the user's check said last."""
        self.drained = False
        """It has told the group that it is not ready in the way of version 1, which can't be taken back."""
        self._outbox = outbox
        self._pace = pace

    @property
    def able(self) -> bool:
        """Whether this member may lead, for all that it knows of itself."""
        return self.ready and not self._pace.slow

    @property
    def why_not(self) -> str:
        return "" if self.able else reasons.SLOW if self.ready else reasons.NOT_READY

    def can_say(self, world: World) -> bool:
        """Whether all members can read a `ready` record."""
        return min(self._outbox.writes, world.reads) >= 2

    def say(self, world: World, now: int) -> None:
        """In the group: tells it what has changed."""
        if self.can_say(world):
            if self.able == (self.me in world.unready):
                self._outbox.write(world, records.Ready, now, ready=self.able, why=self.why_not)
        elif not self.ready and not world.members[self.me].draining:
            self.drained = True
            self._outbox.write(world, records.Ask, now, drain=self.me)
