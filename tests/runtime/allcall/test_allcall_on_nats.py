"""ALLCALL's state machine over real core NATS: a crash, a server that restarts, and a graceful end.

The loop here is the smallest that can drive it: one thread a member, a queue, a bus.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pares.core.allcall.config import Settings
from pares.core.allcall.protocol import AllCall
from pares.core.errors import LedgerUnavailable
from pares.core.events import Close, Closed, Effect, Event, Lead, Publish, Received, Tick, Wake
from pares.dev import Nats
from pares.ledger import open_bus

HANG = 60.0
BEAT, LEASE, SKEW = 50, 400, 20


class Runner(threading.Thread):
    """One member."""

    def __init__(self, nats: Nats, name: str, rank: int) -> None:
        super().__init__(daemon=True)
        self.id = f"{name}~1"
        self.bus = open_bus(f"nats://{nats.bootstrap}", timeout=0.3)
        self.came: queue.SimpleQueue[bytes | Event | None] = queue.SimpleQueue()
        self.bus.listen("g", self.came.put)
        settings = Settings(
            "g", self.id, rank, ("x",), heartbeat_ms=BEAT, lease_ms=LEASE, skew_ms=SKEW, start_offset_ms=rank * 7
        )
        self.core = AllCall(settings, time.monotonic_ns(), time.time_ns() // 1000)
        self.tokens: list[int] = []
        self.unsent = 0
        self.start()

    def run(self) -> None:
        wake = time.monotonic_ns()
        while True:
            try:
                event = self.came.get(timeout=max(0.0, (wake - time.monotonic_ns()) / 1e9))
            except queue.Empty:
                event = Tick(time.time_ns() // 1000)
            if event is None:
                return
            if isinstance(event, bytes):
                event = Received(event, time.time_ns() // 1000)
            for effect in self.core.step(event, time.monotonic_ns()):
                if isinstance(effect, Wake):
                    wake = effect.at
                elif isinstance(effect, Closed):
                    return
                else:
                    self.do(effect)

    def do(self, effect: Effect) -> None:
        if isinstance(effect, Publish):
            try:
                self.bus.publish("g", effect.payload)
            except LedgerUnavailable:
                self.unsent += 1
        elif isinstance(effect, Lead) and effect.why != "renewed":
            self.tokens.append(effect.token)

    def holds(self) -> bool:
        return self.is_alive() and self.core.holds("x", time.monotonic_ns())

    def end(self, how: Event | None) -> None:
        """Gracefully, or from one instant to the next."""
        self.came.put(how)
        self.join(HANG)
        self.bus.close()


@pytest.fixture
def own() -> Iterator[Nats]:
    with Nats(jetstream=False) as nats:
        yield nats


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


@pytest.mark.processes
def test_three_members_on_a_real_server(own: Nats) -> None:
    a, b, c = (Runner(own, name, rank) for rank, name in enumerate("abc"))
    everybody = [a, b, c]

    def leaders() -> list[Runner]:
        return [member for member in everybody if member.holds()]

    until(lambda: leaders() == [a])
    until(lambda: all(member.core.leader("x", time.monotonic_ns()) == a.id for member in everybody))

    a.end(None)
    until(lambda: leaders() == [b] and b.tokens != [])  # it leads by its state first, and then takes note of it
    assert b.tokens[-1] > a.tokens[-1]

    # Without a server each leads on its own side, and nothing of what was said meanwhile comes later.
    own.kill(1)
    until(lambda: sorted(member.id for member in leaders()) == [b.id, c.id])
    own.restart(1)
    until(lambda: len(leaders()) == 1)
    until(lambda: leaders() == [b])
    assert b.unsent > 0
    assert b.core.stale == c.core.stale == 0

    b.end(Close())
    until(lambda: leaders() == [c])
    c.end(Close())
