"""The independent probe: appends to the group's own partition by a plain Kafka client, from a place that is never cut off.

    python -m chaos.probe BOOTSTRAP TOPIC FILE

What it says is when the log could be written again by somebody who knows nothing of pares. It sends a record every few
milliseconds and does not wait for the last one's answer, so that one append that hangs hides no other that would not. For
each acknowledged append it adds two instants of the stopwatch to FILE: sent, acknowledged. Its records are those of a group of
its own, which the members' readers skip.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pares.core.wire.records import VERSION, Beat, encode
from pares.runtime.clock import stopwatch

EVERY: Final = 0.02
PATIENCE_MS: Final = 1000
ANEW: Final = 0.5
"""Seconds without an acknowledgement after which a new client tries: one that has known an older topic of that name may never
find the leader of the new one (librdkafka's issue 4898)."""
_PAIR: Final = struct.Struct("=qq")


class Acks:
    """What the probe has written down, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._acks: list[tuple[int, int]] = []

    def all(self) -> list[tuple[int, int]]:
        """(sent, acknowledged) of each append so far, in the order of the acknowledgements."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = len(content) // _PAIR.size * _PAIR.size
        self._read += whole
        self._acks += _PAIR.iter_unpack(content[:whole])
        return self._acks

    def longest_without(self, begin: int, end: int) -> int:
        """The longest stretch between two instants in which nothing was acknowledged, in nanoseconds."""
        within = [begin, *(at for _, at in self.all() if begin < at < end), end]
        return max(after - before for before, after in pairwise(within))

    def first_after(self, instant: int) -> int | None:
        """When the first append was acknowledged that was acknowledged after `instant`."""
        found: int | None = None
        for _, acknowledged in reversed(self.all()):
            if acknowledged <= instant:
                break
            found = acknowledged
        return found


def main() -> None:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

    bootstrap, topic, path = sys.argv[1:]
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 0,
        "message.timeout.ms": PATIENCE_MS,
        "request.timeout.ms": PATIENCE_MS,
        "socket.timeout.ms": PATIENCE_MS,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 50,
        "topic.metadata.refresh.fast.interval.ms": 20,
        "topic.metadata.propagation.max.ms": PATIENCE_MS,
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }
    producer = Producer(settings)
    number, heard = 0, time.monotonic()
    while True:
        number += 1
        if time.monotonic() > heard + ANEW:
            producer.purge()
            producer, heard = Producer(settings), time.monotonic()
        payload = encode(Beat(v=VERSION, g="probe", m="probe~1", n=number, b=0, s=PATIENCE_MS))
        sent = stopwatch()

        def delivered(error: KafkaError | None, message: Message, sent: int = sent) -> None:
            nonlocal heard
            if error is None:
                heard = time.monotonic()
                os.write(out, _PAIR.pack(sent, stopwatch()))

        try:
            producer.produce(topic, payload, partition=0, on_delivery=delivered)
        except (BufferError, KafkaException):
            pass  # the topic is not there, or nothing gets through: the next one will tell
        end = time.monotonic() + EVERY
        while (left := end - time.monotonic()) > 0:
            producer.poll(left)


if __name__ == "__main__":
    main()
