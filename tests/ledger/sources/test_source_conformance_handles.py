"""The conformance suite of sources: what becomes of a source when its topic goes, or it is closed, or its process forks."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
from ledger_stages import descriptors, in_child
from log_tools import HANG, until
from origins import Origin
from source_tools import comes, fetched, payloads, some

from pares.core.errors import ClosedError, ConfigError, ForkedError, LedgerRewound, LedgerUnavailable
from pares.ledger import Source, open_source


def gone(source: Source) -> bool:
    """Whether it says that there is no topic."""
    try:
        _ = source.identity
    except LedgerUnavailable:
        return True
    return False


def test_a_topic_that_vanishes(origin: Origin) -> None:
    origin.make()
    origin.append([b"x"])
    source = origin.open()
    assert payloads(source, 1) == [b"x"]
    origin.vanish()
    comes(lambda: gone(source))
    with pytest.raises(LedgerUnavailable):
        fetched(source, 1, timeout=HANG)
    with pytest.raises((LedgerUnavailable, ConfigError)):
        origin.open()


def test_a_topic_that_is_created_anew_is_another_one(origin: Origin) -> None:
    origin.make()
    origin.append([b"old 0", b"old 1", b"old 2"])
    source = origin.open()
    before = source.identity
    assert before == source.identity == origin.open().identity
    assert payloads(source, 3) == [b"old 0", b"old 1", b"old 2"]
    origin.vanish()
    origin.make()
    origin.append([b"new 0", b"new 1", b"new 2", b"new 3"])

    def refused() -> bool:
        """Until it is known, nothing of the new one comes, where that can be."""
        try:
            found = fetched(source, 3, timeout=0.2)
        except LedgerUnavailable:
            return False
        except LedgerRewound:
            return True
        assert found.records == () or not origin.tells_at_once
        return False

    until(refused)
    with pytest.raises(LedgerRewound, match="another topic"):
        fetched(source, 0, timeout=HANG)
    assert source.identity != before
    assert payloads(source, 4) == [b"new 0", b"new 1", b"new 2", b"new 3"]
    assert origin.open().identity == source.identity


def test_close(origin: Origin) -> None:
    origin.make()
    origin.append([b"x"])
    source, other = origin.open(), origin.open()
    assert payloads(source, 1) == [b"x"]
    source.close()
    source.close()
    uses = (
        lambda: source.identity,
        source.partitions,
        lambda: source.start(0),
        lambda: source.end(0),
        lambda: fetched(source),
    )
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    assert source.name == origin.name
    assert some(other).records[0].payload == b"x"


def test_close_while_others_wait(origin: Origin) -> None:
    origin.make(4 if origin.grows else 1)
    source = origin.open()
    with ThreadPoolExecutor(3) as pool:
        partitions = range(3) if origin.grows else [0, 0, 0]
        waiting = [pool.submit(fetched, source, 0, partition, timeout=HANG) for partition in partitions]
        fetched(source, 0, timeout=0.2)
        source.close()
        for each in waiting:
            with pytest.raises(ClosedError):
                each.result(HANG)


def test_a_source_is_dead_in_a_forked_child(origin: Origin) -> None:
    origin.make()
    origin.append([b"x"])
    source = origin.open()
    assert payloads(source, 1) == [b"x"]

    def use() -> None:
        for action in (lambda: fetched(source), lambda: source.end(0), lambda: source.identity):
            with pytest.raises(ForkedError):
                action()
        source.close()

    in_child(use)
    assert payloads(source, 1) == [b"x"]


def test_nothing_is_left_behind(origin: Origin) -> None:
    origin.make()
    origin.append([b"x"])

    def once() -> None:
        source = open_source(origin.url, origin.name)
        assert payloads(source, 1) == [b"x"]
        source.close()

    once()
    gc.collect()
    before = descriptors()
    for _ in range(3):
        once()
    gc.collect()
    until(lambda: descriptors() <= before)
