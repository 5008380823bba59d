"""Contenders on a FIFO queue of SQS.

Messages of one group are given out one at a time: while one is in flight (received and not deleted, until its visibility
time-out is over) no other of that group is. So the process that holds a message of the group is alone with it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from chaos.queues.contender import SECOND, Contender
from pares.runtime.clock import stopwatch

GROUP: Final = "leader"
_BEATS: Final = 5
_AGAIN: Final = 20_000_000


def client(endpoint: str) -> Any:
    """AWS' own, with retries switched off."""
    from boto3.session import Session
    from botocore.config import Config

    return Session("x", "x").client(
        "sqs",
        region_name="elasticmq",
        endpoint_url=endpoint,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2),
    )


class Sqs(Contender):
    """`where`: the queue's URL."""

    def __init__(self, where: str, name: str, timeout: float) -> None:
        super().__init__(where, name, timeout)
        self.sqs = client(where.partition("/0")[0])
        self._next = 0

    def work(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if stopwatch() < self._next:
            return
        try:
            self._next = stopwatch() + self.turn()
        except (BotoCoreError, ClientError):
            self.lost()
            self._next = stopwatch() + _AGAIN

    def turn(self) -> int:
        """Returns nanoseconds until the next."""
        raise NotImplementedError

    def lost(self) -> None:
        """The service has refused, or does not answer."""

    def receive(self) -> Any | None:
        found = self.sqs.receive_message(
            QueueUrl=self.where, MaxNumberOfMessages=1, VisibilityTimeout=round(self.timeout), WaitTimeSeconds=0
        )
        messages = found.get("Messages") or [None]
        return messages[0]

    def send(self) -> int:
        """A beat; returns when it was sent."""
        sent = stopwatch()
        self.sqs.send_message(
            QueueUrl=self.where,
            MessageBody=json.dumps({"by": self.name, "sent": sent}),
            MessageGroupId=GROUP,
            MessageDeduplicationId=f"{self.name}-{sent}",
        )
        return sent


class Holder(Sqs):
    """Holds one message, and prolongs its visibility time-out again and again; no beat goes through the queue. By the service's
    word: it leads until a prolongation is refused."""

    def __init__(self, where: str, name: str, timeout: float) -> None:
        super().__init__(where, name, timeout)
        self.receipt = ""
        self.sent = 0

    def turn(self) -> int:
        sent = stopwatch()
        if self.receipt:
            self.sqs.change_message_visibility(
                QueueUrl=self.where, ReceiptHandle=self.receipt, VisibilityTimeout=round(self.timeout)
            )
        elif (message := self.receive()) is not None:
            self.receipt = message["ReceiptHandle"]
        else:
            return _AGAIN
        self.sent = sent
        return round(self.timeout * SECOND / _BEATS)

    def lost(self) -> None:
        self.receipt = ""

    def believes(self, now: int) -> bool:
        return bool(self.receipt)


class Lease(Holder):
    """The same, and by its own deadline, counted from when it asked."""

    def believes(self, now: int) -> bool:
        return bool(self.receipt) and now < self.lease(self.sent)

    def turn(self) -> int:
        if self.receipt and stopwatch() >= self.lease(self.sent):
            self.receipt = ""  # it may be another's by now
        return super().turn()


class SqsBeats(Sqs):
    """As Fast NELI: its own beats come back through the queue. A beat can only come back when the message before it is deleted;
    from then on anybody may be given it. A process that was given another one's beat waits until that one must have stopped."""

    def __init__(self, where: str, name: str, timeout: float) -> None:
        super().__init__(where, name, timeout)
        self.newest = 0
        self.from_ = 0
        self.held = ""

    def turn(self) -> int:
        if self.held:
            # This one's own turn: the next beat, then the old one away, in this order, so that the group is never empty.
            self.send()
            self.sqs.delete_message(QueueUrl=self.where, ReceiptHandle=self.held)
            self.held = ""
        message = self.receive()
        if message is None:
            return _AGAIN
        self.held = message["ReceiptHandle"]
        beat = json.loads(message["Body"])
        if beat["by"] == self.name:
            self.newest = beat["sent"]
        else:
            self.from_ = self.wait(stopwatch())
        return round(self.timeout * SECOND / _BEATS)

    def lost(self) -> None:
        self.held = ""

    def believes(self, now: int) -> bool:
        return now >= self.from_ and now < self.lease(self.newest)


RULES: Final[dict[str, type[Contender]]] = {"sqs-held-word": Holder, "sqs-held-lease": Lease, "sqs-beats": SqsBeats}
