"""Places of a topic at which offsets are known: where reading begins."""

from __future__ import annotations

import time

from pares.ledger.counted.records import Head, decode
from pares.ledger.pulsar.client import Client, Raw, Reader
from pares.ledger.pulsar.errors import Broken, Refused
from pares.ledger.pulsar.fold import Before, Fold, Taken
from pares.ledger.pulsar.settings import Settings


def find(client: Client, settings: Settings, name: str, mark: str, last: int) -> tuple[Fold, Reader]:
    """Where to begin so that as little as possible is read up to the message at `last` (-1: there is none)."""
    if last < 0:
        return Fold(mark, settings.where, 0, -1), client.reader(name, -1)
    reader = client.reader(name, last)
    try:
        raw = reader.next(settings.timeout)
    finally:
        reader.close()
    if raw is None:
        raise Broken("the broker does not show its last message")
    found = decode(raw.data, mark, settings.where)
    head = None if found is None else found[0]
    if head is not None:
        for place, next in ((head.after, head.next), (head.start.sequence, head.start.place)):
            if place and (begun := at(client, settings, name, int(place))) is not None:
                fold = Fold(mark, settings.where, next, int(place), head.start)
                return fold, begun[0]
    return _counted(client, settings, name, mark, max(last, raw.place))


def at(client: Client, settings: Settings, name: str, place: int) -> tuple[Reader, Raw] | None:
    """A reader behind the message at this place, and that message; None if it is not there."""
    reader = client.reader(name, place)
    try:
        raw = reader.next(settings.timeout)
        if raw is not None and raw.place == place:
            return reader, raw
    except BaseException:
        reader.close()
        raise
    reader.close()
    if raw is None:
        raise Broken("the broker does not show what it has")
    return None


def _counted(client: Client, settings: Settings, name: str, mark: str, last: int) -> tuple[Fold, Reader]:
    """From the first message on: until one names another that was read, its writer's count is as good as any."""
    reader = client.reader(name, -1)
    fold = Fold(mark, settings.where, 0, -1)
    counts: dict[int, int] = {}
    begin: tuple[int, int] | None = None
    try:
        while fold.read < last and begin is None:
            raw = reader.next(settings.timeout)
            if raw is None:
                raise Broken("the broker does not show what it has")
            found = decode(raw.data, mark, settings.where)
            fold.take(raw)
            if found is not None:
                begin = _known(found[0], counts)
                counts[raw.place] = fold.next
    finally:
        reader.close()
    if begin is None and counts:
        raise Refused("", f"nobody can count what stands in {name}: others than pares have deleted messages from it")
    next, low = begin or (0, -1)
    return Fold(mark, settings.where, next, low), client.reader(name, low)


def _known(head: Head, counts: dict[int, int]) -> tuple[int, int] | None:
    """The offset behind the first record that was read, and that record's place; -1: it is the log's first one."""
    if not head.after:
        return None if counts else (0, -1)
    known = counts.get(int(head.after))
    if known is None:
        return None
    first = next(iter(counts))
    return head.next - (known - counts[first]), first


def look_back(client: Client, settings: Settings, name: str, fold: Fold, raw: Raw) -> Taken | None:
    """Have the fold take a message, and read before it what has to be known for that."""
    try:
        return fold.take(raw)
    except Before as error:
        after = error.after
    found: list[Raw] = []
    reader = client.reader(name, after)
    until = time.monotonic() + settings.timeout
    try:
        while not found or found[-1].place < fold.low:
            one = reader.next(settings.timeout)
            if one is None or time.monotonic() > until:
                raise Broken("the broker does not show what it has")
            found.append(one)
    finally:
        reader.close()
    fold.prepend(found, after)
    return fold.take(raw)
