"""A consumer's user: a program with a consumer, and tasks that handle what it gives out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pares.core.errors import ParesError
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer
from pares.sim.members.consume.topic import SimSource
from pares.sim.members.users import User

if TYPE_CHECKING:
    from pares.sim.members.consume.ground import ConsumeGround
    from pares.sim.world.process import Process


class ConsumerUser(User):
    stage: ConsumeGround  # pyright: ignore[reportIncompatibleVariableOverride]

    def main(self, process: Process) -> None:
        stage, host = self.stage, process.host
        plan, user = stage.plan, cast(Any, self)
        self.closing = host.flag()
        self.ledger = stage.medium(process, user)
        place = self.place % plan.members
        consumer = Consumer(
            self.ledger,
            group=self.group,
            topics=[SimSource(stage.topic, process, plan.unreadable)],
            delivery=plan.delivery,
            claim="topics" if plan.whole else "partitions",
            name=self.member_name,
            host=self.machine,
            batch=plan.batch,
            max_claims=plan.most[place] or None if plan.most else None,
            greedy=plan.greedy[place] if plan.greedy else False,
            barrier_timeout=plan.barrier_timeout,
            **stage.settings(user),
        )
        self.member = consumer._member  # pyright: ignore[reportPrivateUsage]
        for number in range(plan.workers):
            host.spawn(lambda: self._work(process, consumer), f"worker {number}")
        self.closing.wait()
        consumer.close(self.close_within())
        host.sleep(self.rng.choice((0, 1, 4)) * self.session_ms / 1000)  # a program may go on without its consumer

    def _work(self, process: Process, consumer: Consumer) -> None:
        """As the documents have it, but that it may have several batches in its hands, and is done with them in any order."""
        held: list[Batch] = []
        plan = self.stage.plan
        try:
            while consumer.state in ("joining", "live"):
                for batch in consumer.batches(timeout=plan.session_ms / 1000):
                    self._given(process, batch)
                    process.host.sleep(self.step_length())
                    held.append(batch)
                    if len(held) >= plan.out:
                        self._is_done(process, consumer, held.pop(self.rng.randrange(len(held))))
                while held:  # nothing comes for a while: it is done with what it has
                    self._is_done(process, consumer, held.pop(self.rng.randrange(len(held))))
        except ParesError as error:
            self.stage.world.told(process, f"its work ends: {error!r}")

    def _given(self, process: Process, batch: Batch) -> None:
        for promise in self.stage.delivered:
            promise.given(process, batch)

    def _is_done(self, process: Process, consumer: Consumer, batch: Any) -> None:
        for promise in self.stage.delivered:
            promise.done(process, batch)
        batch.done()
        if self.stage.plan.flushes and self.rng.random() < self.stage.plan.flushes:
            consumer.flush()
