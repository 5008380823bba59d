"""Pulsar's client, and what a ledger makes with it.

The client connects again by itself, later and later, up to a minute. A ledger does not wait for that: it closes what has lost
its connection, and makes it anew.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.pulsar.errors import Broken, Refused, meaning
from pares.ledger.pulsar.settings import SUBSCRIPTION, Settings

_AHEAD: Final = 500
"""Messages that a broker may send ahead to a reader."""
_ENTRY_BITS: Final = 32


class Raw(NamedTuple):
    """A message as the broker gives it."""

    place: int
    ms: int
    """By its writer's clock."""
    data: bytes


class Client:
    """For any thread. Raises `Refused` and `Broken`, and what `Lifetime.check` raises."""

    def __init__(self, settings: Settings, lifetime: Lifetime) -> None:
        self._settings = settings
        self._lifetime = lifetime
        self._library = library(settings.url)
        self._client = self._connect()
        keep_after_fork(self)

    def _connect(self) -> Any:
        settings, pulsar = self._settings, self._library
        client = settings.client
        login = None
        if "token" in client:
            login = pulsar.AuthenticationToken(str(client["token"]))
        elif "username" in client:
            login = pulsar.AuthenticationBasic(str(client["username"]), str(client.get("password", "")))
        elif "tls_certificate_file_path" in client:
            login = pulsar.AuthenticationTLS(
                str(client["tls_certificate_file_path"]), str(client.get("tls_private_key_file_path", ""))
            )
        trusted = client.get("tls_trust_certs_file_path")
        return pulsar.Client(
            settings.service,
            authentication=login,
            operation_timeout_seconds=max(1, math.ceil(settings.timeout)),
            connection_timeout_ms=max(200, round(settings.timeout * 1000)),
            use_tls=settings.tls,
            tls_validate_hostname=settings.tls and bool(client.get("tls_validate_hostname", True)),
            # What it logs goes to the standard output otherwise, and what matters is raised.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
            **({} if trusted is None else {"tls_trust_certs_file_path": str(trusted)}),
        )

    def do(self, work: Callable[[], Any]) -> Any:
        self._lifetime.check()
        try:
            return work()
        except self._library.exceptions.PulsarException as error:
            self._lifetime.check()
            raise meaning(type(error).__name__, self._settings.scrubbed(str(error))) from None

    def reader(self, name: str, place: int) -> Reader:
        """A reader that begins with the message at a place, or what follows it; -1: with the first one."""
        pulsar = self._library
        begin = pulsar.MessageId.earliest
        if place >= 0:
            begin = pulsar.MessageId(-1, place >> _ENTRY_BITS, place & ((1 << _ENTRY_BITS) - 1), -1)
        made = self.do(
            lambda: self._client.create_reader(
                self._settings.full(name), begin, receiver_queue_size=_AHEAD, start_message_id_inclusive=True
            )
        )
        return Reader(self, made)

    def watch(self, name: str) -> Watch:
        made = self.do(
            lambda: self._client.subscribe(
                self._settings.full(name),
                SUBSCRIPTION,
                self._library.ConsumerType.Failover,
                receiver_queue_size=0,  # so it gets no message
                initial_position=self._library.InitialPosition.Earliest,
            )
        )
        return Watch(self, made)

    def producer(self, name: str) -> Producer:
        made = self.do(
            lambda: self._client.create_producer(
                self._settings.full(name),
                send_timeout_millis=max(1, round(self._settings.timeout * 1000)),
                batching_enabled=False,
            )
        )
        return Producer(self, made)

    def place_of(self, id: Any) -> int:
        """A message's place: it rises in a topic, with holes."""
        return -1 if id.entry_id() < 0 else id.ledger_id() << _ENTRY_BITS | id.entry_id()

    def id_before(self, place: int) -> Any | None:
        """The id of the message before the one at this place; None if it stands in another segment."""
        entry = (place & ((1 << _ENTRY_BITS) - 1)) - 1
        return None if entry < 0 else self._library.MessageId(-1, place >> _ENTRY_BITS, entry, -1)

    def is_timeout(self, error: Exception) -> bool:
        return isinstance(error, self._library.Timeout)

    def close(self) -> None:
        shut(self._client)


class _Made:
    """Something of the client's that has to be closed."""

    def __init__(self, client: Client, made: Any) -> None:
        self._client = client
        self._made = made

    @property
    def connected(self) -> bool:
        return bool(self._made.is_connected())

    def close(self) -> None:
        shut(self._made)


class Reader(_Made):
    def any(self) -> bool:
        """Whether there is a next message now."""
        return bool(self._client.do(self._made.has_message_available))

    def next(self, seconds: float) -> Raw | None:
        """The next message; None if none comes in time."""
        try:
            found = self._made.read_next(timeout_millis=max(1, round(seconds * 1000)))
        except Exception as error:
            if self._client.is_timeout(error):
                return None
            raise meaning(type(error).__name__, str(error)) from None
        return Raw(self._client.place_of(found.message_id()), found.publish_timestamp(), found.data())


class Watch(_Made):
    """A consumer that consumes nothing: it asks for the last message, and tells the broker what was trimmed."""

    def last(self) -> int:
        """The place of the topic's last message; -1: there is none."""
        return self._client.place_of(self._client.do(self._made.get_last_message_id))

    def trimmed(self, place: int) -> None:
        """What stands before this place need not be kept. Nothing says whether it was done."""
        id = self._client.id_before(place)
        if id is not None:
            self._client.do(lambda: self._made.acknowledge_cumulative(id))


class Producer(_Made):
    def send(self, data: bytes, done: Callable[[Refused | Broken | int], None]) -> None:
        """Send it once. `done` hears of its place, or what went wrong, on another thread."""

        def said(result: Any, id: Any) -> None:
            name = str(result).rpartition(".")[2]
            done(self._client.place_of(id) if name == "Ok" else meaning(name, sent=True))

        self._client.do(lambda: self._made.send_async(data, said))


def shut(made: Any) -> None:
    """Close something of the client's, whatever state it is in."""
    try:
        made.close()
    except Exception:
        pass


def library(url: str) -> Any:
    try:
        return import_module("pulsar")
    except ImportError as error:
        raise CapabilityError(
            f"{url}: Pulsar ledgers need pulsar-client ({error}): pip install 'pares[pulsar]'"
        ) from error
