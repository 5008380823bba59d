"""A `redis://` URL taken apart, and what the client is told.

`redis://[USER@]HOST[:PORT][,HOST...][/DB]?stream=pares`, and `rediss://` for TLS. Several hosts are servers of which one is the
master; with
`sentinel=NAME` they are Sentinels, which know who that is. A password stands in no URL: it comes from REDISCLI_AUTH, as for
redis-cli, from `options={...}` or from a properties file, `config=FILE`. Values that may be secrets stand in no URL, error, log
line or `repr`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.client_options import Usual, check_user, hosts, plain, scrubbed, told, user_of, with_tls

log: Final = logging.getLogger("pares.redis")

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
TLS_SCHEME: Final = "rediss"
STREAM: Final = "pares"
PASSWORD: Final = "REDISCLI_AUTH"
"""The variable of the environment that redis-cli takes a password from."""
_EXAMPLE: Final = "redis://HOST:PORT/DB"
_STREAM: Final = re.compile(r"[A-Za-z0-9_.:{}-]{1,100}")
_MASTER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SECRET: Final = re.compile(r"password")
_TLS: Final = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_check_hostname")
_NAMES: Final = ("username", "password", "sentinel_username", "sentinel_password", "client_name", "ssl", *_TLS)


@dataclass(frozen=True)
class Settings(Usual):
    """What a Redis ledger was opened with."""

    scheme: str
    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    servers: tuple[str, ...]
    """HOST:PORT of each server that may be the master, or of each Sentinel."""
    sentinel: str
    """What Sentinels call the master; empty: `servers` are none."""
    db: int
    user: str | None
    stream: str
    replicas: int
    """How many replicas an append waits for."""
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it: its addresses, its database, its stream."""
        by = f" (Sentinel, {self.sentinel})" if self.sentinel else ""
        return f"{self.scheme}://{','.join(self.servers)}/{self.db}{by}, stream {self.stream}"

    def told(self, server: str, *, sentinel: bool = False) -> dict[str, Any]:
        """What the client is told to reach this server."""
        host, _, port = server.rpartition(":")
        prefix = "sentinel_" if sentinel else ""
        password = self.client.get(f"{prefix}password") or (None if sentinel else os.environ.get(PASSWORD))
        return {
            "host": host.strip("[]"),
            "port": int(port),
            "db": 0 if sentinel else self.db,
            "username": self.client.get(f"{prefix}username") or (None if sentinel else self.user),
            "password": password or None,
            "client_name": self.client.get("client_name"),
            **{name: self.client[name] for name in _TLS if self.tls and name in self.client},
        }

    @property
    def tls(self) -> bool:
        return bool(self.client.get("ssl"))

    @property
    def authenticates(self) -> bool:
        return bool(self.client.get("password") or os.environ.get(PASSWORD))

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, {"password": os.environ.get(PASSWORD), **self.client}, _SECRET)

    def base(self, topic: str) -> str:
        """How the keys of a log begin: that of partition 0 is no longer than that."""
        return f"{self.stream}:topic:{quote(topic, safe='')}" if topic else self.stream

    def meta(self, topic: str) -> str:
        """The key with what is known of a log."""
        return f"{self.base(topic)}:log"

    def key(self, topic: str, partition: int) -> str:
        """The key of a partition's stream."""
        return f"{self.base(topic)}:{partition}" if partition else self.base(topic)

    def channel(self, topic: str, partition: int) -> str:
        """Where it is told that something urgent has come. Channels belong to no database."""
        return f"{self.base(topic)}:bell:{self.db}:{partition}"


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    advice = f"put it into {PASSWORD}, or give it as options={{'password': ...}} or in config=FILE"
    user, at, servers = user_of(address, advice, "redis://USER@HOST:PORT/DB")
    sentinel = _named(address, options, "sentinel", _MASTER, "") or ""
    port = SENTINEL_PORT if sentinel else PORT
    found = hosts(servers, "server", port, _EXAMPLE)
    number = address.path[1:] or "0"
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        raise ConfigError(
            f"{address.shown} names no database: write its number, {_EXAMPLE}, and the log as ?stream=NAME"
        )
    stream = _named(address, options, "stream", _STREAM, STREAM)
    taken = plain(address, options)
    replicas = options.whole("replicas", least=0) or 0
    client, text = told(address, options, "password", _NAMES)
    client = with_tls(client, address, address.scheme == TLS_SCHEME)
    check_user(client, address, user)
    return Settings(
        **vars(taken),
        scheme=address.scheme,
        url=f"{address.scheme}://{user}{at}{','.join(found)}/{int(number)}{text}",
        servers=tuple(found),
        sentinel=sentinel,
        db=int(number),
        user=unquote(user) or None,
        stream=stream,
        replicas=replicas,
        client=client,
    )


def _named(address: Address, options: Options, name: str, form: re.Pattern[str], default: str) -> str:
    value = options.take(name)
    text = default if value is None else str(value)
    if value is not None and form.fullmatch(text) is None:
        raise ConfigError(f"{address.shown}: {name}={text} is no such name: use up to 100 letters, digits and _ . -")
    return text
