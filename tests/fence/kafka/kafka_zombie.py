"""A leader whose writes are fenced by Kafka, for the tests with real processes; it freezes itself where it is told to.

    python kafka_zombie.py LEDGER FENCE TOPIC NAME WHERE

It leads the role `r` and writes a record in each transaction. `WHERE`: "between" two transactions, "inside" one whose record
the brokers have, "late": after it has looked at the tokens and before `init_transactions`; or "never". There it stops itself
with SIGSTOP, once. When it goes on it writes in the old term's name without another look at it, as a program does that was
stopped between its check and its write. Once refused, it ends: it must not come to lead again, with a right to write. A line
of JSON on its standard output for each thing that happens.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pares
from pares.core.errors import LeadershipLost, LedgerUnavailable, Stale
from pares.fence import KafkaFence
from pares.fence.kafka_writer import Writer

SESSION = 2.0


def say(what: str, **more: Any) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def freeze() -> None:
    say("freezes")
    os.kill(os.getpid(), signal.SIGSTOP)
    say("thawed")


class Leader:
    def __init__(self, fence: KafkaFence, topic: str, name: str, where: str) -> None:
        self.fence, self.topic, self.name, self.where = fence, topic, name, where
        self.number = 0
        self.leads = self.over = False

    def end(self, *_: object) -> None:
        """For a signal. What it raised in the middle of a transaction would come to grief in the client library."""
        self.over = True
        if not self.leads:
            sys.exit(0)

    def freeze_once(self, where: str) -> None:
        if self.where == where:
            self.where = "never"
            freeze()

    def lead(self, term: pares.Term) -> None:
        say("leads", token=term.token)
        frozen = False
        while (term or frozen) and not self.over:
            frozen = False
            self.number += 1
            try:
                with self.fence.transaction(term) as out:
                    value = json.dumps({"member": self.name, "token": term.token, "number": self.number})
                    out.produce(self.topic, value, partition=0)
                    if self.where == "inside" and self.number > 2:
                        writer = out._open()  # pyright: ignore[reportPrivateUsage]
                        writer._producer.flush(10)  # pyright: ignore[reportPrivateUsage]
                        self.freeze_once("inside")
                    elif self.name == "b":
                        time.sleep(0.05)  # so that a transaction of its is open most of the time
            except Stale as stale:
                say("stale", token=stale.token, seen=stale.seen, number=self.number)
                self.over = True
            except LeadershipLost:
                say("lost", number=self.number)
                return
            except LedgerUnavailable as error:
                say("unavailable", number=self.number, unknown=error.unknown, text=str(error))
            else:
                say("committed", number=self.number)
            if self.number > 2:
                before = self.where
                self.freeze_once("between")
                frozen = before != self.where


def main() -> None:
    ledger, fence, topic, name, where = sys.argv[1:]
    leader = Leader(KafkaFence(fence, group="g"), topic, name, where)
    signal.signal(signal.SIGTERM, leader.end)
    first = Writer.init

    def init(self: Writer, look: Callable[[], None]) -> None:
        leader.freeze_once("late")
        first(self, look)

    Writer.init = init  # the one place where nothing of the user's runs
    with pares.Member(ledger, group="g", roles=["r"], name=name, session=SESSION, settle=60.0) as me:
        say("ready")
        for term in me.terms("r"):
            leader.leads = True
            leader.lead(term)
            leader.leads = False
            if leader.over:
                return


if __name__ == "__main__":
    main()
