"""A `rabbitmq-stream://` URL taken apart, and what the connection is told.

`rabbitmq-stream://[USER@]HOST[:PORT]/STREAM?vhost=/`, and `rabbitmq-stream+tls://` for TLS.
A password stands in no URL: it comes from `options={...}` or from a
properties file, `config=FILE`. Values that may be secrets stand in no URL, error, log line or `repr`.
"""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.client_options import Usual, check_user, hosts, plain, scrubbed, told, user_of, with_tls

log: Final = logging.getLogger("pares.rabbitmq")

PORT: Final = 5552
TLS_PORT: Final = 5551
TLS_SCHEME: Final = "rabbitmq-stream+tls"
USER: Final = "guest"
"""The user of a server that was not set up, whom it lets in from its own host only; so is the password."""
MOST: Final = 200
"""Partitions of a log: a connection carries 256 subscriptions."""
_EXAMPLE: Final = "rabbitmq-stream://HOST:PORT/STREAM"
_STREAM: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SECRET: Final = re.compile(r"password")
_NAMES: Final = (
    "username",
    "password",
    "ssl",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_check_hostname",
)


@dataclass(frozen=True)
class Settings(Usual):
    """What a RabbitMQ ledger was opened with."""

    scheme: str
    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    server: str
    """HOST:PORT."""
    vhost: str
    stream: str
    user: str
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it."""
        vhost = f", vhost {self.vhost}" if self.vhost != "/" else ""
        return f"{self.scheme}://{self.server}/{self.stream}{vhost}"

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.server.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def password(self) -> str:
        return str(self.client.get("password", USER if self.user == USER else ""))

    def tls(self) -> ssl.SSLContext | None:
        """What a TLS connection is made with; None: none is wanted. Raises `ConfigError` for files that can't be read."""
        client = self.client
        if not client.get("ssl"):
            return None
        try:
            context = ssl.create_default_context(cafile=client.get("ssl_ca_certs"))
            context.check_hostname = bool(client.get("ssl_check_hostname", True))
            if client.get("ssl_certfile"):
                context.load_cert_chain(client["ssl_certfile"], client.get("ssl_keyfile"), client.get("ssl_password"))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{self.where}: ssl_ca_certs, ssl_certfile or ssl_keyfile can't be read: {self.scrubbed(str(error))}"
            ) from None
        return context

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, self.client, _SECRET)

    def base(self, topic: str) -> str:
        """The stream of a log's partition 0. A topic whose name RabbitMQ would not take, or cut, is named by its hash."""
        if not topic:
            return self.stream
        plain = topic if _PLAIN.fullmatch(topic) else f"~{hashlib.sha256(topic.encode()).hexdigest()[:32]}"
        return f"{self.stream}:{plain}"

    def name(self, topic: str, partition: int) -> str:
        """The stream of a partition."""
        return f"{self.base(topic)}={partition}" if partition else self.base(topic)

    @property
    def starts(self) -> str:
        """The stream that keeps where trimmed partitions begin."""
        return f"{self.stream}=starts"


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    advice = "give it as options={'password': ...} or in config=FILE"
    user, at, servers = user_of(address, advice, "rabbitmq-stream://USER@HOST:PORT/STREAM")
    tls = address.scheme == TLS_SCHEME
    found = hosts(servers, "server", TLS_PORT if tls else PORT, _EXAMPLE)
    if len(found) > 1:
        raise ConfigError(f"{address.shown} names several servers: a log is kept by one, name that ({_EXAMPLE})")
    stream = address.path[1:]
    if _STREAM.fullmatch(stream) is None:
        raise ConfigError(
            f"{address.shown} names no stream: write {_EXAMPLE}, with up to 100 letters, digits and _ . - for the stream"
        )
    vhost = options.take("vhost")
    taken = plain(address, options)
    if taken.partitions is not None:
        check_most(taken.partitions, address.shown)
    client, text = told(address, options, "password", _NAMES)
    client = with_tls(client, address, tls)
    check_user(client, address, user)
    return Settings(
        **vars(taken),
        scheme=address.scheme,
        url=f"{address.scheme}://{user}{at}{found[0]}/{stream}{text}",
        server=found[0],
        vhost="/" if vhost is None else str(vhost),
        stream=stream,
        user=unquote(user) or str(client.get("username") or USER),
        client=client,
    )


def check_most(partitions: int, what: str) -> None:
    """Raise for more partitions than a connection can follow."""
    if partitions > MOST:
        raise ConfigError(f"{what} has partitions={partitions}: a log on RabbitMQ has at most {MOST}")
