"""Fixtures of the sources' tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from origins import ORIGINS, Origin

SERVED = ["nats", "kafka"]


@pytest.fixture(params=[*sorted(ORIGINS), *SERVED])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Origin]:
    """Every kind of topic in turn."""
    origin = _made(request.param, request, tmp_path)
    yield origin
    origin.close()


def _made(kind: str, request: pytest.FixtureRequest, folder: Path) -> Origin:
    if kind == "kafka":
        from kafka_origin import InKafka

        return InKafka(folder, request.getfixturevalue("cluster"))
    if kind == "nats":
        from nats_origin import InNats

        return InNats(folder, request.getfixturevalue("server"))
    return ORIGINS[kind](folder)
