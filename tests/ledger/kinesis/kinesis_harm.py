"""What tests of the ledger on Kinesis share: an emulator that may be harmed, and ledgers on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pares.ledger
from kinesis_tools import Moto, new_name
from pares.ledger import Ledger


@contextmanager
def opened(moto: Moto, stream: str = "", **options: object) -> Iterator[Ledger]:
    """A ledger, on a stream that nobody has used unless one is named."""
    url = str(options.pop("url", "")) or moto.url(stream or new_name(), poll=str(options.pop("poll", "none")))
    ledger = pares.ledger.open(url, **{"timeout": 5, **options})
    try:
        yield ledger
    finally:
        ledger.close()


def stream_of(ledger: Ledger) -> str:
    return ledger.url.partition("?")[0].rpartition("/")[2]
