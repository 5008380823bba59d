"""What a stream gives and what it costs: said by `pares doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pares.ledger.kinesis.settings import Settings
from pares.ledger.kinesis.streams import Stream

GOOD, NOTE, WARNING = "good", "note", "warning"
READS: Final = 5
"""A shard answers so many a second, to all its readers together."""
SHOWN: Final = (
    "this ledger was shown to work on moto, an emulator of Kinesis, and never on AWS itself: try takeover and handover on a "
    "stream of your own before you rely on it"
)


def checks(settings: Settings, stream: Stream, entries: int, foreign: int, throttled: int) -> Iterator[tuple[str, str]]:
    """`foreign`: records that are none of the log's; `throttled`: how often this handle was told that it reads too often."""
    encrypted = ", encrypted by a key of KMS" if stream.encrypted else ""
    yield (
        GOOD,
        f"Kinesis in {settings.region}: {entries} offsets in {stream.name}, one shard, kept for {stream.hours} h{encrypted}",
    )
    yield WARNING, SHOWN
    if settings.endpoint:
        yield NOTE, f"it is reached at {settings.endpoint}, which is not AWS' own"
    if settings.poll is None:
        yield (
            WARNING,
            "poll=none: it is read without a pause, which is for an emulator only; a shard of AWS answers five times a second",
        )
    else:
        most = READS * settings.poll
        yield (
            NOTE,
            f"each process reads the shard every {settings.poll:g} s, so {max(1, int(most))} of them share what it allows, "
            f"five reads a second; sessions of {10 * settings.poll:g} s and more suit that. For more processes raise poll in "
            "all of them, and sessions with it",
        )
    if throttled:
        yield (
            WARNING,
            f"this handle was told {throttled} times that the shard is read too often: raise poll in all processes",
        )
    if foreign:
        yield (
            WARNING,
            f"{foreign} records in the stream, of those read here, are none of the log's: find out who writes them",
        )
    if settings.retention is None:
        yield WARNING, f"retention=none can't be had: the stream forgets after {stream.hours} h by itself"
