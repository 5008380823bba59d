"""One run: customers place orders, pollers publish, and some of these are killed or frozen at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from examples.outbox.audit import Counts, count, left
from examples.outbox.shop import Customers, databases

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 120.0
"""Seconds that pollers get, when all faults are over, to publish what is left."""


@dataclass(frozen=True)
class Plan:
    seconds: float = 20.0
    """For which orders are placed and pollers harmed."""
    pollers: int = 4
    shards: int = 6
    session: float = 1.0
    seed: int = 1
    log: str = "postgres"
    """Where the pollers' group has its log: in the orders' own database, or in a file."""


@dataclass
class Outcome:
    kind: str
    counts: Counts
    kills: int = 0
    freezes: int = 0
    refused: int = 0
    """Writes of pollers whose time was over, refused where they would have landed."""
    failures: list[str] = field(default_factory=list[str])


class Poller:
    """A poller's process, and its successors under the same name."""

    def __init__(self, name: str, kind: str, orders: str, topic: str, ledger: str, plan: Plan) -> None:
        self.name = name
        arguments = [kind, name, orders, topic, str(plan.shards), ledger, str(plan.session)]
        self._command = [sys.executable, "-m", "examples.outbox.poller", *arguments]
        self.frozen = False
        self.said: list[str] = []
        self._start()

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            self.said += [line.strip() for line in lines]

    def kill(self, then_start: bool = True) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self.frozen = False
        if then_start:
            self._start()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.frozen = False


def run(kind: str, server: str, plan: Plan) -> Outcome:
    """Raises `TimeoutError` when the pollers do not come to an end with what is left."""
    name = f"outbox_{os.getpid()}_{''.join(filter(str.isalnum, kind))}"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pares-outbox-"))
        orders, topic = stack.enter_context(databases(server, name, plan.shards))
        ledger = f"sqlite:///{folder}/group.db" if plan.log == "sqlite" else orders
        pollers: list[Poller] = []
        stack.callback(lambda: [poller.kill(then_start=False) for poller in pollers])
        for number in range(plan.pollers):
            pollers.append(Poller(f"poller-{number}", kind, orders, topic, ledger, plan))
        customers = Customers(orders, plan.shards, plan.seed)
        try:
            outcome = _harm(kind, pollers, plan)
        finally:
            customers.stop()
        end = time.monotonic() + PATIENCE
        while left(orders):
            if time.monotonic() > end:
                raise TimeoutError(f"{kind}: {left(orders)} events are still in the outbox after {PATIENCE:g} s")
            time.sleep(0.1)
        # A process that has slept through all of this has said by now what it had to say.
        time.sleep(2 * plan.session)
        for poller in pollers:
            poller.kill(then_start=False)
        said = [line for poller in pollers for line in poller.said]
        outcome.refused = said.count("refused")
        outcome.failures = [line for line in said if line != "refused"]
        outcome.counts = count(orders, topic)
        return outcome


def _harm(kind: str, pollers: list[Poller], plan: Plan) -> Outcome:
    """Kills and freezes pollers until the time is over. At least one is always well, and a frozen one stays so for two to four
    sessions: longer than any lock lasts."""
    dice = random.Random(plan.seed)
    outcome = Outcome(kind, Counts(0, 0, 0, 0, 0, 0))
    thaws: dict[Poller, float] = {}
    end = time.monotonic() + plan.seconds
    time.sleep(min(2 * plan.session, plan.seconds / 4))
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.2, 0.6) * plan.session)
        now = time.monotonic()
        for poller in [one for one, at in thaws.items() if at <= now]:
            poller.thaw()
            del thaws[poller]
        poller = dice.choice(pollers)
        if poller.frozen:
            continue
        if dice.random() < 0.25:
            poller.kill()
            outcome.kills += 1
        elif len(thaws) + 1 < len(pollers):
            poller.freeze()
            outcome.freezes += 1
            thaws[poller] = now + dice.uniform(2, 4) * plan.session
    for poller in thaws:
        poller.thaw()
    return outcome
