"""What one worker's process is told when it starts: one JSON object, so that peers on other interpreters can read it too."""

from __future__ import annotations

from typing import Literal

import msgspec

Way = Literal[
    "partitions", "ranges", "keys", "once", "ahead-4", "ahead-16", "eager", "cooperative", "next", "share", "pyrallel"
]
"""How work is shared out: by pares ("once": whole partitions, at most once; "ahead-N": so many batches taken ahead), and by its
peers."""

NAMES: dict[Way, str] = {
    "partitions": "pares, partitions",
    "ranges": "pares, ranges",
    "keys": "pares, keys",
    "once": "pares, partitions, at most once",
    "ahead-4": "pares, partitions, at most once, ahead 4",
    "ahead-16": "pares, partitions, at most once, ahead 16",
    "eager": "consumer group, eager",
    "cooperative": "consumer group, cooperative",
    "next": "consumer group, KIP-848",
    "share": "share group",
    "pyrallel": "pyrallel-consumer",
}
AHEAD: dict[Way, int] = {"once": 0, "ahead-4": 4, "ahead-16": 16}
"""Ways by which each record is handled at most once: batches that are taken before anybody asks for them."""
WHOLE: frozenset[Way] = frozenset({"partitions", *AHEAD})
"""Ways of pares that share out whole partitions."""
GROUPS: frozenset[Way] = frozenset({"eager", "cooperative", "next"})


class Plan(msgspec.Struct, frozen=True):
    """`log`: the ledger's URL that a group of pares is coordinated by; `source`: the one with the topic."""

    way: Way
    name: str
    group: str
    topic: str
    bootstrap: str = ""
    log: str = ""
    source: str = ""
    session: float = 1.0
    """Seconds after which a silent worker is given up, by pares and by groups alike."""
    batch: int = 500
    handler_ms: float = 0.0
    """Milliseconds that the work on a record takes."""
    batch_ms: float = 0.0
    """And that on a batch, whatever is in it."""
    concurrency: int = 1
    proof: bool = True
    """Whether a worker's death can be proven by its locks."""
    trace: str = ""
    """A file for what each record's handler did and when (`bench.consume.order`)."""
    first_fetch: bool = False
    """Tell of each partition when the worker asks for its records for the first time."""
    waits: bool = False
    """Join the group only when told to."""
    tick: float = 0.05
    """Seconds between two tellings of how far it has come."""

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()
