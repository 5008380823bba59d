"""How long until a consumer has a partition: a free one, a dead worker's by silence, and a dead worker's whose death is proven.

Beside it the same of plain consumer groups with the same session, which stock brokers refuse below 6 s.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import pares
from bench.cases import Row, crash, spread
from bench.consume.crew import Crew, Led
from bench.consume.plan import NAMES, Way
from bench.consume.stage import broker, filled, topic
from bench.on_kafka import url
from pares.dev import Kafka
from pares.ledger import open_source
from pares.runtime.clock import stopwatch

PARTITIONS: Final = 4
CLAIM_MS: Final = 10.0
PROVEN_MS: Final = 20.0
SLACK_MS: Final = 20.0
SESSION: Final = 1.0


class Timed:
    """A ledger that notes when a record of a claim was handed to it."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.claimed: list[int] = []

    def _look(self, payloads: list[bytes]) -> None:
        if any(b'"k":"claim"' in payload for payload in payloads):
            self.claimed.append(stopwatch())

    def append(self, payload: bytes, *rest: Any, **named: Any) -> Any:
        self._look([payload])
        return self._ledger.append(payload, *rest, **named)

    def append_many(self, payloads: list[bytes], *rest: Any, **named: Any) -> Any:
        self._look(payloads)
        return self._ledger.append_many(payloads, *rest, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


class Asked:
    """A source that notes when records were asked for first."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.fetched: list[int] = []

    def fetch(self, *positional: Any, **named: Any) -> Any:
        if not self.fetched:
            self.fetched.append(stopwatch())
        return self._source.fetch(*positional, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def one_claim(ledger: Any, source: Any) -> tuple[float, float]:
    """Milliseconds from a consumer's start, and from its claim, until it asks for the partition's records."""
    timed, asked = Timed(ledger), Asked(source)
    began = stopwatch()
    consumer = pares.Consumer(timed, group=f"claim-{uuid.uuid4().hex[:8]}", topics=[asked], session=SESSION)  # type: ignore[arg-type]
    try:
        if consumer.next_batch(30) is None:
            raise TimeoutError("the consumer has found no record in 30 s")
    finally:
        consumer.close()
    at = asked.fetched[0]
    return (at - began) / 1e6, (at - timed.claimed[0]) / 1e6


def free(kafka: Kafka, rounds: int) -> Iterator[Row]:
    name = filled(kafka, 1, 10, 1)
    starts: list[float] = []
    claims: list[float] = []
    ledger, source = pares.open(url(kafka)), open_source(f"kafka://{kafka.bootstrap}", name)
    for number in range(rounds + 3):
        start, claim = one_claim(ledger, source)
        if number >= 3:  # connections are set up first
            starts.append(start)
            claims.append(claim)
        time.sleep(0.1)
    source.close()
    ledger.close()
    met = statistics.median(claims) <= CLAIM_MS
    yield Row(
        "claim of a free partition, until its records are asked for", spread(claims), f"p50 <= {CLAIM_MS:g} ms", met
    )
    yield Row("start of a consumer, until then", spread(starts))
    for way in ("eager", "cooperative", "next"):
        found = [first_assignment(kafka, name, way) for _ in range(max(3, rounds // 4))]
        yield Row(f"start of a member of a {NAMES[way]}, until it is assigned a partition", spread(found))


def first_assignment(kafka: Kafka, topic: str, way: Way) -> float:
    """Milliseconds from `subscribe` of a new group's only member."""
    from confluent_kafka import Consumer

    from bench.consume.by_group import settings_of
    from bench.consume.plan import Plan

    group = f"claim-{uuid.uuid4().hex[:8]}"
    consumer = Consumer(settings_of(Plan(way, "m0", group, topic, bootstrap=kafka.bootstrap, session=SESSION)))
    assigned: list[int] = []

    def on_assign(_: Consumer, partitions: list[Any]) -> None:
        if partitions:
            assigned.append(stopwatch())

    began, end = stopwatch(), time.monotonic() + 60
    consumer.subscribe([topic], on_assign=on_assign)
    while not assigned:
        consumer.poll(0.01)
        if time.monotonic() > end:
            raise TimeoutError(f"{way}: no assignment in a minute")
    consumer.close()
    return (assigned[0] - began) / 1e6


def killed(crew: Crew, rounds: int) -> list[float]:
    """Milliseconds from SIGKILL of one of two workers until the other asks for the records of the last of its partitions."""
    found: list[float] = []
    for number in range(2):
        crew.add(f"m{number}")
    crew.settled()
    crew.go()
    for number in range(rounds):
        crew.until("shared evenly", lambda: sorted(crew.holds.values()) == [PARTITIONS // 2] * 2)
        crew.settled(PARTITIONS)
        dead = sorted(crew.players)[0]
        owners = {led.partition: led.worker for led in crew.led}
        lost = {partition for partition, worker in owners.items() if worker == dead}
        if len(lost) != PARTITIONS // 2:
            raise TimeoutError(f"{crew.way}: {dead} has {sorted(lost)} by what was told, and {crew.holds} by its count")
        at = crew.lose(dead)
        crew.until("all taken over", partial(is_led, crew, lost, at))
        found.append((max(first_led(crew.led, lost, at).values()) - at) / 1e6)
        crew.add(f"n{number}").say("go")
    return found


def first_led(told: Iterable[Led], partitions: set[int], since: int) -> dict[int, int]:
    """When each of these partitions was begun with for the first time after that."""
    found: dict[int, int] = {}
    for led in sorted(told, key=lambda led: led.at):
        if led.partition in partitions and led.at > since:
            found.setdefault(led.partition, led.at)
    return found


def is_led(crew: Crew, partitions: set[int], since: int) -> bool:
    return first_led(crew.led, partitions, since).keys() == partitions


def takeovers(kafka: Kafka, rounds: int) -> Iterator[Row]:
    name = topic(kafka, PARTITIONS)
    with Crew(kafka, name, "partitions", session=SESSION, first_fetch=True) as crew:
        values = killed(crew, rounds)
    met = statistics.median(values) <= PROVEN_MS
    yield Row("killed worker's partitions, death proven", spread(values), f"p50 <= {PROVEN_MS:g} ms", met)
    yield Row("the same of a plain member's role, death proven", spread(crash(SESSION, True, rounds, url(kafka))))
    most = SESSION * 1000 + SLACK_MS
    with Crew(kafka, name, "partitions", session=SESSION, first_fetch=True, proof=False) as crew:
        values = killed(crew, rounds)
    what = f"killed worker's partitions, by silence, session {SESSION:g} s"
    yield Row(what, spread(values, digits=0), f"p50 <= {most:g} ms", statistics.median(values) <= most)
    for way in ("eager", "cooperative"):
        with Crew(kafka, name, way, session=SESSION, first_fetch=True) as crew:
            values = killed(crew, rounds)
        yield Row(f"the same of a {NAMES[way]}, session {SESSION:g} s", spread(values, digits=0))


def cases(quick: bool) -> Iterator[Row]:
    with broker(quick) as kafka:
        yield from free(kafka, 5 if quick else 40)
        yield from takeovers(kafka, 2 if quick else 20)
