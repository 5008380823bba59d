"""Reading a log in order, and noticing that it is another one than before (R12)."""

from __future__ import annotations

from typing import Any

import pytest

import pares
from pares.ledger import Capabilities
from pares.ledger.memory import drop
from pares.runtime.driver.logs import Logs, Times
from pares.sim.engine import SECOND
from pares.sim.world.logs.ledger import SimLedger
from pares.sim.world.logs.link import CALM
from pares.sim.world.process import Process
from pares.sim.world.simulation import World

MS = 1_000_000


class Follower:
    """Has read nothing and takes all that there is."""

    me, partitions = "me", (0,)
    whole_will_do = False

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
        self, partition: int, entries: list[pares.Entry], read_at: int, began: int, times: Times
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


class Reads(Follower):
    """Goes on from what it has read last."""

    def __init__(self) -> None:
        self.last: tuple[int, bytes] | None = None

    def position(self, partition: int) -> int:
        return 0 if self.last is None else self.last[0] + 1

    def anchor(self, partition: int) -> tuple[int, bytes] | None:
        return self.last

    def reads(
        self, partition: int, entries: list[pares.Entry], read_at: int, began: int, times: Times
    ) -> tuple[Any, int | None]:
        self.last = (entries[-1].offset, entries[-1].payload)
        return [entry.payload for entry in entries], read_at


def in_a_log_that_loses(*, anchors: bool, still: float) -> list[Any]:
    """What a reader of b"one", b"two" is told that stands still for so many seconds, while the log loses b"two" and goes on
    with b"other", b"more"."""
    told: list[Any] = []

    def main(process: Process) -> None:
        log = process.world.log()
        ledger = SimLedger(process, log, CALM)
        ledger.capabilities = Capabilities(anchors=anchors)
        logs = Logs(ledger, Reads(), process.host.now, 1000)
        ledger.append_many([b"one", b"two"])
        told.extend(event for event, _ in logs.new())
        log.lose_tail(1)
        log.partitions[0].append([b"other", b"more"], process.world.now)
        process.host.sleep(still)
        told.extend(event for event, _ in logs.new())

    with World(1).playing() as world:
        world.start("a", main)
        world.run(60 * SECOND)
    return told


LOST = "entry 1 of partition 0 is not what it was: it is another log, or it lost its tail"


@pytest.mark.parametrize("still", [0.01, 0.6])
def test_what_follows_a_lost_entry_is_not_read_on(still: float) -> None:
    assert in_a_log_that_loses(anchors=True, still=still) == [[b"one", b"two"], LOST]


def test_a_reader_that_stood_still_asks_for_its_last_entry_also_where_that_takes_a_round_trip() -> None:
    assert in_a_log_that_loses(anchors=False, still=0.6)[:2] == [[b"one", b"two"], LOST]
