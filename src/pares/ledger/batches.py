"""A stretch of a log, batch by batch, while others may be forgetting its beginning."""

from collections.abc import Iterator

from pares.core.errors import LedgerGap

from .base import Entry, Log


def batches(log: Log, partition: int, low: int, end: int, most: int) -> Iterator[list[Entry]]:
    """The entries from offset `low` to before `end`, at most `most` at a time. What is trimmed meanwhile is passed over.

    Raises what `read` raises, but no `LedgerGap`.
    """
    while low < end:
        try:
            found = log.read(low, partition, most)
        except LedgerGap:
            low = max(low + 1, log.start(partition))
            continue
        if not found:
            return
        yield [entry for entry in found if entry.offset < end]
        low = found[-1].offset + 1
