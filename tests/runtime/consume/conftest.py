"""Consumers of one group, on each kind of ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from runtime_tools import CALM

from pares.runtime.consume.consumer import Consumer


@pytest.fixture
def make(url: str) -> Iterator[Callable[..., Consumer]]:
    """Makes consumers of one group; they are closed at the end."""
    made: list[Consumer] = []

    def consumer(topic: Any, name: str = "a", **more: Any) -> Consumer:
        given: dict[str, Any] = {"group": "g", "topics": [topic], "name": name, "session": CALM, "settle": 0.05, **more}
        made.append(Consumer(url, **given))
        return made[-1]

    yield consumer
    for each in made:
        each.close(5)
