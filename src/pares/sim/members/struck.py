"""A short history of two users, of whose processes the first is struck at one of its calls: see `exhaust` of each protocol."""

from __future__ import annotations

from typing import Any

from pares.sim.checker import Broken
from pares.sim.members.stage import Stage
from pares.sim.world.faults import Strike


class Run:
    """One run. `calls`: how many the first process made; `struck`: whether it came to the call; `work`: how much was done;
    `broken`: which promise was, or "". A history says what is asked in it, and who may lead in its end."""

    def __init__(self, stage: Stage, strike: Strike | None, *, role: str, length: int) -> None:
        self.broken = ""
        self.stage = stage
        first, second = stage.add(), stage.add()
        with stage.world.playing() as world:
            first.start()
            process = first.process
            assert process is not None
            try:
                if strike is not None:
                    process.arm(strike)
                self.ask(first, second)
                world.run(length)
                for promise in stage.promises:
                    promise.end()
                stage.end()
                leaders = [held.process.name for held in stage.sight.believers((stage.group, role, 0))]
                if not self.right(leaders):
                    raise Broken("somebody leads in the end", world.now, f"{role} is led by {leaders}")
            except Broken as error:
                self.broken = str(error)
            self.calls = process.calls
            self.struck = strike is None or not process.armed
            self.work = stage.work.done
            self.trace = list(world.trace.lines)

    def ask(self, first: Any, second: Any) -> None:
        """Says when the second one starts, and what is asked of both."""
        raise NotImplementedError

    def right(self, leaders: list[str]) -> bool:
        """Whether these may lead in the end."""
        return leaders == ["m1"]
