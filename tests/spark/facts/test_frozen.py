"""The state of a fold as bytes: a fold that goes on from them says the same as one that never stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scribe import story
from tests.spark.facts.test_calls import BEAT, Bus
from tests.spark.facts.test_tenures import NeliLog

from pares.ledger import open as open_ledger
from pares.spark.facts import frozen
from pares.spark.facts.claims import EntryLike
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import OtherState, freeze, thaw

Made = tuple[Sequence[EntryLike], Callable[[], Partition]]


def claims(path: Path) -> Made:
    log = story(3, roles=6, steps=150)
    members = [member for member in log.truths if member.end is None]
    log.snapshot(members[0].member)
    log.raw(b"\xff no record")
    return log.entries, lambda: Partition(None, 0, 0, claims=True)


def cut(path: Path) -> Made:
    """A log whose beginning is gone: half of the time it is searched for its first snapshot."""
    log = story(5, roles=4, steps=120)
    log.snapshot(next(term.member for term in log.truths if term.end is None))
    log.beat("admin~0")
    rest = log.entries[60:]
    return rest, lambda: Partition(frozenset(("g", "other")), 0, 60, claims=True)


def tenures(path: Path) -> Made:
    log = NeliLog(path)
    token = log.lead("a~0", 1000, 3000)
    log.yield_("a~0", token, 3010, 1000, "asked")
    log.lead("b~0", 3100, 5000)
    log.ledger.close()
    with_times = {(p, offset): at for p, offset, at in log.stamps}
    ledger = open_ledger(log.url)
    entries = [(e.offset, with_times[0, e.offset], e.payload) for e in ledger.read(0)]
    ledger.close()
    return entries, lambda: Partition("g", 0, 0, claims=True)


def calls(path: Path) -> Made:
    bus = Bus("g")
    for _ in range(20):
        for member in ("a~0", "b~0"):
            bus.call(member)
        bus.now += BEAT
    return bus.entries, lambda: Partition(None, 0, 0, claims=True, bus=True)


@pytest.mark.parametrize("made", [claims, cut, tenures, calls])
def test_a_fold_goes_on_from_its_state(made: Callable[[Path], Made], tmp_path: Path) -> None:
    entries, begin = made(tmp_path)
    whole = _rows(begin(), entries, stops=())
    assert whole
    stops = range(1, len(entries), max(1, len(entries) // 25))
    assert _rows(begin(), entries, stops=stops) == whole


def _rows(fold: Partition, entries: Sequence[EntryLike], stops: Sequence[int]) -> list[str]:
    found: list[Any] = []
    for low, high in zip([0, *stops], [*stops, len(entries)], strict=True):
        found += fold.feed(entries[low:high])
        state = freeze(fold)
        fold = thaw(state)
        assert freeze(fold) == state
    found += fold.finish()
    return sorted(repr((group, fact)) for group, facts in found for fact in facts)


_ELSEWHERE = """
import sys
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import freeze
fold = Partition(None, 0, 0, claims=True)
for at, payload in enumerate(bytes.fromhex(line) for line in sys.stdin):
    list(fold.feed([(at, 1000 + at, payload)]))
sys.stdout.write(freeze(fold).hex())
"""


def test_another_process_has_the_same_state_and_goes_on_from_it() -> None:
    """What it remembers of its worlds, too: a snapshot that follows is held against that."""
    log = story(3, roles=6, steps=150)
    log.snapshot(next(term.member for term in log.truths if term.end is None))
    payloads = [payload for _, _, payload in log.entries]
    lines = "\n".join(payload.hex() for payload in payloads[:-1])
    states: list[bytes] = []
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _ELSEWHERE], input=lines, env=environment, capture_output=True, text=True, check=True
        )
        states.append(bytes.fromhex(done.stdout))
    assert states[0] == states[1]
    log.entries.pop()
    log.snapshot(next(term.member for term in log.truths if term.end is None), wrong=True)
    for payload, defects in ((payloads[-1], 0), (log.entries[-1][2], 1)):
        fold = thaw(states[0])
        found = [*fold.feed([(len(payloads) - 1, 9000, payload)]), *fold.finish()]
        kinds = [fact.kind for _, facts in found for fact in facts]
        assert "record" in kinds
        assert kinds.count("defect") == defects


def test_what_is_shared_stays_shared() -> None:
    members = {"a~0": 1}
    one, (other,), again = thaw(freeze([members, (members,), members]))
    assert one == members
    assert one is other
    assert one is again


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, begin = claims(Path())
    fold = begin()
    list(fold.feed(entries[:50]))
    state = freeze(fold)
    form, classes, tree = msgspec.msgpack.decode(state)
    for bad, said in (
        (b"\xc1", "no state"),
        (msgspec.msgpack.encode([form + 1, classes, tree]), f"format {form + 1}"),
        (msgspec.msgpack.encode([form, [[*classes[0][:2], ["gone"]], *classes[1:]], tree]), "does not know"),
        (msgspec.msgpack.encode([form, [["os", "system", []], *classes[1:]], tree]), r"os\.system"),
    ):
        with pytest.raises(OtherState, match=said):
            thaw(bad)
    monkeypatch.setattr(frozen, "FORMAT", form + 1)
    with pytest.raises(OtherState, match=f"format {form}"):
        thaw(state)


def test_what_can_not_be_kept_is_refused() -> None:
    with pytest.raises(TypeError, match="no state that can be kept"):
        freeze({"a": print})
