"""Fixtures of the ledgers' tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_stages import STAGES, SqliteStage, Stage

if TYPE_CHECKING:
    from kafka_stages import Cluster


@pytest.fixture(params=[*sorted(STAGES), "kafka"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Stage]:
    """Every kind of ledger in turn."""
    if request.param == "kafka":
        from kafka_stages import KafkaStage

        stage: Stage = KafkaStage(tmp_path, request.getfixturevalue("cluster"))
    else:
        stage = STAGES[request.param](tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Generator[SqliteStage]:
    """A SQLite ledger."""
    stage = SqliteStage(tmp_path)
    yield stage
    stage.close()


@pytest.fixture(scope="session")
def cluster() -> Generator[Cluster]:
    """A Kafka of one node on which rights can be taken away, and groups have three members at most."""
    from kafka_stages import AUTHORIZER, Cluster

    from kafka_tools import STEADY
    from pares.dev import Kafka

    with Kafka(settings={**AUTHORIZER, **STEADY, "group.max.size": "3"}) as kafka:
        yield Cluster(kafka)
