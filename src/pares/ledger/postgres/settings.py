"""A `postgresql://` URL taken apart, and what libpq is told.

`postgresql://USER@HOST:PORT[,HOST:PORT...]/DATABASE?table=pares`. A password stands in no URL: libpq takes it from PGPASSWORD
or ~/.pgpass, pares from `options={...}` or a properties file, `config=FILE`. Values that may be secrets stand in no URL,
error, log line or `repr`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from pares.core.errors import ConfigError
from pares.ledger.address import Address, Options
from pares.ledger.client_options import Usual, check_user, hosts, plain, scrubbed, told, user_of

log: Final = logging.getLogger("pares.postgres")

PORT: Final = 5432
TABLE: Final = "pares"
_EXAMPLE: Final = "postgresql://USER@HOST:PORT/DATABASE"
_TABLE: Final = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_]{0,50})\.)?([A-Za-z_][A-Za-z0-9_]{0,50})")
_SECRET: Final = re.compile(r"password")
_NAMES: Final = (
    "user",
    "password",
    "passfile",
    "application_name",
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "require_auth",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslnegotiation",
)
_CHOICES: Final = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "gssencmode": ("disable", "prefer", "require"),
    "channel_binding": ("disable", "prefer", "require"),
}
"""What libpq takes for these; with another value it tells of no server that it could reach, and waiting would not help."""
_PLAIN: Final = " !#$&()*+,-./:;<=>?@[]^_`{|}~"
"""What stands for itself in a topic's name, besides letters and digits; never a quote, a backslash or a %."""


@dataclass(frozen=True)
class Settings(Usual):
    """What a PostgreSQL ledger was opened with."""

    url: str
    """The URL that opens the ledger again, but for what `options={...}` said."""
    servers: tuple[str, ...]
    """HOST:PORT of each server that may be the primary."""
    database: str
    user: str | None
    """None: libpq's own choice."""
    schema: str | None
    table: str
    client: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """The ledger as messages name it: its addresses, its database, its table."""
        return f"postgresql://{','.join(self.servers)}/{self.database}, table {self.named}"

    @property
    def named(self) -> str:
        """The table with the entries, as people write it."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def entries(self) -> str:
        """The same, as SQL has it."""
        return f'"{self.schema}"."{self.table}"' if self.schema else f'"{self.table}"'

    @property
    def logs(self) -> str:
        """The table with a row for each partition of each log, as SQL has it."""
        return f'{self.entries[:-1]}_logs"'

    @property
    def making(self) -> int:
        """The number of the advisory lock that those take who make or change the tables."""
        return int.from_bytes(hashlib.sha256(f"pares {self.table}".encode()).digest()[:8], "big", signed=True)

    def told(self, server: str) -> dict[str, Any]:
        """What libpq is told to reach this server."""
        host, _, port = server.rpartition(":")
        user = {"user": self.user} if self.user else {}
        return {
            "host": host.strip("[]"),
            "port": port,
            "dbname": self.database,
            "application_name": "pares",
            "client_encoding": "UTF8",
            "target_session_attrs": "any",
            **user,
            **self.client,
        }

    def scrubbed(self, text: str) -> str:
        """`text` without the value of any setting that may be a secret."""
        return scrubbed(text, self.client, _SECRET)


def stored(topic: str) -> str:
    """A topic's name as the tables have it: in letters that every encoding of a database has, and harmless in SQL."""
    return quote(topic, safe=_PLAIN)


def take(address: Address, options: Options) -> Settings:
    """The settings in a URL and its options. Raises `ConfigError` for whatever can't be."""
    advice = "let libpq find it (PGPASSWORD, ~/.pgpass), or give it as options={'password': ...} or in config=FILE"
    user, at, servers = user_of(address, advice, _EXAMPLE)
    found = hosts(servers, "server", PORT, _EXAMPLE)
    database = address.path[1:]
    if not database or "/" in database:
        raise ConfigError(f"{address.shown} names no database: write {_EXAMPLE}")
    table = options.take("table")
    match = _TABLE.fullmatch(str(table if table is not None else TABLE))
    if match is None:
        raise ConfigError(
            f"{address.shown}: table={table} can't name the ledger's table: use up to 50 letters, digits and _, or schema.table"
        )
    taken = plain(address, options)
    client, text = told(address, options, "password", _NAMES)
    check_user(client, address, user, "user")
    for name, choices in _CHOICES.items():
        if name in client and client[name] not in choices:
            raise ConfigError(f"{address.shown}: {name} is {client[name]!r:.40}: give one of {', '.join(choices)}")
    return Settings(
        **vars(taken),
        url=f"postgresql://{user}{at}{','.join(found)}/{quote(database)}{text}",
        servers=tuple(found),
        database=database,
        user=unquote(user) or None,
        schema=match[1],
        table=match[2],
        client=client,
    )
