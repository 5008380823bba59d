"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime_tools import Crew, Faulty, fresh_url

import pares


@pytest.fixture(autouse=True)
def _no_member_is_left() -> Iterator[None]:
    """A test that fails must not leave members behind for the next one."""
    yield
    for crew in Crew.made:
        crew.close()
    Crew.made.clear()


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
def crew(memory: str) -> Crew:
    """Members of one group on a memory ledger."""
    return Crew(memory)


@pytest.fixture
def any_crew(url: str) -> Crew:
    """Members of one group on each kind of ledger in turn."""
    return Crew(url)


@pytest.fixture
def faulty(memory: str) -> Iterator[Faulty]:
    """A memory ledger with faults, which members may be given instead of its URL."""
    inner = pares.open(memory)
    faulty = Faulty(inner)
    yield faulty
    faulty.heal()
    inner.close()
