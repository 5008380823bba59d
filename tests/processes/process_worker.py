"""A worker for the tests with real processes: leads what it gets, samples its beliefs densely, writes behind a fence.

    python process_worker.py LEDGER NAME ROLES SESSION FOLDER

It looks at its beliefs in a tight loop while it leads anything, so that the first thing it does after SIGCONT is a check.
Its other thread writes a row for each role it leads, every few milliseconds; and once a term was taken from it and the
successor has written, it tries to write once more in the old term's name: such a write must be refused.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from process_beliefs import Recorder

import pares
from pares.core.errors import Stale
from pares.fence import SqlFence
from pares.runtime.clock import stopwatch

WRITE_EVERY: Final = 0.005
BREATH: Final = 0.0002
"""Pause after a burst of checks, so that the member's own thread, and other processes, get their turn."""


class Worker:
    def __init__(self, ledger: str, name: str, roles: list[str], session: float, folder: Path) -> None:
        self.name = name
        self.roles = roles
        self.gap = int(2 * session * 1e9)
        self.recorder = Recorder(folder / f"{name}.beliefs")
        self.events = os.open(folder / f"{name}.events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.sink = folder / "sink.db"
        self.stopping = threading.Event()
        self.me = pares.Member(ledger, group="g", roles=roles, name=name, session=session, settle=session / 4)

    def say(self, **what: Any) -> None:
        os.write(self.events, json.dumps(what).encode() + b"\n")

    def run(self) -> None:
        writer = threading.Thread(target=self.write)
        writer.start()
        self.say(ready=self.me.id)
        self.sample()
        writer.join()
        self.me.close()

    # Looking ---------------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        me, recorder, gap = self.me, self.recorder, self.gap
        before, after_thaw = stopwatch(), set[str]()
        held_before: set[str] = set()
        while not self.stopping.is_set():
            leads = False
            for _ in range(64):
                for number, role in enumerate(self.roles):
                    called = stopwatch()
                    if called - before > gap:
                        after_thaw = set(self.roles)  # this process stood still: these are the first checks since
                    held = me.holds(role)
                    returned = stopwatch()
                    # Frozen within the call: then the first check after SIGCONT is the one that comes next.
                    before = called if returned - called > gap else returned
                    if role in after_thaw and before == returned:
                        after_thaw.discard(role)
                        self.say(thawed=role, held=held, before=role in held_before, at=called)
                    if not held:
                        held_before.discard(role)
                        continue
                    held_before.add(role)
                    leads = True
                    called = stopwatch()
                    term = me.term(role)
                    if term is not None:
                        recorder.believed(number, term.token, called, stopwatch())
                if not leads:
                    break
            time.sleep(BREATH if leads else 0.0005)

    # Writing ---------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        connection = sqlite3.connect(self.sink, timeout=0.05)
        connection.execute("PRAGMA synchronous=OFF")
        fence = SqlFence()
        terms: dict[str, pares.Term] = {}
        while not self.stopping.wait(WRITE_EVERY):
            for role in self.roles:
                old, term = terms.get(role), self.me.term(role)
                if term is not None:
                    self.put(connection, fence, term, "leader")
                if old is not None and old is not term and not old:
                    self.try_as_zombie(connection, fence, old)
                if term is not None:
                    terms[role] = term
                elif old is not None and not old:
                    del terms[role]
        connection.close()

    def put(self, connection: sqlite3.Connection, fence: SqlFence, term: pares.Term, kind: str) -> str:
        try:
            with connection:
                fence.check(connection, term)
                connection.execute(
                    "INSERT INTO writes (role, token, member, kind) VALUES (?, ?, ?, ?)",
                    (term.role, term.token, self.name, kind),
                )
        except Stale as stale:
            self.say(stale=term.role, token=term.token, seen=stale.seen, kind=kind)
            return "refused"
        except sqlite3.OperationalError:
            return "busy"  # another process, perhaps a frozen one, holds the lock
        return "accepted"

    def try_as_zombie(self, connection: sqlite3.Connection, fence: SqlFence, old: pares.Term) -> None:
        """Once somebody with a higher token has written, nothing may be written under this one."""
        end = time.monotonic() + 5.0
        while time.monotonic() < end and not self.stopping.is_set():
            try:
                seen = fence.seen(connection, old.role)
            except sqlite3.OperationalError:
                seen = None
            if seen is not None and seen > old.token:
                outcome = self.put(connection, fence, old, "zombie")
                if outcome != "busy":
                    self.say(zombie=old.role, token=old.token, outcome=outcome)
                    return
            time.sleep(WRITE_EVERY)


def main() -> None:
    sys.setswitchinterval(0.0005)
    logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
    ledger, name, roles, session, folder = sys.argv[1:]
    worker = Worker(ledger, name, roles.split(","), float(session), Path(folder))
    signal.signal(signal.SIGTERM, lambda *_: worker.stopping.set())
    worker.run()


if __name__ == "__main__":
    main()
