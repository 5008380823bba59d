"""Servers with three workers (and programs of three processes without one), whose leading worker is ended again and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pares
from examples.web.jobs import GROUP, ROLE
from pares.core.reasons import PLANNED

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 120.0
_GUNICORN: Final = ["gunicorn", "-c", "examples/web/gunicorn_conf.py", "--log-level", "warning"]
_UVICORN: Final = ["uvicorn", "--workers", "3", "--port", "0", "--log-level", "warning"]
_DEPLOYMENT: Final = ["examples.web.deployment", "3"]
_PARES_RUN: Final = ["pares", "run", "--role", ROLE, "--group", GROUP, "--session", "{session}"]
SERVERS: Final = {
    "gunicorn": [*_GUNICORN, "examples.web.wsgi:app"],
    "preload": [*_GUNICORN, "--preload", "examples.web.wsgi:app"],
    "uvicorn": [*_UVICORN, "examples.web.asgi:app"],
    "fastapi": [*_UVICORN, "examples.web.api:app"],
    "asyncio": [*_DEPLOYMENT, "examples.web.service"],
    "script": [*_DEPLOYMENT, "examples.web.script"],
    "run": [*_DEPLOYMENT, *_PARES_RUN, "--", sys.executable, "-m", "examples.web.command"],
}
"""By "{session}" the session is put in."""


@dataclass(frozen=True)
class Tick:
    worker: int
    at: float
    token: int


@dataclass
class Outcome:
    ticks: list[Tick]
    gaps: list[float]
    """Seconds between the planned end of one term and the beginning of the next, as the members wrote them down."""
    others: list[float]
    """The same for terms that did not end by plan, if their members lived to write that down."""
    workers: set[int]

    @property
    def clean(self) -> bool:
        """Each term is one worker's, and terms come one after the other: nobody ran the job while somebody else did."""
        tokens = [tick.token for tick in self.ticks]
        holders = {(tick.token, tick.worker) for tick in self.ticks}
        return bool(tokens) and tokens == sorted(tokens) and len(holders) == len({token for token, _ in holders})


def run(kind: str, folder: Path, deploys: int, session: float = 1.0, how: int = signal.SIGTERM) -> Outcome:
    """Raises `TimeoutError` when nobody leads, or nobody new comes to lead."""
    ledger, ticks = f"sqlite:///{folder}/web.db", folder / "ticks.txt"
    with _server(kind, folder, ledger, ticks, session) as server, pares.Observer(ledger, group=GROUP) as group:
        _until(lambda: len(_members(group)) >= 3, f"three workers of {kind} in the group", server)
        seen = {_replace(server, group, ticks, how) for _ in range(deploys)}
        seen.add(_pid(group.leader(ROLE)))
    return Outcome(_ticks(ticks), *_gaps(ledger), seen)


def _replace(server: subprocess.Popen[bytes], group: pares.Observer, ticks: Path, how: int) -> int:
    """Ends the worker that leads, and waits until another one works and the server has started one in its place."""
    holder: pares.Holder = _until(lambda: group.leader(ROLE), "a leader", server)
    _until(lambda: _token(ticks) >= holder.token, "its job runs", server)
    old = _pid(holder)
    os.kill(old, how)
    _until(lambda: _pid(group.leader(ROLE)) not in (0, old), "another leader", server)
    _until(lambda: _token(ticks) > holder.token, "another leader's job", server)
    _until(lambda: len(_members(group) - {old}) >= 3, "a worker in its place", server)
    return old


@contextmanager
def _server(kind: str, folder: Path, ledger: str, ticks: Path, session: float) -> Iterator[subprocess.Popen[bytes]]:
    program, *arguments = (word.replace("{session}", str(session)) for word in SERVERS[kind])
    settings = {"PARES_LEDGER": ledger, "WEB_TICKS": str(ticks), "WEB_SESSION": str(session)}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            cwd=ROOT,
            env={**os.environ, **settings, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        server.wait()


def _until(what: Callable[[], Any], saying: str, server: subprocess.Popen[bytes]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        if server.poll() is not None:
            raise TimeoutError(f"the server ended with {server.returncode} before there was {saying}")
        if time.monotonic() > end:
            raise TimeoutError(f"not within {PATIENCE:g} s: {saying}")
        time.sleep(0.01)
    return found


def _members(group: pares.Observer) -> set[int]:
    return {_pid_of(member.name) for member in group.world.members.values() if not member.administrator}


def _pid(holder: pares.Holder | None) -> int:
    """The process that leads; 0 for nobody."""
    return 0 if holder is None else _pid_of(holder.name)


def _pid_of(name: str) -> int:
    """A member that was given no name is called after its host, its process, and the time."""
    return int(name.removeprefix(f"{os.uname().nodename}-").partition("-")[0])


def _ticks(path: Path) -> list[Tick]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [Tick(int(worker), float(at), int(token)) for worker, at, token in (line.split() for line in lines)]


def _token(path: Path) -> int:
    """The term in which the job ran last; 0 before it has."""
    ticks = _ticks(path)
    return ticks[-1].token if ticks else 0


def _gaps(ledger: str) -> tuple[list[float], list[float]]:
    """Of planned moves, and of others: a worker that was killed, or too slow for its session."""
    found: tuple[list[float], list[float]] = ([], [])
    log = pares.open(ledger)
    try:
        told: list[dict[str, Any]] = []
        position = log.start()
        while entries := log.read(position):
            position = entries[-1].offset + 1
            told += [record for entry in entries if (record := json.loads(entry.payload)).get("k") == "did"]
    finally:
        log.close()
    # Term by term: a successor may have written down that it leads before its predecessor wrote down that it had stopped.
    told.sort(key=lambda record: (record["token"], record["what"] == "stop"))
    stopped: dict[str, Any] | None = None
    for record in told:
        if record["what"] == "lead" and stopped is not None:
            gap = max(0, record["at"] - stopped["at"]) / 1000
            found[stopped["why"] not in PLANNED].append(gap)
        stopped = record if record["what"] == "stop" else None
    return found
