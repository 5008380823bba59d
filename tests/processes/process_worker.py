"""A worker for the tests with real processes: leads what it gets, samples its beliefs densely, writes behind a fence.

    python process_worker.py LEDGER NAME ROLES SESSION FOLDER [BREATH] [protocol=PROTOCOL] [settle=SECONDS]

It looks at its beliefs in a tight loop while it leads anything, so that the first thing it does after SIGCONT is a check.
Its other thread writes a row for each role it leads, every few milliseconds; and once a term was taken from it and the
successor has written, it tries to write once more in the old term's name: such a write must be refused.
"""

from __future__ import annotations

import json
import logging
import os
import queue
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
ZOMBIE: Final = 5.0
"""Seconds for which a lost term is remembered, to be tried once its successor has written."""
BREATH: Final = 0.0002
"""Seconds to pause after a burst of checks, so that the member's own thread, and other processes, get their turn."""


class Worker:
    def __init__(
        self,
        ledger: str,
        name: str,
        roles: list[str],
        session: float,
        folder: Path,
        breath: float = BREATH,
        **settings: Any,
    ) -> None:
        self.name = name
        self.breath = breath
        self.roles = roles
        self.gap = int(2 * session * 1e9)
        self.recorder = Recorder(folder / f"{name}.beliefs")
        self.events = os.open(folder / f"{name}.events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.sink = folder / "sink.db"
        self.stopping = threading.Event()
        usual: dict[str, Any] = {"group": "g", "session": session, "settle": session / 4}
        usual |= settings
        if ledger.startswith("kafka:") and usual.get("protocol", "claims") != "claims":
            del usual["settle"]  # there the broker balances
        self.me = pares.Member(ledger, roles=roles, name=name, **usual)

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
        held_before: dict[str, int] = {}  # role -> the term's token
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
                        # A new term may have begun since: only the one from before the freeze is told of.
                        same = held and (now := me.term(role)) is not None and now.token == held_before.get(role)
                        self.say(thawed=role, held=same, before=role in held_before, at=called)
                    if not held:
                        held_before.pop(role, None)
                        continue
                    leads = True
                    called = stopwatch()
                    term = me.term(role)
                    if term is not None:
                        held_before[role] = term.token
                        recorder.believed(number, term.token, called, stopwatch())
                if not leads:
                    break
            time.sleep(self.breath if leads else max(self.breath, 0.0005))

    # Writing ---------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        connection = sqlite3.connect(self.sink, timeout=0.05)
        connection.execute("PRAGMA synchronous=OFF")
        fence = SqlFence()
        terms: dict[str, pares.Term] = {}
        zombies: list[tuple[pares.Term, float]] = []
        while not self.stopping.wait(WRITE_EVERY):
            for role in self.roles:
                old, term = terms.get(role), self.me.term(role)
                if term is not None:
                    self.put(connection, fence, term, "leader")
                if old is not None and old is not term and not old:
                    zombies.append((old, time.monotonic() + ZOMBIE))
                if term is not None:
                    terms[role] = term
                elif old is not None and not old:
                    del terms[role]
            zombies = [(old, end) for old, end in zombies if not self.tried_as_zombie(connection, fence, old, end)]
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

    def tried_as_zombie(self, connection: sqlite3.Connection, fence: SqlFence, old: pares.Term, end: float) -> bool:
        """Once somebody with a higher token has written, nothing may be written under this one. Until then, or until the
        instant `end`, it is not tried: False."""
        try:
            seen = fence.seen(connection, old.role)
        except sqlite3.OperationalError:
            seen = None
        if seen is None or seen <= old.token:
            return time.monotonic() > end
        outcome = self.put(connection, fence, old, "zombie")
        if outcome != "busy":
            self.say(zombie=old.role, token=old.token, outcome=outcome)
        return outcome != "busy"


def main(**settings: Any) -> None:
    """`settings`: of the member, beside the usual ones or in place of them."""
    sys.setswitchinterval(0.0005)
    logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
    ledger, name, roles, session, folder, *more = sys.argv[1:]
    settings |= dict(word.split("=") for word in more if "=" in word)
    if "settle" in settings:
        settings["settle"] = float(settings["settle"])
    breath = [float(word) for word in more if "=" not in word]
    worker = Worker(ledger, name, roles.split(","), float(session), Path(folder), *breath, **settings)
    # Not the event itself: a second signal, which comes while the first one is setting it, would wait for itself for ever.
    told = queue.SimpleQueue[bool]()  # the one thing that a handler may do wherever it interrupts
    signal.signal(signal.SIGTERM, lambda *_: told.put(True))
    threading.Thread(target=lambda: told.get() and worker.stopping.set(), daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
