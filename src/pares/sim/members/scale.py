"""Constants of the format and of the core, smaller while a play lasts: what takes a long history comes soon."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pares.core.claims import decisions, outbox, outlook, silence, tick
from pares.core.claims.chores import deaths, duties, snapshotting
from pares.core.claims.fitness import forming
from pares.core.wire import forgetting, reader, world
from pares.ledger import retention
from pares.runtime.claims import binding
from pares.runtime.driver import logs
from pares.sim.members.claims import ground

SCALED: Final = {
    "forget": ((world, "FORGET"),),
    "keep": ((forgetting, "KEPT"),),
    "window": ((reader, "WINDOW"),),
    "text": ((duties, "SNAPSHOT_TEXT"), (snapshotting, "SNAPSHOT_TEXT")),
    "batch": ((outbox, "MAX_BATCH"),),
    "place": ((world, "PLACE_EVERY"),),
    "eager": tuple(
        (module, "EAGER")
        for module in (duties, deaths, decisions, outlook, silence, tick, forming, binding, logs, ground)
    ),
    "trim_every": ((retention, "EVERY"),),
}


@contextmanager
def shrunk(scale: dict[str, int]) -> Generator[None, None, None]:
    before = [(module, name, getattr(module, name)) for key in scale for module, name in SCALED[key]]
    try:
        for key, value in scale.items():
            for module, name in SCALED[key]:
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
