"""A power cut, simulated: of each file a beginning is left, at least what was synced, and of each folder those names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from file_disk import Disk
from file_tools import opened, segments
from log_tools import read_all

from pares.ledger.file import appending
from pares.ledger.file.log import FileLedger

NEXT_BOOT = "ffffffff"


def written(ledger: FileLedger, rest: random.Random, count: int) -> dict[int, tuple[bytes, bool]]:
    """Appends, and what each was: by offset, and whether it was urgent."""
    given: dict[int, tuple[bytes, bool]] = {}
    for number in range(count):
        urgent = rest.random() < 0.2
        texts = [b"%d/%d" % (number, part) + b"x" * rest.randint(0, 100) for part in range(rest.choice([1, 1, 1, 3]))]
        given |= {at: (text, urgent) for at, text in zip(ledger.append_many(texts, urgent=urgent), texts, strict=True)}
    return given


@pytest.mark.parametrize("seed", range(30))
def test_what_is_urgent_and_acknowledged_survives(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest, disk, here = random.Random(seed), Disk(monkeypatch), tmp_path / "0"
    given: dict[int, tuple[bytes, bool]] = {}
    cut: dict[int, tuple[bytes, bool]] = {}
    """What a cut took, or all but its last newline: then it lands when the next segment is begun, before what is in that."""
    last = -1
    for boot in range(1, 4):
        ledger = opened(here, segment=1024)
        new = written(ledger, rest, rest.randint(1, 40))
        assert min(new) > last, "no offset that was given out before the cut is given out again"
        given |= new
        last = max(new)
        there = tmp_path / str(boot)
        disk.cut(here, there, rest)
        ledger.close()
        here = there
        monkeypatch.setattr(appending, "boot", lambda boot=boot: f"{boot:08x}")
        ledger = opened(here, readonly=True)
        found = {entry.offset: entry.payload for entry in read_all(ledger)}
        given |= {at: cut[at] for at in cut if at in found and (at == 0 or at - 1 in found)}
        assert {at: text for at, (text, _) in given.items() if at in found} == found, "at its place, and nothing else"
        surely = max((at for at, (_, urgent) in given.items() if urgent), default=-1)
        assert {at for at in given if at <= surely} <= found.keys(), "what is urgent, and all before it"
        cut |= {at: given[at] for at in given if at not in found}
        given = {at: given[at] for at in found}
        ledger.close()


def test_a_record_that_lacks_its_newline_only_lands_before_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(tmp_path / "x")
    assert ledger.append_many([b"a", b"b"], urgent=False) == [0, 1]
    ledger.close()
    (segment,) = segments(tmp_path / "x")
    segment.write_bytes(segment.read_bytes()[:-1])
    monkeypatch.setattr(appending, "boot", lambda: NEXT_BOOT)
    ledger = opened(tmp_path / "x")
    place = ledger.end()
    assert [entry.payload for entry in ledger.read(place)] == [], "not there yet, for any reader"
    assert ledger.append(b"c") == 1 << 32
    waited = ledger.read(place)
    assert [entry.payload for entry in waited] == [b"a", b"b"], "a reader that waited there misses nothing"
    assert [entry.payload for entry in ledger.read(waited[-1].offset + 1)] == [b"c"]
    ledger.close()


def test_always_and_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    for sync, least in (("always", 5), ("never", 0)):
        ledger = opened(tmp_path / sync, sync=sync)
        assert ledger.capabilities.lazy_sync is False
        ledger.append_many([b"x"] * 4)
        ledger.append_many([b"x"], urgent=False)
        (segment,) = segments(tmp_path / sync)
        synced = disk.lengths.get(segment.stat().st_ino, 0)
        assert (synced > 0) == (sync == "always")
        assert least == 0 or synced == segment.stat().st_size
        ledger.close()


def test_a_segment_that_was_begun_before_the_cut_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a process of the old boot's name: it has seen records that the cut took."""
    ledger = opened(tmp_path / "x")
    assert ledger.append_many([b"a", b"b"]) == [0, 1]
    ledger.close()
    with monkeypatch.context() as later:
        later.setattr(appending, "boot", lambda: NEXT_BOOT)
        ledger = opened(tmp_path / "x")
        assert ledger.end() == 2, "looking changes nothing"
        assert ledger.append(b"c") == 1 << 32
        assert [entry.offset for entry in read_all(ledger)] == [0, 1, 1 << 32]
        assert ledger.read(2)[0].payload == b"c", "a hole"
        assert [path.name[21:29] for path in segments(tmp_path / "x")][1] == NEXT_BOOT
        assert [level for level, _ in ledger.checks()] == ["good", "good"]
        ledger.close()
