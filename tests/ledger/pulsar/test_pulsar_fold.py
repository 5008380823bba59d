"""Wherever readers of a topic begin, they find the same entries at the same offsets: whatever was sent twice, came late, was
cut into parts, or is somebody else's."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.errors import CapabilityError
from pares.ledger import Entry
from pares.ledger.counted.records import LAYOUT, Head, Start, encode, pack, parts
from pares.ledger.pulsar.client import Raw
from pares.ledger.pulsar.fold import Before, Fold, Taken

LOG = "a-log"
CHUNK = 8
FIRST = 7 << 32


@dataclass
class Topic:
    """Messages in the order of their places, which have holes."""

    messages: list[Raw] = field(default_factory=list)

    def put(self, data: bytes) -> None:
        last = self.messages[-1].place if self.messages else FIRST - 1
        step = (1 << 32) if len(self.messages) % 7 == 6 else 1  # another segment, now and then
        self.messages.append(Raw(last + step, 1000 + len(self.messages), data))

    def behind(self, place: int, to: int | None = None) -> list[Raw]:
        return [raw for raw in self.messages if raw.place > place and (to is None or raw.place <= to)]


def take(topic: Topic, fold: Fold, raw: Raw) -> Taken | None:
    try:
        return fold.take(raw)
    except Before as error:
        fold.prepend(topic.behind(error.after, fold.low), error.after)
        return fold.take(raw)


def entries(topic: Topic, fold: Fold) -> list[Entry]:
    found: list[Entry] = []
    for raw in topic.behind(fold.read):
        taken = take(topic, fold, raw)
        if taken is not None:
            assert taken.offset + len(taken.entries) == fold.next
            found += taken.entries
    return found


class Writer:
    """One that has read as far as it has, and appends."""

    def __init__(self, topic: Topic, name: str) -> None:
        self.topic = topic
        self.name = name
        self.number = 0
        self.fold = Fold(LOG, "here", 0, -1)
        self.sent: list[bytes] = []

    def read(self, most: int) -> None:
        for raw in self.topic.behind(self.fold.read)[:most]:
            take(self.topic, self.fold, raw)

    def make(self, payloads: list[bytes], log: str = LOG) -> list[bytes]:
        """What an append sends, by what was read until now."""
        self.number += 1
        pieces = [*parts(pack(payloads), CHUNK)]
        fold = self.fold
        after = str(fold.last) if fold.last >= 0 else ""
        found = [
            encode(
                Head(
                    LAYOUT,
                    log,
                    "entries",
                    self.name,
                    self.number,
                    part,
                    len(pieces),
                    len(payloads),
                    after,
                    fold.next,
                    Start(),
                ),
                piece,
            )
            for part, piece in enumerate(pieces)
        ]
        self.sent += found
        return found


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "read", "copy", "late", "foreign", "cut off"]),
        st.integers(0, 3),
        st.integers(0, 40),
    ),
    max_size=40,
)


def played(steps: list[tuple[str, int, int]]) -> Topic:
    topic = Topic()
    writers = [Writer(topic, f"w{number}") for number in range(4)]
    held: list[bytes] = []
    for kind, who, what in steps:
        writer = writers[who]
        if kind == "read":
            writer.read(what)
        elif kind == "foreign":
            topic.put(b'{"pares": not ours' if what % 2 else writer.make([b"x"], "another log")[0])
        elif kind == "copy" and writer.sent:
            topic.put(writer.sent[-1 - what % min(3, len(writer.sent))])
        elif kind == "late":
            held += writer.make([b"late"])[-1:]
            if len(held) > 2:
                topic.put(held.pop(0))
        else:
            made = writer.make([b"%d" % (what + at) for at in range(1 + what % 5)])
            for data in made[:-1] if kind == "cut off" else made:
                topic.put(data)
    return topic


@given(STEPS)
def test_all_readers_agree(steps: list[tuple[str, int, int]]) -> None:
    topic = played(steps)
    whole = entries(topic, Fold(LOG, "here", 0, -1))
    assert [entry.offset for entry in whole] == list(range(len(whole)))
    at: dict[int, int] = {}
    fold = Fold(LOG, "here", 0, -1)
    for raw in topic.messages:
        take(topic, fold, raw)
        at[raw.place] = fold.next
    for raw in topic.messages:
        later = Fold(LOG, "here", at[raw.place], raw.place)
        begins = later.next
        assert entries(topic, later) == [entry for entry in whole if entry.offset >= begins]
        assert later.next == len(whole)


@given(STEPS)
def test_what_a_writer_says_is_so(steps: list[tuple[str, int, int]]) -> None:
    """A reader begins where any record says that its writer had read, with the offset that it names."""
    topic = played(steps)
    whole = entries(topic, Fold(LOG, "here", 0, -1))
    fold = Fold(LOG, "here", 0, -1)
    for raw in topic.messages:
        taken = take(topic, fold, raw)
        if taken is not None:
            head = taken.head
            begun = Fold(LOG, "here", head.next, int(head.after) if head.after else -1)
            assert entries(topic, begun) == [entry for entry in whole if entry.offset >= head.next]


def test_what_is_sent_twice_counts_once() -> None:
    topic = Topic()
    one, other = Writer(topic, "one"), Writer(topic, "other")
    first = one.make([b"a"])[0]
    topic.put(first)
    topic.put(other.make([b"b"])[0])
    topic.put(first)
    assert [entry.payload for entry in entries(topic, Fold(LOG, "here", 0, -1))] == [b"a", b"b"]
    middle = Fold(LOG, "here", 1, topic.messages[0].place)
    assert [entry.payload for entry in entries(topic, middle)] == [b"b"]


def test_what_comes_after_its_writers_next_append_never_counts() -> None:
    topic = Topic()
    one = Writer(topic, "one")
    lost, kept = one.make([b"lost"])[0], one.make([b"kept"])[0]
    topic.put(kept)
    topic.put(lost)
    assert [entry.payload for entry in entries(topic, Fold(LOG, "here", 0, -1))] == [b"kept"]


def test_a_record_of_a_newer_pares_stops_the_reader() -> None:
    topic = Topic()
    topic.put(Writer(topic, "one").make([b"x"])[0].replace(b'{"pares":1', b'{"pares":2', 1))
    with pytest.raises(CapabilityError, match="upgrade pares"):
        entries(topic, Fold(LOG, "here", 0, -1))
