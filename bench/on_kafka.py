"""The cases on a real Kafka, of one node and of three: `python -m bench --ledger kafka`.

Beside them stands the floor: a plain producer and a plain consumer of the same client library, on the same brokers, in turns
with ours. What a figure is worth on another machine, its ratio to the floor says better than its milliseconds.

Each cluster is warmed up first: a broker that serves its first requests takes several times as long for each. Then there are
pauses between one and the next, as there are between the records of members.
"""

from __future__ import annotations

import statistics
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pares
from bench import on_sources
from bench.cases import Row, crash, handed_over, spread, unprovoked
from bench.hosts.cases import takeovers as across_hosts
from bench.hosts.crowd import crowds
from bench.hosts.starts import on_history, starts
from bench.idle import beside, members
from pares.dev import Kafka

BEGIN, END = "<!-- figures on Kafka -->", "<!-- end of figures on Kafka -->"
WARM: Final = 6000
"""Appends before the first measurement."""
MANY: Final = 50
PAUSE: Final = 0.1
SIZE: Final = 150
"""Bytes of a record: a beat has about as many."""
SLACK_MS: Final = 20
HANDOVER_MS: Final = 4

Cases = dict[str, Callable[[bool], Iterator[Row]]]


def cases(options: Namespace) -> Cases:
    """What `--ledger kafka` measures, as its options say."""
    nodes: list[int] = options.nodes or [1, 3]
    rounds: int = 3 if options.quick else options.rounds
    return {
        "roundtrip": lambda _: (row for n in nodes for row in round_trips(n, 4 * rounds)),
        "handover": lambda _: (row for n in nodes for row in handovers(n, rounds)),
        "takeover": lambda _: (row for n in nodes for row in takeovers(n, rounds)),
        "source": lambda quick: sources(nodes[0], quick),
        "false": lambda _: false_takeovers(nodes[-1], 0.1 if options.quick else options.minutes),
    }


def more(options: Namespace) -> Cases:
    """Cases that run only when they are named."""
    rounds: int = 3 if options.quick else options.rounds
    return {
        "idle": lambda quick: idle_members(options.members, options.session, quick),
        "witness": lambda _: across_hosts(rounds),
        "starts": lambda quick: (row for case in (starts, on_history) for row in fresh(case, quick)),
        "crowd": lambda quick: fresh(crowds, quick),
    }


def fresh(case: Callable[[bool, str], Iterator[Row]], quick: bool) -> Iterator[Row]:
    """A case of members, on a broker of its own."""
    with cluster(1, 1 if quick else MANY) as kafka:
        yield from case(quick, url(kafka))


@contextmanager
def cluster(nodes: int, rounds: int = MANY) -> Iterator[Kafka]:
    """A Kafka, each node of which has been at work for a while; for fewer than `MANY` rounds not for so long."""
    with Kafka(nodes=nodes) as kafka:
        # Leaders are dealt out in turn: each node leads one of as many partitions.
        ledger = pares.open(url(kafka, nodes))
        bells = [ledger.bell(partition) for partition in range(nodes)]
        for number in range(WARM * min(rounds, MANY) // MANY):
            ledger.append(b"x" * SIZE, number % nodes)
        for bell in bells:
            if bell is not None:
                bell.close()
        ledger.close()
        yield kafka


def url(kafka: Kafka, partitions: int = 1) -> str:
    """A ledger that nobody has used. Its topic is made here: every broker has heard of it when members come."""
    made = kafka.topic_url(f"bench-{uuid.uuid4().hex[:8]}", partitions=partitions)
    end = time.monotonic() + 60  # behind a topic of a thousand partitions it takes a busy broker that long
    while True:
        try:
            pares.open(made).close()
        except pares.LedgerUnavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)  # the broker that was asked has not heard of it yet
        else:
            return made


def on(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


# Round trips ---------------------------------------------------------------------------------------------------------


class Plain:
    """A producer and a consumer of the client library, as one would write them for the least delay."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        common: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self._topic = topic
        self._producer = Producer({**common, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer({**common, "group.id": "bench", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def round_trip(self, payload: bytes) -> tuple[float, float]:
        """Seconds until a record is acknowledged, and until it is read."""
        offsets: list[int] = []
        began = time.perf_counter()
        self._producer.produce(
            self._topic, payload, partition=0, on_delivery=lambda _, sent: offsets.append(sent.offset() or 0)
        )
        while not offsets:
            self._producer.poll(1.0)
        acknowledged = time.perf_counter()
        self.read_up_to(offsets[0])
        return acknowledged - began, time.perf_counter() - began

    def read_up_to(self, offset: int) -> None:
        while (message := self._consumer.poll(1.0)) is None or message.error() or (message.offset() or 0) < offset:
            pass

    def close(self) -> None:
        self._producer.flush(5)
        self._consumer.close()


def round_trips(nodes: int, rounds: int) -> Iterator[Row]:
    """The floor and ours in turns, on one topic: so the same broker leads both."""
    times: dict[str, list[float]] = {"ack": [], "read": [], "append": [], "back": []}
    with cluster(nodes, rounds) as kafka:
        ledger = pares.open(where := url(kafka))
        bell = ledger.bell()
        plain = Plain(kafka, urlsplit(where).path[1:])
        for number in range(rounds + 20):
            acknowledged, read = plain.round_trip(b"x" * SIZE)
            time.sleep(PAUSE)
            began = time.perf_counter()
            offset = ledger.append(b"x" * SIZE)
            appended = time.perf_counter() - began
            assert ledger.read(offset)[0].offset == offset
            back = time.perf_counter() - began
            time.sleep(PAUSE)
            if number >= 20:  # what comes first sets connections up
                for name, seconds in (("ack", acknowledged), ("read", read), ("append", appended), ("back", back)):
                    times[name].append(seconds * 1000)
        if bell is not None:
            bell.close()
        ledger.close()
        plain.close()
    yield Row(f"{on(nodes)}: plain client, acknowledged", spread(times["ack"], digits=2))
    yield Row(f"{on(nodes)}: plain client, acknowledged and read", spread(times["read"], digits=2))
    yield Row(f"{on(nodes)}: append", spread(times["append"], digits=2))
    yield Row(f"{on(nodes)}: append and read back", spread(times["back"], digits=2))
    ratio = statistics.median(times["back"]) / statistics.median(times["read"])
    yield Row(f"{on(nodes)}: append and read back / plain client", f"{ratio:.2f} x (of medians)")


def sources(nodes: int, quick: bool) -> Iterator[Row]:
    """A topic's source beside a plain consumer."""
    with cluster(nodes, 1 if quick else MANY) as kafka:
        for what, values, unit in on_sources.kafka(kafka, quick):
            yield Row(f"{on(nodes)}: {what}", spread(values, unit))


# Members -------------------------------------------------------------------------------------------------------------


def handovers(nodes: int, rounds: int) -> Iterator[Row]:
    with cluster(nodes, rounds) as kafka:
        found = handed_over(rounds, url(kafka))
    met = statistics.median(found) <= HANDOVER_MS if nodes == 1 else None
    target = f"p50 <= {HANDOVER_MS} ms" if nodes == 1 else ""
    yield Row(f"{on(nodes)}: handover, from hand_over() to the other's belief", spread(found), target, met)


def takeovers(nodes: int, rounds: int) -> Iterator[Row]:
    with cluster(nodes, rounds) as kafka:
        for session in (1.0, 0.3):
            most = session * 1000 + SLACK_MS
            found = crash(session, False, rounds, url(kafka))
            met = statistics.median(found) <= most
            what = f"{on(nodes)}: crash takeover by silence, session {session:g} s"
            yield Row(what, spread(found, digits=0), f"p50 <= {most:.0f} ms", met)


def idle_members(counts: Sequence[int] | None, sessions: Sequence[float] | None, quick: bool) -> Iterator[Row]:
    """On one broker; kazoo's on a server of its own, when Kafka has ended."""
    sent: beside.Sent = {}
    with cluster(1, 1) as kafka:
        for count, session in members.groups(counts, sessions, quick):
            yield from beside.beside_a_group(kafka, url(kafka), count, session, quick=quick, sent=sent)
    yield from beside.kazoo(5.0 if quick else 30.0, sent.get((3, 1.0)))


def false_takeovers(nodes: int, minutes: float) -> Iterator[Row]:
    for loaded in (False, True):
        with cluster(nodes, MANY if minutes >= 1 else 1) as kafka:
            moves = unprovoked(minutes * 60, loaded=loaded, url=url(kafka))
        how = "all cores loaded" if loaded else "idle"
        what = f"{on(nodes)}: takeovers from a live leader, {minutes:g} min, session 1 s, {how}"
        yield Row(what, str(moves), "0", moves == 0)
