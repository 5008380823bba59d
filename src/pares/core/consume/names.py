"""The role that stands for a partition (C1), and what a consumer says of itself in its join (C6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from pares.core.wire.divided.siblings import part_of
from pares.core.wire.hashes import stable_hash
from pares.core.wire.records import MAX_ROLES
from pares.core.wire.states import MemberState

_PREFIX: Final = "pares.consume."
_TOPIC: Final = _PREFIX + "topic."
WHOLE: Final = -1
"""The slot of what is no slot."""


class Partition(Struct, frozen=True, order=True):
    """One partition of a topic, of the topic with that identity (`tag`) and no other of its name; or one of its slots: of
    ranges (C11), or of its keys, which are shared out over `keys` slots (C12)."""

    topic: str
    tag: str
    number: int
    slot: int = WHOLE
    keys: int = 0

    @property
    def source(self) -> str:
        """What its role is named by, but for its number."""
        return f"{self.topic}@{self.tag}"

    @property
    def role(self) -> str:
        whole = f"{self.source}/{self.number}"
        if self.keys:
            return f"{whole}#{self.slot}of{self.keys}"
        return whole if self.slot == WHOLE else f"{whole}+{self.slot}"

    @property
    def whole(self) -> Partition:
        """The partition of a slot."""
        return Partition(self.topic, self.tag, self.number)

    def slots(self, count: int) -> list[Partition]:
        """Its first slots of ranges."""
        return [Partition(self.topic, self.tag, self.number, slot) for slot in range(count)]

    def slots_of_keys(self, count: int) -> list[Partition]:
        """All slots of a division into so many."""
        return [Partition(self.topic, self.tag, self.number, slot, count) for slot in range(count)]

    @classmethod
    def of(cls, role: str) -> Partition | None:
        """The partition that a role stands for; None if it stands for none."""
        return _read(role)


@lru_cache(MAX_ROLES)
def _read(role: str) -> Partition | None:
    # Kept, as many as a group has: each placement and each claim asks for all of them.
    part = part_of(role)
    role, slot, keys = (role, WHOLE, 0) if part is None else part
    source, slash, number = role.rpartition("/")
    topic, at, tag = source.rpartition("@")
    if not (slash and at and topic and len(tag) == 8 and number.isdecimal()) or str(int(number)) != number:
        return None
    return Partition(topic, tag, int(number), slot, keys)


def tag_of(identity: str) -> str:
    """Eight characters that another topic of the same name does not have (2^-32 aside)."""
    return blake2b(identity.encode(), digest_size=4).hexdigest()


def place_of(key: bytes | None, offset: int) -> int:
    """A record belongs to slot `place_of(...) % slots` (C12): by its key, if it has one; else by its offset, so that records
    without a key are shared out evenly, in no order. Part of the format: `pares.Slots` puts a key into the same slot."""
    return offset if key is None else stable_hash(key)


class Terms(Struct, frozen=True):
    """On what terms a consumer takes part: fixed for its incarnation, as all that a join says."""

    topics: frozenset[str]
    most: int | None = None
    """Partitions at most, or topics where it takes whole ones; None: any number."""
    greedy: bool = False
    whole: bool = False
    """It takes all partitions of a topic, or none."""
    delivery: str = "at-least-once"
    """For people."""
    ranges: bool = False
    """It takes slots of partitions, and ranges of offsets for them (C11), and no partition as a whole."""
    keys: int = 0
    """It takes slots of keys, of which each partition has so many (C12), and no partition as a whole."""

    def labels(self) -> dict[str, str]:
        """As labels of a join, which have room for it in every version of the format."""
        found = {f"{_TOPIC}{number}": topic for number, topic in enumerate(sorted(self.topics))}
        found[_PREFIX + "delivery"] = self.delivery
        if self.most is not None:
            found[_PREFIX + "most"] = str(self.most)
        if self.greedy:
            found[_PREFIX + "greedy"] = "yes"
        if self.whole:
            found[_PREFIX + "claim"] = "topics"
        if self.ranges:
            found[_PREFIX + "claim"] = "ranges"
        if self.keys:
            found |= {_PREFIX + "claim": "keys", _PREFIX + "slots": str(self.keys)}
        return found

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Terms | None:
        """What the labels of a join say; None if they are no consumer's."""
        topics = frozenset(topic for label, topic in labels.items() if label.startswith(_TOPIC))
        if not topics:
            return None
        keys = labels.get(_PREFIX + "claim") == "keys"
        return cls(
            topics,
            _number(labels, "most"),
            labels.get(_PREFIX + "greedy") == "yes",
            labels.get(_PREFIX + "claim") == "topics",
            labels.get(_PREFIX + "delivery", ""),
            labels.get(_PREFIX + "claim") == "ranges",
            (_number(labels, "slots") or 0) if keys else 0,
        )

    def takes(self, partition: Partition) -> bool:
        """Whether it takes this at all."""
        mine = partition.keys == self.keys and (self.keys > 0 or (partition.slot != WHOLE) == self.ranges)
        return partition.topic in self.topics and mine

    def claims(self) -> str:
        """What it takes, for people."""
        if self.keys:
            return f"keys in {self.keys} slots"
        return "ranges" if self.ranges else "topics" if self.whole else "partitions"


def _number(labels: Mapping[str, str], name: str) -> int | None:
    found = labels.get(_PREFIX + name, "")
    return int(found) if found.isdecimal() and len(found) < 10 else None


def consumers(members: Iterable[MemberState]) -> dict[str, Terms]:
    """The terms of those that are consumers, by their ids."""
    return {member.id: terms for member in members if (terms := Terms.of(member.labels)) is not None}
