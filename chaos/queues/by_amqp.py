"""Contenders on a queue of AMQP, as RabbitMQ has it.

A queue gives its messages to one consumer where that asked to be the only one (*exclusive*), or where the queue was declared so
(*single active consumer*). That one gets what it publishes itself: its own beats come back to it, and to nobody else.
"""

from __future__ import annotations

import json
from typing import Any, Final

from chaos.queues.contender import SECOND, Contender
from pares.runtime.clock import stopwatch

QUEUE: Final = "leaders"
_AGAIN: Final = 50_000_000
"""Nanoseconds between two attempts to become the consumer."""
_BEATS: Final = 5
"""In a deadline."""


class Amqp(Contender):
    """Connects, consumes and beats; subclasses say what a belief rests on."""

    single_active = False

    def __init__(self, where: str, name: str, timeout: float) -> None:
        super().__init__(where, name, timeout)
        self._connection: Any = None
        self._channel: Any = None
        self._next_try = self._next_beat = 0
        self.consuming = 0
        """Since when this is a consumer, as far as the client knows; 0: it is none."""
        self.first = 0
        """When it was first given a message, since it has been a consumer and none was missing for a deadline."""
        self.heard = 0
        """When it was last given one."""
        self.newest = 0
        """When the newest beat of its own was sent that has come back."""

    def work(self) -> None:
        from pika.exceptions import AMQPError

        now = stopwatch()
        try:
            if self._connection is None:
                if now < self._next_try:
                    return
                self._next_try = now + _AGAIN
                self._connect()
            if not self.consuming and now >= self._next_try:
                self._next_try = now + _AGAIN
                self._consume()
            if self.consuming and now >= self._next_beat:
                self._next_beat = now + round(self.timeout * SECOND / _BEATS)
                body = json.dumps({"by": self.name, "sent": stopwatch()})
                self._channel.basic_publish("", QUEUE, body.encode())
            if self._connection is not None:
                self._connection.process_data_events(0)
        except (AMQPError, OSError, AssertionError):
            self._drop()

    def _connect(self) -> None:
        import pika

        host, _, port = self.where.partition(":")
        # The server ends a connection that was silent for two heartbeats; the client says the same of the server.
        beat = max(1, round(self.timeout / 2))
        parameters = pika.ConnectionParameters(host, int(port), heartbeat=beat, blocked_connection_timeout=5)
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()

    def _consume(self) -> None:
        from pika.exceptions import ChannelClosedByBroker

        try:
            self._channel.basic_consume(QUEUE, self._take, exclusive=not self.single_active)
            self.consuming = stopwatch()
        except ChannelClosedByBroker:
            self._channel = self._connection.channel()  # somebody else is the only consumer

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        beat, now = json.loads(body), stopwatch()
        if now > self.wait(self.heard):
            self.first = now
        self.heard = now
        if beat["by"] == self.name:
            self.newest = max(self.newest, beat["sent"])
        channel.basic_ack(method.delivery_tag)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self.consuming = self.first = self.heard = 0
        try:
            if connection is not None and connection.is_open:
                connection.close()
        except Exception:
            pass  # it is over either way, whatever the client makes of that


class Word(Amqp):
    """By the service's word: the exclusive consumer leads, until its client hears that it is none any more."""

    def believes(self, now: int) -> bool:
        return bool(self.consuming)


class ActiveWord(Amqp):
    """The same where the queue has a single active consumer: a consumer that was given a message is that one. It is not told
    when it no longer is."""

    single_active = True

    def believes(self, now: int) -> bool:
        return bool(self.consuming and self.heard)


class Beats(Amqp):
    """As Fast NELI: by its own beats that came back, each counted from when it was sent, and only after the one before it must
    have stopped."""

    def believes(self, now: int) -> bool:
        return bool(self.consuming) and now >= self.wait(self.consuming) and now < self.lease(self.newest)


class ActiveBeats(Amqp):
    """The same on a single active consumer, which waits from its first message on."""

    single_active = True

    def believes(self, now: int) -> bool:
        return bool(self.consuming and self.first) and now >= self.wait(self.first) and now < self.lease(self.newest)


RULES: Final[dict[str, type[Contender]]] = {
    "amqp-exclusive-word": Word,
    "amqp-active-word": ActiveWord,
    "amqp-exclusive-beats": Beats,
    "amqp-active-beats": ActiveBeats,
}
ACTIVE: Final = frozenset({"amqp-active-word", "amqp-active-beats"})
