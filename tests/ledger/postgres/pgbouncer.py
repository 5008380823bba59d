"""A pgbouncer for tests: the one on PATH, or the one that `make pgbouncer` has unpacked."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from pares.dev import Postgres, ports
from pares.dev.process import start

PATIENCE = 60.0
UNPACKED = Path(sys.prefix) / "pgbouncer"


def program(folder: Path) -> list[str]:
    """Its command; its files go into a folder that its user may enter. Finds none: run `make pgbouncer`."""
    if found := shutil.which("pgbouncer"):
        return [found]
    there = UNPACKED / "usr" / "sbin" / "pgbouncer"
    assert there.exists(), "there is no pgbouncer on PATH, nor in .venv: run `make pgbouncer`"
    for file in (there, *UNPACKED.glob("usr/lib/*/libcares.so.2")):
        shutil.copy(file, folder)
    return [shutil.which("env") or "env", f"LD_LIBRARY_PATH={folder}", str(folder / "pgbouncer")]


@contextlib.contextmanager
def pgbouncer(server: Postgres, **settings: str | int) -> Iterator[str]:
    """One before that server; the URL of the database behind it."""
    port = ports.free(["127.0.0.1"])[0]
    folder = Path(tempfile.mkdtemp(prefix="pares-pgbouncer-"))
    folder.chmod(0o755)
    chosen = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "admin_users": "pares",
        "default_pool_size": 20,
        "max_client_conn": 200,
        **settings,
    }
    lines = ["[databases]", f"postgres = host=127.0.0.1 port={server.port} dbname=postgres user=pares", "[pgbouncer]"]
    (folder / "pgbouncer.ini").write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in chosen.items())]))
    owner = (server.nodes[0].folder / "data").stat()
    user = (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    command = [*program(folder), str(folder / "pgbouncer.ini")]
    process = start(command, log=folder / "log", folder=folder, survive=False, user=user)
    try:
        url = f"postgresql://pares@127.0.0.1:{port}/postgres"
        end = time.monotonic() + PATIENCE
        while ports.is_free("127.0.0.1", port):
            assert process.ended() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.02)
        yield url
    finally:
        process.identity.signal(signal.SIGKILL)
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def pooled(url: str, what: str) -> None:
    """Tells the pooler something, as its administrator."""
    with psycopg.connect(url.replace("/postgres", "/pgbouncer"), autocommit=True) as connection:
        connection.execute(what.encode(), prepare=False)
