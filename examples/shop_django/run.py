"""Several processes that run the command, as hosts would, and what they have written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 120.0
HOSTS: Final = 3


def run(folder: Path, rounds: int, postgres: str | None = None, freeze: bool = False) -> list[int]:
    """Kills (or freezes for longer than its session) the process that leads, `rounds` times; the letters' tokens, in the order
    in which they were written. Raises `TimeoutError` when nobody comes to write."""
    session = 1.0
    with _hosts(folder, postgres, session) as hosts:
        for _ in range(rounds):
            leader = _writes(hosts)
            if not freeze:
                leader.process.kill()
                leader.process.wait()
                hosts.remove(leader)
                hosts.append(leader.again())
                continue
            leader.process.send_signal(signal.SIGSTOP)
            # Frozen with a lock of SQLite's on the group's file in its hands, it holds up the others until it goes on.
            with suppress(TimeoutError):
                _writes([host for host in hosts if host is not leader], within=20 * session)
            leader.process.send_signal(signal.SIGCONT)
        _writes(hosts)
    return _letters(folder, postgres)


class Host:
    def __init__(self, folder: Path, environment: dict[str, str], session: float) -> None:
        self._how = (folder, environment, session)
        self.out = folder / f"out-{time.monotonic_ns()}"
        self.seen = 0
        command = [sys.executable, "-m", "django", "send_letters", "--session", str(session)]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)

    def again(self) -> Host:
        return Host(*self._how)

    def wrote(self) -> int:
        """How many letters, so far."""
        return self.out.read_text(errors="replace").count("wrote")


@contextmanager
def _hosts(folder: Path, postgres: str | None, session: float) -> Iterator[list[Host]]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "examples.shop_django.settings",
        "PARES_LEDGER": f"sqlite:///{folder}/group.db",
        "SHOP_DATABASE": str(folder / "shop.db"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
    }
    environment |= {} if postgres is None else {"SHOP_POSTGRES": postgres}
    _execute(folder, postgres, "CREATE TABLE letters (id %s PRIMARY KEY, token bigint)")
    hosts = [Host(folder, environment, session) for _ in range(HOSTS)]
    try:
        yield hosts
    finally:
        for host in hosts:
            host.process.kill()
            host.process.wait()


def _writes(hosts: list[Host], within: float = PATIENCE) -> Host:
    """Waits until one of these writes, from now on."""
    before = {host: host.wrote() for host in hosts}
    end = time.monotonic() + within
    while time.monotonic() < end:
        for host in hosts:
            if host.wrote() > before[host] + 2:
                return host
            if host.process.poll() is not None:
                raise TimeoutError(f"it ended: {host.out.read_text()}")
        time.sleep(0.01)
    raise TimeoutError(f"nobody writes within {within:g} s: {[host.out.read_text() for host in hosts]}")


def _letters(folder: Path, postgres: str | None) -> list[int]:
    return [row[0] for row in _execute(folder, postgres, "SELECT token FROM letters ORDER BY id")]


def _execute(folder: Path, postgres: str | None, statement: str) -> list[tuple[int]]:
    if postgres is not None:
        import psycopg  # on SQLite the example needs nothing but Django

        with psycopg.connect(postgres) as connection:
            cursor = connection.execute(statement.replace("%s", "bigserial").encode())
            return cursor.fetchall() if cursor.description else []
    import sqlite3

    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as connection, connection:
        return connection.execute(statement.replace("%s", "integer")).fetchall()
