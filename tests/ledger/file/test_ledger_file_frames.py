"""Frames and segments: whatever is written, torn and interleaved, all readers agree on what stands there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from pares.ledger.base import Entry
from pares.ledger.file import fresh as newest
from pares.ledger.file import segment as segments
from pares.ledger.file.frame import BATCH, RECORD, SEAL, frame, parsed, unescaped
from pares.ledger.file.segment import Segment, name_of

PAYLOADS = st.binary(max_size=40) | st.sampled_from([b"", b"\n", b"\\n", b"\\", b"\\\\\n\\", b'{"k":"beat"}'])


def one(payload: bytes, known: tuple[int, int] = (0, 0)) -> bytes:
    return frame(RECORD, [payload], known, 5, 7, b"c", urgent=False).encoded()


@given(st.lists(PAYLOADS, min_size=1, max_size=5), st.booleans())
def test_a_frame_has_what_was_put_into_it_and_one_line(payloads: list[bytes], urgent: bool) -> None:
    written = frame(RECORD if len(payloads) == 1 else BATCH, payloads, (3, 4), 5_000_001, 6, b"clock", urgent)
    data = written.encoded()
    assert data[:1] == data[-1:] == b"\n"
    assert b"\n" not in data[1:-1]
    found = parsed(data[1:-1])
    assert found is not None
    assert found == written
    assert found.payloads() == payloads
    assert (found.place, found.number, found.wall_us, found.stopwatch_ns) == (3, 4, 5_000_001, 6)
    assert (found.clock, found.urgent) == (b"clock", urgent)
    assert found.records() == len(payloads)


@given(PAYLOADS, st.data())
def test_no_piece_of_a_line_is_one_and_no_altered_line_is(payload: bytes, data: st.DataObject) -> None:
    line = one(payload)[1:-1]
    cut = data.draw(st.integers(0, len(line) - 1))
    assert parsed(line[:cut]) is None
    at, other = data.draw(st.integers(0, len(line) - 1)), data.draw(st.integers(1, 255))
    flipped = line[:at] + bytes([line[at] ^ other]) + line[at + 1 :]
    assert parsed(flipped) is None


@given(st.binary(max_size=60))
def test_what_is_escaped_comes_back(payload: bytes) -> None:
    escaped = payload.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    assert b"\n" not in escaped
    assert unescaped(escaped) == payload


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "torn", "seal", "look", "batch"]),
        st.integers(0, 2),
        PAYLOADS,
        st.integers(0, 200),
    ),
    max_size=40,
)


@contextmanager
def keeping(apart: int, asked: int, unread: int) -> Iterator[None]:
    with (
        patch.object(segments, "_APART", apart),
        patch.object(newest, "_MOST", asked),
        patch.object(newest, "_UNREAD", unread),
    ):
        yield


@settings(deadline=None)
@given(
    ACTIONS,
    st.integers(0, 400),
    st.sampled_from([(1 << 14, 1 << 16, 1 << 19), (300, 20, 60), (300, 0, 1 << 19), (1, 0, 0)]),
)
def test_all_readers_agree_whatever_was_torn_and_interleaved(
    actions: list[tuple[str, int, bytes, int]], cut: int, kept: tuple[int, int, int]
) -> None:
    """Three writers know more or less of the file when each writes. A seal ends it, a torn piece harms nobody. `kept`: how far
    apart the places are that a reader keeps, and how much of the newest it has by heart."""
    with tempfile.TemporaryDirectory() as folder, keeping(*kept):
        name = name_of(100, "abcdabcd")
        path = Path(folder) / name
        path.touch()
        writers = [Segment(folder, name, os.O_RDWR | os.O_APPEND) for _ in range(3)]
        early = Segment(folder, name, os.O_RDONLY)
        expected: list[bytes] = []
        lines: list[tuple[int, int]] = []
        sealed = False
        for what, who, payload, number in actions:
            writer = writers[who]
            known = writer.place, writer.count
            if what == "look":
                writer.scan(path.stat().st_size)
                early.scan(path.stat().st_size)
                continue
            if what == "torn":
                data = one(payload, known)
                data = data[: number % (len(data) - 1)]
            elif what == "seal":
                data = frame(SEAL, [b"full"], known, 1, 1, b"c", urgent=False).encoded()
            elif what == "batch":
                data = frame(BATCH, [payload, b"more"], known, 1, 1, b"c", urgent=True).encoded()
            else:
                data = one(payload, known)
            begin = path.stat().st_size
            assert os.write(writer.descriptor(), data) == len(data)
            if what in ("write", "batch"):
                writer.scan(path.stat().st_size)
                found = writer.number_at(begin + 1)
                assert (found is None) == sealed, "a record is in unless it stands behind a seal, and its writer knows"
                if not sealed:
                    assert found == len(expected)
                    lines.append((begin + 1, len(expected)))
                    expected += [payload] if what == "write" else [payload, b"more"]
            sealed = sealed or what == "seal"
        late = Segment(folder, name, os.O_RDONLY)
        for reader in (early, late, *writers):
            reader.scan(path.stat().st_size)
            assert reader.broken == ""
            assert (reader.count, reader.next) == (len(expected), 100 + len(expected) if sealed else None)
            read: list[bytes] = []
            while len(read) < reader.count:
                read += [entry.payload for entry in reader.read(len(read), 3)[0]]
            assert read == expected
            assert [(at, reader.number_at(at)) for at, _ in lines] == lines
        # Any beginning of the file holds a beginning of the records.
        os.truncate(path, min(cut, path.stat().st_size))
        short = Segment(folder, name, os.O_RDONLY)
        short.scan(path.stat().st_size)
        assert [entry.payload for entry in (short.read(0, 10_000)[0] if short.count else [])] == expected[: short.count]
        for reader in (short, early, late, *writers):
            reader.rest()


def test_a_writer_that_had_read_something_else_breaks_the_segment(tmp_path: Path) -> None:
    name = name_of(0, "abcdabcd")
    path = tmp_path / name
    first = one(b"first")
    path.write_bytes(first + one(b"second", (len(first), 2)) + one(b"third"))
    segment = Segment(str(tmp_path), name, os.O_RDONLY)
    segment.scan(path.stat().st_size)
    assert "had read 2 records" in segment.broken
    assert [entry.payload for entry in segment.read(0, 10)[0]] == [b"first"]
    segment.rest()


@given(
    st.lists(st.binary(max_size=30), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(1, 12),
    st.integers(1, 200),
)
def test_what_is_by_heart_is_read_as_from_the_file(payloads: list[bytes], number: int, most: int, size: int) -> None:
    """Entries, stamps, and where a read ends, whichever way it goes."""
    number %= len(payloads)
    read: list[tuple[list[Entry], list[int | None]]] = []
    for kept in (1 << 16, 0):
        with tempfile.TemporaryDirectory() as folder, keeping(1, kept, kept):
            name = name_of(100, "abcdabcd")
            path, known, clocks = Path(folder) / name, (0, 0), (b"ours", b"theirs")
            with path.open("wb") as file:
                for at, payload in enumerate(payloads):
                    data = frame(
                        RECORD, [payload], known, 5000 + at, 7 + at, clocks[at % 3 // 2], at % 2 == 0
                    ).encoded()
                    known = known[0] + file.write(data), known[1] + 1
            segment = Segment(folder, name, os.O_RDONLY, b"ours")
            segment.scan(path.stat().st_size)
            read.append(segment.read(number, most, size))
            segment.rest()
    assert read[0] == read[1]
    entries, stamps = read[0]
    assert [entry.payload for entry in entries] == payloads[number : number + len(entries)]
    assert stamps == [7 + entry.offset - 100 if (entry.offset - 100) % 3 < 2 else None for entry in entries]
