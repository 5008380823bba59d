"""A `pulsar://` URL taken apart, and what the client is told.

`pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC?admin=http://HOST:PORT`, or `pulsar+ssl://...`. A token stands in no URL: it comes
from `options={...}` or from a properties file, `config=FILE`. Values that may be secrets stand in no URL, error, log line or
`repr`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.base import DEFAULT_RETENTION, check_partitions
from pares.ledger.client_options import Usual, client_settings, flag, hosts, scrubbed

log: Final = logging.getLogger("pares.pulsar")

PORT: Final = 6650
PORT_TLS: Final = 6651
TIMEOUT: Final = 3.0
"""Seconds that a request may take, unless `timeout` says otherwise: a broker syncs to a disk, and moves topics about."""
CONNECT: Final = 10.0
"""Seconds that opening may take: a broker loads a topic when it is first asked for."""
MOST: Final = 200
"""Partitions of a log: each is followed by a thread."""
SUBSCRIPTION: Final = "pares"
"""Under which brokers keep what was not trimmed."""
_EXAMPLE: Final = "pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC"
_NAME: Final = re.compile(r"[-=:.\w]{1,100}", re.ASCII)
"""As Pulsar takes a tenant's and a namespace's name."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_OURS: Final = re.compile(r".*-partition-\d+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SECRET: Final = re.compile(r"token|password")
_NAMES: Final = (
    "token",
    "username",
    "password",
    "tls_trust_certs_file_path",
    "tls_certificate_file_path",
    "tls_private_key_file_path",
    "tls_validate_hostname",
)


@dataclass(frozen=True)
class Settings(Usual):
    """What a Pulsar ledger was opened with."""

    scheme: str
    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    servers: str
    """HOST:PORT, several of them with commas."""
    admin: str
    """Where the cluster answers HTTP."""
    tenant: str
    namespace: str
    topic: str
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it."""
        return f"{self.scheme}://{self.servers}/{self.tenant}/{self.namespace}/{self.topic}"

    @property
    def service(self) -> str:
        return f"{self.scheme}://{self.servers}"

    @property
    def tls(self) -> bool:
        return self.scheme == "pulsar+ssl"

    def context(self) -> ssl.SSLContext | None:
        """What HTTPS is spoken with; None: it is not. Raises `ConfigError` for files that can't be read."""
        client = self.client
        try:
            trusted = client.get("tls_trust_certs_file_path")
            context = ssl.create_default_context(cafile=trusted)
            context.check_hostname = bool(client.get("tls_validate_hostname", True))
            if client.get("tls_certificate_file_path"):
                context.load_cert_chain(client["tls_certificate_file_path"], client.get("tls_private_key_file_path"))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{self.where}: tls_trust_certs_file_path, tls_certificate_file_path or tls_private_key_file_path can't be "
                f"read: {self.scrubbed(str(error))}"
            ) from None
        return context if self.admin.startswith("https:") else None

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, self.client, _SECRET)

    def base(self, topic: str) -> str:
        """The topic of a log's partition 0, without its tenant. One whose name would not go everywhere is named by its hash."""
        if not topic:
            return self.topic
        plain = topic if _PLAIN.fullmatch(topic) and not _OURS.fullmatch(topic) else _hashed(topic)
        return f"{self.topic}:{plain}"

    def name(self, topic: str, partition: int) -> str:
        """The topic of a partition, without its tenant."""
        return f"{self.base(topic)}={partition}" if partition else self.base(topic)

    def full(self, name: str) -> str:
        return f"persistent://{self.tenant}/{self.namespace}/{name}"


def _hashed(topic: str) -> str:
    return f"~{hashlib.sha256(topic.encode()).hexdigest()[:32]}"


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    if "@" in address.host:
        raise ConfigError(
            f"{address.shown} has a user in it, which no URL of Pulsar may: give options={{'token': ...}} or config=FILE"
        )
    scheme = address.scheme
    tls = scheme == "pulsar+ssl"
    found = hosts(address, "broker", PORT_TLS if tls else PORT, _EXAMPLE)
    parts = address.path[1:].split("/")
    if len(parts) != 3 or not all(parts):
        raise ConfigError(f"{address.shown} does not name tenant, namespace and topic: write {_EXAMPLE}")
    tenant, namespace, topic = parts
    for what, name in (("tenant", tenant), ("namespace", namespace)):
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{address.shown}: {name!r} is no {what} of Pulsar: write {_EXAMPLE}")
    if _TOPIC.fullmatch(topic) is None or _OURS.fullmatch(topic):
        raise ConfigError(
            f"{address.shown}: {topic!r} is no topic for a ledger: up to 100 letters, digits and _ . - (and no -partition-N "
            "at its end, which Pulsar adds itself)"
        )
    admin = _admin(address, options.take("admin"), found[0], tls)
    retention = options.seconds("retention", DEFAULT_RETENTION, none=True)
    partitions = options.whole("partitions")
    if partitions is not None:
        check_partitions(partitions, address.shown)
        check_most(partitions, address.shown)
    patience = options.seconds("timeout", None)
    readonly = options.flag("readonly")
    client, path = client_settings(options, "token")
    options.finish()
    client = {name: _checked(name, value) for name, value in client.items()}
    if "token" in client and "username" in client:
        raise ConfigError(f"{address.shown}: the client settings have a token and a username: leave one of them out")
    text = options.query(leave_out=("options",), replace={} if path is None else {"config": os.path.abspath(str(path))})
    return Settings(
        partitions=partitions,
        replication=None,
        retention=retention,
        timeout=patience or TIMEOUT,
        connect=patience or CONNECT,
        prefix="",
        readonly=readonly,
        scheme=scheme,
        url=f"{scheme}://{','.join(found)}/{tenant}/{namespace}/{topic}{text}",
        servers=",".join(found),
        admin=admin,
        tenant=tenant,
        namespace=namespace,
        topic=topic,
        client=client,
    )


def check_most(partitions: int, what: str) -> None:
    """Raise for more partitions than a handle can follow."""
    if partitions > MOST:
        raise ConfigError(f"{what} has partitions={partitions}: a log on Pulsar has at most {MOST}")


def _admin(address: Address, given: object, server: str, tls: bool) -> str:
    if given is None:
        host = server.rpartition(":")[0]
        return f"https://{host}:8443" if tls else f"http://{host}:8080"
    text = str(given)
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
        known = known and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        known, parts = False, None
    if parts is not None and "@" in parts.netloc:
        raise ConfigError(f"{address.shown}: admin has a user or password in it: leave that out")
    if not known:
        raise ConfigError(f"{address.shown}: admin is no http://HOST:PORT or https://HOST:PORT")
    return text.rstrip("/")


def _checked(name: str, value: Any) -> Any:
    """A client setting as it is used: in a properties file all are text."""
    if name not in _NAMES:
        raise ConfigError(f"unknown client setting {name}: a pulsar:// ledger knows {', '.join(_NAMES)}")
    return flag(name, value) if name == "tls_validate_hostname" else value
