"""What several of the kernel's tests need."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from pares.core.wire import world


@pytest.fixture(scope="module")
def short_memory() -> Iterator[None]:
    """Forgetting after as few records as a short history has; the rule is the same."""
    with patch.object(world, "FORGET", 40):
        yield
