"""Claims are their holders' words, last a lease at most, and are not prolonged when they are over; and nobody claims over one
that it has heard and that lives: neither over a living leader's, nor over a dead one's, nor while a barrier runs.
"""

from __future__ import annotations

from typing import Final

from pares.sim.engine import MS
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import FRESH, Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.allcall.promises.tokens import TIE_BITS
from pares.sim.members.sight import Held
from pares.sim.world.process import Process

OVER: Final = (0, 0)


class Honoured(AllCallPromise):
    name = "claims are honoured"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.lease = stage.plan.unit
        self.made: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        """By role and holder: its newest claim, and when that ends."""
        self.ends: dict[tuple[str, str], int] = {}
        self.latest: dict[tuple[str, str], int] = {}
        """The same, if it was made only when it was sent."""
        self.known: dict[tuple[Process, str, str], tuple[int, int]] = {}
        """By hearer, role and holder: the newest claim that it has heard from its holder."""
        self.numbers: dict[tuple[Process, str], int] = {}
        stage.calls.published.append(self._published)
        stage.calls.heard.append(self._heard)
        stage.sight.began.append(self._began)
        stage.sight.prolonged.append(self._ends_in_time)

    def _published(self, message: Message) -> None:
        call = message.call
        for claim in call.c:
            key = (claim.role, claim.holder, claim.term, claim.seq)
            what = (claim.rank, claim.expires)
            if claim.holder == call.m:
                self.made.setdefault(key, what)
                mine = (claim.role, claim.holder)
                if claim.ttl:
                    self._prolongs(mine, (claim.term, claim.seq), message.at + claim.ttl * MS - self.lease)
                    self.newest[mine] = (claim.term, claim.seq)
                    self.ends[mine] = message.at + claim.ttl * MS
                    self.latest[mine] = self.world.now + claim.ttl * MS
                elif self.newest.get(mine, OVER) <= (claim.term, claim.seq):
                    self.newest[mine] = OVER
            if self.made.get(key) != what:
                self.fail(f"{call.m} tells a claim of {claim.holder} to {claim.role} that it has not made")

    def _prolongs(self, mine: tuple[str, str], claim: tuple[int, int], made: int) -> None:
        """By its holder's own clock, which may be slow; of what could not be sent nothing is known."""
        if self.newest.get(mine) == (claim[0], claim[1] - 1):
            over = made - self.latest[mine] - MS
            if over > self.ground.plan.drift * self.lease:
                self.fail(f"{mine[1]} prolongs its claim to {mine[0]}, which was over {over / 1e6:.1f} ms before")

    def _heard(self, process: Process, message: Message) -> None:
        call, key = message.call, (process, message.call.m)
        if call.n <= self.numbers.get(key, 0) or self.world.now > message.at + FRESH * self.lease:
            return
        self.numbers[key] = call.n
        for claim in call.c:
            if claim.holder == call.m and claim.ttl:
                self.known[process, claim.role, call.m] = (claim.term, claim.seq)

    def _began(self, held: Held) -> None:
        self._ends_in_time(held)
        self._was_said(held)
        if self.bounds.clocks or self.ground.outbids(held):
            return  # it led before, and goes on
        role, now = held.term.role, self.world.now
        for (led, holder), newest in self.newest.items():
            if led != role or holder == held.term.member or newest == OVER or now >= self.ends[led, holder] - MS:
                continue
            if self.known.get((held.process, role, holder)) == newest:
                raise self.broken(f"{held} begins while the claim of {holder} lives, which it has heard")

    def _was_said(self, held: Held) -> None:
        """Unless it could not be sent."""
        user = self.ground.user(held.process)
        said, _ = self.newest.get((held.term.role, held.term.member), OVER)
        if said != held.token >> TIE_BITS and self.ground.well(user, self.bounds.beat):
            raise self.broken(f"{held} begins, and its member has not said so")

    def _ends_in_time(self, held: Held) -> None:
        if held.left() * MS > self.lease:
            raise self.broken(f"{held} may be believed for longer than a lease")
