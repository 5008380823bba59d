"""The conformance suite: what a ledger says of when its entries were written (R21)."""

from __future__ import annotations

import time
from typing import cast

import pytest
from ledger_stages import Stage

from pares.core.errors import ConfigError, LedgerGap, LedgerRewound
from pares.ledger import Ledger, Noting, Stamped

pytestmark = pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="there is no stopwatch that processes share"
)


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def stamped(stage: Stage) -> Ledger:
    """A handle on a ledger that declares stamps if it has them, and else does not."""
    ledger = stage.open()
    assert ledger.capabilities.stamps == hasattr(ledger, "read_stamped")
    assert ledger.topic("t").capabilities.stamps == ledger.capabilities.stamps
    return ledger


def test_what_a_ledger_notes_it_can_be_asked_for(stage: Stage) -> None:
    """And what it is not asked to note it need not."""
    ledger = stage.open()
    if not ledger.capabilities.arrivals:
        return
    noting = cast(Noting, ledger)
    for closely in (True, False, None):
        noting.attend(0, stage, closely=closely)
    noting.append(b"x")
    entries, _ = noting.read_whole(0, 0, 10)
    by = now()
    (came,) = noting.arrivals(entries)
    assert came is None or came <= by
    assert noting.arrivals([]) == []


def test_a_stamp_was_read_before_the_append_returned_and_after_it_was_asked_for(stage: Stage) -> None:
    ledger = stamped(stage)
    if not ledger.capabilities.stamps:
        return
    reader = cast(Stamped, stage.open())
    bounds = list[tuple[int, int]]()
    for number in range(20):
        before = now()
        if number % 3:
            ledger.append_many([b"x"], urgent=bool(number % 2))
        else:
            ledger.append(b"x")
        bounds.append((before, now()))
    before = now()
    ledger.append_many([b"many"] * 3)
    bounds += [(before, now())] * 3
    entries, stamps = reader.read_stamped(0)
    assert entries == ledger.read(0)
    assert len(stamps) == len(entries) == 23
    for stamp, (earliest, latest) in zip(stamps, bounds, strict=True):
        assert stamp is not None
        assert earliest <= stamp <= latest
    assert len(set(stamps[-3:])) == 1, "one append began once"


def test_stamps_go_with_their_entries(stage: Stage) -> None:
    ledger = stamped(stage)
    if not ledger.capabilities.stamps:
        return
    topic = ledger.topic("t")
    stamps: list[int | None] = []
    for number in range(10):
        topic.append(b"%d" % number, 1)
        stamps += cast(Stamped, topic).read_stamped(number, 1)[1]
    reader = cast(Stamped, stage.open().topic("t"))
    assert reader.read_stamped(0, 1)[1] == stamps
    assert reader.read_stamped(4, 1, 3)[1] == stamps[4:7]
    assert reader.read_stamped(0, 0) == ([], [])
    topic.trim(6, 1)
    entries, found = reader.read_stamped(6, 1)
    assert [entry.payload for entry in entries] == [b"6", b"7", b"8", b"9"]
    assert found == stamps[6:]


def test_reading_with_stamps_refuses_what_reading_refuses(stage: Stage) -> None:
    ledger = stamped(stage)
    if not ledger.capabilities.stamps:
        return
    for _ in range(3):
        ledger.append(b"x")
    ledger.trim(2)
    reader = cast(Stamped, ledger)
    assert reader.read_stamped(3) == ([], [])
    with pytest.raises(LedgerGap):
        reader.read_stamped(1)
    with pytest.raises(LedgerRewound):
        reader.read_stamped(4)
    with pytest.raises(ConfigError, match="partition 7"):
        reader.read_stamped(0, 7)
    with pytest.raises(ConfigError, match="max_records=0"):
        reader.read_stamped(0, max_records=0)
