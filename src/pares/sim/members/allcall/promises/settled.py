"""In the end, and whenever nothing has happened for long: the best ranked one leads each role, all know it, and all know who is
there.
"""

from __future__ import annotations

from pares.sim.members.allcall.ground import Ground
from pares.sim.members.allcall.promises.base import AllCallPromise


class Settled(AllCallPromise):
    name = "all agree in the end"

    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.looked = 0

    def check(self) -> None:
        ground = self.ground
        self.looked += 1
        there = ground.acting()
        ids = {user.member.id for user in there}
        with self.world.looking():
            for role in ground.roles:
                best = ground.best(role)
                if best is None:
                    continue
                leaders = [held.term.member for held in ground.sight.believers(ground.seat(role))]
                if leaders != [best.member.id]:
                    raise self.broken(f"{role} is led by {leaders}, and should be by {best.member.id}")
                for user in there:
                    leader = user.member.leader(role)
                    if leader is None or leader.member != best.member.id:
                        raise self.broken(f"{user.member.id} takes {leader} for the leader of {role}")
            for user in there:
                known = {peer.id for peer in user.member.members()}
                if known != ids:
                    raise self.broken(f"{user.member.id} knows of {sorted(known)}, and {sorted(ids)} are there")

    def end(self) -> None:
        self.check()
