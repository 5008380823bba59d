"""A log that is not what it was (R12): seen, said, and no offset is given out twice."""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest
from file_tools import opened, segments
from log_tools import read_all

from pares.core.errors import LedgerGap, LedgerRewound, LedgerUnavailable
from pares.ledger.file.folder import LEDGER

JUMP = 1 << 32


def filled(path: Path, count: int = 40) -> None:
    """Several segments."""
    with closing(opened(path, segment=1024)) as ledger:
        for number in range(count):
            ledger.append(b"%d " % number + b"x" * 100)
    assert len(segments(path)) > 3


def test_a_last_segment_that_was_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(opened(tmp_path / "x")) as ledger, closing(opened(tmp_path / "x", readonly=True)) as reader:
        for number in range(10):
            ledger.append(b"%d" % number)
        assert len(read_all(ledger)) == len(read_all(reader)) == 10
        before, read_before = ledger.identity(), reader.identity()
        (segment,) = segments(tmp_path / "x")
        os.truncate(segment, segment.stat().st_size - 200)
        with pytest.raises(LedgerRewound):
            reader.read(10)
        assert reader.identity() != read_before
        with caplog.at_level(logging.ERROR), pytest.raises(LedgerRewound):
            ledger.read(10)
        assert "shorter than it was" in caplog.text
        assert ledger.identity() != before
        offset = ledger.append(b"new")
        assert offset == JUMP, "no offset that was read is given out again"
        assert reader.read(offset)[0].payload == b"new"


def test_cut_and_longer_again_before_anybody_has_looked(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append_many([b"a" * 10])
        for number in range(5):
            ledger.append(b"%d" % number)
        before = ledger.identity()
        (segment,) = segments(tmp_path / "x")
        os.truncate(segment, 200)
        with closing(opened(tmp_path / "x")) as other:
            for _ in range(20):
                other.append(b"longer")
        assert ledger.read(1) != [], "it goes on with what is there"
        assert ledger.identity() != before


def test_a_record_of_the_last_segment_that_was_altered(tmp_path: Path) -> None:
    """Those that have read it know its offset, those that come later can't: so nothing from there on counts for them."""
    with closing(opened(tmp_path / "x")) as ledger:
        for number in range(5):
            ledger.append(b"record %d" % number)
        (segment,) = segments(tmp_path / "x")
        segment.write_bytes(segment.read_bytes().replace(b"record 2", b"record Z"))
        with closing(opened(tmp_path / "x")) as late:
            assert [entry.payload for entry in read_all(late)] == [b"record 0", b"record 1"]
            assert "was altered" in str(late.checks())
            before = ledger.identity()
            assert late.append(b"new") == JUMP
            assert ledger.identity() != before
            with pytest.raises((LedgerRewound, LedgerUnavailable)):
                ledger.read(JUMP + 5)
            assert [entry.payload for entry in read_all(ledger)] == [b"record 0", b"record 1", b"new"]


@pytest.mark.parametrize("how", ["altered", "cut", "no seal", "deleted"])
def test_a_full_segment(how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path / "x")
    second = segments(tmp_path / "x")[1]
    base, third = int(second.name[:20]), int(segments(tmp_path / "x")[2].name[:20])
    text = second.read_bytes()
    if how == "altered":
        second.write_bytes(text.replace(b"xx", b"xy", 1))
    elif how == "cut":
        second.write_bytes(text[: len(text) // 2])
    elif how == "no seal":
        second.write_bytes(b"\n".join(line for line in text.split(b"\n") if b" s " not in line))
    else:
        second.unlink()
    with closing(opened(tmp_path / "x", segment=1024)) as ledger:
        reached = base if how != "deleted" else base - 1
        with caplog.at_level(logging.ERROR), pytest.raises(LedgerGap):
            ledger.read(reached)
        assert "does not lead to the segment that follows it" in caplog.text
        assert ledger.start() == third, "as if what stands before were gone"
        assert read_all(ledger, third)[-1].payload.startswith(b"39 ")
        assert "problem" in [level for level, _ in ledger.checks()]
        assert ledger.append(b"next") == 40


def test_the_last_segment_was_deleted(tmp_path: Path) -> None:
    filled(tmp_path / "x")
    with closing(opened(tmp_path / "x", segment=1024)) as ledger:
        end, before = ledger.end(), ledger.identity()
        last = segments(tmp_path / "x")[-1]
        last.unlink()
        with pytest.raises(LedgerRewound):
            ledger.read(end)
        assert ledger.identity() != before
        assert ledger.append(b"new") == int(last.name[:20]) + JUMP


def test_a_folder_that_was_put_back(tmp_path: Path) -> None:
    """The same records, and another log: it may have lost some since."""
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b"x")
        before = ledger.identity()
        shutil.copytree(tmp_path / "x", tmp_path / "y", ignore=shutil.ignore_patterns("bell"))
        shutil.rmtree(tmp_path / "x")
        with pytest.raises(LedgerUnavailable, match="is gone"):
            ledger.identity()
        with pytest.raises(LedgerUnavailable):
            ledger.append(b"into nothing")
        assert not (tmp_path / "x").exists(), "an append makes no log"
        (tmp_path / "y").rename(tmp_path / "x")
        assert ledger.identity() != before
        assert read_all(ledger)[0].payload == b"x"


def test_moved_away_while_it_is_written_to(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b"x")
        (tmp_path / "x").rename(tmp_path / "y")
        with pytest.raises(LedgerUnavailable, match="unknown") as caught:
            ledger.append(b"y")
        assert caught.value.unknown
        with pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"z")
        assert not caught.value.unknown


def test_another_ledger_whose_mark_was_given_the_same_inode(tmp_path: Path) -> None:
    """As file systems do with a file that is made right after another one was deleted."""
    with closing(opened(tmp_path / "one")) as ledger, closing(opened(tmp_path / "two")):
        before = ledger.identity()
        mark = tmp_path / "one" / LEDGER
        inode = mark.stat().st_ino
        with mark.open("r+b") as file:
            file.write((tmp_path / "two" / LEDGER).read_bytes())
        assert mark.stat().st_ino == inode
        assert ledger.identity() != before


@pytest.mark.parametrize("left", [0, 1, 3])
def test_the_newest_segments_deleted_while_nobody_runs(
    left: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is there who has read them; what was made is known by a mark all the same."""
    path = tmp_path / "x"
    filled(path)
    with closing(opened(path)) as ledger:
        highest = ledger.end() - 1
    for segment in segments(path)[left:]:
        segment.unlink()
    with closing(opened(path, segment=1024)) as ledger:
        assert any("was deleted" in text for level, text in ledger.checks() if level == "problem")
        with caplog.at_level(logging.ERROR):
            offset = ledger.append(b"new")
        assert "the newest segment" in caplog.text
        assert highest < offset, "no offset is given out twice"
        assert [entry.payload for entry in ledger.read(offset)] == [b"new"]
        with pytest.raises(LedgerGap):
            ledger.read(0)
        more = [ledger.append(b"x" * 100) for _ in range(40)]
        assert more == sorted(more)
        assert not any("was deleted" in text for level, text in ledger.checks() if level == "problem")


def test_a_segment_that_is_replaced_long_after_the_folder_was_listed(tmp_path: Path) -> None:
    """As long as the folder is what it was, a reader does not look at the segment's name."""
    path = tmp_path / "x"
    with closing(opened(path)) as ledger, closing(opened(path, readonly=True)) as reader:
        for number in range(5):
            ledger.append(b"%d" % number)
        (segment,) = segments(path)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert len(read_all(reader)) == 5
        before = reader.identity()
        other = tmp_path / "other"
        other.write_bytes(segment.read_bytes()[:300])
        other.rename(segment)
        with pytest.raises(LedgerRewound):
            reader.read(5)
        assert reader.identity() != before


def test_a_segment_that_is_replaced_in_place_while_its_file_is_not_open(tmp_path: Path) -> None:
    """It has the number of the old one, and its length."""
    path = tmp_path / "x"
    with closing(opened(path)) as ledger:
        for number in range(5):
            ledger.append(b"%d" % number)
        before = ledger.identity()
        for chain, _ in ledger._chains.values():  # pyright: ignore[reportPrivateUsage]
            chain.rest()
        (segment,) = segments(path)
        content = segment.read_bytes()
        segment.write_bytes(content[: len(content) // 2] + b"#" * (len(content) - len(content) // 2))
        with pytest.raises(LedgerRewound):
            ledger.read(5)
        assert ledger.identity() != before
