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

from chaos.ledgers.grounds import START, Replicated
from pares.dev import Postgres
from pares.dev.postgres import bin_folder

_ALL_REPLAYED: Final = (
    "SELECT pg_current_wal_lsn() <= coalesce((SELECT min(replay_lsn) FROM pg_stat_replication), '0/0')"
)


class Followed(Replicated):
    """`server` is the primary. The standby is not synchronous: what was acknowledged last may be missing there."""

    server: Postgres

    def __init__(self, first: Postgres, second: Postgres) -> None:
        self.standby = second
        super().__init__(first, self._url)
        self._follow()

    def _url(self, name: str) -> str:
        servers = ",".join(f"127.0.0.1:{each.nodes[0].port}" for each in (self.server, self.standby))
        return f"postgresql://pares@{servers}/postgres?table={name}"

    @contextmanager
    def losing(self) -> Iterator[Callable[[], None]]:
        self._catch_up()
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
        self.server, self.standby = self.standby, self.server
        assert _said(self.server, "SELECT pg_promote()"), "it was not promoted"
        self._follow()

    def _follow(self) -> None:
        """The standby begins anew, as a copy of the primary."""
        began, place = bool(self.standby.nodes), self.standby.folder
        assert place is not None
        if began and self.standby.nodes[0].running:
            self.standby.kill()
        shutil.rmtree(place / "node-1" / "data", ignore_errors=True)
        base_backup(self.server, place)
        if began:
            self.standby.restart(1, timeout=START)
        else:
            self.standby.start()

    def _caught_up(self) -> bool:
        return _said(self.server, _ALL_REPLAYED)


def base_backup(primary: Postgres, place: Path) -> None:
    """Makes in that folder what `Postgres(folder=place)` starts as a standby of the primary, and follows it."""
    folder, owner = place / "node-1", (primary.nodes[0].folder / "data").stat()
    folder.mkdir(parents=True, exist_ok=True)
    for made in (place, folder):
        os.chown(made, owner.st_uid, owner.st_gid)
    where = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "pares"]
    subprocess.run(
        [bin_folder() / "pg_basebackup", *where, "-D", folder / "data", "-R", "-c", "fast", "--no-sync"],
        check=True,
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[],
        cwd=folder,
        timeout=START,
    )


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
