"""Work never runs outside its term (R5): it begins when the barrier has returned from `Acquired`; and, in exclusive mode, a
partition that is given up by plan is yielded, and led by another, only when work and barrier have come to their end, or have
had all the time that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pares.core.reasons import PLANNED, REVOKED, ROLE_ADDED, ROLE_REMOVED, SUPERSEDED
from pares.core.wire.neli_records import Yield
from pares.sim.engine import MS
from pares.sim.members.neli.judge import decoded
from pares.sim.members.promises.work import Key, Running, Work
from pares.sim.members.sight import Held

if TYPE_CHECKING:
    from pares.sim.members.neli.ground import NeliGround
    from pares.sim.world.process import Process

BY_PLAN: Final = (PLANNED | {REVOKED, ROLE_ADDED}) - {ROLE_REMOVED}
"""A role that is removed is led by nobody, and its tenure goes on."""


class NeliWork(Work):
    stage: NeliGround

    def __init__(self, stage: NeliGround) -> None:
        super().__init__(stage)
        self.planned: dict[tuple[Process, Key], None] = {}
        """Terms that were ended by plan."""
        self.partitions: dict[tuple[Process, Key], int] = {}
        """By which partition each term was led: tokens of two partitions may be the same."""
        stage.sight.began.append(self._began)
        self.world.on_sent.append(self._sent)

    def _ended(self, held: Held) -> None:
        super()._ended(held)
        key = (held.process, (held.seat[1], held.seat[2], held.token))
        if key in self.ending and held.term._why in BY_PLAN:  # pyright: ignore[reportPrivateUsage]
            self.planned[key] = None

    def _sent(self, process: Process, ledger: object, partition: int, payloads: Sequence[bytes]) -> None:
        """By a task: what is handed over for appending."""
        running = [
            r
            for r in self.running
            if r.process is process
            and (process, r.key) in self.planned
            and self.partitions.get((process, r.key)) == partition
        ]
        if not running or not self.stage.plan.law.exclusive or self.stage.between_logs():
            return
        for payload in payloads:
            record = decoded(payload)
            if isinstance(record, Yield) and record.led:
                for one in running:
                    if one.key[2] == record.term:
                        self._yields(one, record)

    def _yields(self, one: Running, record: Yield) -> None:
        """Its member says that the term is over, while it runs."""
        ending = (one.process, one.key)
        if record.why.startswith(SUPERSEDED):
            # It has read another member's announcement while the barrier ran: the group has gone on without it (N3), and
            # nothing waits any longer (N5).
            self.planned.pop(ending, None)
        elif record.why in BY_PLAN:
            waited = one.process.reading() - self.ending[ending][0]
            if waited < self.stage.plan.barrier_timeout_ns - MS:
                self.fail(
                    f"{record.m} yields {one.key} while {one.what} runs, {waited / 1e6:.3f} ms after the term's end"
                )

    def _began(self, held: Held) -> None:
        """Another leads: for as long as the lease lasted that was in force at the end, work of that term may run on."""
        if not self.stage.plan.law.exclusive or not self.stage.judged(held):
            return
        role, seat = held.seat[1:]
        self.partitions[held.process, (role, seat, held.token)] = held.member.partition(role, seat)
        if self.stage.between_logs():
            return
        for one in self.running:
            ending = (one.process, one.key)
            if one.process is held.process or one.key[:2] != held.seat[1:] or ending not in self.planned:
                continue
            since, lease = self.ending[ending]
            now = one.process.reading()
            if now < lease and now - since < self.stage.plan.barrier_timeout_ns - MS:
                raise self.broken(f"{held} begins while {one.what} of {one.process.name} runs for {one.key}")
