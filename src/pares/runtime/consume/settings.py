"""What a consumer is made with, checked: each error names the value, the limit and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from pares.core.consume.lanes import Order
from pares.core.consume.names import Partition, Terms, tag_of
from pares.core.errors import ConfigError
from pares.core.wire.divided.siblings import MAX_SLOTS
from pares.core.wire.records import MAX_ROLES, check_name
from pares.ledger.sources import Source
from pares.runtime.config.numbers import number, one_of, whole

Delivery = Literal["at-least-once", "at-most-once"]
Claims = Literal["partitions", "topics", "ranges", "keys"]
Start = Literal["earliest", "latest"]
OnGap = Literal["earliest", "latest", "stop"]

SLOTS: Final = 16
"""Of a partition, if nothing is said."""
MOST_RECORDS: Final = 100_000
"""In one batch."""
MOST_OUT: Final = 1000
"""Records that one consumer may have out at once."""
MOST_AHEAD: Final = 100
"""Batches that one consumer may have taken ahead, at most once."""


class Settings(Struct, frozen=True):
    """Of one consumer, but for what its member and its sources are made with."""

    delivery: Delivery
    claim: Claims
    slots: int
    """Of each partition, with ranges or keys."""
    session: int
    """Nanoseconds."""
    batch: int
    batch_bytes: int
    ahead: int
    """Batches of the whole consumer that are taken before anybody asks for them, at most once (C4)."""
    most: int | None
    greedy: bool
    release_if_behind: bool
    start: Start
    on_gap: OnGap
    """Where to go on when retention has overtaken the position (C8)."""
    concurrency: int
    """Records that may be out at once."""
    order: Order
    retries: int
    backoff: float
    look_every: int
    """Nanoseconds between two looks at how the work goes, and whether topics have grown."""
    note_every: int
    """Nanoseconds between two notes for the log of what is done above positions."""

    def terms(self, topics: Iterable[str]) -> Terms:
        whole, ranges, keys = self.claim == "topics", self.claim == "ranges", self.slots if self.claim == "keys" else 0
        return Terms(frozenset(topics), self.most, self.greedy, whole, self.delivery, ranges, keys)

    def roles_of(self, partition: Partition) -> list[str]:
        """The roles that stand for a partition: its own, and with ranges (C11) or keys (C12) those of its slots."""
        return [each.role for each in (partition, *self.slots_of(partition))]

    def slots_of(self, partition: Partition) -> list[Partition]:
        """Its slots, if this consumer takes slots."""
        if self.claim == "keys":
            return partition.slots_of_keys(self.slots)
        return partition.slots(self.slots) if self.claim == "ranges" else []


def checked(*, session: float, looks: float, **given: Any) -> Settings:
    """Raises `ConfigError`."""
    one_of("delivery", given["delivery"], get_args(Delivery))
    one_of("claim", given["claim"], get_args(Claims))
    one_of("start", given["start"], get_args(Start))
    one_of("on_gap", given["on_gap"], get_args(OnGap))
    whole("slots", given["slots"], 1, MAX_SLOTS)
    whole("batch", given["batch"], 1, MOST_RECORDS)
    whole("batch_bytes", given["batch_bytes"], 1, 2**31)
    whole("ahead", given["ahead"], 0, MOST_AHEAD)
    whole("concurrency", given["concurrency"], 1, MOST_OUT)
    one_of("order", given["order"], get_args(Order))
    if given["claim"] == "keys" and given["order"] == "none":
        raise ConfigError(
            "order is 'none', and with claim='keys' records of a key are in order: give 'partition' or 'key'"
        )
    if given["ahead"] and given["delivery"] != "at-most-once":
        raise ConfigError(
            f"ahead is {given['ahead']}: with delivery {given['delivery']!r} nothing is taken, leave it at 0"
        )
    if given["ahead"] and given["claim"] == "keys":
        raise ConfigError(
            f"ahead is {given['ahead']}: after a term that ends without a plan, what was taken ahead would be given out after "
            "later records of its key: leave ahead at 0, or give another claim than 'keys'"
        )
    whole("retries", given["retries"], 0, 1_000_000)
    given["backoff"] = number("backoff", given["backoff"], 0.01, 60.0)
    if given["most"] is not None:
        whole("max_claims", given["most"], 1, MAX_ROLES)
    given["session"] = int(session * 1e9)
    return Settings(look_every=int(looks * 1e9), note_every=int(session * 1e9 / 8), **given)


def topics_of(topics: object, settings: Settings) -> list[str | Source]:
    """Topics, each by its name or as a `Source`; or the name of one."""
    several: list[Any] = [topics] if isinstance(topics, str) else _listed(topics)
    if not several:
        raise ConfigError("topics is empty: name at least one topic to consume")
    names = [topic if isinstance(topic, str) else topic.name for topic in several]
    for name in names:
        check_name("a topic's name", name)
        longest = max(settings.roles_of(Partition(name, "0" * 8, 99999)), key=len)
        check_name(f"the role of topic {name!r}, which is longer than its name,", longest)
        if names.count(name) > 1:
            raise ConfigError(f"topic {name!r} is named more than once in topics")
    return several


def _listed(topics: Any) -> list[Any]:
    try:
        return list(topics)
    except TypeError:
        raise ConfigError(f"topics is {topics!r:.80}: give a name or a list of names") from None


def partitions_of(source: Source) -> list[Partition]:
    """The partitions that a topic has now. Raises what the source raises."""
    tag = tag_of(source.identity)
    return [Partition(source.name, tag, number) for number in range(source.partitions())]
