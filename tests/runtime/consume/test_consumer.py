"""Consumers on threads: what is given out, what is marked, who has which partition (C1 to C8)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consume_tools import Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.core.errors import ConfigError, LedgerUnavailable, Stale
from pares.fence.positions import Positions
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]


def holds(consumer: Consumer, *partitions: int) -> None:
    until(lambda: [claim.partition for claim in consumer.claims()] == list(partitions), f"it holds {partitions}")


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_everything_is_given_out_once_and_in_order(make: Make, delivery: str) -> None:
    topic = Topic(partitions=3)
    for number in range(60):
        topic.append(str(number), partition=number % 3, skip=number % 7 == 0)
    consumer = make(topic, delivery=delivery, batch=4)
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 60, "all was given out")
    for partition in range(3):
        assert worker.offsets(partition) == [record.offset for record in topic.logs[partition]]
    until(lambda: consumer.lag() == 0, "all is done")
    assert consumer.load() == 3
    topic.append("one more", partition=1)
    until(lambda: len(worker.seen) == 61, "what comes later, too")
    consumer.close()
    worker.join()
    assert worker.error is None


def test_the_position_stands_in_the_log_after_a_flush_and_a_new_consumer_begins_there(make: Make, url: str) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    first = make(topic, batch=2)
    batches = first.batches()
    assert [record.payload for record in next(batches).records] == [b"a", b"b"]
    second = next(batches)
    assert not (second.done() and first.claims()[0].position), "what is before it is not done"
    first.flush()
    with pares.Admin(url, group="g") as admin:
        assert admin.positions() == {("orders", 0): 0}
    third = next(batches)
    assert (third.first, third.last, len(third), bool(third)) == (4, 5, 2, True)
    first.close()  # the thread that closes does not wait for what it has in its own hands
    again = Worker(make(topic, "b"))
    until(
        lambda: again.offsets() == [0, 1, 4, 5],
        "what was not done is given out again, and what was done above it is not",
    )


def test_a_planned_handover_waits_for_the_batch_and_nothing_is_given_out_twice(make: Make) -> None:
    topic = Topic(partitions=2)
    for partition in range(2):
        topic.append(*"abcdefgh", partition=partition)
    one = make(topic, "a", batch=2)
    first = Worker(one)
    until(lambda: len(first.seen) == 16, "all was given out")
    two = make(topic, "b", batch=2)
    second = Worker(two)
    until(lambda: one.load() == two.load() == 1, "shared out within one")
    for partition in range(2):
        topic.append("i", partition=partition)
    until(lambda: len(first.seen) + len(second.seen) == 18, "each once")
    one.close()
    holds(two, 0, 1)
    topic.append("j", partition=0)
    topic.append("j", partition=1)
    until(lambda: len(first.seen) + len(second.seen) == 20, "each once")
    assert sorted(first.seen + second.seen) == [("orders", number, at) for number in range(2) for at in range(10)]


def test_at_most_once_gives_nothing_out_again_that_was_taken_and_not_done(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    one = make(topic, batch=2, delivery="at-most-once")
    assert one.next_batch(30) is not None
    one.close()
    worker = Worker(make(topic, "b", delivery="at-most-once"))
    until(lambda: worker.offsets() == [2, 3, 4, 5], "what was taken is not given out again")


def test_it_begins_at_the_end_when_asked_to_and_only_where_nobody_has_been(make: Make) -> None:
    topic = Topic(partitions=2)
    topic.append(*"abc")
    one = make(topic, start="latest")
    worker = Worker(one)
    holds(one, 0, 1)
    until(lambda: one.claims()[0].position == 3, "it begins at the end")
    one.close()
    topic.append("d")
    topic.append("x", partition=1)
    again = Worker(make(topic, "b", start="latest"))
    until(lambda: (again.offsets(0), again.offsets(1)) == ([3], [0]), "where the first one had begun")
    assert worker.seen == []


def test_positions_are_rewound_under_a_pause_and_refused_without(make: Make, url: str) -> None:
    topic = Topic()
    topic.append(*"abcd")
    worker = Worker(make(topic))
    until(lambda: worker.offsets() == [0, 1, 2, 3], "all was given out")
    with pares.Admin(url, group="g") as admin:
        with pytest.raises(ConfigError, match="pause the role"):
            admin.rewind({("orders", 0): 2})
        with pytest.raises(ConfigError, match="no seat"):
            admin.rewind({("bills", 0): 2})
        admin.pause(seconds=60)
        until(lambda: [claim.state for claim in worker.consumer.claims(all=True)] == ["paused"], "it has released")
        assert (admin.positions(), worker.consumer.load()) == ({("orders", 0): 4}, 0)
        until(lambda: rewound(admin, {("orders", 0): 2}), "the administrator has read it too")
        assert admin.positions() == {("orders", 0): 2}
        admin.resume()
    until(lambda: worker.offsets() == [0, 1, 2, 3, 2, 3], "from there on again")


def test_a_group_that_is_paused_before_it_begins_is_put_where_another_one_stopped(make: Make, url: str) -> None:
    topic = Topic(partitions=2)
    topic.append(*"abcdef")
    topic.append(*"xyz", partition=1)
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=60)
        worker = Worker(make(topic))
        until(lambda: len(admin.positions()) == 2, "it declares the partitions")
        until(lambda: rewound(admin, {("orders", 0): 4, ("orders", 1): 1}), "nobody holds them")
        assert worker.seen == []
        admin.resume()
    until(lambda: (worker.offsets(), worker.offsets(1)) == ([4, 5], [1, 2]), "it goes on there")


def test_it_takes_no_more_than_it_was_told_and_topics_as_a_whole(make: Make) -> None:
    topic, other = Topic(partitions=3), Topic("bills", partitions=2)
    one = make(topic, max_claims=1)
    until(lambda: one.load() == 1, "one")
    two = make(topic, "b", greedy=True)
    until(lambda: two.load() == 2, "and one that takes the rest")
    assert one.load() == 1
    one.close()
    two.close()
    whole = make(topic, "c", topics=[topic, other], claim="topics", max_claims=1)
    until(lambda: whole.load() in (2, 3), "one whole topic")
    assert len({claim.topic for claim in whole.claims()}) == 1


def test_a_topic_may_grow(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    consumer = make(topic)
    monkeypatch.setattr(consumer._feeder, "_settings", _often(consumer))
    worker = Worker(consumer)
    holds(consumer, 0)
    topic.grow(3)
    topic.append("x", partition=2)
    until(lambda: worker.offsets(2) == [0], "the new partition is claimed")
    holds(consumer, 0, 1, 2)


def test_another_topic_of_the_name_begins_anew(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    consumer = make(topic)
    monkeypatch.setattr(consumer._feeder, "_settings", _often(consumer))
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 6, "all was given out")
    topic.replace()
    topic.append(*"xy")
    until(lambda: worker.offsets()[6:] == [0, 1], "positions of the old one mean nothing")
    until(lambda: len(consumer.claims(all=True)) == 1, "the old roles are gone")


def _often(consumer: Consumer) -> Any:
    import msgspec

    consumer._feeder._look_at = 0
    return msgspec.structs.replace(consumer._settings, look_every=20_000_000)


def test_one_that_stands_still_is_relieved_by_another(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    topic.append(*"abc")
    stuck = make(topic, batch=1, barrier_timeout=0.2)
    assert stuck.next_batch(30) is not None  # and is never done
    other = make(topic, "b")
    worker = Worker(other)
    monkeypatch.setattr(stuck._feeder, "_settings", _often(stuck))
    until(lambda: worker.offsets() == [0, 1, 2], "somebody works it off")


def test_what_retention_took_is_skipped_and_reported(make: Make) -> None:
    topic = Topic()
    topic.append(*"abcdef")
    topic.trim(4)
    consumer = make(topic)
    worker = Worker(consumer)
    until(lambda: worker.offsets() == [4, 5], "what is left")
    assert any("lost 0 to 3" in problem for problem in consumer.health().problems)


def test_a_topic_that_does_not_answer_is_asked_again(make: Make) -> None:
    topic = Topic()
    topic.append(*"ab")
    left = iter(range(3))

    def fail(call: str) -> None:
        if call == "fetch" and next(left, None) is not None:
            raise LedgerUnavailable("away")

    topic.fail = fail
    worker = Worker(make(topic))
    until(lambda: worker.offsets() == [0, 1], "it came back")


def test_an_error_in_its_own_task_gives_everything_up_and_reaches_the_user(make: Make) -> None:
    topic = Topic()
    consumer = make(topic)
    worker = Worker(consumer)
    holds(consumer, 0)
    topic.fail = lambda call: 1 / 0
    topic.append("a")
    worker.join()
    assert isinstance(worker.error, ZeroDivisionError)
    until(lambda: consumer.state == "closed", "others can have its partitions")


def test_a_transaction_writes_each_record_once_and_stale_ones_not_at_all(make: Make, tmp_path: Path) -> None:
    topic = Topic()
    topic.append(*"abcd")
    fence = pares.fence.SqlFence(group="g")
    file = tmp_path / "sink.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE sums (at INTEGER)")
    one = make(topic, batch=2)
    one._member.note = lambda event: None  # type: ignore[method-assign, assignment]  # its marks never reach the log
    database = sqlite3.connect(file)
    batch = one.next_batch(30)
    assert batch is not None
    with batch.transaction(database, fence) as records:
        database.executemany("INSERT INTO sums VALUES (?)", [(record.offset,) for record in records])
    assert Positions(fence).seen(database, batch.term.role) == 2
    later = one.next_batch(30)
    assert later is not None
    with pytest.raises(sqlite3.OperationalError), later.transaction(database, fence) as records:
        database.executemany("INSERT INTO nowhere VALUES (?)", [(record.offset,) for record in records])
    one.close()
    two = make(topic, "b", batch=10)
    batch = two.next_batch(30)
    assert batch is not None
    with batch.transaction(database, fence) as records:
        database.executemany("INSERT INTO sums VALUES (?)", [(record.offset,) for record in records])
    assert [at for (at,) in database.execute("SELECT at FROM sums")] == [0, 1, 2, 3]
    with pytest.raises(Stale), later.transaction(database, fence):
        raise AssertionError("a zombie got in")
    database.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topics": []}, "topics is empty"),
        ({"topics": 7}, "topics is 7"),
        ({"topics": ["x" * 190]}, "longer than its name"),
        ({"delivery": "twice"}, "delivery is 'twice'"),
        ({"claim": "all"}, "claim is 'all'"),
        ({"batch": 0}, "batch is 0"),
        ({"max_claims": 0}, "max_claims is 0"),
        ({"start": "now"}, "start is 'now'"),
        ({"session": 0}, "session is 0"),
    ],
)
def test_a_value_that_cannot_be_is_refused(memory: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Consumer(memory, **{"group": "g", "topics": [Topic()], **given})


def test_a_topic_is_named_once(memory: str) -> None:
    with pytest.raises(ConfigError, match="more than once"):
        Consumer(memory, group="g", topics=[Topic(), Topic()])
