"""URLs as people are shown them."""

from __future__ import annotations

import pytest

from pares.ledger.address import without_readonly


@pytest.mark.parametrize(
    ("opened", "shown"),
    [
        ("nats://h:1/s?readonly=1", "nats://h:1/s"),
        ("nats://h:1/s?timeout=2&readonly=1", "nats://h:1/s?timeout=2"),
        ("nats://h:1/s?readonly=1&timeout=2", "nats://h:1/s?timeout=2"),
        ("nats://h:1/s?readonly=1#topic", "nats://h:1/s#topic"),
        ("nats://h:1/s?readonly=1: there is no stream s", "nats://h:1/s: there is no stream s"),
        ("nats://h:1/s?readonly=12", "nats://h:1/s?readonly=12"),
        ("sqlite:///readonly=1.db", "sqlite:///readonly=1.db"),
        ("nats://h:1/s", "nats://h:1/s"),
    ],
)
def test_nobody_is_shown_a_parameter_that_nobody_typed(opened: str, shown: str) -> None:
    assert without_readonly(opened) == shown
