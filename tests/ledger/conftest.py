"""Fixtures of the ledgers' tests."""

from collections.abc import Generator
from pathlib import Path

import pytest
from ledger_stages import STAGES, SqliteStage, Stage


@pytest.fixture(params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Stage]:
    """Every kind of ledger in turn."""
    stage = STAGES[request.param](tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Generator[SqliteStage]:
    """A SQLite ledger."""
    stage = SqliteStage(tmp_path)
    yield stage
    stage.close()
