"""The stage of claims, with all that is promised there and all that may befall it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pares.sim.members.claims.acts import Acts
from pares.sim.members.claims.ground import Ground
from pares.sim.members.claims.promises import CLAIMS
from pares.sim.members.claims.releases import Releases, of_now, released
from pares.sim.members.claims.witnesses import Witnesses
from pares.sim.members.plan import Plan
from pares.sim.members.promises.terms import Terms
from pares.sim.members.promises.tokens import Tokens
from pares.sim.members.promises.work import Work
from pares.sim.members.storm import Storm
from pares.sim.members.users import User
from pares.sim.world.process import Process


class ClaimsStage(Ground):
    promised = CLAIMS

    def __init__(self, plan: Plan, *, told: bool = False) -> None:
        self.witnesses: Witnesses | None = None
        super().__init__(plan, told=told)
        self.world.locks.shared = plan.shared
        self.terms = self.promise(Terms)
        self.tokens = self.promise(Tokens)
        self.work = self.promise(Work)

    def add(self, name: str | None = None, *, like: User | None = None, member: str | None = None) -> User:
        """`like`: it is made as that one is; `member`: under which name its member joins."""
        user = User(self, len(self.own) if like is None else like.place, name, member)
        self.own.append(user)
        return user

    def storm(self) -> None:
        Storm(self)
        Acts(self)
        Releases(self)
        self.witnesses = Witnesses(self)

    def witnessed(self, process: Process, member: str, well_for: int) -> bool:
        posts = [] if self.witnesses is None else self.witnesses.posts
        return any(post.machine == process.machine and post.sees(member, well_for) for post in posts)

    def environment(self) -> dict[str, str]:
        return of_now(self)

    def playing(self) -> AbstractContextManager[None]:
        return released(self.plan.releases)
