"""At most once, with takes that are written before anybody asks for what they take (C4)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import CALM, Faulty, until

import pares
from pares.core.errors import ConfigError
from pares.runtime.consume.consumer import Consumer

SETTINGS: dict[str, Any] = {"group": "g", "session": CALM, "settle": 0.05, "delivery": "at-most-once"}


def takes(ledger: Any) -> list[tuple[int, int]]:
    """In the order of the log."""
    records = (json.loads(entry.payload) for entry in ledger.read(ledger.start(), max_records=100_000))
    return [(each["first"], each["last"]) for each in records if each["k"] == "take"]


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_c4_so_many_batches_are_taken_before_anybody_asks_and_no_more(url: str, ahead: int) -> None:
    topic, log = Topic(), pares.open(url)
    topic.append(*map(str, range(40)))
    with Consumer(url, topics=[topic], batch=2, ahead=ahead, **SETTINGS) as one:
        first = one.next_batch(30)
        assert first is not None
        until(lambda: len(takes(log)) == 1 + ahead, "taken ahead")
        threading.Event().wait(0.3)
        assert takes(log) == [(at, at + 1) for at in range(0, 2 * (1 + ahead), 2)]
        first.done()
        assert one.next_batch(30) is not None
        until(lambda: len(takes(log)) == 2 + ahead, "and one more for each that is given out")


def test_c4_takes_written_ahead_share_an_append_and_are_given_out_only_when_read_back(url: str) -> None:
    topic, ledger = Topic(), Faulty(pares.open(url))
    with Consumer(ledger, topics=[topic], batch=1, ahead=3, **SETTINGS) as one:
        worker = Worker(one)
        until(lambda: len(one.claims()) == 1, "it has the partition")
        ledger.hold_appends()
        until(ledger.held.is_set, "an append is under way")
        topic.append(*"abcd")
        threading.Event().wait(0.3)
        assert worker.seen == [], "nothing was read back"
        ledger.free.set()
        until(lambda: worker.offsets() == [0, 1, 2, 3], "all of them, in order")
    worker.join()


@pytest.mark.parametrize(
    ("claim", "ahead"), [("partitions", 1), ("partitions", 5), ("ranges", 1), ("ranges", 5), ("keys", 0)]
)
def test_c4_nothing_comes_twice_while_consumers_come_and_go(url: str, claim: Any, ahead: int) -> None:
    """What one had taken ahead at its planned handover it works off; what it had when it closed is lost, and is bounded."""
    topic = Topic(partitions=2)
    for number in (0, 1):
        topic.append(*map(str, range(300)), partition=number)
    slots: dict[str, Any] = {} if claim == "partitions" else {"slots": 2}
    given: dict[str, Any] = {**SETTINGS, **slots, "claim": claim, "batch": 5, "ahead": ahead}
    workers: list[Worker] = []
    with pares.Admin(url, group="g") as admin, Consumer(url, topics=[topic], name="a", **given) as one:
        workers.append(Worker(one))
        until(lambda: len(workers[0].seen) >= 50, "it works")
        with Consumer(url, topics=[topic], name="b", **given) as two:
            workers.append(Worker(two))
            until(
                lambda: len(two.claims()) >= 1 or sum(len(each.seen) for each in workers) == 600, "the other has some"
            )
        with Consumer(url, topics=[topic], name="c", **given) as three:
            workers.append(Worker(three))
            # By the log: what is handed over from one to the other just now is behind neither of them.
            until(lambda: all(at >= 300 for at in admin.positions().values()), "all is taken")
    for worker in workers:
        worker.join()
    seen = [(number, offset) for each in workers for _, number, offset in each.seen]
    assert len(seen) == len(set(seen))
    assert 600 - len(seen) <= 3 * 5 * (ahead + 1)


def test_c4_records_one_by_one_are_taken_ahead_by_batches(url: str) -> None:
    topic, log = Topic(), pares.open(url)
    topic.append(*map(str, range(40)))
    with Consumer(url, topics=[topic], batch=5, ahead=2, **SETTINGS) as one:
        seen: list[int] = []
        for item in one.records(timeout=30):
            seen.append(item.offset)
            item.done()
            if len(seen) == 40:
                break
        assert seen == list(range(40))
        assert all(last - first < 5 for first, last in takes(log)), "no more at a time than a batch"
        assert len(takes(log)) < 20


def test_c4_what_close_finds_taken_and_not_given_out_is_told(url: str) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    one = Consumer(url, topics=[topic], batch=1, ahead=2, name="a", **SETTINGS)
    log = pares.open(url)
    assert one.next_batch(30) is not None
    until(lambda: len(takes(log)) == 3, "taken ahead")
    one.close()
    assert any("not given out" in problem for problem in one.health().problems)
    with Consumer(url, topics=[topic], name="b", **SETTINGS) as two:
        batch = two.next_batch(30)
        assert batch is not None
        assert batch.first == 3


def test_ahead_is_checked(url: str) -> None:
    with pytest.raises(ConfigError, match="ahead"):
        Consumer(url, topics=[Topic()], ahead=101, **SETTINGS)
    with pytest.raises(ConfigError, match=r"ahead is 2: .* leave ahead at 0, or give another claim than 'keys'"):
        Consumer(url, topics=[Topic()], ahead=2, claim="keys", **SETTINGS)
    with pytest.raises(ConfigError, match="ahead is 2: with delivery 'at-least-once' nothing is taken"):
        Consumer(url, topics=[Topic()], ahead=2, **{**SETTINGS, "delivery": "at-least-once"})
