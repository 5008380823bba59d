"""Every kind of server that `pares.dev` has, and how a ledger on it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pares.dev
from pares.core.errors import CapabilityError
from pares.dev.cluster import LocalCluster


def clusters() -> dict[str, type[LocalCluster]]:
    """By the word after `pares dev`. One that `pares.dev` comes to have is among them."""
    found = [getattr(pares.dev, name) for name in pares.dev.__all__]
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, LocalCluster)]
    return {kind.command: kind for kind in kinds}


def named(server: Any) -> Callable[[str], str]:
    """The URL of a ledger on a server by a name: each kind of server has its own word for what keeps a log."""
    ways = [getattr(server, word) for word in ("table_url", "stream_url", "topic_url") if hasattr(server, word)]
    if not ways:
        raise CapabilityError(
            f"{server.title} of pares.dev has no table_url, stream_url or topic_url to name ledgers by"
        )
    return ways[0]
