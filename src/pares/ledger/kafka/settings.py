"""A `kafka://` URL taken apart, and what librdkafka's clients are told.

`kafka://HOST:PORT[,HOST:PORT...]/TOPIC`. Settings of the clients, such as TLS and SASL, come from `options={...}` or from a
properties file, `config=FILE`; they go to every client that the ledger makes. Their values may be secrets: they stand in no
URL, error, log line or `repr`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.base import check_name
from pares.ledger.client_options import Usual, client_settings, hosts, scrubbed, usual

log: Final = logging.getLogger("pares.kafka")
client_log: Final = logging.getLogger("pares.kafka.client")
# What is wrong is raised; a program that has not set up logging need not have it on its console as well.
log.addHandler(logging.NullHandler())

PORT: Final = 9092
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")

OURS: Final = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "transactional.id",
        "delivery.timeout.ms",
        "message.timeout.ms",
        "linger.ms",
        "queue.buffering.max.ms",
        "batch.size",
        "batch.num.messages",
        "message.max.bytes",
        "retries",
        "message.send.max.retries",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "enable.gapless.guarantee",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "allow.auto.create.topics",
        "fetch.wait.max.ms",
        "fetch.min.bytes",
        "request.timeout.ms",
        "socket.timeout.ms",
        "partition.assignment.strategy",
        "on_delivery",
        "error_cb",
        "logger",
        "log_level",
        "dr_cb",
        "dr_msg_cb",
    }
)
"""Settings that the ledger's promises stand on; nobody may change them."""
_SECRET: Final = re.compile(r"password|secret|key|token|jaas|credential|ssl\.certificate|sasl\.oauthbearer\.config")


_HUNG: Final = 5000
"""Milliseconds after which a connection is given up on which a question was not answered. A caller gives up sooner. [where a
broker is busy for longer than a request may take, each of hundreds of clients drops its connections, and makes new ones: the
broker does nothing but take them, and none is answered]"""
_CONNECTS: Final = 2500
"""Milliseconds for a new connection: the system of a broker whose queue was full is asked once more after one second."""


@dataclass(frozen=True)
class Settings(Usual):
    """What a Kafka ledger was opened with."""

    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    servers: str
    topic: str
    client: Mapping[str, Any] = field(repr=False)

    @property
    def milliseconds(self) -> int:
        return max(10, round(self.timeout * 1000))

    def topic_name(self, name: str) -> str:
        """The Kafka topic that `Ledger.topic(name)` means.

        A name that Kafka allows is that topic's, after `prefix`; names that begin with `pares.` are the ledger's own, and
        stand behind its topic's name. Any other is made up from its letters and its hash.
        """
        check_name(name, "a topic's name")
        if _TOPIC.fullmatch(self.prefix + name) and name.strip(".") and not name.startswith("pares."):
            full = self.prefix + name
        elif _TOPIC.fullmatch(name) and len(self.topic) + 1 + len(name) <= 249:
            full = f"{self.topic}.{name}"
        else:
            digest = hashlib.sha256(name.encode()).hexdigest()[:20]
            full = f"{self.topic[:120]}.{_SLUG.sub('_', name)[:80]}.{digest}"
        if not self.topic and full != self.prefix + name:
            raise ConfigError(
                f"kafka://{self.servers}: {name!r} is no name of a Kafka topic: use 1 to 249 letters, digits, '.', '_' and '-'"
                "; or name a ledger's topic in the URL, beside which such a name stands for one"
            )
        if full == self.topic:
            raise ConfigError(
                f"the topic {name!r} is the ledger's own log, {self.topic}: use another name, or another ledger"
            )
        return full

    def common(self) -> dict[str, Any]:
        """What every client is told: where the brokers are, to try again soon, and to give up soon."""
        return {
            # First what a user may change ...
            "client.id": "pares",
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 100,
            "socket.connection.setup.timeout.ms": max(_CONNECTS, self.milliseconds),
            "socket.keepalive.enable": True,
            "socket.nagle.disable": True,
            "topic.metadata.refresh.fast.interval.ms": 20,
            # By default all addresses are forgotten when no broker answers, and half a second is lost after each outage.
            "metadata.recovery.strategy": "none",
            **self.client,
            # ... then what not.
            "bootstrap.servers": self.servers,
            "socket.timeout.ms": max(_HUNG, self.milliseconds),
            "allow.auto.create.topics": False,
            # What the clients say reaches the ledger as errors; the rest of their logs is for who looks for it.
            "log_level": 0,
            "logger": client_log,
        }

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, self.client, _SECRET)


def take(address: Address, options: Options, *, bare: bool = False) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be. `bare`: it may name no topic."""
    if "@" in address.host:
        raise ConfigError(
            "a kafka:// URL has no user or password in it: give them as options={'sasl.username': ..., 'sasl.password': ...}, "
            "or in a properties file that the URL names, ?config=FILE"
        )
    servers = ",".join(hosts(address, "broker", PORT, "kafka://HOST:PORT[,HOST:PORT...]/TOPIC"))
    topic = "" if bare and not address.path.strip("/") else _topic(address)
    for name in address.query:
        if "." in name:
            # The URL is not repeated: the value may be a secret.
            raise ConfigError(
                f"kafka://{servers}/{topic}: the client setting {name} has no place in a URL, which others can read: put it "
                "into a properties file, ?config=FILE, or into options={...}"
            )
    taken = usual(address, options, _TOPIC, "topic's name: use letters, digits, '.', '_', '-'")
    client, path = client_settings(options, "sasl.username")
    options.finish()
    _refuse_ours(client)
    return Settings(**vars(taken), url=_url(servers, topic, options, path), servers=servers, topic=topic, client=client)


def _topic(address: Address) -> str:
    topic = address.path[1:]
    if not topic:
        raise ConfigError(f"{address.shown} names no topic: write kafka://HOST:PORT/TOPIC")
    if not _TOPIC.fullmatch(topic) or not topic.strip("."):
        raise ConfigError(
            f"{address.shown}: {topic!r} is no name of a Kafka topic: use 1 to 249 letters, digits, '.', '_' and '-'"
        )
    return topic


def _url(servers: str, topic: str, options: Options, path: object) -> str:
    text = options.query(leave_out=("options",), replace={} if path is None else {"config": os.path.abspath(str(path))})
    return f"kafka://{servers}/{topic}{text}"


def _refuse_ours(client: Mapping[str, Any]) -> None:
    for name in client:
        if name in OURS:
            raise ConfigError(
                f"the client setting {name} is the ledger's own, because its promises depend on it: leave it out"
            )
