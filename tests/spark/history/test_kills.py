"""A history whose updates are killed by SIGKILL; `python -m tests.spark.history.kills` plays 200 rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.history.kills import play

from pares.spark.histories.delta import Format

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_killed_at_a_random_moment_and_done_again_the_tables_are_the_same(tmp_path: Path, format: Format) -> None:
    struck, wrong = play(12, 1, tmp_path, format)
    assert wrong == []
    assert sum(struck.values()) == 12
    assert not [said for said in struck if said.startswith("ended") and said != "ended 0"]
    assert set(struck) - {"ended 0", "before it wrote anything"}, "no kill struck while it worked"
