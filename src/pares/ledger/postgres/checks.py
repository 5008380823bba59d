"""What `pares doctor` says of the server, and of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pares.ledger.postgres.link import Link
from pares.ledger.postgres.schema import Schema
from pares.ledger.postgres.settings import Settings

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
_SETTINGS: Final = ("fsync", "full_page_writes", "synchronous_standby_names", "max_connections", "server_version")
_OLD: Final = 60.0
"""Seconds after which a transaction that keeps old versions of rows is worth a word."""
_FEW: Final = 10


def checks(link: Link, schema: Schema, settings: Settings) -> Iterator[tuple[str, str]]:
    """(level, text) of everything there is to say."""
    shown = ", ".join(f"current_setting('{name}')" for name in _SETTINGS)
    sql = (
        f"SELECT {shown}, (SELECT count(*) FROM pg_stat_replication)::text, (SELECT count(*) FROM pg_stat_activity)::text, "
        "coalesce((SELECT extract(epoch FROM now() - min(xact_start))::bigint FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()), 0)::text, "
        "(SELECT sum(pg_total_relation_size(to_regclass(t))) FROM unnest($1::text[]) t)::text"
    )
    tables = "{" + ",".join('"' + table.replace('"', '\\"') + '"' for table in (settings.entries, settings.logs)) + "}"
    (row,) = link.ask(sql, [tables], "look over the server", seconds=settings.connect)
    fsync, pages, names, most, version, standbys, used, oldest, size = ((value or b"").decode() for value in row)
    yield GOOD, f"PostgreSQL {version}, {int(size or 0) / 1e6:.1f} MB in {settings.named}"
    yield from _kept(fsync, pages, names, int(standbys))
    yield from _pooler(link)
    left = int(most) - int(used)
    if left < _FEW:
        yield WARNING, f"{used} of max_connections={most} are in use: each member needs two; raise it"
    if int(oldest) > _OLD:
        yield (
            WARNING,
            f"a transaction has been open for {oldest} s: as long as it is, nothing that an append leaves behind is cleaned "
            "up, and each next one is slower. Look in pg_stat_activity",
        )
    lacking, unlogged = schema.lacking()
    if unlogged:
        yield PROBLEM, f"{settings.named} is UNLOGGED: a crash of the server empties it; ALTER TABLE ... SET LOGGED"
    for right in lacking:
        yield WARNING, f"this user lacks {right}: " + _without(right)


def _kept(fsync: str, pages: str, names: str, standbys: int) -> Iterator[tuple[str, str]]:
    if fsync != "on":
        yield PROBLEM, "fsync=off: a loss of power loses acknowledged records, or the whole database; switch it on"
    if pages != "on":
        yield (
            WARNING,
            "full_page_writes=off: a loss of power may damage the tables, unless the file system rules that out",
        )
    if names:
        yield GOOD, f"an append waits for a standby (synchronous_standby_names={names})"
    elif standbys:
        yield (
            WARNING,
            "no append waits for a standby: a failover may lose acknowledged records, and members then begin anew. Set "
            "synchronous_standby_names",
        )


def _pooler(link: Link) -> Iterator[tuple[str, str]]:
    if link.shared:
        yield (
            WARNING,
            "a pooler lends connections for a transaction at a time, so nobody is notified: members look for news 50 times a "
            "second, and hear of it later. Connect without it, or by a pool with pool_mode=session",
        )
    elif link.pooled:
        yield NOTE, "a pooler stands before the server, and gives each connection to one client: that will do"


def _without(right: str) -> str:
    return "members can't trim the log, which only grows" if right.startswith("DELETE") else "it can look on only"
