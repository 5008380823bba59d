"""A client whose threads don't get to run: that is said in plain words. No broker is needed."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from pares.core.errors import LedgerUnavailable
from pares.ledger.address import Options
from pares.ledger.kafka.settings import take
from pares.ledger.kafka.topic import Topics
from pares.ledger.registry import parse


class Starved:
    """Takes requests, and never gets round to any."""

    def describe_cluster(self, **_: object) -> Future[Any]:
        return Future()

    def poll(self, _: float) -> int:
        return 0


def test_a_client_that_answers_nothing_in_time_is_a_ledger_out_of_reach() -> None:
    address = parse("kafka://127.0.0.1:1/group?timeout=0.2")
    topics = Topics(take(address, Options(address.url, address.query)), "kafka://127.0.0.1:1/group")
    topics._client = Starved()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LedgerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1"):
        topics.connect()
