"""One short history of ALLCALL, struck at a call of its first process, one call a run: so that each call can have its turn.

Two members, one role: the first, which is the better one, leads, yields, leads again, and leaves. Whatever strikes its process,
and wherever, every promise holds, and the second member leads in the end.
"""

from __future__ import annotations

from typing import Final

from pares.sim.engine import MS
from pares.sim.members.allcall.draw import draw
from pares.sim.members.allcall.plan import AllCallPlan
from pares.sim.members.allcall.stage import AllCallStage
from pares.sim.members.allcall.users import AllCallUser
from pares.sim.members.struck import Run
from pares.sim.world.faults import Strike

LEASE_MS: Final = 60
LEASE: Final = LEASE_MS * MS
LENGTH: Final = 14 * LEASE


def short(*, style: str = "terms", seed: int = 1) -> AllCallPlan:
    """The plan: nothing but what this file does befalls anybody."""
    return draw(
        seed,
        {
            "members": 2,
            "session_ms": LEASE_MS,
            "beat_ms": LEASE_MS // 3,
            "skew_ms": LEASE_MS // 5,
            "drift": 0.05,
            "rates": (0.95, 1.05),
            "ranks": (0, 1),
            "roles": 1,
            "faults": {},
            "acts": {},
            "air": {"delay": (MS // 5, MS), "dropped": 0.0, "doubled": 0.0, "late": 0.0},
            "styles": (style, style),
            "barrier": 0.05,
            "barrier_raises": 0.0,
            "barrier_timeout": 2 * LEASE_MS / 1000,
            "starts": (False, False),
            "connect": ("now", "now"),
            "step_ms": 2.0,
            "starving": 0.0,
            "wall_spread": 0.0,
            "isolated": ("lead",),
            "order": "rank",
            "probes": (),
        },
    )


class Struck(Run):
    def __init__(self, plan: AllCallPlan, strike: Strike | None, *, told: bool = False) -> None:
        super().__init__(AllCallStage(plan, told=told), strike, role="r0", length=LENGTH)

    def ask(self, first: AllCallUser, second: AllCallUser) -> None:
        world = self.stage.world
        world.after(LEASE // 3, second.start)
        world.after(3 * LEASE, first.ask, lambda member: member.hand_over("r0"), "hands over")
        world.after(7 * LEASE, first.close)
