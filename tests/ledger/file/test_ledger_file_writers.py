"""Many writers, stopped and killed anywhere: nobody waits for them, nothing acknowledged is lost, and there is one order."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from file_tools import end, finish, forked, in_memory, opened, segments, stop_at, stopped, writers
from log_tools import payloads, read_all

from pares.core.errors import LedgerGap
from pares.ledger import expire
from pares.ledger.file.log import FileLedger


def appends(path: Path, number: int) -> None:
    """Stops itself before its `number`th call: as it opens the ledger, appends, fills two segments and trims."""
    stop_at(number)
    with closing(opened(path, segment=1024)) as ledger:
        for each in range(3):
            ledger.append(b"child %d " % each + b"x" * 700)
        ledger.append_many([b"child 3", b"child 4"])
        ledger.trim(1)


def others_go_on(path: Path, child: int, then: signal.Signals) -> None:
    with closing(opened(path, segment=1024)) as ledger:
        mine = {ledger.append(b"mine %d " % each + b"y" * 300): b"mine %d " % each for each in range(8)}
        assert list(mine) == sorted(mine)
        before = read_all(ledger, ledger.start())
        finish(child, then)
        after = read_all(ledger, ledger.start())
        at = {entry.offset: entry.payload for entry in after}
        assert [entry for entry in after if entry.offset <= before[-1].offset] == [
            entry for entry in before if entry.offset >= after[0].offset
        ], "what was read once stays, and at its place"
        assert all(at.get(offset, text)[: len(text)] == text for offset, text in mine.items())
        theirs = [entry.payload[:7] for entry in after if entry.payload.startswith(b"child")]
        assert theirs == sorted({*theirs}), "none twice, and in order"
        if then is signal.SIGCONT:
            assert {*theirs} | {b"child 0"} == {b"child %d" % each for each in range(5)}
        with closing(opened(path)) as other:
            assert read_all(other, other.start()) == after, "who comes later reads the same"
            assert other.append(b"last") == ledger.end() - 1


@pytest.mark.processes
@pytest.mark.parametrize("then", [signal.SIGCONT, signal.SIGKILL])
def test_others_go_on_wherever_a_writer_stands_still(then: signal.Signals) -> None:
    with in_memory() as folder:
        points = 0
        while True:
            points += 1
            path = folder.parent / f"{then.name}{points}"
            child = forked(lambda path=path, points=points: appends(path, points))
            if not stopped(child):
                break
            try:
                others_go_on(path, child, then)
            finally:
                end(child)
        assert points > 60, "it was stopped at as many points as there are"


@pytest.mark.processes
def test_eight_writers_that_fill_segments_all_the_time() -> None:
    """8 processes, segments of 4 KiB, 20,000 records: none lost, none twice, one order, each where its writer was told."""
    each = 2500

    def work(number: int, ledger: FileLedger) -> Iterator[int]:
        rest = random.Random(number)
        left = each
        while left:
            count = min(left, rest.choice([1, 1, 1, 1, 2, 5]))
            first = each - left
            texts = [b"%d %d" % (number, first + at) for at in range(count)]
            yield from ledger.append_many(texts, urgent=rest.random() < 0.05)
            left -= count

    with in_memory() as path:
        opened(path).close()
        given = writers(path, 8, each, work, segment=4096)
        assert len(segments(path)) > 100
        with closing(opened(path)) as ledger:
            entries = read_all(ledger)
            assert [entry.offset for entry in entries] == list(range(20_000))
            for number, offsets in enumerate(given):
                assert [entries[offset].payload for offset in offsets] == [
                    b"%d %d" % (number, at) for at in range(each)
                ]
            assert [level for level, _ in ledger.checks()] == ["good", "good"]


@pytest.mark.processes
def test_killed_at_any_moment() -> None:
    """What was acknowledged to a writer that is then killed is there, at its place, and nobody else has noticed."""
    with in_memory() as path:
        ledger, rest = opened(path, segment=4096), random.Random(7)
        for turn in range(25):
            read, write = os.pipe()

            def work(turn: int = turn, write: int = write) -> None:
                mine = opened(path, segment=4096)
                for number in range(100_000):
                    (offset,) = mine.append_many([b"%d %d" % (turn, number)], urgent=False)
                    os.write(write, b"%d %d\n" % (offset, number))

            child = forked(work)
            os.close(write)
            time.sleep(rest.random() / 20)
            ledger.append(b"mine")
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with os.fdopen(read, "rb") as pipe:
                told = [line.split() for line in pipe.read().splitlines(keepends=True) if line.endswith(b"\n")]
            for offset, number in told[-50:]:
                assert ledger.read(int(offset), max_records=1)[0].payload == b"%d %s" % (turn, number)
        entries = read_all(ledger)
        assert [entry.offset for entry in entries] == list(range(len(entries)))
        ledger.close()


@pytest.mark.processes
def test_trimming_beside_readers_and_writers() -> None:
    with in_memory() as path:
        ledger = opened(path, segment=4096)

        def work() -> None:
            with closing(opened(path, segment=4096)) as mine:
                for number in range(4000):
                    mine.append_many([b"%d" % number + b" " * 60], urgent=False)

        child = forked(work)
        position = trimmed = 0
        seen: list[int] = []
        while len(seen) < 2 or seen[-1] < 3999:
            try:
                for entry in ledger.read(position, max_records=50):
                    seen.append(int(entry.payload))
                    assert entry.offset == seen[-1]
                    position = entry.offset + 1
            except LedgerGap:
                position = ledger.start()
            if position - trimmed > 300:
                trimmed = position - 100
                ledger.trim(trimmed)
                assert ledger.start() == trimmed
        assert not stopped(child)
        assert seen == sorted({*seen})
        assert len(segments(path)) < 30, "of more than 130, whole ones went"
        now = ledger.read(3999)[0].timestamp_ms
        assert expire(ledger, 4000, now_ms=now + 10**7) == 4000 == ledger.start() == ledger.end()
        assert len(segments(path)) <= 2, "the last one stays"
        with closing(opened(path)) as other:
            assert (other.start(), other.end()) == (4000, 4000)
            assert other.append(b"next") == 4000
            assert payloads(ledger, 4000) == [b"next"]
        ledger.close()
