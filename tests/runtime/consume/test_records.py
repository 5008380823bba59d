"""Records one by one: concurrency and order, what survives the worker, retries and dead letters (C9, C10)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from consume_tools import Handler, Running, Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import open as open_ledger
from pares.ledger.topics.opening import open_topic
from pares.runtime.consume.consumer import Consumer
from pares.runtime.consume.dead_letters import Letter, letter_of
from pares.runtime.consume.feeder import LONGEST, Feeder

Make = Callable[..., Consumer]


class Letters:
    """A dead-letter stream in this process."""

    def __init__(self) -> None:
        self.found: list[Letter] = []
        self.fail: BaseException | None = None

    def append(self, payload: bytes) -> int:
        if self.fail is not None:
            raise self.fail
        self.found.append(letter_of(payload))
        return len(self.found)


# Concurrency and order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_c9_a_record_that_takes_its_time_holds_up_what_comes_after_it_in_its_order_and_nothing_else(
    make: Make, order: str
) -> None:
    topic = Topic(partitions=2)
    for number in range(12):
        topic.append(str(number), key=b"even" if number % 2 == 0 else b"odd")
    topic.append("x", "y", partition=1, key=b"even")
    handler = Handler(stuck=lambda item: (item.partition, item.offset) == (0, 0))
    consumer = make(topic, concurrency=4, order=order)
    running = Running(consumer, handler)
    free = {"partition": [], "key": [1, 3, 5, 7, 9, 11], "none": list(range(1, 12))}[order]
    until(
        lambda: sorted(handler.offsets()) == [0, *free] and sorted(handler.offsets(1)) == [0, 1],
        "all that may go on does",
    )
    until(lambda: len(handler.ended) == len(free) + 2, "they have ended")
    consumer.flush()
    assert [claim.position for claim in consumer.claims()] == [0, 2]
    assert consumer.claims()[0].lag in (12 - len(free), 0), "what is done above the position lags behind no more"
    handler.go.set()
    until(lambda: len(handler.ended) == 14 and consumer.lag() == 0, "the rest follows")
    if order != "none":
        in_order = [[i.offset for i in handler.calls if i.partition == 0 and i.key == key] for key in (b"even", b"odd")]
        assert in_order == [sorted(each) for each in in_order]
        assert handler.most[b"odd"] == 1
    consumer.close()
    running.join()
    assert running.error is None


def test_no_more_records_are_out_than_it_was_told(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdefgh")
    consumer = make(topic, concurrency=3, order="none")
    first = consumer.next_records(10, 30)
    assert [item.offset for item in first] == [0, 1, 2]
    assert consumer.next_records(1, 0.05) == []
    assert first[1].done()
    assert first[1].done(), "twice is once"
    assert [item.offset for item in consumer.next_records(10, 30)] == [3]


def test_batches_and_records_are_two_ways_and_one_consumer_has_one(make: Make) -> None:
    topic = Topic()
    consumer = make(topic)
    assert consumer.next_records(1, 0.01) == []
    with pytest.raises(ConfigError, match="and not both"):
        consumer.next_batch(0.01)
    other = make(topic, "b")
    assert other.next_batch(0.01) is None
    with pytest.raises(ConfigError, match="and not both"):
        other.run(lambda item: None)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"order": "keys"}, "order is 'keys'"),
        ({"retries": -1}, "retries is -1"),
        ({"backoff": 0}, "backoff is 0"),
        ({"dead_letter": "orders"}, "consumed itself"),
    ],
)
def test_what_cannot_work_is_refused(make: Make, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make(Topic(), **wrong)


# What survives the worker ------------------------------------------------------------------------------------------------


def test_c9_a_successor_repeats_what_was_not_done_and_nothing_else(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdefghij")
    one = make(topic, concurrency=4, order="none", barrier_timeout=0.2)
    handler = Handler(stuck=lambda item: item.offset in (0, 3, 7))
    Running(one, handler)
    until(lambda: len(handler.ended) == 7, "all but three are done")
    one.close()  # which waits for the three as long as it may, and leaves what is done in the log
    again = Handler()
    two = make(topic, "b", concurrency=4, order="none")
    Running(two, again)
    until(lambda: sorted(again.offsets()) == [0, 3, 7], "what was not done")
    topic.append("k")
    until(lambda: sorted(again.offsets()) == [0, 3, 7, 10], "and what is new")
    until(lambda: two.lag() == 0, "all is done")
    two.flush()
    assert two.claims()[0].position == 11
    handler.go.set()
    until(lambda: len(handler.ended) == 10, "they end at last")
    until(lambda: any("outlived" in problem for problem in one.health().problems), "and that is told")


def test_c9_after_a_crash_what_the_last_beats_have_told_is_not_repeated(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    one = make(topic, "a", concurrency=3, order="none")
    items = one.next_records(3, 30)
    assert len(items) == 3
    items[2].done()
    one.flush()
    member = one._member
    with_hole = member.world.ahead
    assert [known.done for known in with_hole.values()] == [((2, 3),)]
    assert [known.tries for known in with_hole.values()] == [((0, 1), (1, 1))]
    member._loop.abandon()  # it ends without a word
    two = make(topic, "b", concurrency=10, order="none")
    found: list[Any] = []
    until(lambda: bool(found.extend(two.next_records(10, 0.2)) or len(found) == 5), "it takes over")
    assert sorted((item.offset, item.deliveries) for item in found) == [(0, 2), (1, 2), (3, 1), (4, 1), (5, 1)]


def test_c9_batches_leave_out_what_was_done_one_by_one(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    one = make(topic, concurrency=6, order="none")
    items = one.next_records(6, 30)
    for item in items[1:4]:
        item.done()
    one.close(5)
    worker = Worker(make(topic, "b", batch=2))
    until(lambda: worker.offsets() == [0, 4, 5], "what was not done")


def test_c5_a_rewind_gives_out_again_what_was_done_above_the_position(make: Make, url: str) -> None:
    topic = Topic()
    topic.append(*"abcd")
    consumer = make(topic, concurrency=4, order="none", barrier_timeout=0.2)
    for item in consumer.next_records(4, 30)[1:]:
        item.done()
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=60)
        until(lambda: [claim.state for claim in consumer.claims(all=True)] == ["paused"], "it has released")
        until(lambda: rewound(admin, {("orders", 0): 0}), "the administrator has read it too")
        admin.resume()
    again: list[int] = []
    until(lambda: bool(again.extend(i.offset for i in consumer.next_records(4, 0.2)) or len(again) == 3), "from 0 on")
    assert sorted(again) == [0, 1, 2], "one of four is out still: nobody has said what became of it"


def test_a_handler_that_outlives_its_claim_is_told_and_counts_for_nothing(make: Make) -> None:
    topic = Topic()
    topic.append(*"ab")
    one = make(topic, barrier_timeout=0.1)
    [item] = one.next_records(1, 30)
    assert item
    assert not one.is_lost(item)
    one._member.step_down(item.tenancy.role)  # and nothing ends: it is fenced, and given up
    until(lambda: one.is_lost(item), "the partition is no longer its")
    assert not item
    assert not item.done()
    assert any("outlived its claim" in problem for problem in one.health().problems)
    two = make(topic, "b")
    one.close()
    until(lambda: [found.offset for found in two.next_records(1, 0.2)] == [0], "it is given out again")


# Retries and dead letters --------------------------------------------------------------------------------------------------


def test_c10_a_handler_that_fails_is_tried_again_without_holding_up_others_and_then_parked(make: Make) -> None:
    topic, letters = Topic(), Letters()
    for number in range(8):
        topic.append(str(number), key=b"bad" if number in (1, 3) else b"k%d" % number)
    calls: list[tuple[int, int]] = []

    def handle(item: Any) -> None:
        calls.append((item.offset, item.deliveries))
        if item.offset == 1:
            raise ValueError("no such customer")

    consumer = make(topic, concurrency=2, order="key", retries=2, backoff=0.05, dead_letter=letters)
    running = Running(consumer, handle)
    until(lambda: consumer.lag() == 0 and len(calls) == 10, "all is settled")
    assert [each for each in calls if each[0] == 1] == [(1, 1), (1, 2), (1, 3)]
    assert calls.index((3, 1)) > calls.index((1, 3)), "what comes after it in its order waits for it"
    assert calls.index((7, 1)) < calls.index((1, 3)), "and nothing else does"
    [letter] = letters.found
    assert (letter.topic, letter.partition, letter.offset, letter.key, letter.payload) == ("orders", 0, 1, b"bad", b"1")
    assert (letter.group, letter.deliveries, letter.why) == ("g", 3, "ValueError: no such customer")
    consumer.close()
    running.join()
    assert running.error is None


def test_c10_how_often_it_was_given_out_survives_the_worker(make: Make) -> None:
    topic, letters = Topic(), Letters()
    topic.append(*"ab")
    for number in range(3):
        one = make(topic, f"w{number}", retries=2, backoff=0.05, dead_letter=letters, order="none", concurrency=2)
        items = {item.offset: item for item in one.next_records(2, 30)}
        assert items[0].deliveries == number + 1
        items[0].retry(60)
        one.close()
    [letter] = letters.found
    assert (letter.offset, letter.deliveries) == (0, 3)


def test_c9_a_term_that_is_over_is_noted_however_late_its_end_is_heard_of(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_all = Feeder.note_all

    def late(self: Feeder, seat: tuple[str, int] | None = None) -> None:
        """The belief has ended by then; the task that fetches looks several times before the barrier goes on."""
        time.sleep(5 * LONGEST)
        note_all(self, seat)

    monkeypatch.setattr(Feeder, "note_all", late)
    topic = Topic()
    topic.append(*"abc")
    one = make(topic, "w0", order="none", concurrency=2)
    first, second = one.next_records(2, 30)
    assert first.retry(60)
    assert second.done()
    one.close()
    two = make(topic, "w1", order="none", concurrency=2)
    assert [(item.offset, item.deliveries) for item in two.next_records(2, 30)] == [(0, 2), (2, 1)]


def test_c10_a_record_may_be_rejected_at_once_and_that_stands_before_it_is_done(make: Make, url: str) -> None:
    topic = Topic()
    topic.append(*"ab")
    consumer = make(topic, dead_letter="orders.dead")
    [item] = consumer.next_records(1, 30)
    assert item.reject("out of stock")
    [after] = consumer.next_records(1, 30)
    assert after.offset == 1
    ledger = open_ledger(url)
    stream = open_topic(ledger, "orders.dead")
    found = [entry.payload for number in range(stream.partitions) for entry in stream.read(0, number)]
    stream.close()
    ledger.close()
    assert [letter_of(payload).why for payload in found] == ["out of stock"]


def test_c10_what_cannot_be_parked_now_comes_again(make: Make) -> None:
    topic, letters = Topic(), Letters()
    topic.append(*"ab")
    letters.fail = LedgerUnavailable("away")
    consumer = make(topic, retries=0, backoff=0.05, dead_letter=letters)

    def handle(item: Any) -> None:
        if item.offset == 0:
            raise ValueError("bad")

    Running(consumer, handle)
    until(lambda: any("dead-letter" in problem for problem in consumer.health().problems), "a person is told")
    assert consumer.lag() == 2
    letters.fail = None
    until(lambda: consumer.lag() == 0 and len(letters.found) == 1, "it is parked when that can be done")


def test_c10_without_a_stream_nothing_is_given_up_and_nothing_runs_hot(make: Make) -> None:
    topic = Topic()
    topic.append(*"ab")
    calls: list[int] = []

    def handle(item: Any) -> None:
        calls.append(item.offset)
        if item.offset == 0:
            raise ValueError("bad")

    consumer = make(topic, order="none", retries=1, backoff=0.01)
    Running(consumer, handle)
    until(lambda: any("failing" in problem for problem in consumer.health().problems), "a person is told")
    before = calls.count(0)
    time.sleep(0.3)
    assert before == calls.count(0) == 2
    assert consumer.claims()[0].position == 0
    [item] = _one_of(make).next_records(1, 30)
    with pytest.raises(ConfigError, match="dead_letter"):
        item.reject()
    assert item.done()


def _one_of(make: Make, **more: Any) -> Consumer:
    """A consumer of another group, on a topic with one record."""
    topic = Topic("notes")
    topic.append("a")
    return make(topic, "c", group="h", **more)


def test_a_ledger_without_topics_needs_a_stream_of_another_kind(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CapabilityError("keeps no topics")

    monkeypatch.setattr("pares.runtime.consume.dead_letters.open_topic", refuse)
    with pytest.raises(CapabilityError, match="URL of a log"):
        make(Topic(), dead_letter="dead")


# At most once --------------------------------------------------------------------------------------------------------------


def test_c4_at_most_once_one_by_one_nothing_is_given_out_twice(make: Make) -> None:
    topic, letters = Topic(partitions=2), Letters()
    for number in range(20):
        topic.append(str(number), partition=number % 2, key=b"%d" % (number % 3))
    handler = Handler()

    def handle(item: Any) -> None:
        handler(item)
        if item.payload == b"7":
            raise ValueError("bad")

    one = make(topic, delivery="at-most-once", concurrency=3, order="key", dead_letter=letters)
    Running(one, handle)
    until(lambda: len(handler.calls) >= 10, "half of it")
    one.close()
    two = make(topic, "b", delivery="at-most-once", concurrency=3, order="key", dead_letter=letters)
    Running(two, handle)
    until(lambda: two.load() == 2 and two.lag() == 0, "the rest")
    given = [(item.partition, item.offset) for item in handler.calls]
    assert len(given) == len(set(given))
    assert len(given) >= 20 - 2 * 3, "what was taken and not given out is lost, and nothing else"
    bad = [item.payload for item in handler.calls if item.payload == b"7"]
    assert [letter.payload for letter in letters.found] == bad, "it may be among those"
    [item] = _one_of(make, delivery="at-most-once").next_records(1, 30)
    with pytest.raises(ConfigError, match="at most once"):
        item.retry()
    assert item.done()


def test_c4_what_was_taken_and_is_not_given_out_is_reported(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcd")
    one = make(topic, delivery="at-most-once", concurrency=4, order="partition")
    [item] = one.next_records(1, 30)
    member = one._member
    until(lambda: member.world.seats[(item.tenancy.role, 0)].taken == 4, "all four were taken")
    one.close()
    assert any("not-given-out" in problem for problem in one.health().problems)
    two = make(topic, "b", delivery="at-most-once")
    assert two.next_records(1, 0.2) == []
