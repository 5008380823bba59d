"""From a URL to a ledger.

A URL names everything that two processes must agree on to mean the same log, so that it can stand in a configuration
file, an environment variable or a command line. Whatever in it is not understood is an error: an option that is
silently ignored is an outage later. Ledgers of other packages are found by the entry point group `pares.ledgers`: the
name is the scheme, the object is called with an `Address` and its `Options` and returns the ledger.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from pares.core.errors import CapabilityError, ConfigError

from .address import Address, Options, shown
from .base import Capabilities, Declaring, Ledger, Scope, offers
from .bus import Bus, Reconnecting, TailBus, as_bus

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from .source import Source

GROUP: Final = "pares.ledgers"


class ClosableBus(Bus, Declaring, Protocol):
    """What `open_bus` returns."""

    def close(self) -> None:
        """Give everything back. May be called twice."""
        ...


Opener = Callable[[Address, Options], Ledger | ClosableBus]


class Scheme(Struct, frozen=True, kw_only=True):
    """What is known of the ledgers of one scheme before one is opened. An entry point may name such a value in the place of
    what opens the ledger."""

    opens: Opener | str
    """What opens one; or where that is, as "module:name", imported when it is asked for."""
    shown: tuple[str, ...] = ()
    """Examples of URLs, for errors."""
    look_only: bool = False
    """Its ledgers know the option `readonly`: a process that only looks makes nothing, and needs no right to write."""
    scope: Scope = "network"
    """As its ledgers declare it in their `Capabilities`."""
    file: bool = False
    """A URL's path is that of a file or folder, which is missing before the ledger is made."""
    slashes: bool = True
    """Its URLs have `//` behind the colon, in any case. Without: a path may follow the colon at once."""
    relative: bool = False
    """A path behind three slashes is below the current folder, and only one behind four a whole one."""
    write_lock: bool = False
    """A writer keeps all others out while it writes, also when it stands still in it."""
    bus_without_path: bool = False
    """A URL without a path is a bus that keeps no log."""
    least_session: float | None = None
    """Of a service with a `Group` of its own: the least session, in seconds, that it grants unless it is set up otherwise."""
    kafka_client: bool = False
    """It is spoken to by Kafka's client, and takes its settings: a process that only looks gives its brokers more time."""
    ranges: bool = False
    """Many may read different ranges of one partition at once, and each is the quicker for it."""
    topics: bool = False
    """Its ledgers keep topics with keys, as they declare it in their `Capabilities`."""
    source: str = ""
    """What opens a source of a service's topic by a URL, as "module:name"; without it the ledger is opened for that."""
    words: str = ""
    """What one is, to people; its scheme if nothing is said."""


_BUILT_IN: Final[dict[str, Scheme]] = {
    "sqlite": Scheme(
        opens="pares.ledger.sqlite.log:SqliteLedger",
        shown=("sqlite:///relative.db", "sqlite:////absolute.db"),
        look_only=True,
        scope="host",
        file=True,
        relative=True,
        write_lock=True,
        topics=True,
        words="a SQLite file",
    ),
    "file": Scheme(
        opens="pares.ledger.file.log:FileLedger",
        shown=("file:///FOLDER",),
        look_only=True,
        scope="host",
        file=True,
        slashes=False,
        topics=True,
        words="a folder of files",
    ),
    "kafka": Scheme(
        opens="pares.ledger.kafka.log:KafkaLedger",
        shown=("kafka://HOST:PORT/TOPIC",),
        look_only=True,
        least_session=6.0,
        kafka_client=True,
        ranges=True,
        source="pares.ledger.kafka.source:open_kafka",
        words="a Kafka topic",
    ),
    "nats": Scheme(
        opens="pares.ledger.nats.log:open_nats",
        shown=("nats://HOST:PORT/STREAM",),
        look_only=True,
        bus_without_path=True,
        source="pares.ledger.nats.source:open_jetstream",
    ),
    "postgresql": Scheme(
        opens="pares.ledger.postgres.log:PostgresLedger",
        shown=("postgresql://USER@HOST:PORT/DB",),
        look_only=True,
        ranges=True,
        words="a PostgreSQL table",
    ),
    "redis": Scheme(
        opens="pares.ledger.redis.log:RedisLedger",
        shown=("redis://HOST:PORT/DB",),
        look_only=True,
        words="a Redis stream",
    ),
    "rabbitmq-stream": Scheme(
        opens="pares.ledger.rabbitmq.log:RabbitLedger",
        shown=("rabbitmq-stream://HOST:PORT/STREAM",),
        look_only=True,
        words="a RabbitMQ stream",
    ),
    "pulsar": Scheme(
        opens="pares.ledger.pulsar.log:PulsarLedger",
        shown=("pulsar://HOST:PORT/TENANT/NAMESPACE/TOPIC",),
        look_only=True,
        words="a Pulsar topic",
    ),
    "pulsar+ssl": Scheme(opens="pares.ledger.pulsar.log:PulsarLedger", look_only=True, words="a Pulsar topic"),
    "kinesis": Scheme(
        opens="pares.ledger.kinesis.log:KinesisLedger",
        shown=("kinesis://REGION/STREAM",),
        look_only=True,
        words="a Kinesis stream",
    ),
    "memory": Scheme(opens="pares.ledger.memory:MemoryLedger", shown=("memory://NAME",), scope="process", topics=True),
}
"""The ledgers that come with pares: the rest of pares knows nothing else of each before it is opened."""
for _plain, _tls in (("redis", "rediss"), ("rabbitmq-stream", "rabbitmq-stream+tls")):
    _BUILT_IN[_tls] = replace(_BUILT_IN[_plain], shown=())

_AMQP: Final = (
    "a queue of AMQP gives each message to one consumer and drops it once it is acknowledged, so nobody can read what was "
    "said: it keeps no log, and no protocol of pares runs on it. A stream of the same RabbitMQ keeps one: "
    "rabbitmq-stream://HOST:PORT/STREAM (docs/neli.md#queues)"
)
_QUEUES: Final[dict[str, str]] = {
    "sqs": (
        "a queue of SQS, FIFO or not, gives each message to one consumer and drops it once that has deleted it, so nobody can "
        "read what was said: it keeps no log, and no protocol of pares runs on it. A stream of Kinesis keeps one: "
        "kinesis://REGION/STREAM; so do the other ledgers (docs/neli.md#queues)"
    ),
    "amqp": _AMQP,
    "amqps": _AMQP,
}
"""Services that members may share and that can be no ledger, and why, with what would do."""


def _examples() -> str:
    *most, last = [url for each in _BUILT_IN.values() for url in each.shown]
    return f"{', '.join(most)} or {last}"


_EXAMPLES: Final = _examples()


def parse(url: str) -> Address:
    """Take a ledger's URL apart. Raises `ConfigError` if it is none."""
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"a ledger's URL must be a string, not {type(url).__name__}: for example {_EXAMPLES}")
    if any(ord(character) < 32 or ord(character) == 127 for character in url):
        raise ConfigError(f"the ledger URL {shown(url)!r} has a control character: remove it")
    scheme, colon, rest = url.partition(":")
    known = _BUILT_IN.get(scheme.lower())
    if not colon or not scheme or not rest.startswith("//" if known is None or known.slashes else ""):
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


def path_of(url: str) -> str | None:
    """The file or folder that a ledger is, below the current folder or by its whole path; None for other ledgers. Raises
    `ConfigError` for what is no URL."""
    address, scheme = parse(url), scheme_of(url)
    if not scheme.file or address.host:
        return None
    return address.path[1:] if scheme.relative else address.path


def partition_of(url: str) -> int:
    """The partition that a URL names for a group to live in: `?partition=`, 0 if it has none."""
    return Options(url, parse(url.partition("#")[0]).query).whole("partition", least=0) or 0


def schemes() -> list[str]:
    """The schemes that `open` knows here, those of installed packages included."""
    return sorted({*_BUILT_IN, *(found.name for found in _registered())})


def schemes_with_topics() -> list[str]:
    """The schemes, among those that come with pares, whose ledgers keep topics with keys."""
    return sorted(f"{name}:" for name, scheme in _BUILT_IN.items() if scheme.topics)


def schemes_with_sources() -> list[str]:
    """The schemes, among those that come with pares, whose topics can be consumed."""
    return sorted(f"{name}:" for name, scheme in _BUILT_IN.items() if scheme.topics or scheme.source)


def open(url: str, **options: object) -> Ledger:
    """Open the ledger that `url` names, and make it if it isn't there.

    `options` are the same as those in the URL's query, and win over them. Close what this returns, or use it until the
    process ends. Raises `ConfigError` for a URL or option that can't be (an unknown scheme or option is one),
    `CapabilityError` if this version, the platform or the file system is not up to it, or what the URL names keeps no log
    (core NATS: see `open_bus`), `LedgerUnavailable` if the ledger can't be reached now.
    """
    ledger, number = _open(url, options)
    if not offers(ledger, Ledger):
        ledger.close()
        if not isinstance(ledger, Bus):  # pyright: ignore[reportUnnecessaryIsInstance] - by another package, of any release
            raise CapabilityError(
                f"{shown(url)} was opened as {type(ledger).__name__}, which is no pares.ledger.Ledger: give it all methods and "
                "properties of one, `capabilities = pares.ledger.Capabilities()` too"
            )
        raise CapabilityError(
            f"{shown(url)} has no log: core NATS passes messages on and keeps none. Name a stream (JetStream): "
            f"{shown(url).rstrip('/')}/STREAM. Groups that run protocol 'allcall' need none: members and observers say "
            "protocol='allcall', `pares watch` and `pares doctor` listen to them, and no other command has what to work on"
        )
    if number and number >= (there := ledger.partitions):  # each has a first one, and to ask takes a round trip
        ledger.close()
        raise ConfigError(f"{shown(url)} names partition {number}, but the ledger has partitions 0 to {there - 1}")
    return ledger


def open_bus(url: str, **options: object) -> ClosableBus:
    """Open what `url` names as a bus, also where it keeps no log (core NATS).

    On a ledger with a log alone it is one topic of it. Errors as for `open`.
    """
    ledger, _ = _open(url, options)
    return _LedgerBus(ledger) if offers(ledger, Ledger) else cast("ClosableBus", ledger)


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
        return self._ledger.epoch if isinstance(self._ledger, Reconnecting) else 0

    @property
    def capabilities(self) -> Capabilities:
        return self._ledger.capabilities

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


def scheme_of(url: str) -> Scheme:
    """What is known of the ledger that a URL names (with `#topic` or without), which is not opened. Raises as `open` does
    for what is no URL, and for a scheme that there is not."""
    return _scheme(parse(url.partition("#")[0]))


def _scheme(address: Address) -> Scheme:
    built_in = _BUILT_IN.get(address.scheme)
    if built_in is not None:
        return built_in
    for found in _registered().select(name=address.scheme):
        try:
            loaded = found.load()
        except Exception as error:
            raise CapabilityError(
                f"the ledger {address.scheme}:// is registered by {found.value}, which can't be loaded: {error!r}; "
                "install what it needs"
            ) from error
        return loaded if isinstance(loaded, Scheme) else Scheme(opens=loaded)
    if (why := _QUEUES.get(address.scheme)) is not None:
        raise CapabilityError(f"{address.shown} can't be opened: {why}")
    known = ", ".join(f"{scheme}://" for scheme in schemes())
    raise ConfigError(
        f"{address.scheme}:// in {address.shown!r} is no scheme known here: no installed package offers it (entry point "
        f"group {GROUP}); known are {known}"
    )


def _opener(address: Address) -> Opener:
    opens = _scheme(address).opens
    return _loaded(opens) if isinstance(opens, str) else opens


def source_opener(address: Address) -> "Callable[[Address, Options, str], Source] | None":
    """What opens a source of a service's topic by this URL, without a ledger; None where the ledger has to be opened for it."""
    where = _scheme(address).source
    return _loaded(where) if where else None


def _loaded(where: str) -> Any:
    """What stands at "module:name"."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
