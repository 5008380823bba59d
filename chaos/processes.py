"""The members of a run: the worker processes of tests/processes, each at a place of its own."""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from process_beliefs import Belief, beliefs
from process_judge import Write

from chaos import WORKERS
from chaos.verdict.kept import Stretch
from pares.dev.process import Started, start
from pares.runtime.clock import stopwatch

ROLES: Final = ("A", "B", "C", "D")
BREATH: Final = 0.002
"""Seconds between two bursts of a member's looks at its beliefs: an overlap is seen from twice that on. More looks would take
the processors from the brokers."""
LATELY: Final = 100_000_000
"""Nanoseconds: a process that has found a role its own within them leads it, as far as one can see from outside."""
_SINK: Final = """
CREATE TABLE writes (id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT, token INTEGER, member TEXT, kind TEXT,
                     at_ms INTEGER DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)))
"""


class Net(Protocol):
    """Where members run: in networks of their own (`chaos.net`), or all on this host."""

    def prefix(self, place: str, /) -> list[str]:
        """What comes before the command line of a program that is to run there."""
        ...


class Crew:
    """Members that share the roles A to D. One that ends by itself is an event, and gets a successor at the same place."""

    def __init__(
        self, folder: Path, net: Net, places: list[str], url: str, session: float, script: Sequence[str] = ()
    ) -> None:
        """`script`: another program than the usual worker, and what comes before the arguments that it shares with that."""
        self.folder, self.net, self.places, self.url, self.session = folder, net, places, url, session
        self._script = list(script) or [str(WORKERS / "process_worker.py")]
        self._running: dict[str, tuple[str, Started]] = {}
        self._leaving: list[Started] = []
        self._born: list[str] = []
        self._last = 0
        sink = sqlite3.connect(folder / "sink.db")
        sink.execute("PRAGMA journal_mode=WAL")
        with sink:
            sink.execute(_SINK)
        sink.close()

    def begin(self) -> None:
        for place in self.places:
            self.enlist(place)

    def enlist(self, place: str) -> None:
        """A new member comes there."""
        name = f"w{len(self._born) + 1}"
        self._born.append(name)
        told = [self.url, name, ",".join(ROLES), str(self.session), str(self.folder), str(BREATH)]
        command = [sys.executable, *self._script, *told]
        process = start(
            [*self.net.prefix(place), *command], log=self.folder / f"{name}.log", folder=self.folder, survive=False
        )
        self._running[place] = (name, process)

    def fallen(self) -> list[str]:
        """Members that have ended by themselves since the last look, in words; each has a successor now."""
        found: list[str] = []
        for place, (name, process) in list(self._running.items()):
            code = process.ended()
            if code is not None:
                words = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
                found.append(f"member {name} ended with {code}: {' '.join(words)}")
                self.enlist(place)
        return found

    def unbegun(self) -> list[str]:
        """Members that ended before they came to their work, since the last look, in words; each has a successor now."""
        found: list[str] = []
        for place, (name, process) in list(self._running.items()):
            if process.ended() is not None and not self._begun(name):
                words = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
                found.append(f"member {name} did not come to its work: {' '.join(words)}")
                self.enlist(place)
        return found

    def names(self) -> dict[str, str]:
        """Of each place, who is there now."""
        return {place: name for place, (name, _) in self._running.items()}

    def process(self, place: str) -> Started:
        """Those that are there now, to be frozen or ended."""
        return self._running[place][1]

    def kill(self, place: str) -> None:
        """SIGKILL to the member there; returns when it is gone. It gets no successor until one is enlisted."""
        _, process = self._running.pop(place)
        process.identity.signal(signal.SIGKILL)
        process.wait(10)

    def dismiss(self, place: str) -> None:
        """Tells the member there to leave the group by plan, and does not wait for it. It gets no successor."""
        _, process = self._running.pop(place)
        process.identity.signal(signal.SIGTERM)
        self._leaving.append(process)

    def all_begun(self) -> bool:
        """Whether each member's program has come to its work: none of them is still being made."""
        return all(self._begun(name) for name, _ in self._running.values())

    def _begun(self, name: str) -> bool:
        file = self.folder / f"{name}.events"
        return file.exists() and '"ready"' in file.read_text()

    # Beliefs ---------------------------------------------------------------------------------------------------------

    def beliefs(self) -> list[Belief]:
        """Of all members, those that ended too."""
        paths = (self.folder / f"{name}.beliefs" for name in self._born)
        return [belief for path in paths if path.exists() for belief in beliefs(path)]

    def leaders(self) -> dict[int, str]:
        """Of each role that is led now: the place of its leader."""
        now, places = stopwatch(), {name: place for place, name in self.names().items()}
        return {b.role: places[b.member] for b in self.beliefs() if b.last > now - LATELY and b.member in places}

    def all_led(self) -> bool:
        return len(self.leaders()) == len(ROLES)

    # Writes ----------------------------------------------------------------------------------------------------------

    def new_writes(self) -> list[Write]:
        """The sink's rows since the last call, in the order in which they were committed."""
        sink = sqlite3.connect(self.folder / "sink.db", timeout=30)
        try:
            query = "SELECT id, role, token, member, kind FROM writes WHERE id > ? ORDER BY id"
            rows = sink.execute(query, (self._last,)).fetchall()
        finally:
            sink.close()
        if rows:
            self._last = rows[-1][0]
        return [Write(*row[1:]) for row in rows]

    def writes_of(self, stretch: Stretch, number: int) -> tuple[str, int]:
        """The name of a table in the sink with the writes under a log's tokens, in the order in which they were made, and how
        many they are. `number`: the log's."""
        name = f"writes_{number}"
        high = 2**63 - 1 if stretch.high is None else stretch.high
        sink = sqlite3.connect(self.folder / "sink.db", timeout=30)
        try:
            with sink:
                sink.execute(f"DROP TABLE IF EXISTS {name}")
                query = f"CREATE TABLE {name} AS SELECT * FROM writes WHERE token BETWEEN ? AND ? ORDER BY id"
                sink.execute(query, (stretch.low, high))
            return name, sink.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        finally:
            sink.close()

    def end(self) -> None:
        processes = [*(process for _, process in self._running.values()), *self._leaving]
        for process in processes:
            process.identity.signal(signal.SIGTERM)
        until = time.monotonic() + 10
        for process in processes:
            if not process.wait(max(0.0, until - time.monotonic())):
                process.identity.signal(signal.SIGKILL)
                process.wait(10)
        self._running.clear()
        self._leaving.clear()
