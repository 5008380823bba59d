"""A topic of any ledger, or which ledgers have topics."""

from __future__ import annotations

from typing import cast

from pares.core.errors import CapabilityError
from pares.ledger.base import Ledger
from pares.ledger.registry import schemes_with_topics
from pares.ledger.topics.keyed import KeepsTopics, Topic


def open_topic(ledger: Ledger, name: str, partitions: int | None = None) -> Topic:
    """The topic of this name in a ledger that keeps topics; as `KeepsTopics.topic`.

    Raises `CapabilityError` for a ledger that keeps none, and says which do.
    """
    if not ledger.capabilities.topics:
        raise CapabilityError(
            f"{ledger.url} keeps no topics with keys, so there is no {name!r} to append to: ledgers that do are "
            f"{', '.join(schemes_with_topics())}; records for consumers on another service are written by its own clients"
        )
    return cast(KeepsTopics, ledger).topic(name, partitions)
