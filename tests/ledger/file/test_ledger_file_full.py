"""No room: an append fails, says so, and harms nobody; what was there is there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from file_tools import opened, segments
from log_tools import payloads, read_all

from pares.core.errors import LedgerUnavailable
from pares.ledger.file import appending

FULL = """
import os, subprocess, sys
import pares.ledger
from pares.core.errors import LedgerUnavailable
folder = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
ledger = pares.ledger.open(f"file://{folder}/x", segment=16384)
given = {}
for number in range(100_000):
    try:
        given[ledger.append(b"%d " % number + b"x" * 3000)] = number
    except LedgerUnavailable as error:
        assert not error.unknown, error
        assert "full" in str(error) or "were written" in str(error), error
        break
else:
    raise AssertionError("never full")
other = pares.ledger.open(f"file://{folder}/x", readonly=True)
for reader in (ledger, other):
    at, found = 0, {}
    while at < reader.end():
        for entry in reader.read(at):
            found[entry.offset] = int(entry.payload.split()[0])
            at = entry.offset + 1
    assert found == given, "what was acknowledged, and nothing else"
try:
    ledger.trim(max(given) - 3)
except LedgerUnavailable:
    ledger.trim(max(given) - 3)  # the first made room
assert ledger.start() == max(given) - 3
assert ledger.append(b"again") == max(given) + 1
assert other.read(max(given) + 1)[0].payload == b"again"
"""


@pytest.mark.processes
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a small file system of its own, where one can be mounted; the limit on a file's size shows the same elsewhere."""
    alone = ["unshare", "-rm"]
    try:
        can = (
            subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True).returncode
            == 0
        )
    except FileNotFoundError:
        can = False
    if not can:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*alone, sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def no_larger_than(size: int) -> Generator[None]:
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


@pytest.mark.parametrize("room", [0, 1, 2, 10, 40, 100, 150])
def test_an_append_that_is_cut_short_harms_no_neighbour(room: int, tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger, closing(opened(tmp_path / "x")) as other:
        ledger.append(b"first")
        (segment,) = segments(tmp_path / "x")
        with no_larger_than(segment.stat().st_size + room):
            for log in (ledger, other):
                with pytest.raises(LedgerUnavailable) as caught:
                    log.append_many([b"x" * 100, b"y" * 100])
                assert not caught.value.unknown
        assert payloads(other) == payloads(ledger) == [b"first"]
        assert [other.append(b"second"), ledger.append(b"third")] == [1, 2]
        with closing(opened(tmp_path / "x")) as late:
            assert payloads(late) == payloads(other) == payloads(ledger) == [b"first", b"second", b"third"]
            torn = [text for level, text in late.checks() if level == "note"]
            assert bool(torn) == (room > 1)


def test_only_the_last_newline_is_missing(tmp_path: Path) -> None:
    """The next append would complete it: so it is written by itself, or the outcome is unknown."""
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b"x" * 50)
        (segment,) = segments(tmp_path / "x")
        before = segment.stat().st_size
        ledger.append(b"x" * 50)
        length = segment.stat().st_size - before
        with no_larger_than(segment.stat().st_size + length - 1), pytest.raises(LedgerUnavailable) as caught:
            ledger.append(b"y" * 50)
        assert caught.value.unknown
        assert ledger.append(b"next") == 3, "it has come to be, with the newline of the next"
        assert [entry.payload[:1] for entry in read_all(ledger)] == [b"x", b"x", b"y", b"n"]


def test_what_can_not_be_synced_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b"first")

        def fails(descriptor: int) -> None:
            raise OSError(5, os.strerror(5))

        monkeypatch.setattr(appending, "_sync_file", fails)
        with pytest.raises(LedgerUnavailable, match="check the disk") as caught:
            ledger.append(b"second")
        assert caught.value.unknown
        assert ledger.append_many([b"third"], urgent=False) == [2]
