"""What tests of the ledger on RabbitMQ share."""

from __future__ import annotations

import pares.ledger
from pares.dev import RabbitMQ
from pares.ledger import Ledger


def opened(server: RabbitMQ, stream: str = "pares", **options: object) -> Ledger:
    return pares.ledger.open(f"{server.stream_url(stream)}?timeout=5", **options)
