"""A `kinesis://` URL taken apart, and what the client is told.

`kinesis://REGION/STREAM?endpoint=http://127.0.0.1:5000`. Credentials stand in no URL: they are found where AWS' own tools find
them (environment, profile, role of the machine), or come from `options={...}` or a properties file, `config=FILE`. Values that
may be secrets stand in no URL, error, log line or `repr`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.client_options import Usual, plain, scrubbed, told

log: Final = logging.getLogger("pares.kinesis")

POLL: Final = 1.0
"""Seconds between two reads of a stream by one ledger: five processes share what a shard allows, five reads a second."""
TIMEOUT: Final = 5.0
"""Seconds that a request may take, and an append until it is read back, unless `timeout` says otherwise."""
MOST: Final = 100
"""Partitions of a log: each is a stream, and is paid for."""
_EXAMPLE: Final = "kinesis://REGION/STREAM"
_REGION: Final = re.compile(r"[a-z]{2,8}(-[a-z]{2,12})+-\d{1,2}")
_STREAM: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_OURS: Final = re.compile(r".*\.(\d+|[th]-.*)")
"""Names of further partitions and of topics."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,50}")
_SECRET: Final = re.compile(r"aws_")
_NAMES: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "profile_name", "ca_bundle")


@dataclass(frozen=True)
class Settings(Usual):
    """What a Kinesis ledger was opened with."""

    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    region: str
    stream: str
    endpoint: str | None
    """Another place than AWS' own, an emulator's mostly."""
    poll: float | None
    """Seconds between two reads, at the least; None: the service has no limits."""
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it."""
        at = f" at {self.endpoint}" if self.endpoint else ""
        return f"kinesis://{self.region}/{self.stream}{at}"

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        found = {name: os.environ.get(name.upper()) for name in _NAMES if name.startswith("aws_")}
        return scrubbed(text, {**found, **self.client}, _SECRET)

    def base(self, topic: str) -> str:
        """The stream of a log's partition 0. A topic whose name AWS would not take is named by its hash."""
        if not topic:
            return self.stream
        plain = f"t-{topic}" if _PLAIN.fullmatch(topic) else f"h-{hashlib.sha256(topic.encode()).hexdigest()[:32]}"
        return f"{self.stream}.{plain}"

    def name(self, topic: str, partition: int) -> str:
        """The stream of a partition."""
        return f"{self.base(topic)}.{partition}" if partition else self.base(topic)


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    if "@" in address.host:
        raise ConfigError(
            f"{address.shown} has credentials in it, which no ledger's URL may: leave them to the environment "
            "(AWS_PROFILE, AWS_ACCESS_KEY_ID, a role), or give options={'profile_name': ...} or config=FILE"
        )
    region, stream = address.host, address.path[1:]
    if not region:
        raise ConfigError(f"{address.shown} names no region: write {_EXAMPLE}, for example kinesis://eu-central-1/jobs")
    if _REGION.fullmatch(region) is None:
        raise ConfigError(
            f"{address.shown}: {region!r} is no region of AWS: write {_EXAMPLE}, for example kinesis://eu-central-1/jobs, and "
            "another server than AWS' own as ?endpoint=http://HOST:PORT"
        )
    if _STREAM.fullmatch(stream) is None:
        raise ConfigError(
            f"{address.shown} names no stream: write {_EXAMPLE}, with up to 60 letters, digits and _ . - for the stream"
        )
    if _OURS.fullmatch(stream):
        raise ConfigError(
            f"{address.shown}: {stream!r} is how a ledger names the streams of its further partitions and topics: name another"
        )
    endpoint = _endpoint(address, options.take("endpoint"))
    taken = plain(address, options, TIMEOUT, TIMEOUT)
    if taken.partitions is not None:
        check_most(taken.partitions, address.shown)
    poll = options.seconds("poll", POLL, none=True)
    client, text = told(address, options, "profile_name", _NAMES)
    return Settings(
        **vars(taken),
        url=f"kinesis://{region}/{stream}{text}",
        region=region,
        stream=stream,
        endpoint=endpoint,
        poll=poll,
        client=client,
    )


def check_most(partitions: int, what: str) -> None:
    """Raise for more streams than one log should have."""
    if partitions > MOST:
        raise ConfigError(
            f"{what} has partitions={partitions}: each is a stream of its own, and a log has at most {MOST}"
        )


def _endpoint(address: Address, given: object) -> str | None:
    if given is None:
        return None
    text = str(given)
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
        known = known and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        known, parts = False, None
    if parts is not None and "@" in parts.netloc:
        raise ConfigError(f"{address.shown}: endpoint has a user or password in it: leave that out")
    if not known:
        raise ConfigError(f"{address.shown}: endpoint is no http://HOST:PORT or https://HOST:PORT")
    return text.rstrip("/")
