"""Sinks that refuse old tokens: each refuses, atomically with the write, a token lower than one seen for that seat.

`SqlFence` guards rows in the user's own database, `FileFence` files in a folder, `KafkaFence` what a transactional producer
writes to Kafka. `Positions` is what `Batch.transaction` keeps beside a `SqlFence`. base.py says what all of them promise.
"""

from pares.core.errors import Stale
from pares.fence.base import Held
from pares.fence.file import Commit, FileFence, FolderStore, Store
from pares.fence.kafka import KafkaFence, Transaction
from pares.fence.positions import Positions
from pares.fence.sql import SqlFence

__all__ = [
    "Commit",
    "FileFence",
    "FolderStore",
    "Held",
    "KafkaFence",
    "Positions",
    "SqlFence",
    "Stale",
    "Store",
    "Transaction",
]
