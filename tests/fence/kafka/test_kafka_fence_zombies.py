"""A leader that is frozen for longer than its session, and goes on writing when it wakes up: real processes, a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kafka_tools import PATIENCE, client, new_topic
from pares.dev import Kafka

PROGRAM = Path(__file__).with_name("kafka_zombie.py")
pytestmark = pytest.mark.processes


class Process:
    """A leader in a process of its own, and what it has said."""

    def __init__(self, kafka: Kafka, topic: str, name: str, where: str) -> None:
        urls = [kafka.topic_url(f"{topic}-group"), kafka.topic_url(f"{topic}-fence", timeout=5)]
        command = [sys.executable, str(PROGRAM), *urls, topic, name, where]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._said: list[dict[str, Any]] = []
        self._errors: list[str] = []
        # Both pipes are emptied at all times: it would stand still at a full one, and look frozen.
        self._readers = [
            threading.Thread(target=self._read, args=(stream, take), daemon=True)
            for stream, take in ((self._process.stdout, self._hear), (self._process.stderr, self._errors.append))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str] | None, take: Callable[[str], None]) -> None:
        assert stream is not None
        with stream:
            for line in stream:
                take(line)

    def _hear(self, line: str) -> None:
        self._said.append(json.loads(line))

    def said(self, what: str) -> list[dict[str, Any]]:
        return [one for one in [*self._said] if one["what"] == what]

    def numbers(self, what: str) -> list[int]:
        return [one["number"] for one in self.said(what)]

    def until(self, done: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            ended = self._process.poll() is not None
            if ended:
                for reader in self._readers:
                    reader.join(PATIENCE)
            if done():
                return
            assert not ended, (self._said, self._errors)
            assert time.monotonic() < end, self._said
            time.sleep(0.01)

    def frozen(self) -> bool:
        with open(f"/proc/{self._process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def ended(self) -> int:
        """The exit code of one that ends by itself."""
        return self._process.wait(PATIENCE)

    def end(self) -> int:
        """Its exit code, once it has ended what it was at. Frozen or not: who is frozen takes no signal but these two."""
        if self._process.poll() is None:
            self._process.terminate()
            self.thaw()
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()


@pytest.fixture
def start(kafka: Kafka) -> Iterator[Callable[..., Process]]:
    with contextlib.ExitStack() as started:

        def start(topic: str, name: str, where: str = "never") -> Process:
            process = Process(kafka, topic, name, where)
            started.callback(process.end)
            return process

        yield start


def seen(kafka: Kafka, topic: str, level: str) -> list[dict[str, Any]]:
    """What a consumer sees of all that stands there now, whoever goes on writing. Raises `TimeoutError` for a transaction that
    nobody ends, if the consumer has to wait for it."""
    place = TopicPartition(topic, 0, 0)
    settings = {**client(kafka), "group.id": "judge", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    end = consumer.get_watermark_offsets(place, PATIENCE)[1]
    consumer.close()
    consumer = Consumer({**settings, "isolation.level": level})
    consumer.assign([place])
    found: list[dict[str, Any]] = []
    try:
        while (message := consumer.poll(PATIENCE)) is not None:
            error = message.error()
            if error is None:
                found.append(json.loads(message.value() or b""))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
            # A commit is answered before its mark stands in the log: the end of what is committed may come again, further on.
            if (message.offset() or 0) + (error is None) >= end:
                return found
        raise TimeoutError(f"offset {end} of {topic} was not reached in {PATIENCE} s")
    finally:
        consumer.close()


@pytest.mark.parametrize("where", ["between", "inside", "late"])
def test_a_zombie_writes_nothing(kafka: Kafka, start: Callable[..., Process], where: str) -> None:
    topic = new_topic(kafka)
    zombie = start(topic, "a", where)
    zombie.until(zombie.frozen)
    assert zombie.said("leads")
    successor = start(topic, "b")
    successor.until(lambda: len(successor.said("committed")) > 2)
    before = zombie.numbers("committed")
    if where == "inside":
        held_back = [one for one in seen(kafka, topic, "read_uncommitted") if one["member"] == "a"]
        assert max(one["number"] for one in held_back) == max(before) + 1, "the brokers have its record"
    assert not zombie.said("thawed")
    zombie.thaw()
    zombie.until(lambda: zombie.said("stale"))
    after = len(successor.said("committed"))
    successor.until(lambda: len(successor.said("committed")) > after + 2)

    refused = zombie.said("stale")[0]
    its, theirs = zombie.said("leads")[-1]["token"], [one["token"] for one in successor.said("leads")]
    assert refused["token"] == its < min(theirs)
    assert refused["seen"] in theirs
    assert zombie.numbers("committed") == before, "nothing was committed after it froze"
    # Where it came late it shut its successor out, once; nowhere else does it reach anything.
    assert len(successor.said("unavailable")) <= (1 if where == "late" else 0), successor.said("unavailable")
    assert not successor.said("stale")

    assert zombie.ended() == 0
    assert successor.end() == 0
    found = seen(kafka, topic, "read_committed")
    assert [one["number"] for one in found if one["member"] == "a"] == before
    assert [one["token"] for one in found] == sorted(one["token"] for one in found)
    numbers = [one["number"] for one in found if one["member"] == "b"]
    assert set(successor.numbers("committed")) <= set(numbers)
    assert len(set(numbers)) == len(numbers)
    certain = {one["number"] for one in successor.said("unavailable") if not one["unknown"]}
    assert not certain & set(numbers)
