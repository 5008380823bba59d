"""From a URL to a ledger.

A URL names everything that two processes must agree on to mean the same log, so that it can stand in a configuration
file, an environment variable or a command line. Whatever in it is not understood is an error: an option that is
silently ignored is an outage later. Ledgers of other packages are found by the entry point group `pares.ledgers`: the
name is the scheme, the object is called with an `Address` and its `Options` and returns the ledger.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pares.core.errors import CapabilityError, ConfigError

from .address import Address, Options
from .base import Ledger

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP: Final = "pares.ledgers"
_BUILT_IN: Final = ("kafka", "memory", "sqlite")
_MISSING: Final = {
    "nats": "NATS ledgers are not part of this version (they will need the extra: pip install 'pares[nats]')",
}
_EXAMPLES: Final = "sqlite:///relative.db, sqlite:////absolute.db, kafka://HOST:PORT/TOPIC or memory://NAME"


LOOK_ONLY: Final = frozenset({"kafka", "sqlite"})
"""Schemes whose ledgers know the option `readonly`: whoever only looks makes nothing, and needs no right to write."""

Opener = Callable[[Address, Options], Ledger]


def parse(url: str) -> Address:
    """Take a ledger's URL apart. Raises `ConfigError` if it is none."""
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"a ledger's URL must be a string, not {type(url).__name__}: for example {_EXAMPLES}")
    if any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise ConfigError(f"the ledger URL {url!r} has a control character: remove it")
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme or not rest.startswith("//"):
        guess = f"; for the file {url} write sqlite:///{url}" if url and not colon else ""
        raise ConfigError(f"{url!r} is no ledger URL: write SCHEME://..., for example {_EXAMPLES}{guess}")
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
        path = unquote(parts.path, errors="strict")
    except ValueError as error:
        raise ConfigError(f"{url!r} is no ledger URL: {error}; write for example {_EXAMPLES}") from error
    if parts.fragment or url.endswith("#"):
        raise ConfigError(f"{url!r} has a '#', which no ledger's URL may: write %23 for one in a file's name")
    options = dict(query)
    if len(options) != len(query):
        twice = next(name for name, _ in query if [other for other, _ in query].count(name) > 1)
        raise ConfigError(f"{url!r} has the option {twice} twice: keep one")
    return Address(url, parts.scheme.lower(), parts.netloc, path, options)


def partition_of(url: str) -> int:
    """The partition that a URL names for a group to live in: `?partition=`, 0 if it has none."""
    return Options(url, parse(url.partition("#")[0]).query).whole("partition", least=0) or 0


def schemes() -> list[str]:
    """The schemes that `open` knows here, those of installed packages included."""
    return sorted({*_BUILT_IN, *(found.name for found in _registered())})


def open(url: str, **options: object) -> Ledger:
    """Open the ledger that `url` names, and make it if it isn't there.

    `options` are the same as those in the URL's query, and win over them. Close what this returns, or use it until the
    process ends. Raises `ConfigError` for a URL or option that can't be (an unknown scheme or option is one),
    `CapabilityError` if this version, the platform or the file system is not up to it, `LedgerUnavailable` if the ledger
    can't be reached now.
    """
    address = parse(url)
    opener = _opener(address)
    given = Options(url, {**address.query, **options})
    number = given.whole("partition", least=0) or 0
    ledger = opener(address, given)
    if number >= ledger.partitions:
        there = ledger.partitions
        ledger.close()
        raise ConfigError(f"{url} names partition {number}, but the ledger has partitions 0 to {there - 1}")
    return ledger


def _registered() -> "EntryPoints":
    from importlib.metadata import entry_points  # here: half as large as all the rest that a small process loads

    return entry_points(group=GROUP)


def _opener(address: Address) -> Opener:
    if address.scheme == "memory":
        from .memory import MemoryLedger

        return MemoryLedger
    if address.scheme == "sqlite":
        from .sqlite import SqliteLedger

        return SqliteLedger
    if address.scheme == "kafka":
        from .kafka import KafkaLedger

        return KafkaLedger
    for found in _registered().select(name=address.scheme):
        try:
            return found.load()
        except Exception as error:
            raise CapabilityError(
                f"the ledger {address.scheme}:// is registered by {found.value}, which can't be loaded: {error!r}; "
                "install what it needs"
            ) from error
    known = ", ".join(f"{scheme}://" for scheme in schemes())
    if address.scheme in _MISSING:
        raise CapabilityError(f"{address.url!r} can't be opened: {_MISSING[address.scheme]}; use one of {known}")
    raise ConfigError(
        f"{address.scheme}:// in {address.url!r} is no scheme known here: no installed package offers it (entry point "
        f"group {GROUP}); known are {known}"
    )
