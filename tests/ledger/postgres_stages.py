"""A PostgreSQL for the ledgers' tests, and what they do to it."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from ledger_stages import ServedStage, in_processes

import pares.ledger
from pares.dev import Postgres
from pares.ledger import Ledger


class PostgresStage(ServedStage):
    """A table of its own for each test, all in one database."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        super().__init__(folder)
        self.server = server
        self.table = f"t_{uuid.uuid4().hex[:12]}"

    @property
    def url(self) -> str:
        return f"{self.server.url}?table={self.table}&timeout=20"

    def impatient(self) -> Ledger:
        return self.open(timeout=1.0)

    @contextmanager
    def outage(self) -> Generator[None]:
        """Somebody's transaction that has locked the logs' rows, and stands still."""
        with psycopg.connect(self.server.url) as other:
            other.execute(f"SELECT * FROM {self.table}_logs FOR UPDATE".encode())
            yield
            other.rollback()

    def delete(self) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as other:
            other.execute(f"DROP TABLE IF EXISTS {self.table}_logs, {self.table}".encode())

    def there(self) -> bool:
        with psycopg.connect(self.server.url, autocommit=True) as other:
            row = other.execute("SELECT to_regclass(%s)", (self.table,)).fetchone()
            return row is not None and row[0] is not None

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()


def open_ledger(server: Postgres, table: str, **options: object) -> Ledger:
    return pares.ledger.open(f"{server.url}?table={table}", **options)
