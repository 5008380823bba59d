"""What can happen to a Kafka ledger while it is in use: retention, brokers that stand still, forks."""

from __future__ import annotations

import gc
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest
from kafka_stages import Cluster, opened
from log_tools import HANG, PATIENT, append_again, meddling, open_again, payloads, read_all, until

import pares.ledger
from kafka_tools import STEADY
from pares.core.errors import LedgerGap, LedgerUnavailable
from pares.dev import Kafka
from pares.ledger import Noting, as_bus, window
from pares.ledger.address import Options
from pares.ledger.kafka import tail
from pares.ledger.kafka.seek import Seeker
from pares.ledger.kafka.settings import take
from pares.ledger.kafka.tail import FRESH, WAIT_MS
from pares.ledger.kafka.topic import Topics
from pares.ledger.registry import parse


def test_what_retention_took_is_a_gap(cluster: Cluster, topic: str) -> None:
    ledger, other = opened(cluster, topic, timeout=PATIENT), opened(cluster, topic, timeout=PATIENT)
    bell = ledger.bell()
    ledger.append_many([b"x"] * 100)
    assert len(ledger.read(0, timeout=HANG, max_records=10)) == 10
    other.trim(90)
    late = opened(cluster, topic, timeout=PATIENT)
    with pytest.raises(LedgerGap, match="starts at 90"):
        late.read(10)
    assert [entry.offset for entry in read_all(late, 90)] == list(range(90, 100))
    assert [entry.offset for entry in read_all(ledger, 95)] == list(range(95, 100))
    assert bell is not None
    bell.close()
    for one in (ledger, other, late):
        one.close()


def test_one_append_is_one_batch(cluster: Cluster, topic: str) -> None:
    ledger, other = opened(cluster, topic, timeout=PATIENT), opened(cluster, topic, timeout=PATIENT)
    with meddling(other):
        for number in range(10):
            offsets = ledger.append_many([b"%d" % number] * 3000)
            assert offsets == list(range(offsets[0], offsets[0] + 3000))
    ledger.close()
    other.close()


def test_asking_who_a_topic_is_leaves_nothing_behind(cluster: Cluster, topic: str) -> None:
    """confluent-kafka keeps one reference to each id that it hands out."""

    def ids() -> int:
        gc.collect()
        return sum(type(it).__name__ == "Uuid" for it in gc.get_objects())

    opened(cluster, topic, timeout=PATIENT).close()
    address = parse(f"kafka://{cluster.bootstrap}/{topic}")
    topics = Topics(take(address, Options(address.url, address.query)), address.url)
    topics.connect()
    before = ids()
    found = {topics.describe(topic) for _ in range(100)}
    assert len(found) == 1
    assert found != {None}
    assert ids() <= before
    topics.close()


def test_looking_back_does_not_move_the_tail(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic, timeout=PATIENT)
    for at in range(0, 20_000, 10_000):
        ledger.append_many([b"%d" % number for number in range(at, at + 10_000)])
    bell = ledger.bell()
    for number in range(20_000, 20_050):
        assert ledger.append(b"%d" % number) == number
        assert [entry.offset for entry in ledger.read(number)] == [number]
        assert ledger.read(number * 7 % 20_000, max_records=1)[0].payload == b"%d" % (number * 7 % 20_000)
    assert bell is not None
    bell.close()
    ledger.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions whose leaders were asked for their bounds, in that order."""
    asked: list[int] = []
    ends = Seeker.ends

    def asking(seeker: Seeker, topic: str, partition: int, timeout: float | None = None) -> tuple[int, int]:
        asked.append(partition)
        return ends(seeker, topic, partition, timeout)

    monkeypatch.setattr(Seeker, "ends", asking)
    return asked


def test_who_is_told_asks_for_nothing(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    # A reader that hears nothing for so long asks, and is right to: here nobody is to take a slow machine for silence.
    monkeypatch.setattr(tail, "FRESH", HANG)
    monkeypatch.setattr(window, "NEAR", HANG)
    ledger, other = opened(cluster, topic, timeout=PATIENT), opened(cluster, topic, timeout=PATIENT)
    bell = ledger.bell()
    other.append(b"first")
    assert ledger.read(0, timeout=HANG)[0].payload == b"first"
    asked.clear()
    for number in range(1, 10):
        writer = ledger if number % 2 else other
        writer.append(b"%d" % number)
        assert ledger.read(number, timeout=HANG)[0].payload == b"%d" % number
        time.sleep(0.1)  # as long as a member waits for a bell
        assert ledger.read(number + 1) == []
    assert asked == [], "neither its own appends nor another's make a reader ask the partition's leader"
    assert bell is not None
    bell.close()
    ledger.close()
    other.close()


def test_who_hears_nothing_asks_once_in_a_while(cluster: Cluster, topic: str, asked: list[int]) -> None:
    ledger = opened(cluster, topic, timeout=PATIENT)
    bell = ledger.bell()
    ledger.append(b"x")
    assert ledger.read(0, timeout=HANG)[0].payload == b"x"
    time.sleep(WAIT_MS / 1000 + 1.5 * FRESH)  # the broker may say once more that there is nothing
    asked.clear()
    began = time.monotonic()
    for _ in range(10):
        assert ledger.read(1) == []
    often = 1 + int((time.monotonic() - began) / FRESH)
    assert 1 <= len(asked) <= often, "silence makes a reader ask, once for a while"
    assert bell is not None
    bell.close()
    ledger.close()


def test_what_the_leader_brings_says_whether_anything_follows(cluster: Cluster, topic: str) -> None:
    ledger = opened(cluster, topic, timeout=PATIENT)
    address = parse(f"kafka://{cluster.bootstrap}/{topic}")
    seeker = Seeker(take(address, Options(address.url, address.query)), address.url)
    ledger.append_many([b"a", b"b"])
    for _ in range(20):
        news = seeker.news(topic, 0, 0, 2)
        assert news is not None
        assert [entry.payload for entry in news.entries] == [b"a", b"b"]
        assert news.at_end
    news = seeker.news(topic, 0, 2, 2)
    assert news is not None
    assert (news.entries, news.at_end) == ([], True)
    large = b"x" * 100_000
    ledger.append_many([large])
    ledger.append_many([large])
    ledger.append_many([large])
    ledger.append_many([large])
    news = seeker.news(topic, 0, 2, 3)
    assert news is not None
    assert news.at_end == (news.entries[-1].offset == 5)
    seeker.close()
    ledger.close()


def test_a_thread_fetches_nothing_for_readers_that_have_not_come(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all of a hundred members write, readers that are called by each append come for many at once."""
    ledger, other = opened(cluster, topic, timeout=PATIENT), opened(cluster, topic, timeout=PATIENT)
    fetched: list[int] = []
    plain = tail.Follower._sort  # pyright: ignore[reportPrivateUsage]

    def sort(self: tail.Follower, consumer: object, messages: list[object]) -> None:
        fetched.append(len(messages))
        plain(self, consumer, messages)  # type: ignore[arg-type]

    monkeypatch.setattr(tail.Follower, "_sort", sort)
    bell = ledger.bell()
    assert bell is not None
    window_ = ledger._shared.window(topic, 0)  # type: ignore[attr-defined]
    for handle in (ledger, other):
        cast(Noting, handle).attend(0, handle, closely=False)
    at = 0
    while not window_.lazy:
        at = other.append_many([b"beat"], urgent=False)[-1] + 1
        other.read(at)
        ledger.read(at)
        time.sleep(0.02)
    call = select.poll()
    call.register(bell.fileno(), select.POLLIN)

    def rings() -> bool:
        return bool(call.poll(HANG * 1000))

    for _ in range(3):
        bell.clear()
        other.append(b"urgent")
        assert rings()
        fetched.clear()
        for _ in range(30):
            at = other.append(b"urgent")
        time.sleep(0.3)
        assert len(fetched) <= 1, "it was called already"
        bell.clear()
        assert rings(), "and is called again, for what came since"
    assert ledger.read(at, timeout=HANG)[0].offset == at
    bell.close()
    ledger.close()
    other.close()


def test_the_bus(cluster: Cluster, topic: str) -> None:
    one, two = opened(cluster, topic, timeout=PATIENT), opened(cluster, topic, timeout=PATIENT)
    heard: list[bytes] = []
    stop = as_bus(two).listen("news", heard.append)
    for number in range(20):
        as_bus(one).publish("news", b"%d" % number)
    until(lambda: len(heard) == 20)
    assert heard == [b"%d" % number for number in range(20)]
    stop()
    one.close()
    two.close()


# Brokers that stand still --------------------------------------------------------------------------------------------


def test_a_broker_that_stands_still() -> None:
    with Kafka(settings=STEADY) as kafka:  # or its partitions are without a leader for a moment when it goes on
        sure = pares.ledger.open(kafka.topic_url("t", timeout=PATIENT))
        ledger = open_again(lambda: pares.ledger.open(kafka.topic_url("t", timeout=1)))
        bell = ledger.bell()
        append_again(ledger, b"before")
        before = payloads(sure)
        kafka.freeze(1)
        unknown: list[bool] = []
        for number in range(4):
            with pytest.raises(LedgerUnavailable) as caught:
                ledger.append(b"lost %d" % number)
            unknown.append(caught.value.unknown)
        # Only the first may still land: the others were not sent, as nobody answered.
        assert unknown == [True, False, False, False]
        for use in (ledger.end, lambda: ledger.read(len(before)), lambda: ledger.trim(1)):
            with pytest.raises(LedgerUnavailable):
                use()
        kafka.thaw(1)
        after = append_again(ledger, b"after")
        time.sleep(3.0)
        found = payloads(sure, timeout=HANG)
        # What was sent before it stood still came when it went on, or never; nothing came after the next append.
        assert found[: len(before)] == before
        assert found[len(before) : after] in ([], [b"lost 0"], [b"after"], [b"lost 0", b"after"])
        assert found[after:] == [b"after"]
        assert bell is not None
        bell.close()
        ledger.close()
        sure.close()


def test_an_outage_leaves_no_clients_behind() -> None:
    """What asks in vain is replaced, each time; nobody must go on looking for brokers in its stead."""

    def clients() -> int:
        names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
        return names.count("rdk:main\n")

    with Kafka() as kafka:
        ledger = open_again(lambda: pares.ledger.open(kafka.topic_url("t", timeout="0.2")))
        append_again(ledger, b"x")
        kafka.kill(1)
        counts: list[int] = []
        for _ in range(12):
            for use in (ledger.end, lambda: ledger.append(b"lost"), lambda: ledger.read(0)):
                with pytest.raises(LedgerUnavailable):
                    use()
            counts.append(clients())
        assert max(counts[-4:]) <= max(counts[:4])
        ledger.close()


def test_an_outage_costs_next_to_nothing() -> None:
    """A client that waits for brokers waits, and does not spin: it may be brokers of the same host that are to come back."""
    with Kafka() as kafka:
        ledger = open_again(lambda: pares.ledger.open(kafka.topic_url("t", timeout="0.5")))
        append_again(ledger, b"x")
        kafka.kill(1)
        used, began = time.process_time(), time.monotonic()
        while time.monotonic() < began + 5:
            for use in (ledger.identity, ledger.end):
                with pytest.raises(LedgerUnavailable):
                    use()
        assert time.process_time() - used < 0.25 * (time.monotonic() - began)
        ledger.close()


class Deaf:
    """A producer, as after an outage: it takes what it is given, and nothing of that is ever answered."""

    def __init__(self) -> None:
        self.taken = 0

    def produce(self, *args: object, **kwargs: object) -> None:
        self.taken += 1

    def flush(self, timeout: float) -> None:
        time.sleep(timeout)

    def poll(self, timeout: float) -> None: ...

    def purge(self, **kwargs: object) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> None: ...


def test_a_producer_that_hears_nothing_is_replaced(cluster: Cluster, topic: str) -> None:
    """The partition's leader answers others: what hangs is the client, and waiting for it has no end."""
    ledger = opened(cluster, topic, timeout=1)
    append_again(ledger, b"before")
    appender, deaf = ledger._shared.appender, Deaf()  # pyright: ignore
    producers = appender._producers  # pyright: ignore
    producers[""] = deaf
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.append(b"unanswered")
    assert caught.value.unknown
    assert producers[""] is deaf, "once says nothing"

    def replaced() -> bool:
        with pytest.raises(LedgerUnavailable):
            ledger.append(b"unanswered")
        return deaf not in producers.values()

    until(replaced)
    assert deaf.taken == 2
    append_again(ledger, b"after")
    assert payloads(ledger)[0] == b"before"
    assert b"after" in payloads(ledger)
    ledger.close()


FORKED = """
import os, sys, time
import pares.ledger
ledger = pares.ledger.open(sys.argv[1])
ledger.append(b"x")
bell = ledger.bell()
ledger.read(1, timeout=0.2)
membership = ledger.join(sys.argv[2], 1, print, print, print)
membership.poll(2)
child = os.fork()
if child == 0:
    del ledger, bell, membership
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), ledger.append(b"y"))
membership.leave()
ledger.close()
"""


def test_a_forked_child_ends_as_it_would_without(cluster: Cluster, topic: str) -> None:
    url = f"kafka://{cluster.bootstrap}/{topic}?timeout={PATIENT}"
    # Python from 3.12 on warns of any fork beside threads; here it is what is tried.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORKED, url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert "7 1" in done.stdout.splitlines()
    assert not done.stderr
