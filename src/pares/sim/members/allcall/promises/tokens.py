"""A term is one member's, and has a token above all that its holder has heard of, also later."""

from __future__ import annotations

from pares.core.allcall.messages import token as token_of
from pares.sim.members.allcall.calls import Message
from pares.sim.members.allcall.ground import FRESH, Ground
from pares.sim.members.allcall.promises.base import AllCallPromise
from pares.sim.members.sight import Held, Seat
from pares.sim.world.process import Process

TIE_BITS = 22


class Tokens(AllCallPromise):
    name = "terms have tokens of their own"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.holders: dict[tuple[Seat, int], str] = {}
        self.highest: dict[tuple[Process, str], int] = {}
        """By hearer and role: the highest term that it has heard of."""
        self.low: dict[Held, int] = {}
        """Terms that were seen below what their members had heard of, and since when."""
        self.fence: dict[Seat, int] = {}
        self.writes: list[tuple[int, Seat, int, bool]] = []
        """What came to a sink that all can reach: true time, seat, token, and whether it was taken."""
        stage.calls.heard.append(self._heard)
        stage.sight.began.append(self._began)
        self.look_every()

    def write(self, held: Held) -> bool:
        """A user writes in the name of a term. Two sides have two tokens; so a refusal says nothing. By a task."""
        taken = held.token >= self.fence.get(held.seat, 0)
        self.writes.append((self.world.now, held.seat, held.token, taken))
        if taken:
            self.fence[held.seat] = held.token
        return taken

    def _heard(self, process: Process, message: Message) -> None:
        if self.bounds.clocks or self.world.now > message.at + FRESH * self.ground.plan.unit:
            return
        for claim in message.call.c:
            key = (process, claim.role)
            self.highest[key] = max(self.highest.get(key, 0), claim.term)

    def look(self) -> None:
        ground, now = self.ground, self.world.now
        low, self.low = self.low, {}
        for role in ground.roles:
            for held in ground.sight.believers(ground.seat(role)):
                if held.token >> TIE_BITS >= self.highest.get((held.process, role), 0):
                    continue
                self.low[held] = low.get(held, now)
                since = max(self.low[held], ground.steady(ground.user(held.process)))
                if now > since + self.bounds.late:
                    raise self.broken(f"{held} leads on, and has heard of term {self.highest[held.process, role]}")

    def _began(self, held: Held) -> None:
        key = (held.seat, held.token)
        if key in self.holders:
            raise self.broken(f"{held} begins by a token that was {self.holders[key]}'s")
        self.holders[key] = held.term.member
        mine = (held.process, held.term.role)
        highest = self.highest.get(mine, 0)
        if highest and held.token < token_of(highest + 1, held.term.member):
            raise self.broken(f"{held} begins, and has heard of term {highest}")
        self.highest[mine] = max(highest, held.token >> TIE_BITS)
