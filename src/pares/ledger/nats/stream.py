"""The JetStream streams behind a NATS log: made when they are missing, and looked over when they are there.

One partition is one stream, because a log's offsets are its partition's own: partition 0 of the log `work` is the stream
`work`, partition 1 is `work=1`. What is at offset n is the message with the sequence n + 1. A stream is made with

| setting | made with | why |
|---|---|---|
| `num_replicas` | 3; 1 on a server that is alone | a server that is lost takes nothing with it |
| `storage` | file | a restart is no loss |
| `subjects` | `pares.log.work.0.*` | each ledger has a subject of its own, see `nats.append` |
| `allow_atomic` | true | an append of many is taken whole or not at all |
| `allow_direct` | true | replicas answer those who read a long way back |
| `max_age` | twice the ledger's `retention` | members trim behind their snapshots; the server deletes after that |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.nats.epoch import Epoch, Nobody
from pares.ledger.nats.settings import Settings
from pares.ledger.service_log import Gone

SMALLEST: Final = 128 << 10
"""A stream or server that takes less than this can't carry a group: one of its records may have 64 KiB, and has headers."""
_REPLICAS: Final = 3
_NOT_FOUND: Final = 10059
_ALONE: Final = 10074
_EXISTS: Final = (10058,)
_NO_JETSTREAM: Final = (10039, 10076)
_NOT_NOW: Final = (10008, 10009, 10010)
_PLACEMENT: Final = (10005, 10023, 10028, 10047, 10052)


class ApiError(Exception):
    """JetStream's answer is no."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{text} (error {number})")
        self.number = number


class Stream(NamedTuple):
    """What the stream's leader says of it."""

    name: str
    created: str
    first: int
    end: int
    """Offsets: of the first message, and of the next one."""
    config: Mapping[str, Any]
    cluster: Mapping[str, Any]

    @property
    def identity(self) -> str:
        return f"nats:{self.name}:{self.created}"


def stream_of(topic: str, partition: int) -> str:
    return f"{topic}={partition}" if partition else topic


def topic_of(stream: str) -> str:
    """The log whose partition a stream is."""
    return stream.partition("=")[0]


def bell_of(stream: str) -> str:
    """The subject on which a writer wakes lazy readers, beside the log: nothing keeps what is published there."""
    return f"pares.bell.{stream}"


async def ask(epoch: Epoch, api: str, body: Mapping[str, Any] | None = None) -> Any:
    """One request to JetStream. Raises `ApiError`, and what a request raises."""
    message = await epoch.request(f"$JS.API.{api}", json.dumps(body).encode() if body else b"")
    answer: Any = msgspec.json.decode(message.data)
    if error := answer.get("error"):
        raise ApiError(int(error.get("err_code", 0)), str(error.get("description")))
    return answer


class Streams:
    """Streams, by what a ledger needs of them. All methods are for the loop's thread; they raise what a request raises."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._where = settings.where

    async def describe(self, name: str, epoch: Epoch) -> Stream | None:
        """None if there is no such stream. Raises `CapabilityError` without JetStream."""
        try:
            answer = await ask(epoch, f"STREAM.INFO.{name}")
        except ApiError as error:
            if error.number == _NOT_FOUND:
                return None
            raise self._error(error, f"look at the stream {name}") from None
        except Nobody:
            raise self._nobody(epoch) from None
        return _stream(answer)

    async def count(self, topic: str, epoch: Epoch) -> int:
        """How many partitions a log has whose first stream is there."""
        there: set[str] = set()
        while True:
            try:
                answer = await ask(epoch, "STREAM.NAMES", {"subject": f"pares.log.{topic}.>", "offset": len(there)})
            except ApiError as error:
                raise self._error(error, "list the streams") from None
            except Nobody:
                raise self._nobody(epoch) from None
            names: list[str] = answer.get("streams") or []
            there.update(names)
            if not names or len(there) >= int(answer.get("total", 0)):
                break
        count = 1
        while stream_of(topic, count) in there:
            count += 1
        return count

    async def settle(self, topic: str, partitions: int, epoch: Epoch) -> Stream:
        """The first stream of a log, made with the others if it isn't there."""
        found = await self.describe(topic, epoch)
        if found is None:
            # The first one last: when it can be seen, all of them can.
            for partition in reversed(range(partitions)):
                await self.make(topic, partition, epoch)
            found = await self.describe(topic, epoch)
            if found is None:
                raise LedgerUnavailable(f"{self._where}: the stream {topic} was made, and is gone again; open it again")
        self._refuse_unfit(found, epoch)
        return found

    async def make(self, topic: str, partition: int, epoch: Epoch) -> None:
        """Make the stream of one partition, unless it is there."""
        name = stream_of(topic, partition)
        asked = self._settings.replication
        config: dict[str, Any] = {
            "name": name,
            "subjects": [f"pares.log.{topic}.{partition}.*"],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "num_replicas": asked or _REPLICAS,
            "max_age": round(2 * self._settings.retention * 1e9) if self._settings.retention else 0,
            "duplicate_window": 100_000_000,  # nothing here is told apart by message ids
            "allow_direct": True,
            "allow_atomic": True,
        }
        while True:
            try:
                await ask(epoch, f"STREAM.CREATE.{name}", config)
                return
            except Nobody:
                raise self._nobody(epoch) from None
            except ApiError as error:
                if error.number in _EXISTS:
                    return  # somebody else was faster
                if error.number == _ALONE and asked is None and config["num_replicas"] > 1:
                    config["num_replicas"] = 1
                    continue
                if error.number in (*_PLACEMENT, _ALONE):
                    raise ConfigError(
                        f"{self._where}: the servers can't hold the stream {name} with {config['num_replicas']} replicas: "
                        f"{error}; start the servers that are missing, or give replication="
                    ) from None
                raise self._error(error, f"make the stream {name}") from None

    async def trim(self, name: str, before: int, epoch: Epoch) -> None:
        try:
            await ask(epoch, f"STREAM.PURGE.{name}", {"seq": before + 1})
        except ApiError as error:
            raise self._error(error, "trim") from None
        except Nobody:
            raise self._nobody(epoch) from None

    def gone(self, topic: str) -> LedgerUnavailable:
        return Gone(f"{self._settings.url}: the stream {topic} is gone; a member that looks for it makes it anew")

    def _refuse_unfit(self, found: Stream, epoch: Epoch) -> None:
        """Raise for a stream that can't carry a log at all; what is merely unsafe is for `checks`."""
        for why in _unfit(found.config):
            raise ConfigError(f"{self._where}: the stream {found.name} can't carry a log: {why}; use another stream")
        if epoch.max_payload < SMALLEST:
            raise ConfigError(
                f"{self._where}: the server takes messages of at most {epoch.max_payload} bytes (max_payload); a log needs "
                f"{SMALLEST} at least. Raise it"
            )

    def _nobody(self, epoch: Epoch) -> LedgerUnavailable | CapabilityError:
        if epoch.has_jetstream:
            return LedgerUnavailable(
                f"{self._where}: JetStream does not answer at {epoch.server}: it has no leader now; look whether "
                "enough servers run"
            )
        return CapabilityError(
            f"{self._where}: there is no JetStream at {epoch.server}, so nothing keeps a log: start nats-server with -js, or "
            "leave the stream out of the URL for a bus (core NATS)"
        )

    def _error(self, error: ApiError, doing: str) -> LedgerUnavailable | CapabilityError | ConfigError:
        if error.number in _NO_JETSTREAM:
            return CapabilityError(
                f"{self._where}: JetStream is not enabled for this account ({error}): have it enabled, or use another account"
            )
        if error.number == 10065:
            return ConfigError(f"{self._where}: could not {doing}: {error}: another stream has taken these subjects")
        return LedgerUnavailable(f"{self._where}: could not {doing}: {error}")


def _stream(answer: Any) -> Stream:
    state = answer["state"]
    last = int(state["last_seq"])
    first = int(state["first_seq"]) if state["messages"] else last + 1
    return Stream(
        answer["config"]["name"], answer["created"], first - 1, last, answer["config"], answer.get("cluster") or {}
    )


def _unfit(config: Mapping[str, Any]) -> Iterator[str]:
    if config.get("mirror"):
        yield "it is a mirror, and takes nothing itself"
    if config.get("sealed"):
        yield "it is sealed, and takes nothing any more"
    if config.get("no_ack"):
        yield "it acknowledges nothing (no_ack)"
    if not config.get("subjects"):
        yield "it has no subject to publish on"
    if config.get("retention") != "limits":
        yield f"it forgets what was consumed (retention={config.get('retention')})"
    if int(config.get("max_msgs_per_subject", -1)) > 0:
        yield f"it forgets in the middle (max_msgs_per_subject={config['max_msgs_per_subject']})"
    if 0 < int(config.get("max_msg_size", -1)) < SMALLEST:
        yield f"it takes messages of at most {config['max_msg_size']} bytes (max_msg_size), and a log needs {SMALLEST} at least"
