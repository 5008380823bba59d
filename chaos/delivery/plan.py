"""What a run is to do, and what a worker is told."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pares.runtime.consume.settings import Claims, Delivery

TOPIC: Final = "orders"
GROUP: Final = "booking"
SCHEMA: Final = "CREATE TABLE IF NOT EXISTS booked (part INTEGER, place INTEGER, worker TEXT, token INTEGER)"

Way = Literal["at-least-once", "at-most-once", "taken-ahead", "fenced", "ranges", "ranges-once", "keys", "plain group"]
WAYS: Final[tuple[Way, ...]] = (
    *("at-least-once", "at-most-once", "taken-ahead", "fenced"),
    *("ranges", "ranges-once", "keys"),
    "plain group",
)
ONCE: Final[frozenset[Way]] = frozenset({"at-most-once", "taken-ahead", "ranges-once"})
"""Those that take records before they are given them."""
AHEAD: Final[dict[Way, int]] = {"taken-ahead": 4, "ranges-once": 2}
"""Batches that are taken before anybody asks for them."""
DIVIDED: Final[dict[Way, Claims]] = {"ranges": "ranges", "ranges-once": "ranges", "keys": "keys"}
"""Those in which several workers work on one partition."""
SLOTS: Final = 3
"""Of each partition then."""
PLAIN: Final[Way] = "plain group"
"""Kafka's own consumer group, by confluent-kafka: shown beside, and not judged."""

Mutant = Literal["marks-first", "ignores-fence", "takes-nothing"]
MUTANTS: Final[dict[Mutant, tuple[Way, str]]] = {
    "marks-first": ("at-least-once", "a worker that says done, and then does it"),
    "ignores-fence": ("fenced", "a worker that writes without asking the fence, and says done afterwards"),
    "takes-nothing": ("at-most-once", "a worker that takes nothing in the log before it is given records"),
}
"""Workers that break a promise on purpose: the way that they belong to, and what they do."""


def delivery(way: Way, mutant: Mutant | None) -> Delivery:
    return "at-most-once" if way in ONCE and mutant != "takes-nothing" else "at-least-once"


class Plan(Struct, frozen=True):
    """One run. Times in seconds. `rate`: records a second; `trip`: how long a batch takes."""

    ways: tuple[Way, ...] = WAYS
    workers: int = 8
    partitions: int = 16
    seconds: float = 60.0
    faults: int = 15
    rate: int = 400
    session: float = 2.0
    batch: int = 20
    trip: float = 0.05
    kinds: tuple[str, ...] = ()
    """Of faults; none: all that can be made."""
    seed: int = 1
    mutant: Mutant | None = None
    patience: float = 120.0
    """For which the end of the work is waited for."""


class Task(Struct, frozen=True):
    """What a worker is told, as JSON."""

    way: Way
    name: str
    journal: str
    ledger: str
    source: str
    """Where the topic is: of a plain group, the brokers' addresses."""
    topic: str
    sink: str
    session: float
    batch: int
    trip: float
    mutant: Mutant | None = None
