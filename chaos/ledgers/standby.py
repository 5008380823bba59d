"""A PostgreSQL and a standby that follows it, of which each may be the primary. The URL names both."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from chaos.ledgers.grounds import MEMBERS, SERVER, START, OneServer, awaited
from pares.dev import Postgres
from pares.dev.postgres import bin_folder

_ALL_REPLAYED: Final = (
    "SELECT pg_current_wal_lsn() <= coalesce((SELECT min(replay_lsn) FROM pg_stat_replication), '0/0')"
)


class Followed(OneServer):
    """`server` is the primary. The standby is not synchronous: what was acknowledged last may be missing there."""

    kinds = (*MEMBERS, *SERVER, "failover")
    loss = "failover-behind"
    server: Postgres

    def __init__(self, first: Postgres, second: Postgres) -> None:
        self.standby = second
        self._ports = {id(first): first.port}
        super().__init__(first, self._url)
        self._follow()
        self._ports[id(second)] = second.port

    def _url(self, name: str) -> str:
        servers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        return f"postgresql://pares@{servers}/postgres?table={name}"

    def fail_over(self) -> None:
        awaited(self._caught_up, "the standby has all that the primary has")
        self.kill()
        self._promote()

    @contextmanager
    def losing(self) -> Iterator[Callable[[], None]]:
        awaited(self._caught_up, "the standby has all that the primary has")
        behind = self.standby
        behind.stop(1)

        def lose() -> None:
            self.kill()
            behind.restart(1, timeout=START)
            self._promote()

        try:
            yield lose
        finally:
            if not behind.nodes[0].running:
                behind.restart(1, timeout=START)

    def _promote(self) -> None:
        """The standby is the primary now, and follows nobody; the former primary begins anew as its standby."""
        self.server, self.standby = self.standby, self.server
        assert _said(self.server, "SELECT pg_promote()"), "it was not promoted"
        self._follow()

    def _follow(self) -> None:
        """The standby begins anew, as a copy of the primary."""
        began, place = bool(self.standby.nodes), self.standby.folder
        assert place is not None
        if began and self.standby.nodes[0].running:
            self.standby.kill()
        folder = place / "node-1"
        data, owner = folder / "data", (self.server.nodes[0].folder / "data").stat()
        shutil.rmtree(data, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        for made in (place, folder):
            os.chown(made, owner.st_uid, owner.st_gid)
        where = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", "pares"]
        subprocess.run(
            [bin_folder() / "pg_basebackup", *where, "-D", data, "-R", "-c", "fast", "--no-sync"],
            check=True,
            user=owner.st_uid,
            group=owner.st_gid,
            extra_groups=[],
            cwd=folder,
            timeout=START,
        )
        if began:
            self.standby.restart(1, timeout=START)
        else:
            self.standby.start()

    def _caught_up(self) -> bool:
        return _said(self.server, _ALL_REPLAYED)


def _said(server: Postgres, question: str) -> bool:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    return bool(row and row[0])


@contextmanager
def followed() -> Iterator[Followed]:
    with tempfile.TemporaryDirectory(prefix="pares-standby-") as folder:
        os.chmod(folder, 0o755)  # PostgreSQL runs as another user than root
        with Postgres() as first:
            second = Postgres(folder=Path(folder) / "standby")
            try:
                yield Followed(first, second)
            finally:
                second.close()
