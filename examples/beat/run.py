"""Several hosts' wrappers around beat, whose leader is killed again and again, and the messages that came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pares
from pares.frameworks.celery import HEADER

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 60.0
HOSTS: Final = 2
GROUP: Final = "tasks"
ROLE: Final = "beat"

Message = tuple[float, int]
"""When it was sent, by a clock that all processes of a machine share, and in which term."""


def run(folder: Path, rounds: int, session: float = 2.0, orderly: bool = False) -> list[Message]:
    """Ends the wrapper that leads, `rounds` times: by SIGKILL, or by SIGTERM where it is to be `orderly`. The messages, in the
    order in which they were sent. Raises `TimeoutError` when no more come."""
    for name in ("messages", "control"):
        (folder / name).mkdir()
    with _hosts(folder, session) as hosts, pares.Observer(_ledger(folder), group=GROUP) as group:
        for number in range(rounds):
            token = _new_term(folder, 0)
            leader = _until(lambda: group.leader(ROLE), "a leader").name
            old = hosts.pop(leader)
            (old.terminate if orderly else old.kill)()
            old.wait(PATIENCE)
            hosts[f"host-{HOSTS + number}"] = _host(folder, session, f"host-{HOSTS + number}")
            _new_term(folder, token)
    return messages(folder)


def messages(folder: Path) -> list[Message]:
    found: list[Message] = []
    for path in (folder / "messages").glob("*.msg"):
        try:
            headers = json.loads(path.read_text())["headers"]
        except ValueError:
            continue  # it is just being written
        found.append((int(path.name.partition("_")[0]) / 1000, headers[HEADER]))
    return sorted(found)


def in_order(found: list[Message]) -> bool:
    """Whether no beat sent anything after a later one had begun."""
    tokens = [token for _, token in found]
    return bool(tokens) and tokens == sorted(tokens)


def _new_term(folder: Path, old: int) -> int:
    """Waits for two messages of one term after `old`, the newest there is; its token."""

    def look() -> int:
        tokens = [token for _, token in messages(folder)]
        return tokens[-1] if tokens and tokens[-1] > old and tokens.count(tokens[-1]) >= 2 else 0

    return _until(look, f"messages of a term after {old}")


@contextmanager
def _hosts(folder: Path, session: float) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    hosts = {f"host-{number}": _host(folder, session, f"host-{number}") for number in range(HOSTS)}
    try:
        yield hosts
    finally:
        for host in hosts.values():
            host.terminate()
        for host in hosts.values():
            host.wait(PATIENCE)


def _host(folder: Path, session: float, name: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PARES_LEDGER": _ledger(folder),
        "BEAT_FOLDER": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    beat = [sys.executable, "-m", "celery", "-A", "examples.beat.app", "beat", "--pidfile="]
    beat += ["-s", str(folder / "last-runs"), "--loglevel", "WARNING"]
    wrapper = [sys.executable, "-m", "pares", "run", "--role", ROLE, "--group", GROUP, "--name", name]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*wrapper, "--session", str(session), "--", *beat], cwd=ROOT, env=environment, stdout=log, stderr=log
        )


def _ledger(folder: Path) -> str:
    return f"sqlite:///{folder}/group.db"


def _until(what: Callable[[], Any], saying: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {PATIENCE:g} s: {saying}")
        time.sleep(0.02)
    return found
