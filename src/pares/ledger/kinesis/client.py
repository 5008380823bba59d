"""AWS' client, each request of which is sent once, and the pace at which a stream is read.

boto3 sends a request again by itself, up to four times, when no answer comes or the service fails. An append that is sent twice
stands in the log twice, the second time at any later moment. The kernel stands that (R2, R4 in docs/design.md); users of a
topic need not. So that is switched off, for every request.
"""

from __future__ import annotations

import random
import threading
import time
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kinesis.errors import Broken, Refused, meaning
from pares.ledger.kinesis.fold import Raw
from pares.ledger.kinesis.settings import Settings

_MOST: Final = 8.0
"""How much slower than asked for a ledger may read, when the service says that it is read too often."""
_BREATH: Final = 0.05
"""The first pause after such an answer, where no pace is set."""


class Page(NamedTuple):
    """What one read has brought."""

    records: list[Raw]
    next: str | None
    """Where to read on; None: the shard is closed, and this was its end."""
    behind_ms: int
    """How far the newest record is ahead, by the service; 0: there is no more now."""


class Client:
    """For any thread. Raises `Refused` and `Broken`, and what `Lifetime.check` raises."""

    def __init__(self, settings: Settings, lifetime: Lifetime) -> None:
        self._settings = settings
        self._lifetime = lifetime
        self._client = connect(settings)
        self._ahead = 0.0
        keep_after_fork(self)

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        """One request, sent once."""
        self._lifetime.check()
        try:
            answer: dict[str, Any] = getattr(self._client, name)(**given)
        except Exception as error:
            self._lifetime.check()
            raise meaning(error, self._settings) from None
        said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if said:
            try:
                self._ahead = parsedate_to_datetime(said).timestamp() - time.time()
            except ValueError:
                pass
        return answer

    def now(self) -> float:
        """The service's clock, to a second or two."""
        return time.time() + self._ahead

    def iterator(self, stream: str, shard: str, kind: str, **place: Any) -> str:
        found = self.call("get_shard_iterator", StreamName=stream, ShardId=shard, ShardIteratorType=kind, **place)
        return str(found["ShardIterator"])

    def page(self, iterator: str, most: int = 10_000) -> Page:
        answer = self.call("get_records", ShardIterator=iterator, Limit=most)
        records = [
            Raw(
                str(each["SequenceNumber"]),
                int(each["ApproximateArrivalTimestamp"].timestamp() * 1000),
                bytes(each["Data"]),
            )
            for each in answer["Records"]
        ]
        behind = answer.get("MillisBehindLatest") or 0
        return Page(records, answer.get("NextShardIterator"), int(behind))

    def put(self, stream: str, key: str, data: bytes) -> int:
        """Returns the record's sequence number."""
        return int(self.call("put_record", StreamName=stream, PartitionKey=key, Data=data)["SequenceNumber"])

    def close(self) -> None:
        self._client.close()


def connect(settings: Settings) -> Any:
    """AWS' client."""
    try:
        boto3, config, exceptions = map(import_module, ("boto3.session", "botocore.config", "botocore.exceptions"))
    except ImportError as error:
        raise CapabilityError(f"Kinesis ledgers need boto3 ({error}): pip install 'pares[kinesis]'") from error
    given = {name: value for name, value in settings.client.items() if name != "ca_bundle"}
    try:
        return boto3.Session(**given).client(
            "kinesis",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            verify=settings.client.get("ca_bundle"),
            config=config.Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=settings.timeout,
                read_timeout=settings.timeout,
                max_pool_connections=32,
                tcp_keepalive=True,
            ),
        )
    except (exceptions.BotoCoreError, ValueError) as error:
        found = meaning(error, settings) if isinstance(error, exceptions.BotoCoreError) else None
        why = found.why if found is not None else settings.scrubbed(str(error))
        raise ConfigError(f"{settings.where}: {why}") from None


class Pace:
    """When a stream may be read again by this ledger. A shard allows five reads a second, for all its readers together: an
    answer that says so slows this ledger down, by a random part so that others don't do the same, and each good one lets it
    come back to its own pace."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.throttled = 0
        """How often the service has said so."""
        self._lock = threading.Lock()
        self._slower = 1.0
        self._next = 0.0

    def turn(self, ending: threading.Event) -> bool:
        """Wait for the next read's turn; False if it is over."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            each = self.seconds or (0.0 if self._slower == 1.0 else _BREATH)
            self._next = begin + each * self._slower * (1.0 if self._slower == 1.0 else random.uniform(0.7, 1.3))
        return not ending.wait(begin - now) if begin > now else not ending.is_set()

    def went_well(self) -> None:
        self._slower = max(1.0, self._slower * 0.7)

    def too_often(self) -> None:
        with self._lock:
            self.throttled += 1
            self._slower = min(_MOST, self._slower * 1.6)
            pause = (self.seconds or _BREATH) * self._slower * random.uniform(0.3, 1.0)
            self._next = max(self._next, time.monotonic() + pause)


def behind(error: Refused | Broken) -> str:
    """Why a read did not come."""
    if isinstance(error, Refused) and error.throttled:
        return f"{error.why}; more processes read it than it lets: give each a slower ?poll=, and longer sessions"
    return error.why
