"""One short history of real members, in which the first process is struck at every call of its host, one call a run."""

from __future__ import annotations

import pytest

from pares.sim.engine import MS
from pares.sim.members.exhaust import SESSION_MS, Struck, short
from pares.sim.world.faults import Strike

PARTS = 6
LEASE = SESSION_MS * MS * 7 // 10
"""About as long as a belief lasts that is not prolonged."""


def every_call(make: Strike, *, part: int, every: int = 1, style: str = "terms") -> list[tuple[int, str]]:
    """What was broken by striking at each call of this part of the history, every `every`th."""
    plan = short(style=style)
    calls = Struck(plan, None).calls
    assert calls > 800
    found: list[tuple[int, str]] = []
    for call in range(1 + part, calls + 1, PARTS * every):
        run = Struck(plan, Strike(make.action, call, "", make.length, make.error, make.late))
        assert run.struck or run.calls < call or make.action == "raise", f"nothing struck at call {call}"
        if run.broken:
            found.append((call, run.broken))
    return found


def test_the_history_that_is_struck() -> None:
    run = Struck(short(), None, told=True)
    assert run.broken == ""
    assert run.work > 50
    text = "\n".join(run.trace)
    assert sum(" leads 'r0'" in line and "no longer" not in line for line in run.trace) == 4
    assert text.count("transfer r0/0") == 3
    assert "m0~" in text
    assert "leave" in text
    assert "is gone (left)" in text


@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_call(part: int) -> None:
    assert every_call(Strike("kill", 1), part=part) == []


@pytest.mark.parametrize("part", range(PARTS))
def test_frozen_at_every_call_for_three_sessions(part: int) -> None:
    assert every_call(Strike("freeze", 1, length=3 * SESSION_MS * MS), part=part, every=3) == []


@pytest.mark.parametrize("late", [False, True])
def test_each_task_comes_back_late_at_every_call(late: bool) -> None:
    assert every_call(Strike("starve", 1, length=LEASE, late=late), part=int(late), every=2) == []


@pytest.mark.parametrize("error", ["MemoryError", "OSError"])
def test_raised_at_every_call(error: str) -> None:
    make = Strike("raise", 1, error="OSError" if error == "OSError" else "MemoryError")
    assert every_call(make, part=len(error) % PARTS, every=2) == []
