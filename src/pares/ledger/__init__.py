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
from .local.anchor import Anchored
from .local.mounts import is_local
from .registry import Scheme, open, open_bus, parse, partition_of, schemes
from .retention import expire
from .source import Fetched, HasSources, Record, Source
from .sources import open_source
from .topics.keyed import MAX_KEY, KeepsTopics, Topic, partition_for
from .topics.opening import open_topic
from .window import Noting

__all__ = [
    "MAX_BATCH",
    "MAX_BATCH_BYTES",
    "MAX_KEY",
    "MAX_NAME",
    "MAX_PAYLOAD",
    "Address",
    "Anchored",
    "Bell",
    "Bus",
    "Capabilities",
    "Checked",
    "Entry",
    "Fetched",
    "FileBell",
    "Group",
    "HasSources",
    "KeepsTopics",
    "KnowsTopics",
    "Ledger",
    "Lifetime",
    "Log",
    "ManyAtOnce",
    "Membership",
    "Noting",
    "Options",
    "Reconnecting",
    "Record",
    "Scheme",
    "Source",
    "Stamped",
    "Stamping",
    "TailBus",
    "Topic",
    "as_bus",
    "expire",
    "is_local",
    "last_published",
    "open",
    "open_bus",
    "open_source",
    "open_topic",
    "parse",
    "partition_for",
    "partition_of",
    "ring",
    "schemes",
]
