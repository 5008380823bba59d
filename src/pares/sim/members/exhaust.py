"""One short history, struck at every call of its first process, one call a run: nothing that can be stopped is left out.

Two members, one role: the first joins, leads, hands over, leads again, and leaves. Whatever strikes the first process, and
wherever, every promise holds, and the second member leads in the end.
"""

from __future__ import annotations

from typing import Final

from pares.sim.checker import Broken
from pares.sim.engine import MS
from pares.sim.members.claims.stage import ClaimsStage
from pares.sim.members.plan import Plan, draw
from pares.sim.world.faults import Strike
from pares.sim.world.link import Weather

SESSION_MS: Final = 40
QUICK: Final = Weather(send=(MS // 5, MS // 2), ack=(MS // 5, MS // 2), read=(0, MS // 10), timeout=30 * MS)
LENGTH: Final = 8 * SESSION_MS * MS


def short(*, style: str = "terms", proof: bool = True, seed: int = 1) -> Plan:
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
            "machines": 1,
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


class Struck:
    """One run. `leaves`: the first one leaves in the end, so that the other must lead; else somebody must. `calls`: how many
    the first process made. `broken`: what was, or ""."""

    def __init__(self, plan: Plan, strike: Strike | None, *, leaves: bool = True, told: bool = False) -> None:
        self.broken = ""
        self.stage = stage = ClaimsStage(plan, told=told)
        first, second = stage.add(), stage.add()
        with stage.world.playing() as world:
            first.start()
            process = first.process
            assert process is not None
            try:
                if strike is not None:
                    process.arm(strike)
                world.after(SESSION_MS * MS // 3, second.start)
                world.after(2 * SESSION_MS * MS, first.ask, lambda member: member.hand_over("r0", "m1"), "hands over")
                world.after(3 * SESSION_MS * MS, second.ask, lambda member: member.hand_over("r0", "m0"), "hands back")
                if leaves:
                    world.after(4 * SESSION_MS * MS, first.close)
                world.run(LENGTH)
                for promise in stage.promises:
                    promise.end()
                stage.end()
                seat = (stage.group, "r0", 0)
                leaders = [held.process.name for held in stage.sight.believers(seat)]
                if leaders != ["m1"] and (leaves or len(leaders) != 1):
                    raise Broken("somebody leads in the end", world.now, f"r0 is led by {leaders}")
            except Broken as error:
                self.broken = str(error)
            self.calls = process.calls
            self.struck = strike is None or not process.armed
            self.work = stage.work.done
            self.trace = list(world.trace.lines)
