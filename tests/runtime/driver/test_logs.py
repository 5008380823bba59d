"""Reading a log in order, and noticing that it is another one than before (R12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import pares
from pares.ledger.memory import drop
from pares.runtime.driver.logs import Logs

MS = 1_000_000


class Follower:
    """Has read nothing and takes all that there is."""

    me, partitions = "me", (0,)

    def attached(self, partition: int) -> bool:
        return True

    def position(self, partition: int) -> int:
        return 0

    def anchor(self, partition: int) -> tuple[int, bytes] | None:
        return None

    def enters(self, partition: int, start: int, end: int) -> Any:
        raise AssertionError("it is attached")

    def heeds_silence(self, partition: int, now: int) -> bool:
        return False

    def reads(
        self, partition: int, entries: list[pares.Entry], read_at: int, began: int, stamps: Sequence[int | None]
    ) -> tuple[Any, int | None]:
        return "read", read_at

    def through(self, partition: int, entries: list[pares.Entry]) -> bool:
        return True

    def jumps(self, partition: int, why: str) -> Any:
        return why


@pytest.mark.parametrize("session_ms", [20, 1000, 60_000])
def test_a_replaced_log_is_seen_within_a_session(memory: str, session_ms: int) -> None:
    """And not looked for earlier: it may cost a round trip."""
    ledger, now = pares.open(memory), 1000 * MS
    logs = Logs(ledger, Follower(), lambda: now, session_ms)
    assert list(logs.new()) == []
    drop(memory.removeprefix("memory://"))
    now += session_ms * MS - 1
    assert list(logs.new()) == []
    now += 1
    assert [event for event, _ in logs.new()] == ["the log was replaced by another one"]
    ledger.close()
