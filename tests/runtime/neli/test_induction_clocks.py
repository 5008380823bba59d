"""Exclusive NELI compares its own clocks with the log's: what a pause between two looks at them does to a belief."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from induction_tools import member
from runtime_tools import PATIENCE, Crew, binding, elsewhere, until

from pares.core.events import Extend, Read
from pares.runtime.clock import stopwatch, wall_us

PAUSE = 0.1


def test_a_pause_between_two_looks_at_clocks_makes_no_belief_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side of the look at the wall clock, before and after what stands beside it."""
    crew = Crew(f"memory://{uuid.uuid4().hex}?partitions=1")
    with elsewhere() as host:
        me = member(crew, "one", "neli", ("0",))
    assert me.wait("0", PATIENCE)
    core: Any = binding(me).core  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage]
    step, pauses, over = core.step, [0], []

    def slow() -> int:
        if len(over) >= 6:
            return wall_us()
        pauses[0] += 1
        time.sleep(PAUSE)
        shown = wall_us()
        time.sleep(PAUSE)
        return shown

    def watched(event: Any, now: int) -> list[Any]:
        effects: list[Any] = step(event, now)
        if isinstance(event, Read) and event.entries and pauses[0]:
            stamp_us = event.entries[-1][1] * 1000
            # What the wall clock will show when the belief is over.
            ends = [wall_us() + (e.until - stopwatch()) / 1000 for e in effects if isinstance(e, Extend)]
            over.extend((end - stamp_us) / 1000 - core.config.threshold_ms for end in ends)
        return effects

    monkeypatch.setattr(core, "step", watched)
    host.wall = slow
    until(lambda: len(over) >= 6, "beliefs were prolonged", 2 * PATIENCE)
    monkeypatch.undo()
    host.wall = host.real_wall_us
    assert max(over) <= 1, f"milliseconds after the newest beacon's time + T: {over}"
    crew.close()
