"""What is done to contenders, and what came of it."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Final

from chaos.queues import by_amqp, by_sqs
from chaos.queues.contender import SECOND, Believed
from pares.core.errors import CapabilityError
from pares.dev.process import Started, start
from pares.runtime.clock import stopwatch

NAMES: Final = ("a", "b", "c")
FAULTS: Final = ("none", "kill", "freeze")
TIMEOUT: Final = 2.0
"""Seconds after which the service gives up a silent consumer, or a message, and no shorter: AMQP's heartbeats are whole
seconds, and so is SQS' visibility."""
_FROZEN: Final = 4.0
"""Times the time-out."""
_LED: Final = 30.0


@dataclass(frozen=True)
class Trial:
    """One fault under one rule. In seconds."""

    rule: str
    fault: str
    takeover: float | None
    """From the fault to the next belief of another process; None: there was no fault, or nobody led."""
    overlaps: int
    longest: float
    """The longest time for which two believed at once."""
    moves: int
    """How often the leader was another one than before."""
    led: float
    """The part of the time in which somebody led."""


def overlaps(stretches: dict[str, list[tuple[int, int]]]) -> list[int]:
    """How long each pair of beliefs of different processes crosses, in nanoseconds."""
    found: list[int] = []
    for one, other in combinations(stretches, 2):
        for begin, end in stretches[one]:
            for begun, ended in stretches[other]:
                if (both := min(end, ended) - max(begin, begun)) > 0:
                    found.append(both)
    return found


def moves(stretches: dict[str, list[tuple[int, int]]]) -> int:
    order = sorted((begin, name) for name, each in stretches.items() for begin, _ in each)
    return sum(1 for (_, before), (_, after) in pairwise(order) if before != after)


def led(stretches: dict[str, list[tuple[int, int]]], since: int, until: int) -> float:
    """The part of the time between two instants in which at least one believed."""
    covered, at = 0, since
    for begin, end in sorted(stretch for each in stretches.values() for stretch in each):
        begin, end = max(begin, at), min(end, until)
        if end > begin:
            covered += end - begin
            at = end
    return covered / (until - since)


class NobodyLeads(Exception):
    """For half a minute."""


class Contest:
    """Three contenders by one rule, on a queue of their own."""

    def __init__(self, rule: str, where: str, folder: Path) -> None:
        self.rule = rule
        self._folder = folder
        self._running: dict[str, Started] = {}
        for name in NAMES:
            told = [rule, where, name, str(folder / f"{name}.believed"), str(TIMEOUT)]
            command = [sys.executable, "-m", "chaos.queues.contender", *told]
            self._running[name] = start(command, log=folder / f"{name}.log", folder=Path.cwd(), survive=False)

    def stretches(self) -> dict[str, list[tuple[int, int]]]:
        return {name: Believed(self._folder / f"{name}.believed").stretches() for name in NAMES}

    def leader(self, other_than: str = "", after: int = 0) -> tuple[str, int]:
        """A process that believes now, and since when; one that is `other_than` this one, and began `after` that."""
        end = time.monotonic() + _LED
        while time.monotonic() < end:
            for name, each in self.stretches().items():
                if name != other_than and each and each[-1][0] >= after and each[-1][1] > stopwatch() - SECOND // 10:
                    return name, each[-1][0]
            for name, process in self._running.items():
                if (code := process.ended()) not in (None, -signal.SIGKILL):
                    said = (self._folder / f"{name}.log").read_text(errors="replace")
                    raise CapabilityError(f"contender {name} ended with {code}: {said[-600:]}")
            time.sleep(0.02)
        raise NobodyLeads

    def strike(self, fault: str) -> float | None:
        """Returns the seconds until another leads."""
        name, _ = self.leader()
        victim, at = self._running[name], stopwatch()
        if fault == "none":
            time.sleep(_FROZEN * TIMEOUT)
            return None
        if fault == "kill":
            victim.identity.signal(signal.SIGKILL)
            _, since = self.leader(other_than=name, after=at)
        else:
            victim.freeze()
            _, since = self.leader(other_than=name, after=at)
            time.sleep(max(0.0, _FROZEN * TIMEOUT - (stopwatch() - at) / SECOND))
            victim.identity.signal(signal.SIGCONT)
            time.sleep(2 * TIMEOUT)
        return (since - at) / SECOND

    def end(self) -> None:
        for process in self._running.values():
            process.identity.signal(signal.SIGKILL)
        for process in self._running.values():
            process.wait(_LED)


def trial(rule: str, fault: str, where: str) -> Trial:
    with tempfile.TemporaryDirectory(prefix="pares-queues-") as folder:
        since, takeover = stopwatch(), None
        contest = Contest(rule, where, Path(folder))
        try:
            _, since = contest.leader()
            takeover = contest.strike(fault)
        except NobodyLeads:
            pass  # the part of the time that was led says so
        finally:
            contest.end()
        found = contest.stretches()
        crossed = overlaps(found)
        whole = led(found, since, stopwatch())
        return Trial(rule, fault, takeover, len(crossed), max(crossed, default=0) / SECOND, moves(found), whole)


# Queues --------------------------------------------------------------------------------------------------------------


@contextmanager
def amqp_queue(where: str, *, active: bool) -> Iterator[Any]:
    """The queue for a contest, and a channel to it."""
    import pika

    host, _, port = where.partition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=0))
    channel = connection.channel()
    channel.queue_delete(by_amqp.QUEUE)
    channel.queue_declare(by_amqp.QUEUE, arguments={"x-single-active-consumer": True} if active else None)
    try:
        yield channel
    finally:
        connection.close()


def sqs_queue(endpoint: str, timeout: float = TIMEOUT) -> tuple[Any, str]:
    """A client, and the URL of a new FIFO queue with one message, which whoever holds it leads by."""
    sqs = by_sqs.client(endpoint)
    attributes = {"FifoQueue": "true", "VisibilityTimeout": str(round(timeout))}
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex[:8]}.fifo", Attributes=attributes)["QueueUrl"]
    where = f"{endpoint}/0{url.partition('/0')[2]}"
    body = '{"by": "", "sent": 0}'
    sqs.send_message(QueueUrl=where, MessageBody=body, MessageGroupId=by_sqs.GROUP, MessageDeduplicationId="first")
    return sqs, where


Probe = Callable[[str], Iterator[tuple[str, str]]]


def amqp_facts(where: str) -> Iterator[tuple[str, str]]:
    """What a queue of AMQP gives to whoever comes later, and to whoever was left behind."""
    with amqp_queue(where, active=False) as channel:
        for number in range(10):
            channel.basic_publish("", by_amqp.QUEUE, b"%d" % number)
        for _ in range(10):
            channel.basic_ack(_got(channel).delivery_tag)
        method, _, _ = channel.basic_get(by_amqp.QUEUE)
        yield "messages that a joiner finds, of 10 that were read", "0" if method is None else "some"
        channel.basic_publish("", by_amqp.QUEUE, b"x")
        first = _got(channel)
        channel.basic_nack(first.delivery_tag)
        second = _got(channel)
        yield "a message given out again says so", str(second.redelivered)
        rises = "no number at all: delivery tags begin at 1 on each channel"
        yield "what could be a token that rises", rises if second.delivery_tag < 100 else "a delivery tag"


def _got(channel: Any) -> Any:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        method, _, _ = channel.basic_get(by_amqp.QUEUE)
        if method is not None:
            return method
    raise CapabilityError("the queue has lost a message")


def sqs_facts(endpoint: str) -> Iterator[tuple[str, str]]:
    """What a FIFO queue gives to whoever comes later, and what a holder may do that was left behind."""
    from botocore.exceptions import ClientError

    sqs, where = sqs_queue(endpoint, 1)
    asked: dict[str, Any] = {"QueueUrl": where, "MessageSystemAttributeNames": ["All"], "AttributeNames": ["All"]}
    for number in range(3):
        sqs.send_message(
            QueueUrl=where, MessageBody=str(number), MessageGroupId=by_sqs.GROUP, MessageDeduplicationId=str(number)
        )
    old = sqs.receive_message(VisibilityTimeout=1, **asked)["Messages"][0]
    others = sqs.receive_message(VisibilityTimeout=1, **asked).get("Messages") or []
    yield "messages of the group that others get while one is in flight", str(len(others))
    time.sleep(1.3)
    new = sqs.receive_message(VisibilityTimeout=30, **asked)["Messages"][0]
    yield "given out again after the time-out: the same message", str(new["MessageId"] == old["MessageId"])
    numbers = [each["Attributes"].get("SequenceNumber", "none") for each in (old, new)]
    yield "its number, which could be a token, has risen", str(numbers[0] != numbers[1])
    try:
        sqs.change_message_visibility(QueueUrl=where, ReceiptHandle=old["ReceiptHandle"], VisibilityTimeout=0)
        third = sqs.receive_message(VisibilityTimeout=30, **asked).get("Messages") or []
        taken = "taken, and a third process gets the message" if third else "taken, without an effect"
    except ClientError as error:
        taken = f"refused ({error.response['Error']['Code']})"
    yield "a prolongation by the receipt of the holder before", taken
    try:
        sqs.delete_message(QueueUrl=where, ReceiptHandle=old["ReceiptHandle"])
        gone = sqs.receive_message(VisibilityTimeout=30, **asked).get("Messages") or []
        deleted = "taken, and the group goes on with the next message" if gone else "taken, without an effect seen"
    except ClientError as error:
        deleted = f"refused ({error.response['Error']['Code']})"
    yield "a deletion by the receipt of the holder before", deleted
