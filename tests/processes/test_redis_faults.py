"""Real processes on one Redis that is stopped, killed, frozen and cut off, while leaders are killed and frozen: no promise
is broken as long as the server keeps what it has acknowledged. (What happens when it doesn't:
tests/ledger/redis/test_redis_failover.py.)

`PARES_ROUNDS` says how many faults there are; 8 unless it does."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from process_troupe import Troupe, no_promise_is_broken

from pares.dev import Redis

pytestmark = [pytest.mark.processes, pytest.mark.timeout(3600)]

ROUNDS: Final = int(os.environ.get("PARES_ROUNDS", "8"))
HANG: Final = 60.0
SESSION: Final = 0.5


def test_a_server_in_trouble(redis_server: Redis, tmp_path: Path) -> None:
    """`redis_server` only says that this needs one: it is not the one that is harmed."""
    with Redis() as server:
        troupe = Troupe(tmp_path, server.url, SESSION)
        chance = random.Random(4)

        def awhile() -> None:
            time.sleep(chance.uniform(0.0, 2.5 * SESSION))

        def stopped() -> None:
            server.stop(1)
            awhile()
            server.restart(1, timeout=HANG)

        def killed() -> None:
            server.kill(1)
            awhile()
            server.restart(1, timeout=HANG)

        def frozen() -> None:
            server.freeze(1)
            awhile()
            server.thaw(1)

        def cut_off() -> None:
            for kind in ("normal", "pubsub"):
                server.ask("CLIENT", "KILL", "TYPE", kind)

        def restarted_beside_a_frozen_leader() -> None:
            worker, _ = troupe.freeze_a_leader()
            server.restart(1, timeout=HANG)
            awhile()
            worker.thaw()

        def restarted_as_a_leader_dies() -> None:
            worker = troupe.a_leader()
            server.kill(1)
            worker.kill()
            troupe.bury(worker)
            server.restart(1, timeout=HANG)
            troupe.enlist()

        faults: list[Callable[[], None]] = [
            stopped,
            killed,
            frozen,
            cut_off,
            restarted_beside_a_frozen_leader,
            restarted_as_a_leader_dies,
        ]
        try:
            troupe.begin()
            for number in range(ROUNDS):
                faults[number % len(faults)]()
                troupe.until_all_led()
            no_promise_is_broken(troupe)
        finally:
            troupe.end()
