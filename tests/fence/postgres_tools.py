"""What the fence's tests on PostgreSQL share."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from pares.dev import Postgres
from pares.fence import SqlFence

PATIENCE = 60.0
_number = itertools.count()


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int


class Sink:
    """A schema of one test's own, with a table `work`, and connections to it."""

    def __init__(self, server: Postgres, stack: ExitStack) -> None:
        self.server = server
        self.schema = f"test_{uuid.uuid4().hex[:12]}"
        self._stack = stack
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {self.schema}".encode())
            connection.execute(f"CREATE TABLE {self.schema}.work (id bigserial PRIMARY KEY, token bigint)".encode())

    @property
    def url(self) -> str:
        return f"{self.server.url}?options=-csearch_path%3D{self.schema}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return self._stack.enter_context(_closed_at_end(psycopg.connect(self.url, **options)))

    def another_user(self) -> str:
        """The URL of a user who may use the schema and write to `work`, and nothing more."""
        name = f"user_{next(_number)}_{self.schema}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in (
                f"CREATE USER {name}",
                f"GRANT USAGE ON SCHEMA {self.schema} TO {name}",
                f"GRANT ALL ON work, work_id_seq TO {name}",
            ):
                connection.execute(statement.encode())
        return self.url.replace("//pares@", f"//{name}@")

    def tokens(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute("SELECT token FROM work ORDER BY id")]


@contextmanager
def _closed_at_end(connection: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    with connection:
        try:
            yield connection
        finally:
            connection.close()


def write(connection: psycopg.Connection[Any], fence: SqlFence, term: Term) -> None:
    with connection.transaction():
        fence.check(connection, term)
        connection.execute("INSERT INTO work (token) VALUES (%s)", (term.token,))
