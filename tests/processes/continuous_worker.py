"""A member of a continuously available group: says which roles it leads, and records each belief so that it survives SIGKILL.

python continuous_worker.py LEDGER GROUP NAME HOST ROLES SEATS PROTOCOL SESSION OVERLAP FOLDER
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from process_beliefs import Recorder

import pares
from pares.runtime.clock import stopwatch

LOOK_EVERY: Final = 0.004


def main() -> None:
    logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
    ledger, group, name, host, roles, seats, protocol, session, overlap, folder = sys.argv[1:]
    names = roles.split(",")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stopping.set).start())
    recorder = Recorder(Path(folder) / f"{name}.beliefs")
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
        while not stopping.wait(LOOK_EVERY):
            for number, role in enumerate(names):
                called = stopwatch()
                term = me.term(role)
                if term is not None:
                    # The term is known to hold now; that it did since the last look follows from its token: a belief that
                    # has ended never resumes under it.
                    recorder.believed(number, term.token, called, stopwatch())


if __name__ == "__main__":
    main()
