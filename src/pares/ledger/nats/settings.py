"""A `nats://` URL taken apart, and what NATS' client is told.

`nats://HOST:PORT[,HOST:PORT...]/STREAM`; without a stream it is core NATS, which keeps nothing. Credentials come from
`options={...}` or from a properties file, `config=FILE`. Their values may be secrets: they stand in no URL, error, log line or
`repr`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.base import check_name
from pares.ledger.client_options import Usual, client_settings, hosts, scrubbed, usual

log: Final = logging.getLogger("pares.nats")

PORT: Final = 4222
_EXAMPLE: Final = "nats://HOST:PORT[,HOST:PORT...]/STREAM"
_STREAM: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_SLUG: Final = re.compile(r"[^A-Za-z0-9_-]+")
_SECRET: Final = re.compile(r"password|token")
_NAMES: Final = (
    "user",
    "password",
    "token",
    "creds",
    "nkey",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_hostname",
    "tls_first",
)


@dataclass(frozen=True)
class Settings(Usual):
    """What a NATS ledger was opened with."""

    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    servers: tuple[str, ...]
    stream: str
    """Empty for core NATS."""
    monitors: tuple[str, ...]
    """Where the servers say how they are configured."""
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it: its addresses, and its stream."""
        return f"nats://{','.join(self.servers)}/{self.stream}".rstrip("/")

    def stream_name(self, name: str) -> str:
        """The stream that `Ledger.topic(name)` means.

        A name that NATS allows is that stream's, after `prefix`; any other is made up from its letters and its hash, and stands
        behind the name of the ledger's own stream.
        """
        check_name(name, "a topic's name")
        if _STREAM.fullmatch(self.prefix + name):
            full = self.prefix + name
        else:
            digest = hashlib.sha256(name.encode()).hexdigest()[:20]
            full = f"{self.stream[:100]}_{_SLUG.sub('_', name)[:70]}_{digest}"
        if not self.stream and full != self.prefix + name:
            raise ConfigError(
                f"{self.where}: {name!r} is no name of a stream here: use 1 to 200 letters, digits, '_' and '-'; or name a "
                "ledger's stream in the URL, beside which such a name stands for one"
            )
        if full == self.stream:
            raise ConfigError(
                f"the topic {name!r} is the ledger's own log, {self.stream}: use another name, or another ledger"
            )
        return full

    def connection(self) -> dict[str, Any]:
        """What NATS' client is told, besides the address. Raises `ConfigError`, `CapabilityError`."""
        told: dict[str, Any] = {
            name: self.client[name] for name in ("user", "password", "token") if name in self.client
        }
        for name, theirs in (("creds", "user_credentials"), ("nkey", "nkeys_seed")):
            if name in self.client:
                _need_nkeys(self.url, name)
                told[theirs] = _file(self.url, name, self.client[name])
        if any(name.startswith("tls_") for name in self.client):
            told["tls"] = self._tls()
            if "tls_hostname" in self.client:
                told["tls_hostname"] = self.client["tls_hostname"]
            told["tls_handshake_first"] = str(self.client.get("tls_first", "0")).lower() in ("1", "true", "yes")
        return told

    def _tls(self) -> Any:
        import ssl

        ca, certificate = self.client.get("tls_ca"), self.client.get("tls_cert")
        try:
            context = ssl.create_default_context(cafile=_file(self.url, "tls_ca", ca) if ca else None)
            if certificate:
                context.load_cert_chain(_file(self.url, "tls_cert", certificate), self.client.get("tls_key"))
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{self.url}: tls_ca, tls_cert or tls_key can't be used: {error}; name PEM files"
            ) from None
        return context

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, self.client, _SECRET)


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    if "@" in address.host:
        raise ConfigError(
            "a nats:// URL has no user or password in it: give them as options={'user': ..., 'password': ...} or in config=FILE"
        )
    servers = hosts(address, "server", PORT, _EXAMPLE)
    stream = _stream(address)
    taken = usual(address, options, _STREAM, "stream's name: use letters, digits, '_', '-'")
    monitor = options.take("monitor")
    monitors = (
        hosts(Address(address.url, "", str(monitor), "", {}), "monitoring port", 8222, "HOST:PORT") if monitor else []
    )
    client, path = client_settings(options, "user")
    options.finish()
    for name in client:
        if name not in _NAMES:
            raise ConfigError(f"unknown client setting {name}: a nats:// ledger knows {', '.join(_NAMES)}")
    replace = {} if path is None else {"config": os.path.abspath(str(path))}
    text = options.query(leave_out=("options",), replace=replace)
    return Settings(
        **vars(taken),
        url=f"nats://{','.join(servers)}" + (f"/{stream}" if stream else "") + text,
        servers=tuple(servers),
        stream=stream,
        monitors=tuple(monitors),
        client=client,
    )


def _stream(address: Address) -> str:
    stream = address.path[1:]
    if stream and not _STREAM.fullmatch(stream):
        raise ConfigError(
            f"{address.shown}: {stream!r} is no name of a stream here: use 1 to 200 letters, digits, '_' and '-'"
        )
    return stream


def _file(url: str, name: str, path: Any) -> str:
    if not os.path.isfile(str(path)):
        raise ConfigError(f"{url}: {name}={path} is no file: name one")
    return str(path)


def _need_nkeys(url: str, name: str) -> None:
    try:
        import nkeys  # pyright: ignore[reportMissingImports, reportUnusedImport]  # noqa: F401
    except ImportError as error:
        raise CapabilityError(f"{url}: {name} needs nkeys ({error}): pip install nkeys") from error
