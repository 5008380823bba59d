"""Kinesis in this process, in a time of its own: what moto does not emulate, and no test can wait for.

Records go by age; sequence numbers are long and have holes; an iterator expires after five minutes; a place behind all that the
stream ever had is refused; a record is shown to readers a moment after it was acknowledged, if so told. It is spoken to as
boto3's client is.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from botocore.exceptions import ClientError

HOUR = 3600.0


def refusal(code: str, message: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}},  # pyright: ignore[reportArgumentType]
        "Operation",
    )


@dataclass
class Kept:
    """One stream."""

    born: float
    hours: int = 24
    mode: str = "PROVISIONED"
    shards: int = 1
    closed: bool = False
    records: list[tuple[int, float, bytes]] = field(default_factory=list[tuple[int, float, bytes]])
    last: int = 0


class Service:
    """All methods of the client that the ledger uses. `elapse` lets time go by."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.streams: dict[str, Kept] = {}
        self.asked: Counter[str] = Counter()
        self.hidden = 0
        """How many of the newest records no reader is shown yet."""
        self._lock = threading.RLock()
        self._draw = random.Random(7)

    def elapse(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds
            for kept in self.streams.values():
                kept.records = [each for each in kept.records if each[1] > self.now - kept.hours * HOUR]

    def stamp(self, answer: dict[str, Any]) -> dict[str, Any]:
        date = format_datetime(datetime.fromtimestamp(self.now, UTC), usegmt=True)
        return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def _kept(self, name: str, what: str) -> Kept:
        self.asked[what] += 1
        if name not in self.streams:
            raise refusal("ResourceNotFoundException", f"Stream {name} under account 1 not found.")
        return self.streams[name]

    # As the client has them ------------------------------------------------------------------------------------------

    def create_stream(self, *, StreamName: str, ShardCount: int, StreamModeDetails: dict[str, str]) -> dict[str, Any]:
        with self._lock:
            if StreamName in self.streams:
                raise refusal("ResourceInUseException", "there already")
            self.streams[StreamName] = Kept(self.now, mode=StreamModeDetails["StreamMode"], shards=ShardCount)
            return self.stamp({})

    def increase_stream_retention_period(self, *, StreamName: str, RetentionPeriodHours: int) -> dict[str, Any]:
        self._kept(StreamName, "increase").hours = RetentionPeriodHours
        return self.stamp({})

    def describe_stream_summary(self, *, StreamName: str) -> dict[str, Any]:
        with self._lock:
            kept = self._kept(StreamName, "describe")
            return self.stamp(
                {
                    "StreamDescriptionSummary": {
                        "StreamStatus": "ACTIVE",
                        "StreamARN": f"arn:aws:kinesis:eu-central-1:1:stream/{StreamName}",
                        "StreamCreationTimestamp": datetime.fromtimestamp(kept.born, UTC),
                        "RetentionPeriodHours": kept.hours,
                        "OpenShardCount": kept.shards,
                        "StreamModeDetails": {"StreamMode": kept.mode},
                        "EncryptionType": "NONE",
                    }
                }
            )

    def list_shards(self, *, StreamName: str) -> dict[str, Any]:
        kept = self._kept(StreamName, "shards")
        closed = {"EndingSequenceNumber": "9"} if kept.closed else {}
        shards = [
            {"ShardId": f"shardId-{n}", "SequenceNumberRange": {"StartingSequenceNumber": "1", **closed}}
            for n in range(kept.shards)
        ]
        return self.stamp({"Shards": shards})

    def put_record(self, *, StreamName: str, PartitionKey: str, Data: bytes) -> dict[str, Any]:
        with self._lock:
            kept = self._kept(StreamName, "put")
            assert len(Data) + len(PartitionKey) <= 1 << 20, "no service takes that"
            kept.last += self._draw.randrange(1, 1 << 60)
            kept.records.append((kept.last + (1 << 182), self.now, Data))
            return self.stamp({"SequenceNumber": str(kept.last + (1 << 182))})

    def get_shard_iterator(
        self,
        *,
        StreamName: str,
        ShardId: str,
        ShardIteratorType: str,
        StartingSequenceNumber: str = "",
        Timestamp: float = 0.0,
    ) -> dict[str, Any]:
        with self._lock:
            kept = self._kept(StreamName, "iterator")
            at = 0
            if ShardIteratorType == "AT_SEQUENCE_NUMBER":
                at = int(StartingSequenceNumber)
                if at > kept.last + (1 << 182):
                    raise refusal("InvalidArgumentException", "the sequence number is none of this shard's")
            elif ShardIteratorType == "AT_TIMESTAMP":
                later = [number for number, arrived, _ in kept.records if arrived >= Timestamp]
                at = later[0] if later else kept.last + (1 << 182) + 1
            else:
                assert ShardIteratorType == "TRIM_HORIZON"
            return self.stamp({"ShardIterator": f"{StreamName} {at} {self.now}"})

    def get_records(self, *, ShardIterator: str, Limit: int) -> dict[str, Any]:
        with self._lock:
            name, at, made = ShardIterator.split()
            kept = self._kept(name, "read")
            if self.now > float(made) + 300:
                raise refusal("ExpiredIteratorException", "Iterator expired.")
            shown = kept.records[: len(kept.records) - self.hidden]
            ahead = [each for each in shown if each[0] >= int(at)]
            found = ahead[:Limit]
            after = found[-1][0] + 1 if found else int(at)
            behind = 0 if len(found) == len(ahead) else max(1, round((self.now - found[-1][1]) * 1000))
            records = [
                {
                    "SequenceNumber": str(number),
                    "ApproximateArrivalTimestamp": datetime.fromtimestamp(arrived, UTC),
                    "Data": data,
                }
                for number, arrived, data in found
            ]
            next = None if kept.closed and not behind else f"{name} {after} {self.now}"
            return self.stamp({"Records": records, "NextShardIterator": next, "MillisBehindLatest": behind})

    def close(self) -> None:
        """Nothing is open."""


def until_reread(seconds: float = 0.05) -> None:
    """Let the tail read once more where nothing tells when it has."""
    time.sleep(seconds)
