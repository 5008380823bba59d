"""What is fetched ahead of a partition's reader comes out as it came in, within the limits that the reader gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pares.ledger.kafka.ahead.queue import Queue
from pares.ledger.source import Record


class Said(NamedTuple):
    """As much of a client's message as is asked for."""

    at: int
    name: bytes | None
    body: bytes | None

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at + 7

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.body


BYTES = st.none() | st.binary(max_size=5)
MESSAGES = st.lists(st.tuples(st.integers(1, 3), BYTES, BYTES), min_size=1, max_size=12)
"""Each so far behind the one before."""
STEPS = st.lists(
    st.tuples(st.just("came"), MESSAGES)
    | st.tuples(st.just("take"), st.tuples(st.integers(1, 8), st.integers(1, 30)))
    | st.tuples(st.just("skip"), st.integers(0, 12)),
    max_size=30,
)


def size(record: Record) -> int:
    return len(record.payload) + len(record.key or b"")


@given(STEPS)
def test_what_came_is_taken_in_order_within_the_limits(steps: list[tuple[str, Any]]) -> None:
    queue, last, kept = Queue(5), 4, list[Record]()
    for what, about in steps:
        if what == "came":
            said = list[Said]()
            for gap, key, value in about:
                last += gap
                said.append(Said(last, key, value))
            new = [Record(each.at, each.at + 7, each.name, each.body or b"") for each in said if each.at >= queue.at]
            assert queue.came(said) == bool(new)  # type: ignore[arg-type]
            kept += new
            assert queue.position == last + 1
        elif what == "take" and kept:
            most, most_bytes = about
            fetched = queue.take(most, most_bytes)
            found = list(fetched.records)
            assert found == kept[: len(found)]
            assert 1 <= len(found) <= most
            assert len(found) == 1 or sum(map(size, found)) <= most_bytes
            assert len(found) in (most, len(kept)) or sum(map(size, kept[: len(found) + 1])) > most_bytes, (
                "no more is left behind than has to be"
            )
            del kept[: len(found)]
            assert fetched.next == queue.at == (found[-1].offset + 1 if kept else queue.position)
        elif what == "skip":
            to = queue.at + about
            queue.skip(to)
            kept = [record for record in kept if record.offset >= to]
        assert queue.records == kept
        assert queue.bytes == sum(map(size, kept)) + 64 * len(kept)
