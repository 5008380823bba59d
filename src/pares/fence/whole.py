"""A transaction from its first statement to its commit, on a connection that the user gives for it.

A fence stands in a transaction that the user ends. What must know how the transaction ended, as a position does that
passes what was committed, ends it itself: so it begins one where the connection commits each statement by itself, and refuses a
connection that is inside a block which would end it later.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.fence.sql_drivers import Table, driver

_INSIDE: Final = (
    "this connection is inside {block}, which ends the transaction later than this block does: the batch would count as done "
    "before its writes are committed; leave that block out, this one begins and commits the transaction"
)


@contextmanager
def whole(connection: Any, table: Table) -> Generator[None, None, None]:
    """Commits at the end of the body; rolls back, and raises what the body or the commit has raised. Of the user's transaction
    that is open already, all is committed or rolled back with it. Raises `ConfigError` where another block ends it."""
    if "django.db" in sys.modules:
        from django.db.backends.base.base import BaseDatabaseWrapper
        from django.db.transaction import atomic
        from django.utils.connection import ConnectionProxy

        if isinstance(connection, BaseDatabaseWrapper | ConnectionProxy):
            alias: Any = connection.alias  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            if connection.in_atomic_block:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                raise ConfigError(_INSIDE.format(block="`transaction.atomic()`"))
            block: Any = atomic(using=alias)
            with block:
                yield
            return
    database = driver(connection, table)
    if database.inside():
        raise ConfigError(_INSIDE.format(block="`with connection.transaction():`"))
    database.open()
    try:
        yield
        connection.commit()
        database.commit()
    except BaseException:
        with suppress(Exception):  # a connection that is gone has rolled back; what broke it is what the caller is told
            connection.rollback()
            database.rollback()
        raise
