"""From a URL to a ledger.

A URL names everything that two processes must agree on to mean the same log, so that it can stand in a configuration
file, an environment variable or a command line. Whatever in it is not understood is an error: an option that is
silently ignored is an outage later. Ledgers of other packages are found by the entry point group `pares.ledgers`: the
name is the scheme, the object is called with an `Address` and its `Options` and returns the ledger.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pares.core.errors import CapabilityError, ConfigError

from .address import Address, Options, shown
from .base import Bus, Ledger
from .bus import TailBus, as_bus

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP: Final = "pares.ledgers"
_BUILT_IN: Final = ("kafka", "memory", "nats", "sqlite")
_EXAMPLES: Final = (
    "sqlite:///relative.db, sqlite:////absolute.db, kafka://HOST:PORT/TOPIC, nats://HOST:PORT/STREAM or memory://NAME"
)


LOOK_ONLY: Final = frozenset({"kafka", "nats", "sqlite"})
"""Schemes whose ledgers know the option `readonly`: whoever only looks makes nothing, and needs no right to write."""


class ClosableBus(Bus, Protocol):
    """What `open_bus` returns."""

    def close(self) -> None:
        """Give everything back. May be called twice."""
        ...


Opener = Callable[[Address, Options], Ledger | ClosableBus]


def parse(url: str) -> Address:
    """Take a ledger's URL apart. Raises `ConfigError` if it is none."""
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"a ledger's URL must be a string, not {type(url).__name__}: for example {_EXAMPLES}")
    if any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise ConfigError(f"the ledger URL {shown(url)!r} has a control character: remove it")
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme or not rest.startswith("//"):
        guess = f"; for the file {url} write sqlite:///{url}" if url and not colon else ""
        raise ConfigError(f"{shown(url)!r} is no ledger URL: write SCHEME://..., for example {_EXAMPLES}{guess}")
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
        path = unquote(parts.path, errors="strict")
    except ValueError as error:
        # What it found fault with it repeats, and that may be a password.
        why = "it can't be taken apart" if shown(url) != url else str(error)
        raise ConfigError(f"{shown(url)!r} is no ledger URL: {why}; write for example {_EXAMPLES}") from None
    if "@" in url and "@" not in parts.netloc and shown(url) != url and "//***@" in shown(url):
        raise ConfigError(
            f"{shown(url)!r} has a user or password in it, which no ledger's URL may: give client settings in a properties "
            "file, ?config=FILE, or as options={...}"
        )
    if parts.fragment or url.endswith("#"):
        raise ConfigError(f"{shown(url)!r} has a '#', which no ledger's URL may: write %23 for one in a file's name")
    options = dict(query)
    if len(options) != len(query):
        twice = next(name for name, _ in query if [other for other, _ in query].count(name) > 1)
        raise ConfigError(f"{shown(url)!r} has the option {twice} twice: keep one")
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
    `CapabilityError` if this version, the platform or the file system is not up to it, or what the URL names keeps no log
    (core NATS: see `open_bus`), `LedgerUnavailable` if the ledger can't be reached now.
    """
    ledger, number = _open(url, options)
    if not isinstance(ledger, Ledger):
        ledger.close()
        raise CapabilityError(
            f"{shown(url)} has no log: core NATS passes messages on and keeps none. Name a stream (JetStream): "
            f"{shown(url).rstrip('/')}/STREAM. Groups that run protocol 'allcall' need none: members and observers say "
            "protocol='allcall', `pares watch` and `pares doctor` listen to them, and no other command has what to work on"
        )
    if number >= ledger.partitions:
        there = ledger.partitions
        ledger.close()
        raise ConfigError(f"{shown(url)} names partition {number}, but the ledger has partitions 0 to {there - 1}")
    return ledger


def open_bus(url: str, **options: object) -> ClosableBus:
    """Open what `url` names as a bus, also where it keeps no log (core NATS).

    On a ledger with a log alone it is one topic of it. Errors as for `open`.
    """
    ledger, _ = _open(url, options)
    return _LedgerBus(ledger) if isinstance(ledger, Ledger) else ledger


class _LedgerBus:
    """A bus, and the ledger that was opened for it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._bus = as_bus(ledger)

    def publish(self, subject: str, payload: bytes) -> None:
        self._bus.publish(subject, payload)

    def listen(self, subject: str, on_message: Callable[[bytes], None]) -> Callable[[], None]:
        return self._bus.listen(subject, on_message)

    @property
    def epoch(self) -> int:
        """The number of the connection, where the ledger has such a thing; see `NatsBus.epoch`."""
        return getattr(self._ledger, "epoch", 0)

    @property
    def readonly(self) -> bool:
        return getattr(self._ledger, "readonly", False)

    def close(self) -> None:
        if isinstance(self._bus, TailBus):
            self._bus.close()
        self._ledger.close()


def _open(url: str, options: Mapping[str, object]) -> tuple[Ledger | ClosableBus, int]:
    """What the URL names, and the partition in it."""
    address = parse(url)
    opener = _opener(address)
    given = Options(url, {**address.query, **options})
    number = given.whole("partition", least=0) or 0
    return opener(address, given), number


def _registered() -> "EntryPoints":
    from importlib.metadata import entry_points  # here: half as large as all the rest that a small process loads

    return entry_points(group=GROUP)


def _opener(address: Address) -> Opener:
    if address.scheme == "memory":
        from .memory import MemoryLedger

        return MemoryLedger
    if address.scheme == "sqlite":
        from pares.ledger.sqlite.log import SqliteLedger

        return SqliteLedger
    if address.scheme == "kafka":
        from pares.ledger.kafka.log import KafkaLedger

        return KafkaLedger
    if address.scheme == "nats":
        from pares.ledger.nats.log import open_nats

        return open_nats
    for found in _registered().select(name=address.scheme):
        try:
            return found.load()
        except Exception as error:
            raise CapabilityError(
                f"the ledger {address.scheme}:// is registered by {found.value}, which can't be loaded: {error!r}; "
                "install what it needs"
            ) from error
    known = ", ".join(f"{scheme}://" for scheme in schemes())
    raise ConfigError(
        f"{address.scheme}:// in {address.shown!r} is no scheme known here: no installed package offers it (entry point "
        f"group {GROUP}); known are {known}"
    )
