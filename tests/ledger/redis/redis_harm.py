"""What tests of the ledger on Redis share: a plain client, and servers of their own."""

from __future__ import annotations

from typing import Any, cast

import redis

import pares.ledger
from pares.dev import Redis
from pares.ledger import Ledger


def ask(server: Redis, *words: str, node: int = 1) -> Any:
    """One command by a plain client."""
    client = redis.Redis(port=server.nodes[node - 1].port)
    try:
        return cast(Any, client).execute_command(*words)
    finally:
        client.close()


def opened(server: Redis, **options: object) -> Ledger:
    return pares.ledger.open(f"{server.url}?timeout=5", **options)


def caught_up(server: Redis) -> bool:
    """Whether each replica has all that the master has."""
    info = ask(server, "INFO", "replication")
    return all(
        info[f"slave{number}"]["offset"] >= info["master_repl_offset"] for number in range(info["connected_slaves"])
    )
