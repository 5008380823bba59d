"""Which ways of sharing work out are here: peers that are not installed are left out, and said to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from bench.cases import Row
from bench.consume.crew import Crew
from bench.consume.plan import NAMES, Way
from pares.runtime.consume.settings import Claims


def why_not(way: Way) -> str:
    """Why it can't be measured here; nothing if it can."""
    if way == "keys" and "keys" not in get_args(Claims):
        return "this version of pares has no claims of keys"
    if way == "pyrallel" and Crew.peer is None:
        return "no interpreter that has it was named by --pyrallel"
    if way == "share":
        import confluent_kafka

        if "ShareConsumer" not in vars(confluent_kafka):
            return "the installed confluent-kafka has no ShareConsumer"
    return ""


def there(ways: Iterable[Way]) -> list[Way]:
    return [way for way in ways if not why_not(way)]


def missing() -> Iterator[Row]:
    """A row for each that is left out, so that its absence is no silence."""
    for way in NAMES:
        if why := why_not(way):
            yield Row(f"not measured: {NAMES[way]}", why)
