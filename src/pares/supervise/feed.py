"""A command that is fed records: one run for a batch, by its standard input; what `pares consume` is made of.

A run that ends with 0 has done all of its records. Of one that fails they all come again, after a while that gets longer; when
that has been so for too often, each record gets runs of its own, and those that fail there as often are parked. So one bad
record stops no other for good, and none is lost.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Final, Literal

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.sources import Record
from pares.runtime.consume.batch import Batch
from pares.runtime.consume.consumer import Consumer

Format = Literal["lines", "length", "json"]
LOOK: Final = 0.2
"""Seconds between two looks whether the claim of a running command lasts."""
LONGEST: Final = 60.0
"""Seconds between two runs for the same records."""
GRACE: Final = 5.0
"""Seconds from TERM to KILL."""

Say = Callable[..., None]
"""Told what happens: a word, its sentence as `text`, and fields."""


def encoded(records: Sequence[Record], topic: str, partition: int, how: Format) -> bytes:
    """What stands on the command's standard input. Raises `ConfigError` for a payload that "lines" can't tell from two."""
    if how == "length":
        return b"".join(struct.pack(">I", len(record.payload)) + record.payload for record in records)
    if how == "json":
        return b"".join(json.dumps(_shown(record, topic, partition)).encode() + b"\n" for record in records)
    for record in records:
        if b"\n" in record.payload:
            place = f"{record.offset} of {topic}/{partition}"
            raise ConfigError(
                f"the record at {place} has a line break in it, so the command could not tell where it ends: "
                "use --format length or --format json"
            )
    return b"".join(record.payload + b"\n" for record in records)


def _shown(record: Record, topic: str, partition: int) -> dict[str, object]:
    key = None if record.key is None else base64.b64encode(record.key).decode()
    place = {"topic": topic, "partition": partition, "offset": record.offset, "timestamp_ms": record.timestamp_ms}
    return {**place, "key": key, "payload": base64.b64encode(record.payload).decode()}


class Feed:
    """Of one consumer: `work` runs on as many threads as commands may run at once."""

    def __init__(
        self,
        consumer: Consumer,
        command: Sequence[str],
        how: Format,
        *,
        retries: int,
        backoff: float,
        parks: bool,
        say: Say,
    ) -> None:
        self._consumer = consumer
        self._command = list(command)
        self._how: Format = how
        self._retries = retries
        self._backoff = backoff
        self._parks = parks
        self._say = say
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.ending = threading.Event()
        self.runs = self.done = self.parked = self.failures = 0
        """Commands that ended, records that are done, that were parked; runs that failed."""
        self.failure: BaseException | None = None

    def work(self) -> None:
        """Until the consumer is closed, or has failed."""
        try:
            for batch in self._consumer.batches():
                if self._settled(batch):
                    batch.done()
                    continue
                self._consumer.put_back(batch)
                if self.ending.is_set():
                    return
        except BaseException as error:
            self.failure = self.failure or error
            self.ending.set()

    def at_rest(self, runs: int) -> bool:
        """Whether no command runs, and none has ended since there were so many."""
        return not self._running and self.runs == runs

    def stop(self, *, at_once: bool = False) -> None:
        """Starts no further run; those that run may end, unless `at_once`."""
        self.ending.set()
        if at_once:
            with self._lock:
                running = list(self._running)
            for process in running:
                _signal(process, signal.SIGKILL)

    # One batch -----------------------------------------------------------------------------------------------------------

    def _settled(self, batch: Batch) -> bool:
        """Whether all of it is done, or parked."""
        once = self._consumer.delivery == "at-most-once"
        if self._done(batch, batch.records, limited=True):
            return True
        if once:
            return True  # nothing is given out twice, whatever has become of it
        if self._parks and len(batch) == 1:
            return not self._over(batch) and self._park(batch, batch.records[0])
        for record in batch.records:
            if not self._over(batch) and self._done(batch, (record,), limited=self._parks):
                continue
            if self._over(batch) or not self._park(batch, record):
                return False
        return True

    def _over(self, batch: Batch) -> bool:
        return self.ending.is_set() or batch.lost

    def _done(self, batch: Batch, records: Sequence[Record], *, limited: bool) -> bool:
        """Runs the command for these until it ends with 0; `limited`: as often as it may be retried."""
        tries, alone = 0, len(records) == 1
        while not self._over(batch):
            why = self._run(batch, records)
            if not why:
                self.done += len(records)
                return True
            tries += 1
            self.failures += 1
            place = {
                "topic": batch.topic,
                "partition": batch.partition,
                "first": records[0].offset,
                "last": records[-1].offset,
            }
            self._say("failed", text=f"{why}: {_named(batch, records)}, try {tries}", why=why, tries=tries, **place)
            if self._consumer.delivery == "at-most-once" or ((limited or not alone) and tries > self._retries):
                return False
            self._sleep(batch, min(self._backoff * 2 ** min(tries - 1, 30), LONGEST))
        return False

    def _sleep(self, batch: Batch, seconds: float) -> None:
        while seconds > 0 and not batch.lost and not self.ending.wait(min(seconds, LOOK)):
            seconds -= LOOK

    def _park(self, batch: Batch, record: Record) -> bool:
        why = f"the command failed {self._retries + 1} times for this record alone"
        try:
            self._consumer.reject(batch, record, why, 2 * (self._retries + 1))
        except LedgerUnavailable as error:
            self._say(
                "trouble", text=f"{_named(batch, (record,))} can't be parked now, so its batch comes again: {error}"
            )
            self._sleep(batch, self._backoff)
            return False
        self.parked += 1
        text = f"{_named(batch, (record,))} is parked: {why}"
        self._say("parked", text=text, partition=batch.partition, offset=record.offset)
        return True

    # One run -------------------------------------------------------------------------------------------------------------

    def _run(self, batch: Batch, records: Sequence[Record]) -> str:
        """Why it failed; "" if it has done its records."""
        try:
            data = encoded(records, batch.topic, batch.partition, self._how)
        except ConfigError as error:
            return str(error)
        environment = {
            **os.environ,
            "PARES_TOPIC": batch.topic,
            "PARES_PARTITION": str(batch.partition),
            "PARES_FIRST": str(records[0].offset),
            "PARES_LAST": str(records[-1].offset),
            "PARES_TOKEN": str(batch.token),
            "PARES_GROUP": self._consumer.group,
        }
        try:
            process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        except OSError as error:
            raise ConfigError(
                f"{self._command[0]!r} can't be run: {error.strerror}; check the command after --"
            ) from None
        with self._lock:
            self._running.add(process)
        try:
            return self._fed(process, batch, data)
        finally:
            with self._lock:
                self._running.discard(process)
            self.runs += 1

    def _fed(self, process: subprocess.Popen[bytes], batch: Batch, data: bytes) -> str:
        """Feeds it, and waits for its end. A command whose claim is over is told so by TERM."""
        rest: bytes | None = data
        while True:
            try:
                process.communicate(rest, timeout=LOOK)
                break
            except subprocess.TimeoutExpired:
                rest = None
                if batch.lost:
                    self._end(process)
                    return "the partition is another consumer's by now, so the command was ended"
        code = process.returncode
        if code == 0:
            return ""
        return f"the command ended with {code}" if code > 0 else f"the command was ended by signal {-code}"

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        _signal(process, signal.SIGTERM)
        try:
            process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.communicate()


def _named(batch: Batch, records: Sequence[Record]) -> str:
    first, last = records[0].offset, records[-1].offset
    return f"{batch.topic}/{batch.partition} {first}" + (f" to {last}" if last > first else "")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To its process group, while it has not been waited for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
