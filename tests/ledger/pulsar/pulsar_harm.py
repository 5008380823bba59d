"""What tests of the ledger on Pulsar share."""

from __future__ import annotations

import pares.ledger
from pares.dev import Pulsar
from pares.ledger import Ledger


def opened(server: Pulsar, topic: str, **options: object) -> Ledger:
    return pares.ledger.open(f"{server.topic_url(topic)}&timeout=5", **options)
