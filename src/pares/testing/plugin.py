"""A pytest plugin, loaded wherever pares is installed: the fixtures `pares_stage` and `pares_member`.

It must cost little where it is not used, so it loads neither simulator nor double before a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pares.testing.fake import FakeMember
    from pares.testing.stage import Stage

_STAGES = "_pares_stages"


@pytest.fixture
def pares_stage(request: pytest.FixtureRequest) -> Stage:
    """An empty `pares.testing.Stage`. When the test fails, its trace is shown with the failure."""
    from pares.testing.stage import Stage

    stage = Stage()
    setattr(request.node, _STAGES, stage)
    return stage


@pytest.fixture
def pares_member() -> Iterator[FakeMember]:
    """A `pares.testing.FakeMember` that may lead any role, closed at the end of the test."""
    from pares.testing.fake import FakeMember

    member = FakeMember()
    yield member
    member.close(timeout=1.0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Adds the trace of the stage to the report of a test that failed."""
    outcome: Any = yield
    report = outcome.get_result()
    stage = getattr(item, _STAGES, None)
    if report.when == "call" and report.failed and stage is not None:
        report.sections.append(("pares stage", "\n".join(stage.trace)))
