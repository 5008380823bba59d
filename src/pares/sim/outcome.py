"""What came of a seed, of whatever protocol, and how it comes to be known."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pares.sim.checker import Broken
from pares.sim.engine import SECOND, Engine
from pares.sim.trace import Story


class Outcome(Struct, frozen=True):
    """What came of a seed."""

    seed: int
    broken: str
    """The promise that was broken; empty if none was."""
    what: str
    at: float
    """Virtual seconds that were played."""
    records: int
    knobs: Any
    trace: list[str]


def judged(
    run: Callable[[], None], engine: Engine, story: Story, knobs: Any, *, unstoppable: str, records: Callable[[], int]
) -> Outcome:
    """Runs it to its end, or to the first promise that is broken. `unstoppable`: the promise that is broken by an exception,
    for nothing that comes from outside may end a member like that (R11)."""
    broken, what = "", ""
    try:
        run()
    except Broken as error:
        broken, what = error.promise, str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        broken = unstoppable
        what = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
        if story.told:
            what += "\n" + traceback.format_exc()
    return Outcome(knobs.seed, broken, what, engine.now / SECOND, records(), knobs, story.text())
