"""Worker processes of one group, and what is done to them."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from process_beliefs import Belief, beliefs
from process_judge import Write, falling_tokens, overlaps, zombie_writes

import pares
import pares.ledger
from pares.core.wire.changes import MemberLeft, SeatChanged
from pares.core.wire.neli_records import Announce, decode
from pares.ledger import Log
from pares.runtime.clock import stopwatch
from standstill import stop, stop_between_writes

PATIENCE: Final = 60.0
"""Seconds until something that must come is taken for lost: a bound for hangs."""

T = TypeVar("T")


def interpreter(release: Path | None) -> str:
    """What runs a release: its own interpreter, if it was installed into an environment of its own; else this one."""
    return str(release) if release is not None and release.is_file() else sys.executable


def paths(release: Path | None) -> dict[str, str]:
    """Where Python finds a release that is a folder."""
    return {"PYTHONPATH": str(release)} if release is not None and release.is_dir() else {}


class Worker:
    """One worker process, seen from outside. `release`: where its `pares` is, if it is not this one: a folder with the package,
    or the interpreter of an environment in which it is installed."""

    def __init__(self, troupe: Troupe, name: str, release: Path | None = None) -> None:
        self.name = name
        self.stopped = False
        self._folder = troupe.folder
        self._log = Path(pares.ledger.parse(troupe.url).path[1:]) if troupe.url.startswith("sqlite:") else None
        script = Path(__file__).with_name("process_worker.py")
        command = [interpreter(release), str(script), troupe.url, name, ",".join(troupe.roles), str(troupe.session)]
        with (troupe.folder / f"{name}.log").open("wb") as log:
            environment = {**os.environ, **paths(release)}
            command += [str(troupe.folder), f"settle={troupe.settle}"]
            command += [] if troupe.protocol == "claims" else [f"protocol={troupe.protocol}"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def beliefs(self) -> list[Belief]:
        path = self._folder / f"{self.name}.beliefs"
        return beliefs(path) if path.exists() else []

    def events(self, key: str) -> list[dict[str, Any]]:
        """What it has said of `key`: thawed, zombie, stale, ready."""
        path = self._folder / f"{self.name}.events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for line in lines if key in (event := json.loads(line))]

    def leads(self) -> set[int]:
        """The roles that it has checked and found its own within the last 50 ms."""
        now = stopwatch()
        return {belief.role for belief in self.beliefs() if belief.last > now - 50_000_000}

    def kill(self) -> int:
        """SIGKILL. The instant before it."""
        at = stopwatch()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return at

    def freeze(self) -> None:
        """SIGSTOP, but not in the middle of a write to the log, where that is a SQLite file: who has its lock keeps all others
        out, so that nobody could succeed."""
        self.stopped = True
        if self._log is None:
            stop(self.process)
        else:
            stop_between_writes(self.process, self._log)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def end(self) -> None:
        if self.process.poll() is None:
            if self.stopped:
                self.thaw()
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise


class Troupe:
    """Three workers (after each SIGKILL a new one comes) that share a few roles on the ledger `url`."""

    def __init__(
        self,
        folder: Path,
        url: str,
        session: float,
        roles: tuple[str, ...] = ("A", "B", "C", "D"),
        protocol: str = "claims",
        settle: float | None = None,
    ) -> None:
        self.folder = folder
        self.protocol = protocol
        self.session = session
        self.settle = session / 4 if settle is None else settle
        self.roles = roles
        self.url = url
        self.random = random.Random(f"{session} {roles}")
        self.workers: list[Worker] = []
        self.dead: list[Worker] = []
        self._born = 0
        with sqlite3.connect(folder / "sink.db") as sink:
            sink.execute("PRAGMA journal_mode=WAL")
            columns = "role TEXT, token INTEGER, member TEXT, kind TEXT"
            sink.execute(f"CREATE TABLE writes (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
        sink.close()

    def begin(self, count: int = 3, release: Path | None = None) -> None:
        for _ in range(count):
            self.enlist(release)
        self.until_all_led()

    def enlist(self, release: Path | None = None) -> Worker:
        self._born += 1
        worker = Worker(self, f"w{self._born}", release)
        self.workers.append(worker)
        return worker

    def a_leader(self) -> Worker:
        """One that leads something now, picked by chance."""
        return self.random.choice(self.until(lambda: [w for w in self.workers if w.leads()], "somebody leads"))

    def freeze_a_leader(self) -> tuple[Worker, list[Belief]]:
        """Which one, and what it believed until it was frozen."""

        def frozen() -> tuple[Worker, list[Belief]] | None:
            worker = self.a_leader()
            worker.freeze()
            at = stopwatch()
            if held := [belief for belief in worker.beliefs() if belief.last > at - 50_000_000]:
                return worker, held
            worker.thaw()  # it has handed over what it led just before
            return None

        found = self.until(frozen, "somebody is frozen while it leads")
        assert found is not None
        return found

    def bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.dead.append(worker)

    def until(self, what: Callable[[], T], saying: str) -> T:
        end = time.monotonic() + PATIENCE
        while not (found := what()):
            for worker in self.workers:
                if worker.process.poll() is not None:
                    text = (self.folder / f"{worker.name}.log").read_text()
                    raise AssertionError(f"{worker.name} ended with {worker.process.returncode}: {text[-2000:]}")
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: {saying}"
            time.sleep(0.005)
        return found

    def until_all_led(self) -> None:
        """Each role is led, and everybody leads something: so that whoever is picked next has something to lose."""
        everything = set(range(len(self.roles)))

        def all_led() -> bool:
            led = [worker.leads() for worker in self.workers]
            return all(led) and set[int]().union(*led) == everything

        self.until(all_led, "every role is led, and everybody leads one")

    def successor_of(self, old: Belief) -> Belief | None:
        """The first belief in the same role under a higher token, whosever it is."""
        found = [b for b in self.all_beliefs() if b.role == old.role and b.token > old.token]
        return min(found, key=lambda b: b.first, default=None)

    def all_beliefs(self) -> list[Belief]:
        return [belief for worker in [*self.workers, *self.dead] for belief in worker.beliefs()]

    def all_events(self, key: str) -> list[dict[str, Any]]:
        return [event for worker in [*self.workers, *self.dead] for event in worker.events(key)]

    def writes(self) -> list[Write]:
        """The sink's rows in the order in which they were committed."""
        sink = sqlite3.connect(self.folder / "sink.db", timeout=30)
        rows = sink.execute("SELECT role, token, member, kind FROM writes ORDER BY id").fetchall()
        sink.close()
        return [Write(*row) for row in rows]

    def tokens_in_log(self) -> dict[tuple[str, int], str]:
        """(role, token) -> name of the holder, as the log has decided it."""
        if self.protocol != "claims":
            return self._announced()
        with pares.Observer(self.url, group="g") as observer:
            changes = observer.read()
            return {
                (change.seat[0], change.token): change.holder.partition("~")[0]
                for change in changes
                if isinstance(change, SeatChanged) and change.holder is not None
            }

    def proven_dead(self) -> set[str]:
        """Of whom the log has an obituary."""
        with pares.Observer(self.url, group="g") as observer:
            changes = observer.read()
        return {change.name for change in changes if isinstance(change, MemberLeft) and change.cause == "died"}

    def _announced(self) -> dict[tuple[str, int], str]:
        """The same where an announcement in a role's partition begins a tenure. (One that is killed as it
        comes to lead leaves no more than that.)"""
        found: dict[tuple[str, int], str] = {}
        with closing(pares.open(self.url)) as opened:
            log = cast("Log", opened)
            for role in self.roles:
                partition, offset = int(role), log.start(int(role))
                while entries := log.read(offset, partition):
                    offset = entries[-1].offset + 1
                    for entry in entries:
                        record = decode(entry.payload)
                        if isinstance(record, Announce) and record.g == "g":
                            found[role, record.b + entry.offset] = record.name
        return found

    def end(self) -> None:
        """Ends all that are left; raises if one of them can't be ended."""
        for worker in self.workers:
            if worker.stopped:
                worker.thaw()
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.terminate()
        for worker in self.workers:
            worker.end()


def no_promise_is_broken(troupe: Troupe) -> None:
    """By all that its members believed and wrote, and by what the log has decided."""
    beliefs, writes = troupe.all_beliefs(), troupe.writes()
    assert overlaps(beliefs) == []
    assert falling_tokens(beliefs) == []
    assert zombie_writes(writes) == []
    log = troupe.tokens_in_log()
    for belief in beliefs:
        assert log.get((troupe.roles[belief.role], belief.token)) == belief.member, belief
    assert {(write.role, write.token) for write in writes} <= log.keys()
    accepted = [event for event in troupe.all_events("zombie") if event["outcome"] != "refused"]
    assert accepted == []
