"""What a ledger is, to everything above it: bytes in a total order per partition, and nothing else.

The kernel's proof rests on assumption A1 alone: *reads of one partition are in order, and acknowledged records stay*.
So a `Log` may refuse, be late, or not know what became of an append, but it must never

- reorder: two readers that have read up to the same offset have read the same entries (else two readers hold two worlds);
- reuse an offset, not even after everything was trimmed and the process restarted (tokens are offsets, and only grow);
- skip in silence: a position that is no longer in the log is `LedgerGap`, one that is not yet in it `LedgerRewound`
  (a cursor beyond the end is silent on most servers, so a member would wait for ever on a log that was begun anew);
- do a part of something: an append is in the log whole, or it raises, and then says whether it may still land.

A ledger knows bytes, not records. `Entry.timestamp_ms` is for people and for ageing, and no rule of the claims kernel looks at
it. Only exclusive NELI counts by it, and only where one clock sets it (`Stamping`).

Three services, each a protocol: `Log`, `Group` (native assignment of partitions) and, in `bus`, `Bus` (broadcast). A ledger has
at least one of them. What else it can do is in its `capabilities` where that is a fact, and where it is something to call, one
of the protocols at the end of this list: `ManyAtOnce`, `Stamped`, `Stamping`, `Checked`, `KnowsTopics`.
"""

import unicodedata
from collections.abc import Callable, Sequence
from inspect import getattr_static
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from msgspec import Struct

from pares.core.errors import ConfigError, LedgerGap, LedgerRewound

MAX_PAYLOAD: Final = 1 << 20
"""Bytes that one payload may have: 1 MiB, on every ledger, so that what one ledger takes every ledger takes."""

MAX_BATCH: Final = 10_000
"""Payloads that one `append_many` may have."""

MAX_BATCH_BYTES: Final = 16 << 20
"""Bytes that one `append_many` may have in all: 16 MiB; a larger one would keep every other writer waiting."""

MAX_READ_BYTES: Final = 16 << 20
"""A `read` returns early once it holds this many bytes, so that `max_records` large payloads can't fill the memory."""

MAX_NAME: Final = 200
"""Characters that a topic's name may have."""

MAX_PARTITIONS: Final = 10_000
"""Partitions that one log may have."""

DEFAULT_RETENTION: Final = 3600.0
"""Seconds of age that a ledger keeps at least, unless its URL says otherwise."""


T = TypeVar("T")
Scope: TypeAlias = Literal["process", "host", "network"]
"""From where a ledger can be reached: this process alone, all processes of one host (which share a clock), or any host."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a handle on a ledger is and can do beyond a `Log` or a `Bus`. Other code learns of it here and nowhere else.

    A ledger that declares nothing (`Capabilities()`) works. What it declares makes members quicker, or lets it be used for
    more."""

    readonly: bool = False
    """It was opened to look on only: every append raises `CapabilityError`."""
    scope: Scope = "network"
    one_bell: bool = False
    """A bell of any partition rings for all of them."""
    topics: bool = False
    """Its `topic` returns a `Topic`, which keeps keys, can grow, and is consumed by sources: see `KeepsTopics`."""
    lazy_sync: bool = False
    """What is appended with `urgent=False` need not survive a power cut: see `Log.append_many`."""
    stamps: bool = False
    """Entries carry the stopwatch of their writers, and readers that share it may ask for that: see `Stamped`."""
    arrivals: bool = False
    """It notes when entries come to the process, in threads of its own: see `window.Noting`."""
    anchors: bool = False
    """It can be asked without a round trip whether an entry is still there: see `Anchored`."""
    whole_reads: bool = False
    """`Stamped.read_stamped` brings all that stands there when it begins, as far as it may (`ends_here`)."""
    reassignment_bound: float | None = None
    """For a `Group`: seconds after which a silent member's partitions may be given away, unless it joined with a session."""


@runtime_checkable
class Declaring(Protocol):
    """Every log, and whatever `open_bus` returns."""

    @property
    def capabilities(self) -> Capabilities:
        """What this handle can do. Asking takes no round trip."""
        ...


class Entry(NamedTuple):
    """One acknowledged payload in its place in the log."""

    offset: int
    timestamp_ms: int
    """Wall-clock milliseconds by its writer (by the broker, where there is one); it may jump, also backwards."""
    payload: bytes


class Bell(Protocol):
    """A wake-up for readers: rings soon after an urgent append to its log by any process.

    It promises no more than that. It may ring for nothing, and once for many appends; after `clear` the reader must
    read until there is nothing new, then wait again. A reader should also look from time to time without it (ten times a
    second is plenty): a bell may stop working, for example when its file is deleted.
    """

    def fileno(self) -> int:
        """The descriptor that becomes readable when the bell rings, for `select`; the same until `close`."""
        ...

    def clear(self) -> None:
        """Silence the bell. What is appended after `clear` was called rings again."""
        ...

    def close(self) -> None:
        """Give the descriptor back. May be called twice."""
        ...


@runtime_checkable
class Log(Declaring, Protocol):
    """A partitioned, ordered log. All methods are safe to call from several threads at once.

    Offsets begin at 0 and grow, with or without holes. `start() == 0` means that the log is read from its origin.
    After `close` every method but `close` raises `ClosedError`; in a forked child `ForkedError`.
    """

    @property
    def kind(self) -> str:
        """The scheme of its URL: "sqlite", "memory", ..."""
        ...

    @property
    def url(self) -> str:
        """The URL that opens this ledger from any folder, options included. For a topic: its ledger's, with `#name`."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions there are, numbered from 0; it may grow, never shrink."""
        ...

    @property
    def retention(self) -> float | None:
        """Seconds of age that are kept at least; None: kept for ever. See `expire`."""
        ...

    @property
    def place(self) -> Path | None:
        """A folder on this host, next to the log, for the lock files of members, which make it.

        None if the ledger has none. Whether it is on a local file system is for its user to check (`is_local`).
        """
        ...

    def append(self, payload: bytes, partition: int = 0) -> int:
        """Append one payload and return its offset, once it is acknowledged and every reader can read it.

        An empty payload is a payload like any other. Raises `ConfigError` for one larger than `MAX_PAYLOAD`, or for a
        partition that isn't there; `LedgerUnavailable` when the ledger did not do it, with `unknown=True` if it may
        have done it all the same or may still do it.
        """
        ...

    def append_many(self, payloads: Sequence[bytes], partition: int = 0, *, urgent: bool = True) -> list[int]:
        """Append several payloads, all or nothing, and return their offsets, which grow.

        An append that is not `urgent` is acknowledged as soon as every reader can read it, and wakes no reader: they find it
        when they read next. Where the ledger syncs lazily (`Capabilities.lazy_sync`) a power cut may take it, unless an
        urgent append has followed.

        One group commit: it costs little more than one `append`. On SQLite, file and memory no other entries come in between.
        At most `MAX_BATCH` payloads and `MAX_BATCH_BYTES` bytes. An empty list does nothing. Errors as for `append`.
        """
        ...

    def read(self, offset: int, partition: int = 0, max_records: int = 1000, timeout: float = 0.0) -> list[Entry]:
        """Entries from `offset` on, in order; an empty list when there are none yet.

        Waits up to `timeout` seconds for the first one. Returns at most `max_records`, and fewer once it has
        `MAX_READ_BYTES`. Raises `LedgerGap` if `offset` is below `start`, `LedgerRewound` if it is above `end`, and
        `LedgerUnavailable`. It need not notice that the log is another one if that one is long enough: see `identity`.
        """
        ...

    def start(self, partition: int = 0) -> int:
        """The lowest offset that can still be read; `end` if there is none."""
        ...

    def end(self, partition: int = 0) -> int:
        """The offset that the next append gets, or a lower bound of it where the ledger leaves holes."""
        ...

    def trim(self, before: int, partition: int = 0) -> None:
        """Delete every entry below `before`; `start` becomes `before`. Offsets are not used again.

        A `before` at or below `start` does nothing; one above `end` raises `LedgerRewound`. If it raises
        `LedgerUnavailable` it may have deleted a part, as `start` shows; call it again.
        """
        ...

    def identity(self) -> str:
        """Says which log this is: another string once the URL leads to another log than before."""
        ...

    def bell(self, partition: int = 0) -> Bell | None:
        """A new bell, for the caller to close; None where the ledger or platform has none, or has run out of them."""
        ...

    def close(self) -> None:
        """Give everything back. May be called twice, by any thread, also while others wait in `read`."""
        ...


@runtime_checkable
class Ledger(Log, Protocol):
    """What `open` returns for a service with a log: the log that its URL names, and named logs for users' data."""

    def topic(self, name: str, partitions: int = 4) -> Log:
        """The named log in the same ledger, made with so many partitions if it isn't there.

        One that is there keeps its number, or grows where `Capabilities.topics` says so. Closing the ledger closes its topics.
        Raises `ConfigError` for a name or number that can't be.
        """
        ...


class Membership(Protocol):
    """One process' place in a `Group`."""

    @property
    def reassignment_bound(self) -> float:
        """Seconds after which the partitions of a silent member may be given to another, at the earliest."""
        ...

    @property
    def callback_limit(self) -> float:
        """Seconds for which the group waits for `on_revoked`, at the most; then the partitions may be another's."""
        ...

    @property
    def joined(self) -> bool:
        """Whether the group has let this member in, and has not lost it since, as far as it knows. It may have no partition all
        the same. May be asked from any thread."""
        ...

    def poll(self, timeout: float = 0.0) -> None:
        """Let callbacks run, for up to `timeout` seconds. They run in here and nowhere else.

        Raises `LedgerUnavailable` when the group can't be reached, or does not take this member; the partitions may then
        already be another's.
        """
        ...

    def leave(self) -> None:
        """Give up all partitions (`on_revoked` is called for them) and leave. May be called twice."""
        ...


@runtime_checkable
class Group(Protocol):
    """Assignment of partitions, by the service, to the members that joined: each partition to one member at a time.

    This is so in the service's own view: a member that can't hear it may go on believing in an old assignment for a while.
    Therefore nothing exclusive is built on a `Group` alone.
    """

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Callable[[Sequence[int]], None],
        on_revoked: Callable[[Sequence[int]], None],
        on_lost: Callable[[Sequence[int]], None],
        session: float | None = None,
    ) -> Membership:
        """Join `group` for the partitions 0 to `partitions - 1`, with a session of so many seconds (None: the ledger's own).

        `on_revoked` is planned: the service waits for it, within its own bound. `on_lost` comes after the fact: the
        partitions may already be another's.
        """
        ...


@runtime_checkable
class ManyAtOnce(Protocol):
    """A log that does in one call, for several partitions, what otherwise takes a call for each."""

    def append_each(self, payloads: Sequence[tuple[int, bytes]], *, urgent: bool = True) -> list[int]:
        """Append each payload to the partition that is named with it, all or nothing, and return their offsets. `urgent`: as
        for `append_many`."""
        ...

    def changed(self, offsets: Sequence[int]) -> list[int]:
        """The partitions n, of the first `len(offsets)`, where a `read` from `offsets[n]` on would bring something, or
        raise."""
        ...


class Stamped(Log, Protocol):
    """A log that tells when its entries were written, by a stopwatch that writer and reader share. `Capabilities.stamps`
    says so."""

    def read_stamped(
        self, offset: int, partition: int = 0, max_records: int = 1000
    ) -> tuple[list[Entry], list[int | None]]:
        """As `Log.read` without waiting, and for each entry when its writer began to append it: nanoseconds of CLOCK_BOOTTIME,
        read before anything was written. None where the writer's stopwatch is another one: another boot, another time
        namespace, or not known."""
        ...


@runtime_checkable
class Stamping(Protocol):
    """A log whose service may put the time on entries."""

    def broker_time(self) -> bool:
        """Whether entries carry the time of the broker that took them, which clients can't set. May ask the service."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A ledger that can look over its files, or its service's settings, which no reader of records sees."""

    def checks(self) -> list[tuple[str, str]]:
        """The findings for `pares doctor`: a level (good, note, warning or problem) and a text for each."""
        ...


@runtime_checkable
class KnowsTopics(Protocol):
    """A ledger that can be asked for a topic without making it."""

    def has_topic(self, name: str) -> bool:
        """Whether such a topic is there."""
        ...


def check_payload(payload: bytes) -> None:
    """Raise unless `payload` is bytes that every ledger takes."""
    if not isinstance(payload, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"a payload must be bytes, not {type(payload).__name__}: encode it first")
    if len(payload) > MAX_PAYLOAD:
        raise ConfigError(
            f"a payload of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}: "
            "store it elsewhere and append a reference, or split it"
        )


def check_payloads(payloads: Sequence[bytes]) -> None:
    """Raise unless `payloads` may go into one `append_many`."""
    if isinstance(payloads, (bytes, bytearray, memoryview, str)):
        raise ConfigError("append_many takes a sequence of payloads, not a single one: use append")
    if len(payloads) > MAX_BATCH:
        raise ConfigError(f"{len(payloads)} payloads in one append_many are over the limit of {MAX_BATCH}: split them")
    for payload in payloads:
        check_payload(payload)
    total = sum(map(len, payloads))
    if total > MAX_BATCH_BYTES:
        raise ConfigError(f"{total} bytes in one append_many are over the limit of {MAX_BATCH_BYTES}: split them")


def ends_here(entries: Sequence[Entry], max_records: int) -> bool:
    """Whether a whole read of so many at most came to the end of the log with these (`Capabilities.whole_reads`)."""
    if len(entries) >= max_records:
        return False
    return sum([len(entry.payload) for entry in entries]) + MAX_PAYLOAD <= MAX_READ_BYTES


def limited(entries: list[Entry], max_records: int) -> list[Entry]:
    """The leading entries, at most `max_records`, and of at most MAX_READ_BYTES together; at least one."""
    total = 0
    for count, entry in enumerate(entries[:max_records]):
        total += len(entry.payload)
        if total > MAX_READ_BYTES and count:
            return entries[:count]
    return entries[:max_records]


def check_records(max_records: int) -> None:
    """Raise unless `max_records` asks `read` for something."""
    if max_records < 1:
        raise ConfigError(f"read was asked for max_records={max_records}: use at least 1")


def check_name(name: str, what: str) -> None:
    """Raise unless `name` is 1 to 200 characters, none of them a control character. `what` names it in the error."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"{what} must be a string, not {type(name).__name__}")
    if not 1 <= len(name) <= MAX_NAME:
        raise ConfigError(f"{what} has {len(name)} characters: use 1 to {MAX_NAME}")
    for at, character in enumerate(name):
        # Cs: a lone surrogate is no text, and can't be stored as UTF-8.
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise ConfigError(f"{what} {name!r} has a control character at position {at}: remove it")


def offers(it: object, what: type[T]) -> TypeGuard[T]:
    """`isinstance`, for a protocol with properties, that asks `it` nothing: before Python 3.12 that one reads each of them, and
    what `partitions` says may be a service's answer. What `it` hands on by `__getattr__` counts, too."""
    names = [name for name in dir(what) if not name.startswith("_")]
    return all(getattr_static(it, name, what) is not what or hasattr(it, name) for name in names)


def check_partitions(partitions: int, what: str) -> None:
    """Raise unless `partitions` is a number of partitions that a log may have."""
    if isinstance(partitions, bool) or not isinstance(partitions, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what} has partitions={partitions!r}: use a whole number")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ConfigError(f"{what} has partitions={partitions}: use 1 to {MAX_PARTITIONS}")


def grown_partitions(url: str, there: int, asked: int | None) -> int:
    """How many partitions a log that has `there` gets when its URL asks for `asked`: it may grow, not shrink."""
    if asked is None or asked == there:
        return there
    check_partitions(asked, url)
    if asked < there:
        raise ConfigError(
            f"{url} has {there} partitions and can't shrink to partitions={asked}: leave the option out, or use a new ledger"
        )
    return asked


def no_such_partition(partition: int, partitions: int, url: str) -> ConfigError:
    """The error for a partition that isn't there."""
    there = "only partition 0" if partitions == 1 else f"partitions 0 to {partitions - 1}"
    return ConfigError(f"{url} has no partition {partition!r}: it has {there}")


def gap(url: str, partition: int, offset: int, start: int) -> LedgerGap:
    """The error for a position that was trimmed away."""
    return LedgerGap(
        f"offset {offset} of partition {partition} is no longer in {url}, which starts at {start}: "
        "start over from a snapshot, or from its start",
        lost=range(offset, start),
    )


def rewound(url: str, partition: int, offset: int, end: int) -> LedgerRewound:
    """The error for a position that the log has not reached."""
    return LedgerRewound(
        f"offset {offset} of partition {partition} is beyond the end {end} of {url}: "
        "it lost its tail or was begun anew, so start over"
    )
