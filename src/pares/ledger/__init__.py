"""Ledgers: shared, partitioned, ordered logs of bytes, reached by URLs (see `pares.ledger.base` for what they promise)."""

from .address import Address, Options
from .base import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_NAME,
    MAX_PAYLOAD,
    Bell,
    Capabilities,
    Checked,
    Entry,
    Group,
    KnowsTopics,
    Ledger,
    Log,
    ManyAtOnce,
    Membership,
    Stamped,
    Stamping,
)
from .bell import FileBell, ring
from .bus import Bus, Reconnecting, TailBus, as_bus, last_published
from .handle_state import Lifetime
from .localfs import is_local
from .registry import Scheme, open, open_bus, parse, partition_of, schemes
from .retention import expire

__all__ = [
    "MAX_BATCH",
    "MAX_BATCH_BYTES",
    "MAX_NAME",
    "MAX_PAYLOAD",
    "Address",
    "Bell",
    "Bus",
    "Capabilities",
    "Checked",
    "Entry",
    "FileBell",
    "Group",
    "KnowsTopics",
    "Ledger",
    "Lifetime",
    "Log",
    "ManyAtOnce",
    "Membership",
    "Options",
    "Reconnecting",
    "Scheme",
    "Stamped",
    "Stamping",
    "TailBus",
    "as_bus",
    "expire",
    "is_local",
    "last_published",
    "open",
    "open_bus",
    "parse",
    "partition_of",
    "ring",
    "schemes",
]
