"""The streams behind a log: made when they are missing, looked over when they are there.

One partition is one stream of one shard: partition 0 of the log `work` is the stream `work`, partition 1 is `work.1`, and the
topic `orders` is `work.t-orders`. Two shards have no order between them, and so does a shard with the one that it was split
from, or merged into.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final, NamedTuple

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.kinesis.client import Client
from pares.ledger.kinesis.errors import GONE, IN_USE, Broken, Refused, unavailable
from pares.ledger.kinesis.settings import Settings, log
from pares.ledger.service_log import Gone

MAKING: Final = 120.0
"""Seconds that making a stream may take while a ledger is opened: AWS takes some ten."""
FRESH: Final = 5.0
"""Seconds for which it is believed which stream stands under a name: an account has twenty such questions a second."""
_PAUSE: Final = 0.5
_STOCK_HOURS: Final = 24
_MOST_HOURS: Final = 8760
_EDGE: Final = 300.0
"""Seconds before a stream's first record may go, in which that is reckoned with already: clocks are not exact."""


class Stream(NamedTuple):
    """A stream as it was described."""

    name: str
    id: str
    """Another one for another stream under the same name."""
    born_ms: int
    shard: str
    active: bool
    hours: int
    """For which it keeps records."""
    mode: str
    encrypted: bool

    def has_its_beginning(self, now: float) -> bool:
        """Whether no record of it can be gone by now, the service's clock."""
        return now < self.born_ms / 1000 + self.hours * 3600 - _EDGE


class Streams:
    """For any thread. Raises `Refused`, `Broken`, and what users are to hear."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._known: dict[str, tuple[Stream, float]] = {}

    def look(self, name: str, *, fresh: bool = False) -> Stream:
        """The stream under a name. `fresh`: as it is now; else it may be `FRESH` seconds ago."""
        found = self._known.get(name)
        if found is not None and not fresh and self._settings.poll is not None and time.monotonic() < found[1] + FRESH:
            return found[0]
        asked = time.monotonic()
        try:
            stream = self._describe(name, found[0] if found is not None else None)
        except Refused as error:
            if error.throttled and found is not None:
                return found[0]
            self._known.pop(name, None)
            raise
        self._known[name] = stream, asked
        return stream

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def _describe(self, name: str, known: Stream | None) -> Stream:
        said = self._client.call("describe_stream_summary", StreamName=name)["StreamDescriptionSummary"]
        if said["StreamStatus"] == "DELETING":
            raise Refused(GONE, "the stream is being deleted")
        active = said["StreamStatus"] in ("ACTIVE", "UPDATING")
        mode = said.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED")
        born = said["StreamCreationTimestamp"]
        born_us = round(born.timestamp() * 1e6) if isinstance(born, datetime) else round(float(born) * 1e6)
        id = f"{said['StreamARN'].rpartition(':')[0].split(':')[4]}:{born_us}"
        shard = ""
        if active:
            if mode == "ON_DEMAND":
                raise CapabilityError(
                    f"{self._settings.where}: the stream {name} is on demand, so AWS gives it as many shards as it likes, and "
                    "between two shards nothing is in order: set it to provisioned with one shard (aws kinesis "
                    f"update-stream-mode, update-shard-count), or name a stream that is not there, and pares makes it so"
                )
            one = known is not None and known.id == id and known.shard and said["OpenShardCount"] == 1
            shard = known.shard if known is not None and one else self._shard(name)
        return Stream(
            name,
            id,
            born_us // 1000,
            shard,
            active,
            int(said.get("RetentionPeriodHours") or _STOCK_HOURS),
            mode,
            said.get("EncryptionType", "NONE") != "NONE",
        )

    def _shard(self, name: str) -> str:
        """Its only shard. Closed ones count: what stands in them comes before what is in the open one."""
        shards: list[dict[str, Any]] = self._client.call("list_shards", StreamName=name)["Shards"]
        still = [each for each in shards if not each["SequenceNumberRange"].get("EndingSequenceNumber")]
        if len(still) > 1:
            raise CapabilityError(
                f"{self._settings.where}: the stream {name} has {len(still)} shards, and between two shards nothing is in "
                "order: a partition of a log is a stream of one shard. Name a stream that is not there, and pares makes it so; "
                "or delete this one, if nobody needs it"
            )
        if len(shards) != 1 or not still:
            raise resharded(self._settings.where, name)
        return str(still[0]["ShardId"])

    # Making ----------------------------------------------------------------------------------------------------------

    def there(self, name: str) -> bool:
        """Whether there is a stream under this name, as it is now."""
        try:
            self.look(name, fresh=True)
        except Refused as error:
            if error.code == GONE:
                return False
            raise
        return True

    def make(self, name: str) -> bool:
        """See to it that it is there, or will be soon; whether it was made here."""
        try:
            self._client.call(
                "create_stream", StreamName=name, ShardCount=1, StreamModeDetails={"StreamMode": "PROVISIONED"}
            )
        except Refused as error:
            if error.code == IN_USE:
                return False
            raise
        log.info("%s: the stream %s is made", self._settings.where, name)
        return True

    def settled(self, name: str, made: bool) -> Stream:
        """The stream once it can be used. Raises `LedgerUnavailable` if that takes too long."""
        end = time.monotonic() + MAKING
        while True:
            try:
                found = self.look(name, fresh=True)
                if found.active:
                    break
            except Refused as error:
                # One that was just made is not known everywhere at once.
                if not error.throttled and not (made and error.code == GONE):
                    raise
            if time.monotonic() > end:
                raise unavailable(
                    self._settings.where, f"make the stream {name}", f"AWS is not done with it after {MAKING:g} s"
                )
            time.sleep(_PAUSE)
        return self.kept_long_enough(found, made)

    def kept_long_enough(self, found: Stream, made: bool) -> Stream:
        """Raise `ConfigError` for a stream that forgets sooner than this ledger may; one that was made here is told."""
        wanted = self._settings.retention
        if wanted is None or wanted <= found.hours * 3600:
            return found
        hours = -int(-wanted // 3600)
        if made and hours <= _MOST_HOURS:
            self._client.call("increase_stream_retention_period", StreamName=found.name, RetentionPeriodHours=hours)
            return self.look(found.name, fresh=True)
        raise ConfigError(
            f"{self._settings.where}: retention={wanted:g} is {wanted / 3600:g} hours, and the stream {found.name} keeps "
            f"records for {found.hours}: lower retention, or raise the stream's (aws kinesis increase-stream-retention-period; "
            f"{_MOST_HOURS} at most)"
        )

    def count(self, topic: str, least: int = 1) -> int:
        """How many partitions a log has whose first one is there."""
        found = least
        while self.there(self._settings.name(topic, found)):
            found += 1
        return found


def resharded(where: str, name: str) -> CapabilityError:
    return CapabilityError(
        f"{where}: the stream {name} was split or merged: what was written before stands in a shard that is closed, and pares "
        "does not follow it from shard to shard. End all members, and delete the stream, or name another one: pares makes "
        "it with one shard, and members begin a new log there"
    )


def gone(where: str, name: str) -> LedgerUnavailable:
    return Gone(
        f"{where}: the stream {name} is gone: somebody has deleted it, or the service was started again without its data; a "
        "member that looks for it makes it anew"
    )


def raised(where: str, doing: str, name: str, error: Refused | Broken, *, unknown: bool = False) -> LedgerUnavailable:
    """What the caller of a ledger hears."""
    if isinstance(error, Refused):
        return gone(where, name) if error.code == GONE else unavailable(where, doing, error.why, unknown=unknown)
    return unavailable(where, doing, error.why, unknown=unknown)
