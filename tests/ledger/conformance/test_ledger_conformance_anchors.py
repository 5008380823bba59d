"""The conformance suite: whether an entry is still there (R12)."""

from __future__ import annotations

from typing import cast

import pytest
from ledger_stages import Stage

from pares.ledger import Anchored


def test_it_says_whether_an_entry_is_still_there(stage: Stage) -> None:
    ledger = stage.open()
    assert ledger.capabilities.anchors == hasattr(ledger, "has")
    assert ledger.topic("t").capabilities.anchors == ledger.capabilities.anchors
    if not ledger.capabilities.anchors:
        return
    anchored = cast(Anchored, ledger)
    first, second, third = ledger.append_many([b"one", b"two", b"three"])
    other = cast(Anchored, stage.open())
    for log in (anchored, other):
        assert log.has(second, b"two")
        assert log.has(third, b"three")
        assert not log.has(second, b"one")
        assert not log.has(third, b"three ")
        assert not log.has(third + 1, b"three"), "nothing stands there"
        assert not log.has(third + 7, b"three"), "the log ends below"
    ledger.trim(third)
    assert anchored.has(first, b"whatever"), "what retention has taken says nothing"
    assert anchored.has(third, b"three")


@pytest.mark.parametrize("partition", [1])
def test_each_partition_has_entries_of_its_own(stage: Stage, partition: int) -> None:
    topic = stage.open().topic("two", 2)
    if topic.capabilities.anchors:
        offset = topic.append(b"here", partition)
        assert cast(Anchored, topic).has(offset, b"here", partition)
        assert not cast(Anchored, topic).has(offset, b"here", 0)
