"""Fixtures of the tests of what `pares run` is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime_tools import fresh_url


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return fresh_url("memory", tmp_path)
