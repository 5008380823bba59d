"""What topics are on every ledger that keeps them: logs whose records have keys.

A topic is a `Log`, so all that reads logs reads topics, without keys. With `key=` and no partition a record goes where its key
belongs: to partition CRC-32(key) mod the number of partitions, with the CRC-32 of zlib and Ethernet. That is fixed: the same in
every process, on every platform and in every version. It is also what librdkafka's default partitioner does with keys that are
not empty, so a topic and a Kafka topic of as many partitions share records out alike. A topic that grows gives most keys
another partition from then on; what was appended before stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol
from zlib import crc32

from pares.core.errors import ConfigError
from pares.ledger.base import MAX_BATCH_BYTES, Ledger, Log, check_payload, check_payloads
from pares.ledger.source import Record

MAX_KEY: Final = 1 << 16
"""Bytes that a key may have: 64 KiB."""
PARTITIONS: Final = 4
"""Partitions of a topic that is made without saying how many."""


class Topic(Log, Protocol):
    """A named log in a ledger, which keeps a key with each record: bytes, or None.

    `read` and everything else of a `Log` works as it does there, and says nothing of keys; `records` does.
    """

    def append(self, payload: bytes, partition: int | None = None, key: bytes | None = None) -> int:
        """Append one payload and return its offset, once it is acknowledged and will survive what the ledger says.

        Without `partition` it goes where its key belongs (`partition_of`), without a key to partition 0. Raises as
        `Log.append`; `ConfigError` for a key that is no bytes, or longer than `MAX_KEY`.
        """
        ...

    def append_many(
        self,
        payloads: Sequence[bytes],
        partition: int | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        urgent: bool = True,
    ) -> list[int]:
        """Append several payloads to one partition, all or nothing, and return their offsets. `keys`: as many as there are
        payloads. Keys of one call may belong to different partitions, so with keys the partition has to be named. `urgent`: as
        `Log.append_many`; what has keys always is."""
        ...

    def records(
        self, offset: int, partition: int = 0, max_records: int = 1000, max_bytes: int = 1 << 20, timeout: float = 0.0
    ) -> list[Record]:
        """As `read`, with keys. Fewer once it holds `max_bytes` of payloads, but at least one if there is one."""
        ...

    def partition_of(self, key: bytes) -> int:
        """The partition where records with this key belong, among as many as there are now."""
        ...


class KeepsTopics(Ledger, Protocol):
    """A ledger that keeps topics with keys, as its `Capabilities.topics` says."""

    def topic(self, name: str, partitions: int | None = None) -> Topic:
        """The topic of this name, made if it isn't there, with 4 partitions or as many as are asked for.

        One that is there and has fewer partitions grows; it never shrinks. Raises `ConfigError` for a name or number that can't
        be, or for fewer partitions than there are; `CapabilityError` on a ledger that was opened read-only, where a topic would
        have to be made or to grow.
        """
        ...


class KeyedAppends:
    """The appends of a topic on a log that takes keys by `_append`. Stands before that log among a topic's bases."""

    if TYPE_CHECKING:

        @property
        def partitions(self) -> int: ...

        def _append(
            self,
            payloads: Sequence[bytes],
            partition: int,
            keys: Sequence[bytes | None] | None = None,
            *,
            urgent: bool,
        ) -> list[int]: ...

    def append(self, payload: bytes, partition: int | None = None, key: bytes | None = None) -> int:
        check_record(payload, key)
        if partition is None:
            partition = 0 if key is None else self.partition_of(key)
        return self._append((payload,), partition, None if key is None else (key,), urgent=True)[0]

    def append_many(
        self,
        payloads: Sequence[bytes],
        partition: int | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        urgent: bool = True,
    ) -> list[int]:
        check_records_with_keys(payloads, partition, keys)
        return self._append(payloads, partition or 0, keys, urgent=urgent or keys is not None)

    def partition_of(self, key: bytes) -> int:
        return partition_for(key, self.partitions)


def partition_for(key: bytes, partitions: int) -> int:
    """The partition, among so many, where records with this key belong: CRC-32 of the key, modulo their number."""
    check_key(key)
    return crc32(key) % partitions


def check_key(key: bytes | None) -> None:
    """Raise unless `key` is one that a topic takes."""
    if key is None:
        return
    if not isinstance(key, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ConfigError(f"a key must be bytes or None, not {type(key).__name__}: encode it first")
    if len(key) > MAX_KEY:
        raise ConfigError(f"a key of {len(key)} bytes is over the limit of {MAX_KEY}: use a hash of it")


def check_record(payload: bytes, key: bytes | None) -> None:
    """Raise unless a topic takes these."""
    check_payload(payload)
    check_key(key)


def check_records_with_keys(
    payloads: Sequence[bytes], partition: int | None, keys: Sequence[bytes | None] | None
) -> None:
    """Raise unless these may go into one `append_many` of a topic."""
    check_payloads(payloads)
    if keys is None:
        return
    if partition is None:
        raise ConfigError(
            "append_many with keys= needs partition=, because keys of one call may belong to different partitions: "
            "partition_of(key) says to which"
        )
    if isinstance(keys, (bytes, bytearray, str)) or len(keys) != len(payloads):
        raise ConfigError(f"append_many takes a key for each of {len(payloads)} payloads, or None in its place")
    for key in keys:
        check_key(key)
    total = sum(map(len, payloads)) + sum(len(key) for key in keys if key is not None)
    if total > MAX_BATCH_BYTES:
        raise ConfigError(f"{total} bytes in one append_many are over the limit of {MAX_BATCH_BYTES}: split them")
