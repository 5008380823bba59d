"""A contender: a plain Kafka consumer group; the member that is assigned partition 0 leads.

    python -m bench.peers.kafka_group HOST:PORT NAME SESSION

Classic protocol. Members hear of a rebalance with their next heartbeat, so these come every half second, more often than the
third of a session that is usual; and assignment is cooperative, so that a leader stays one when somebody joins. `poll` is
called all the time. Speaks as `bench.part` says. A planned handover is a `close`, which leaves the group; it joins again
later. One form of asking: `assigned`, a flag that the callbacks of the group keep.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.part import play, tell
from pares.runtime.clock import stopwatch

TOPIC = "bench-group"
POLL = 0.1
REST = 1.0
"""Seconds after a planned departure before it joins again."""
HEARTBEAT = 0.5
PATIENCE = 30.0


class Contender:
    def __init__(self, address: str, name: str, session: float) -> None:
        self._settings = {
            "bootstrap.servers": address,
            "group.id": "bench",
            "client.id": name,
            "session.timeout.ms": int(session * 1000),
            "heartbeat.interval.ms": int(min(HEARTBEAT, session / 3) * 1000),
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "log_level": 0,  # lost sessions are what this is about
        }
        self._leads = False
        self._joined = False
        self._asked = threading.Event()

    def leads(self) -> bool:
        """What the work asks."""
        return self._leads

    def hand(self, role: str) -> None:
        self._asked.set()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if any(partition.partition == 0 for partition in partitions):
            self._leads = True
            tell("lead", "r", stopwatch())
        if not self._joined:
            self._joined = True
            tell("ready", "-", stopwatch())

    def _gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._leads:
            self._leads = False
            tell("lost", "r", stopwatch())

    def work(self) -> None:
        while True:
            self._asked.clear()
            consumer = Consumer(self._settings)
            consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone)
            while not self._asked.is_set():
                consumer.poll(POLL)
            tell("handing", "r", stopwatch())
            consumer.close()
            time.sleep(REST)


def make_topic(address: str) -> None:
    """The first to come makes it."""
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(TOPIC, 1, 1)], operation_timeout=PATIENCE)
    try:
        made[TOPIC].result(PATIENCE)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def main() -> None:
    address, name, session = sys.argv[1:4]
    make_topic(address)
    contender = Contender(address, name, float(session))
    threading.Thread(target=contender.work, daemon=True).start()
    play({"assigned": contender.leads}, {"hand": contender.hand})


if __name__ == "__main__":
    main()
