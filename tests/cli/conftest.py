"""Fixtures of the commands' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli_log import OPENED


@pytest.fixture(autouse=True)
def _closes() -> Iterator[None]:
    """Whatever logs a test wrote by hand."""
    yield
    while OPENED:
        OPENED.pop().close()
