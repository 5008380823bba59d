"""A member of a continuously available group: says which roles it leads, and records each belief so that it survives SIGKILL.

python continuous_worker.py LEDGER GROUP NAME HOST ROLES SEATS PROTOCOL SESSION OVERLAP FOLDER
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from process_beliefs import Recorder

import pares
from pares.core.events import Follow, Lead
from pares.runtime.clock import stopwatch
from pares.runtime.config.protocols import protocol_of

LOOK_EVERY: Final = 0.004
STALL: Final = 500_000_000
"""Nanoseconds that something may take before it is worth a line in the log."""


def main() -> None:
    logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
    ledger, group, name, host, roles, seats, protocol, session, overlap, folder = sys.argv[1:]
    names = roles.split(",")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stopping.set).start())
    recorder, recording = Recorder(Path(folder) / f"{name}.beliefs"), threading.Lock()

    def look(role: str) -> None:
        with recording:
            called = stopwatch()
            term = me.term(role)
            if term is not None:
                # It is known to hold now; that it did since the last look follows from its token: a belief that has ended
                # never resumes under it.
                recorder.believed(names.index(role), term.token, called, stopwatch())

    with pares.Member(
        ledger,
        group=group,
        name=name,
        host=host,
        roles=names,
        seats=int(seats),
        protocol=protocol_of(protocol)[1] or "claims",
        session=float(session),
        overlap=float(overlap),
        settle=None
        if ledger.startswith("kafka:") and seats == "1"
        else float(session) / 4,  # there the broker balances
    ) as me:
        look_around(me, look)
        looked = stopwatch()
        while not stopping.wait(LOOK_EVERY):
            for role in names:
                look(role)
            looked, before = stopwatch(), looked
            if looked > before + STALL:
                say("nothing ran here", (looked - before) / 1e9)


def say(what: str, *figures: float) -> None:
    """For whoever asks why nobody led: what happened, and when by the stopwatch that all processes share."""
    logging.warning("at %d: %s%s", stopwatch(), what, "".join(f", {figure:.3f} s" for figure in figures))


def look_around(me: pares.Member, look: Callable[[str], None]) -> None:
    """Has it look whenever a belief begins, and just before one is ended, on the member's own thread: what begins or ends
    between two looks of another thread would seem shorter than it is by as much."""
    life = me._life
    beliefs, appended = life.beliefs, life.measures.appended
    lead, follow = beliefs.lead, beliefs.follow

    def led(effect: Lead, member: str) -> pares.Term | None:
        term = lead(effect, member)
        look(effect.seat[0])
        return term

    def followed(effect: Follow) -> pares.Term | None:
        look(effect.seat[0])
        say(f"stops to lead {effect.seat[0]} by {effect.token}: {effect.why}")
        return follow(effect)

    def wrote(records: Sequence[bytes], seconds: float, landed: bool) -> None:
        appended(records, seconds, landed)
        if seconds * 1e9 > STALL:
            say(f"an append {'took' if landed else 'failed after'}", seconds)

    life.measures.appended = wrote  # type: ignore[method-assign]
    beliefs.lead, beliefs.follow = led, followed  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
