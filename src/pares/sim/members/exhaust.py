"""One short history, struck at every call of its first process, one call a run: nothing that can be stopped is left out.

Two members, one role: the first joins, leads, hands over, leads again, and leaves. Whatever strikes the first process, and
wherever, every promise holds, and the second member leads in the end.
"""

from __future__ import annotations

from typing import Final

from pares.sim.engine import MS
from pares.sim.members.claims.stage import ClaimsStage
from pares.sim.members.claims.witnesses import Post
from pares.sim.members.plan import Plan, draw
from pares.sim.members.struck import Run
from pares.sim.members.users import User
from pares.sim.world.faults import Strike
from pares.sim.world.logs.link import Weather

SESSION_MS: Final = 40
QUICK: Final = Weather(send=(MS // 5, MS // 2), ack=(MS // 5, MS // 2), read=(0, MS // 10), timeout=30 * MS)
LENGTH: Final = 8 * SESSION_MS * MS


def short(*, style: str = "terms", proof: bool = True, seed: int = 1, machines: int = 1) -> Plan:
    """The plan: nothing but what this file does befalls anybody."""
    return draw(
        seed,
        {
            "members": 2,
            "session_ms": SESSION_MS,
            "sessions": (SESSION_MS, SESSION_MS),
            "drift": 0.1,
            "rates": (0.91, 1.09),
            "roles": 1,
            "seats": 1,
            "overlap_ms": 0,
            "faults": {},
            "acts": {},
            "weathers": (QUICK, QUICK),
            "bells": True,
            "proof": proof,
            "machines": machines,
            "styles": (style, style),
            "barrier": 0.05,
            "barrier_raises": 0.0,
            "barrier_timeout": 0.1,
            "settle": 10.0,
            "starts": (False, False),
            "connect": ("now", "now"),
            "step_ms": 2.0,
            "starving": 0.0,
            "wall_spread": 0.0,
        },
    )


class Struck(Run):
    """See `Run`. `leaves`: the first one leaves in the end, so that the other must lead; else somebody must."""

    def __init__(self, plan: Plan, strike: Strike | None, *, leaves: bool = True, told: bool = False) -> None:
        self.leaves = leaves
        super().__init__(ClaimsStage(plan, told=told), strike, role="r0", length=LENGTH)

    def ask(self, first: User, second: User) -> None:
        world, session = self.stage.world, SESSION_MS * MS
        world.after(session // 3, second.start)
        world.after(2 * session, first.ask, lambda member: member.hand_over("r0", "m1"), "hands over")
        world.after(3 * session, second.ask, lambda member: member.hand_over("r0", "m0"), "hands back")
        if self.leaves:
            world.after(4 * session, first.close)

    def right(self, leaders: list[str]) -> bool:
        return super().right(leaders) if self.leaves else len(leaders) == 1


class Witnessed(Run):
    """The two are on machines of their own, and the first one is killed while it leads. What is struck is the witness on its
    machine (`strike`), and nothing else: the second one leads in the end, sooner or later."""

    def __init__(self, strike: Strike | None, *, witness: bool = True, told: bool = False) -> None:
        self._post_strike = strike
        stage = ClaimsStage(short(machines=2), told=told)
        self.post = Post(stage, "machine-0", 0) if witness else None
        self.killed_at = 0
        self.calls_before = 0
        """How many calls the witness had made when the first one died."""
        self.took = 0
        """Nanoseconds from the death of the first one to the belief of the second."""
        super().__init__(stage, None, role="r0", length=LENGTH)
        process = None if self.post is None else self.post.process
        self.calls = 0 if process is None else process.calls
        self.struck = strike is None or process is None or not process.armed

    def right(self, leaders: list[str]) -> bool:
        self.took = sum(held.began - self.killed_at for held in self.stage.sight.believers((self.stage.group, "r0", 0)))
        return super().right(leaders)

    def ask(self, first: User, second: User) -> None:
        world, session = self.stage.world, SESSION_MS * MS
        if self.post is not None:
            self.post.start()
            if self._post_strike is not None and self.post.process is not None:
                self.post.process.arm(self._post_strike)
        world.after(session // 3, second.start)
        world.after(3 * session, self._kill, first)

    def _kill(self, first: User) -> None:
        self.killed_at = self.stage.world.now
        self.calls_before = 0 if self.post is None or self.post.process is None else self.post.process.calls
        if first.process is not None:
            self.stage.world.kill(first.process)
