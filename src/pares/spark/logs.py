"""Opening a ledger to look at it, and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from pares.core.errors import CapabilityError
from pares.ledger.base import Log
from pares.ledger.registry import open as open_ledger
from pares.ledger.registry import parse, partition_of


class Opened(NamedTuple):
    log: Log
    partition: int
    """The partition that the URL names."""


@contextlib.contextmanager
def open_to_read(url: str) -> Iterator[Opened]:
    """The ledger's log (with `#name`: that topic of it), closed afterwards; read-only where the ledger knows such a thing.

    Raises `CapabilityError` for a ledger that lives in one process only: Spark's workers are other processes.
    """
    place, _, topic = url.partition("#")
    scheme = parse(place).scheme
    if scheme == "memory":
        raise CapabilityError(f"{url} lives inside one process, and Spark reads from others: use sqlite:///FILE")
    options = {"readonly": True} if scheme == "sqlite" else {}
    ledger = open_ledger(place, **options)
    try:
        yield Opened(ledger.topic(unquote(topic)) if topic else ledger, partition_of(place))
    finally:
        ledger.close()


def first_and_end(log: Log, partition: int) -> tuple[int, int]:
    """Where the log begins and ends now. The end is asked for first: what is trimmed in between is not missed."""
    end = log.end(partition)
    return min(log.start(partition), end), end
