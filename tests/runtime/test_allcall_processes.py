"""ALLCALL between real processes of one host, over a SQLite log: frozen, thawed, stopped, killed."""

from __future__ import annotations

import pytest
from allcall_players import check_kill_freeze_and_end
from allcall_tools import TIMES


@pytest.mark.processes
def test_kill_freeze_and_a_graceful_end(sqlite: str) -> None:
    check_kill_freeze_and_end(sqlite, TIMES)
