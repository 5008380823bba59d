"""Readers that share what was fetched, on a broker that is played: each gets what stands in the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.errors import LedgerRewound
from pares.ledger import base
from pares.ledger.address import Options
from pares.ledger.base import Entry
from pares.ledger.kafka import seek, shared
from pares.ledger.kafka.seek import Seeker
from pares.ledger.kafka.settings import take
from pares.ledger.registry import parse

MOST, FEW, AHEAD = 60, 3, 12
"""Bytes of a read, and of what is kept; entries of a read that does not read on, and of a fetch for one that does."""
PLACE = "t", 0
ADDRESS = parse("kafka://127.0.0.1:1/t")


class Broker:
    """Answers each fetch at once, as `Seeker._fetch` does."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.fetched = 0
        self._made = 0

    def append(self, sizes: list[int]) -> None:
        for size in sizes:
            self._made += 1
            self.log.append(Entry(len(self.log), 0, b"%05d" % self._made + b"x" * size))

    def fetch(
        self, place: tuple[str, int], offset: int, end: int, wanted: int, beside: int = 0
    ) -> tuple[list[Entry], None]:
        found, size = list[Entry](), -beside
        while len(found) < wanted and size < MOST and offset < min(end, len(self.log)):
            found.append(self.log[offset])
            size += len(self.log[offset].payload)
            offset += 1
        self.fetched += len(found)
        return found, None

    def read(self, offset: int, most: int) -> list[Entry]:
        return base.limited(self.log[offset : offset + most], most)


@contextmanager
def small(most: int = MOST) -> Iterator[tuple[Seeker, Broker]]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (base, seek, shared):
            patch.setattr(module, "MAX_READ_BYTES", most)
        patch.setattr(seek, "_FEW", FEW)
        patch.setattr(seek, "_AHEAD", AHEAD)
        patch.setattr(shared, "_ENTRY", 1)
        broker, seeker = Broker(), Seeker(take(ADDRESS, Options(ADDRESS.url, ADDRESS.query)), ADDRESS.url)
        patch.setattr(seeker, "_fetch", broker.fetch)
        yield seeker, broker


appends = st.lists(st.integers(0, 20), min_size=1, max_size=30)
reads = st.tuples(st.floats(0, 1), st.sampled_from([1, FEW, FEW + 1, 8, 100]))


@given(st.lists(appends | reads, max_size=40))
def test_each_read_brings_what_stands_there(steps: list[list[int] | tuple[float, int]]) -> None:
    with small() as (seeker, broker):
        for step in steps:
            if isinstance(step, list):
                broker.append(step)
            elif broker.log:
                offset, most = int(step[0] * (len(broker.log) - 1)), step[1]
                found, _ = seeker.fetch(*PLACE, offset, len(broker.log), most)
                assert found == broker.read(offset, most)


@given(appends, st.lists(reads, max_size=8), st.integers(0, 30), appends, st.lists(reads, min_size=1, max_size=8))
def test_no_read_mixes_two_logs_and_a_look_is_at_the_one_of_now(
    sizes: list[int], before: list[tuple[float, int]], kept: int, later: list[int], after: list[tuple[float, int]]
) -> None:
    """The log loses its tail, and grows again; nobody has heard of it."""
    with small() as (seeker, broker):
        broker.append(sizes)
        for where, most in before:
            seeker.fetch(*PLACE, int(where * (len(broker.log) - 1)), len(broker.log), most)
        old = Broker()
        old.log = broker.log.copy()
        del broker.log[kept:]
        broker.append(later + [1] * (len(old.log) - len(broker.log)))
        for where, most in after:
            offset = int(where * (len(broker.log) - 1))
            try:
                found, _ = seeker.fetch(*PLACE, offset, len(broker.log), most)
            except LedgerRewound:
                continue
            assert found == broker.read(offset, most) or (most > FEW and found == old.read(offset, most))


@pytest.mark.parametrize("size", [0, 5, 20])
@pytest.mark.parametrize("chunk", [4, 5, 7, 11])
def test_one_that_reads_on_misses_nothing(size: int, chunk: int) -> None:
    """Also where a passage becomes too large while it goes on: what it lets go of is not what its reader still needs."""
    with small() as (seeker, broker):
        broker.append([size] * 100)
        got = list[Entry]()
        while len(got) < 100:
            found, _ = seeker.fetch(*PLACE, len(got), 100, chunk)
            assert found == broker.read(len(got), chunk)
            got += found
            assert seeker.fetch(*PLACE, len(got) - 1, 100, 1)[0] == got[-1:]


def test_readers_that_do_not_keep_step_have_little_sent_to_them() -> None:
    with small(1000) as (seeker, broker):
        broker.append([0] * 40)
        for start in (0, 3, 1, 2):
            for offset in range(start, 40, 4):
                seeker.fetch(*PLACE, offset, 40, FEW + 1)
        assert broker.fetched < 3 * 40
