"""A planned handover waits for the work of its term, and for the barrier, up to `barrier_timeout` (R5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pares.core.reasons import UNPLANNED
from pares.core.wire.records import BadRecord, Leave, Release, Transfer, decode
from pares.sim.engine import MS
from pares.sim.members.promises.work import Key, Running, Work

if TYPE_CHECKING:
    from pares.sim.members.claims.ground import Ground
    from pares.sim.world.process import Process


class Handovers(Work):
    def __init__(self, stage: Ground) -> None:
        super().__init__(stage)
        self.judge = stage.judge
        self.world.on_sent.append(self._sent)

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task: what is handed over for appending."""
        running = [r for r in self.running if r.process is process]
        if not running:
            return
        for payload in payloads:
            try:
                record = decode(payload)
            except BadRecord:
                continue
            if isinstance(record, Release | Transfer) and record.why not in UNPLANNED:
                self._gives_up(process, record.m, (*record.seat, record.token), running)
            elif isinstance(record, Leave):
                for key in {r.key for r in running}:
                    self._gives_up(process, record.m, key, running)

    def _gives_up(self, process: Process, member: str, key: Key, running: list[Running]) -> None:
        """By plan: so what runs in that term must be over, unless it has had all the time there is."""
        since, lease = self.ending.get((process, key), (None, 0))
        state = self.judge.judge.world.seats.get(key[:2])
        if since is None or state is None or (state.holder, state.token) != (member, key[2]):
            return  # it ended by no plan, or the seat is another's already
        if process.reading() >= lease:
            return  # its lease has run out meanwhile: anybody could claim the seat, whatever still runs
        waited = process.reading() - since
        if waited >= self.stage.plan.barrier_timeout_ns - MS:
            return
        for one in running:
            if one.key == key:
                self.fail(f"{member} gives {key} up while {one.what} runs, {waited / 1e6:.3f} ms after the term's end")
