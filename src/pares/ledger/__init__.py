"""Ledgers: shared, partitioned, ordered logs of bytes, reached by URLs (see `pares.ledger.base` for what they promise)."""

from .address import Address, Options
from .base import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_NAME,
    MAX_PAYLOAD,
    Bell,
    Bus,
    Entry,
    Group,
    Ledger,
    Log,
    Membership,
)
from .bus import TailBus, as_bus, last_published
from .localfs import is_local
from .registry import open, open_bus, parse, partition_of, schemes
from .retention import expire

__all__ = [
    "MAX_BATCH",
    "MAX_BATCH_BYTES",
    "MAX_NAME",
    "MAX_PAYLOAD",
    "Address",
    "Bell",
    "Bus",
    "Entry",
    "Group",
    "Ledger",
    "Log",
    "Membership",
    "Options",
    "TailBus",
    "as_bus",
    "expire",
    "is_local",
    "last_published",
    "open",
    "open_bus",
    "parse",
    "partition_of",
    "schemes",
]
