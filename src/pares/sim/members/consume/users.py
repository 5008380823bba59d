"""A consumer's user: a program with a consumer, and tasks that handle what it gives out."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, cast

from pares.core.errors import ParesError, Stale
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer
from pares.runtime.consume.item import Item
from pares.sim.members.consume.topic import SimLetters, SimSource
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
        keys = plan.divided[place] if plan.divided else 0
        consumer = Consumer(
            self.ledger,
            group=self.group,
            topics=[SimSource(stage.topic, process, plan.unreadable)],
            delivery=plan.delivery,
            claim="keys" if keys else "ranges" if plan.ranges else "topics" if plan.whole else "partitions",
            slots=keys or plan.slots,
            name=self.member_name,
            host=self.machine,
            batch=plan.batch,
            ahead=plan.ahead,
            max_claims=plan.most[place] or None if plan.most else None,
            greedy=plan.greedy[place] if plan.greedy else False,
            barrier_timeout=plan.barrier_timeout,
            order=plan.order,
            concurrency=plan.concurrency,
            retries=plan.retries,
            backoff=max(0.01, plan.session_ms / 10_000),
            dead_letter=SimLetters(process, lambda partition, offset: self._parked(partition, offset)),
            **stage.settings(user),
        )
        self.member = consumer._member  # pyright: ignore[reportPrivateUsage]
        work = self._work_one_by_one if plan.one_by_one else self._work
        for number in range(max(plan.workers, plan.concurrency) if plan.one_by_one else plan.workers):
            host.spawn(lambda: work(process, consumer), f"worker {number}")
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

    def _work_one_by_one(self, process: Process, consumer: Consumer) -> None:
        """The same for records: some fail, some are given up."""
        plan = self.stage.plan
        try:
            while consumer.state in ("joining", "live"):
                for item in consumer.records(timeout=plan.session_ms / 1000):
                    self._handle(process, consumer, item)
        except ParesError as error:
            self.stage.world.told(process, f"its work ends: {error!r}")

    def _handle(self, process: Process, consumer: Consumer, item: Item) -> None:
        plan, chance = self.stage.plan, self.rng.random()
        self._given(process, item)
        process.host.sleep(self.step_length())
        again = chance < plan.fails and not self.stage.calm and plan.delivery == "at-least-once"
        if not again:
            for promise in self.stage.delivered:
                promise.ends(process, item)
        if again:
            for promise in self.stage.delivered:
                promise.again(process, item)
            item.retry(None if self.rng.random() < 0.5 else self.rng.random() * plan.session_ms / 1000)
        elif chance < plan.fails + plan.rejects:
            item.reject("as it happens")
        else:
            self._is_done(process, consumer, item)

    def _parked(self, partition: int, offset: int) -> None:
        for promise in self.stage.delivered:
            promise.parked(partition, offset)

    def _given(self, process: Process, batch: Batch | Item) -> None:
        for promise in self.stage.delivered:
            promise.given(process, batch)

    def _is_done(self, process: Process, consumer: Consumer, batch: Any) -> None:
        if self.stage.plan.transactions:
            self._commits(process, consumer, batch)
        else:
            self._has_done(process, batch)
            batch.done()
        if self.stage.plan.flushes and self.rng.random() < self.stage.plan.flushes:
            consumer.flush()

    def _has_done(self, process: Process, batch: Batch | Item) -> None:
        for promise in self.stage.delivered:
            promise.done(process, batch)

    def _commits(self, process: Process, consumer: Consumer, batch: Batch) -> None:
        """As the documents have it: a transaction that failed is tried again, as long as the batch may be this consumer's."""
        database = self.stage.database
        while not batch.lost and consumer.state in ("joining", "live"):
            try:
                with (
                    database.session(process, lambda: self._has_done(process, batch)) as session,
                    batch.transaction(session, database.fence) as records,
                ):
                    for record in records:
                        session.execute('INSERT INTO "rows" VALUES (?, ?)', (batch.partition, record.offset))
                return
            except Stale:
                return
            except sqlite3.Error as error:
                self.stage.world.told(process, f"its transaction failed: {error}")
                for promise in self.stage.delivered:
                    promise.rolled_back(process, batch)
                process.host.sleep(self.rng.random() * self.stage.plan.session_ms / 1000)
