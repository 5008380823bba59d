"""What the URLs of services have in common: addresses, settings, and client settings that may be secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from pares.core.errors import ConfigError

from .address import Address, Options
from .base import DEFAULT_RETENTION, check_partitions

TIMEOUT: Final = 1.0
"""Seconds that a request may take, unless `timeout` says otherwise."""
CONNECT: Final = 5.0
"""Seconds that opening may take, and making a log: names are looked up, TLS and SASL take several round trips. A given
`timeout` takes its place for the first answer; for what is made, only if it is longer."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*")
"""A client setting's name, as all of them are."""
_TLS_FLAGS: Final = ("ssl", "ssl_check_hostname")
_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\],]+)(?::([0-9]{1,5}))?")


@dataclass(frozen=True)
class Usual:
    """What a ledger on servers is opened with, whatever servers they are."""

    partitions: int | None
    replication: int | None
    retention: float | None
    timeout: float
    connect: float
    """Seconds that opening the ledger may take until a server has answered."""
    prefix: str
    readonly: bool
    """Whether it was opened to look on only: nothing is made, changed or appended."""


def usual(address: Address, options: Options, names: re.Pattern[str], what: str) -> Usual:
    """These settings in a URL and its options; raises `ConfigError`. What `names` does not match is no prefix of a `what`."""
    taken, replication, prefix = plain(address, options), options.whole("replication"), options.take("prefix")
    if prefix is not None and (not isinstance(prefix, str) or not names.fullmatch(prefix)):
        raise ConfigError(f"{address.shown}: prefix={prefix} is no beginning of a {what}")
    return replace(taken, replication=replication, prefix=prefix or "")


def plain(address: Address, options: Options, timeout: float = TIMEOUT, connect: float = CONNECT) -> Usual:
    """The same of a service that keeps no copies of its own accord, and has no names to put a prefix before. `timeout`,
    `connect`: seconds, unless the URL says otherwise."""
    retention = options.seconds("retention", DEFAULT_RETENTION, none=True)
    partitions = options.whole("partitions")
    if partitions is not None:
        check_partitions(partitions, address.shown)
    patience = options.seconds("timeout", None)
    readonly = options.flag("readonly")
    return Usual(partitions, None, retention, patience or timeout, patience or connect, "", readonly)


def told(address: Address, options: Options, example: str, names: Collection[str]) -> tuple[dict[str, Any], str]:
    """The last of a URL's options: client settings, which are among `names`, and how a URL names those of its options that
    may stand in one. Raises `ConfigError` for what nobody has taken."""
    client, path = client_settings(options, example)
    options.finish()
    for name in client:
        if name not in names:
            raise ConfigError(f"unknown client setting {name}: a {address.scheme}:// ledger knows {', '.join(names)}")
    text = options.query(leave_out=("options",), replace={} if path is None else {"config": os.path.abspath(str(path))})
    return client, text


def user_of(address: Address, advice: str, example: str) -> tuple[str, str, Address]:
    """The user before the @, as the URL has it; the @, or nothing; and the servers behind it, for `hosts`. Raises for a
    password: `advice` says where else it may stand."""
    user, at, servers = address.host.rpartition("@")
    if ":" in user:
        raise ConfigError(f"{address.shown} has a password in it, which no ledger's URL may: {advice}")
    if at and not user:
        raise ConfigError(f"{address.shown} names no user before the @: write {example}")
    return user, at, Address(address.url, "", servers, "", {})


def hosts(address: Address, what: str, port: int, example: str) -> list[str]:
    """`HOST:PORT` of each `what` that the URL names; `port` where it names none."""
    if not address.host:
        raise ConfigError(f"{address.shown} names no {what}: write {example}")
    found: list[str] = []
    for server in address.host.split(","):
        match = _HOST.fullmatch(server)
        if match is None or not 0 < int(match[2] or port) < 65_536:
            raise ConfigError(f"{address.shown}: {server!r} is no HOST:PORT of a {what}: write {example}")
        found.append(f"{match[1]}:{match[2] or port}")
    return found


def client_settings(options: Options, example: str) -> tuple[dict[str, Any], object]:
    """The client settings in `config=FILE` and `options={...}`, and that file's path (None: there is none)."""
    client: dict[str, Any] = {}
    path = options.take("config")
    if path is not None:
        client |= _properties(str(path))
    given = options.take("options")
    if given is not None:
        client |= _mapping(given, example)
    return client, path


def flag(name: str, value: Any) -> bool:
    """A client setting that is true or false: in a properties file all are text."""
    known = value if isinstance(value, bool) else _FLAGS.get(str(value).lower())
    if known is None:
        raise ConfigError(f"the client setting {name} is neither true nor false")
    return known


def check_user(client: Mapping[str, Any], address: Address, user: str, name: str = "username") -> None:
    """Raise where the URL and the client settings both name a user."""
    if user and name in client:
        raise ConfigError(f"{address.shown} names a user, and so do the client settings: leave one of them out")


def with_tls(client: dict[str, Any], address: Address, asked: bool) -> dict[str, Any]:
    """Client settings that ask for TLS (`ssl`) if the URL does (`asked`), by its scheme; that is true or false by then. Raises
    if they say no to it."""
    client = {name: flag(name, value) if name in _TLS_FLAGS else value for name, value in client.items()}
    if not asked:
        return client
    if not client.get("ssl", True):
        raise ConfigError(f"{address.shown} asks for TLS, and the client setting ssl says no: leave one of them out")
    return {**client, "ssl": True}


MAYBE_NO_TLS: Final = "; if it runs, it may not speak TLS at that port: name the port that does, or leave TLS out"
"""Of a server that is silent to what begins with TLS."""


def tls_advice(why: str) -> str:
    """What can be done about a TLS connection that did not come about, by what the library says of it; else nothing."""
    text = why.lower()
    if "hostname" in text or "ip address mismatch" in text or "doesn't match" in text:
        return "; the certificate is for another name: use that in the URL, or give ssl_check_hostname=false"
    if "certificate verify failed" in text or "certificate_verify_failed" in text:
        return "; name the certificate of who signed the server's in the client setting ssl_ca_certs, a file"
    if "certificate required" in text or "certificate_required" in text or "handshake failure" in text:
        return "; the server may want a certificate: name it in ssl_certfile, and its key in ssl_keyfile"
    if "wrong version number" in text or "wrong_version_number" in text or "record layer failure" in text:
        return "; it does not speak TLS at that port: name the port that does, or leave TLS out"
    return ""


def _properties(path: str) -> dict[str, str]:
    """A properties file: `name=value` a line; `#` and `!` begin a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"config={path} can't be read: {why}; name a properties file with client settings") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        if not equals or _NAME.fullmatch(name.strip()) is None:
            # The line itself is not repeated: it may be a secret that lost its name, and has a = in it.
            raise ConfigError(f"config={path}: line {number} is no setting: write name=value")
        found[name.strip()] = value.strip()
    return found


def _mapping(given: object, example: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"options must be a dictionary of client settings, not {type(given).__name__}")
    client = dict(cast(Mapping[Any, Any], given))
    for name in client:
        if not isinstance(name, str):
            raise ConfigError(f"options has a name that is no text but {type(name).__name__}: use one like {example!r}")
    return client


def scrubbed(text: str, client: Mapping[str, Any], secret: re.Pattern[str]) -> str:
    """`text` without the value of any setting whose name says that it may be a secret, in whatever form it may be repeated."""
    for name, value in client.items():
        if secret.search(name) and isinstance(value, str) and len(value) > 1:
            plain = json.dumps(value)[1:-1]
            for form in (value, quote(value, safe=""), quote(value), quote_plus(value), plain, repr(value)[1:-1]):
                text = text.replace(form, "***")
    return text
