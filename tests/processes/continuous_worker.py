"""A member of a continuously available group: says which roles it leads, and records each belief so that it survives SIGKILL.

python continuous_worker.py LEDGER GROUP NAME HOST ROLES SEATS PROTOCOL SESSION OVERLAP FOLDER
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from process_beliefs import Recorder

import pares
from pares.core.protocol import Follow, Lead
from pares.runtime.clock import stopwatch

LOOK_EVERY: Final = 0.004


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
        protocol=protocol,
        session=float(session),
        overlap=float(overlap),
        settle=float(session) / 4,
    ) as me:
        look_around(me, look)
        while not stopping.wait(LOOK_EVERY):
            for role in names:
                look(role)


def look_around(me: pares.Member, look: Callable[[str], None]) -> None:
    """Has it look whenever a belief begins, and just before one is ended, on the member's own thread: what begins or ends
    between two looks of another thread would seem shorter than it is by as much."""
    beliefs = me._life.beliefs
    lead, follow = beliefs.lead, beliefs.follow

    def led(effect: Lead, member: str) -> pares.Term:
        term = lead(effect, member)
        look(effect.seat[0])
        return term

    def followed(effect: Follow) -> pares.Term | None:
        look(effect.seat[0])
        return follow(effect)

    beliefs.lead, beliefs.follow = led, followed  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
