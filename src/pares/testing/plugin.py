"""A pytest plugin, loaded wherever pares is installed: the fixtures `pares_stage` and `pares_member`.

It must cost little where it is not used, so it loads neither simulator nor double before a fixture is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pares.testing import FakeMember, Stage

SHOWN: Final = 300
"""Lines of a trace that are shown with a failure."""


@pytest.fixture
def pares_stage() -> Iterator[Stage]:
    """An empty `pares.testing.Stage`, closed at the end of the test."""
    from pares.testing import Stage

    with Stage() as stage:
        yield stage


@pytest.fixture
def pares_member() -> Iterator[FakeMember]:
    """A `pares.testing.FakeMember` that may lead any role, closed at the end of the test."""
    from pares.testing import FakeMember

    member = FakeMember()
    yield member
    member.close(timeout=1.0)


def _stages() -> list[Stage]:
    module = sys.modules.get("pares.testing.stage")
    return [] if module is None else [*module.failed, *module.opened]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Adds the traces of the stages that are open to the report of a test that failed."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        for stage in dict.fromkeys(_stages()):
            title = f"pares stage, seed {stage.seed!r} (the last of {len(stage.trace)} lines)"
            report.sections.append((title, "\n".join(stage.trace[-SHOWN:])))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Closes what the test itself has opened and left open: after its report is made, so that it has the traces."""
    before = _stages()
    if before:
        sys.modules["pares.testing.stage"].failed.clear()
    yield
    for stage in _stages():
        if stage not in before:
            item.addfinalizer(stage.close)
