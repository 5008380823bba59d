"""Opening a ledger to look at it, and no more."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.base import Entry, Log
from pares.ledger.registry import open as open_ledger
from pares.ledger.registry import parse, partition_of, scheme_of

TIMEOUT: Final = 5.0
"""Seconds that brokers are given for one answer, unless the URL says otherwise; a member gives them one."""
PATIENCE: Final = 30.0
"""Seconds for which a read that fails is tried again. A member must know at once that its ledger is out of reach; a reader
of a whole log had better wait than begin anew."""
LONG: Final = 2_000_000
"""Entries, in all partitions and holes included."""
_PAUSE: Final = 0.2
_ROWS: Final = 5000


class Opened(NamedTuple):
    log: Log
    partition: int
    """The partition that the URL names."""


@contextlib.contextmanager
def open_to_read(url: str, client: Mapping[str, str] | None = None) -> Iterator[Opened]:
    """The ledger's log (with `#name`: that topic of it), closed afterwards; read-only where the ledger knows such a thing.

    `client`: settings of a Kafka ledger's clients, beside those of the URL's `config`.
    Raises `CapabilityError` for a ledger that lives in one process only: Spark's workers are other processes; and
    `ConfigError` for client settings of a ledger that has none.
    """
    place, _, topic = url.partition("#")
    scheme = scheme_of(place)
    if scheme.scope == "process":
        raise CapabilityError(f"{url} lives inside one process, and Spark reads from others: use file:FOLDER")
    options: dict[str, object] = {"readonly": True} if scheme.look_only else {}
    if scheme.kafka_client and "timeout" not in parse(place).query:
        options["timeout"] = TIMEOUT
    if client:
        if not scheme.kafka_client:
            raise ConfigError(f"{place} is no Kafka ledger: it takes no client settings ({', '.join(sorted(client))})")
        options["options"] = dict(client)
    ledger = open_ledger(place, **options)
    try:
        yield Opened(ledger.topic(unquote(topic)) if topic else ledger, partition_of(place))
    finally:
        ledger.close()


def first_and_end(log: Log, partition: int) -> tuple[int, int]:
    """Where the log begins and ends now. The end is asked for first: what is trimmed in between is not missed."""
    end = log.end(partition)
    return min(log.start(partition), end), end


def is_long(log: Log) -> bool:
    """Whether Spark has work of minutes with it."""
    bounds = [first_and_end(log, number) for number in range(log.partitions)]
    return sum(end - start for start, end in bounds) >= LONG


def entries_of(log: Log, partition: int, low: int, high: int) -> Iterator[list[Entry]]:
    """The entries of the range, in order, in portions. Raises `LedgerGap` for a beginning that is no longer there."""
    while low < high:
        entries = _read(log, partition, low)
        if not entries:
            return
        low = entries[-1].offset + 1
        if low > high:
            entries = [entry for entry in entries if entry.offset < high]
        if entries:
            yield entries


def _read(log: Log, partition: int, offset: int) -> list[Entry]:
    """What stands at `offset` and after it, however long the brokers take to say it, within `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return log.read(offset, partition, max_records=_ROWS)
        except LedgerUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
