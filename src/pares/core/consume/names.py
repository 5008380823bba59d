"""The role that stands for a partition (C1), and what a consumer says of itself in its join (C6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from pares.core.wire.ranges import slot_of
from pares.core.wire.states import MemberState

_PREFIX: Final = "pares.consume."
_TOPIC: Final = _PREFIX + "topic."
WHOLE: Final = -1
"""The slot of what is no slot."""


class Partition(Struct, frozen=True, order=True):
    """One partition of a topic, of the topic with that identity (`tag`) and no other of its name; or one of its slots (C11)."""

    topic: str
    tag: str
    number: int
    slot: int = WHOLE

    @property
    def source(self) -> str:
        """What its role is named by, but for its number."""
        return f"{self.topic}@{self.tag}"

    @property
    def role(self) -> str:
        return f"{self.source}/{self.number}" + ("" if self.slot == WHOLE else f"+{self.slot}")

    @property
    def whole(self) -> Partition:
        """The partition of a slot."""
        return Partition(self.topic, self.tag, self.number)

    def slots(self, count: int) -> list[Partition]:
        """Its first slots."""
        return [Partition(self.topic, self.tag, self.number, slot) for slot in range(count)]

    @classmethod
    def of(cls, role: str) -> Partition | None:
        """The partition that a role stands for; None if it stands for none."""
        role, slot = slot_of(role) or (role, WHOLE)
        source, slash, number = role.rpartition("/")
        topic, at, tag = source.rpartition("@")
        if not (slash and at and topic and len(tag) == 8 and number.isdecimal()) or str(int(number)) != number:
            return None
        return cls(topic, tag, int(number), slot)


def tag_of(identity: str) -> str:
    """Eight characters that another topic of the same name does not have (2^-32 aside)."""
    return blake2b(identity.encode(), digest_size=4).hexdigest()


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
        return found

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Terms | None:
        """What the labels of a join say; None if they are no consumer's."""
        topics = frozenset(topic for label, topic in labels.items() if label.startswith(_TOPIC))
        if not topics:
            return None
        most = labels.get(_PREFIX + "most", "")
        return cls(
            topics,
            int(most) if most.isdecimal() and len(most) < 10 else None,
            labels.get(_PREFIX + "greedy") == "yes",
            labels.get(_PREFIX + "claim") == "topics",
            labels.get(_PREFIX + "delivery", ""),
            labels.get(_PREFIX + "claim") == "ranges",
        )

    def takes(self, partition: Partition) -> bool:
        """Whether it takes this at all."""
        return partition.topic in self.topics and (partition.slot != WHOLE) == self.ranges


def consumers(members: Iterable[MemberState]) -> dict[str, Terms]:
    """The terms of those that are consumers, by their ids."""
    return {member.id: terms for member in members if (terms := Terms.of(member.labels)) is not None}
