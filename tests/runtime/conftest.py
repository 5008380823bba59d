"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime_tools import Crew, Faulty, fresh_url

import pares


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new ledger of each kind in turn."""
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return fresh_url("memory", tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


@pytest.fixture
def crew(memory: str) -> Iterator[Crew]:
    """Members of one group on a memory ledger."""
    crew = Crew(memory)
    yield crew
    crew.close()


@pytest.fixture
def any_crew(url: str) -> Iterator[Crew]:
    """Members of one group on each kind of ledger in turn."""
    crew = Crew(url)
    yield crew
    crew.close()


@pytest.fixture
def faulty(memory: str) -> Iterator[Faulty]:
    """A memory ledger with faults, which members may be given instead of its URL."""
    inner = pares.open(memory)
    yield Faulty(inner)
    inner.close()
