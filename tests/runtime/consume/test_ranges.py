"""Ranges of offsets, claimed by several consumers of one partition (C11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from consume_tools import Handler, Running, Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.core.errors import ConfigError
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]


def ranged(make: Make, topic: Any, name: str = "a", **more: Any) -> Consumer:
    return make(topic, name, **{"claim": "ranges", "slots": 3, "batch": 8, **more})


def slots(consumer: Consumer) -> list[int | None]:
    return [claim.slot for claim in consumer.claims()]


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c11_several_work_on_one_partition_at_once_and_each_record_is_given_out_once(make: Make, delivery: str) -> None:
    topic = Topic()
    consumers = [ranged(make, topic, name, delivery=delivery) for name in "abc"]
    until(lambda: sorted(len(slots(each)) for each in consumers) == [1, 1, 1], "a slot for each")
    topic.append(*map(str, range(300)))
    all_have_one = threading.Barrier(3, timeout=60)
    first: set[int] = set()

    def handle(batch: Any) -> None:
        if threading.get_ident() not in first:
            first.add(threading.get_ident())
            all_have_one.wait()

    workers = [Worker(each, handle=handle) for each in consumers]
    until(lambda: sum(len(worker.seen) for worker in workers) >= 300, "all is given out")
    assert sorted(at for worker in workers for at in worker.offsets()) == list(range(300))
    assert all(worker.seen for worker in workers), "none was idle"
    for worker in workers:
        assert worker.offsets() == sorted(worker.offsets()), "in order, as far as one consumer goes"
    until(lambda: [each.lag() for each in consumers] == [0, 0, 0], "all is done")


def test_c11_what_nobody_has_claimed_yet_lags_too(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(200)))
    one, two = ranged(make, topic, "a", slots=2), ranged(make, topic, "b", slots=2)
    until(lambda: len(slots(one)) == len(slots(two)) == 1, "a slot for each")
    assert one.lag() == two.lag() == 200, "nothing was asked for, so nothing is claimed"
    batch = one.next_batch(30)
    assert batch is not None
    assert one.lag() == 200, "it has claimed some, and done none"
    until(lambda: two.lag() < 200, "what the other one has claimed is not its own")
    batch.done()
    assert one.lag() == 200 - len(batch)
    health = one.health().consumption
    assert health is not None
    assert health.lag == 200 - len(batch)
    workers = [Worker(each) for each in (one, two)]
    until(lambda: one.lag() == two.lag() == 0, "all is done")
    assert len(batch) + sum(len(worker.seen) for worker in workers) == 200


def test_c11_what_comes_has_its_owner_already_by_a_range_ahead_of_the_end(make: Make, url: str) -> None:
    topic = Topic()
    consumer = ranged(make, topic, slots=1)
    worker = Worker(consumer)
    world = consumer._member  # pyright: ignore[reportPrivateUsage]
    until(lambda: [runs[-1][1] for runs in world.world.ranges.values()] == [16], "a range of what is not there yet")
    topic.append(*"abcde")
    until(lambda: worker.offsets() == [0, 1, 2, 3, 4], "it comes")
    assert [runs[-1][1] for runs in world.world.ranges.values()] == [16], "and nothing more was claimed for it"
    assert consumer.lag() == 0
    with pares.Admin(url, group="g") as admin:
        consumer.flush()
        assert admin.positions() == {("orders", 0): 5}


def test_c11_what_a_consumer_leaves_undone_of_its_ranges_is_given_to_others(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(40)))
    one = ranged(make, topic, "a", slots=1, barrier_timeout=0.2)
    got = [one.next_batch(30) for _ in range(3)]
    assert all(got)
    assert got[0] is not None
    assert got[2] is not None
    got[0].done()
    got[2].done()  # out of turn
    one.close()
    worker = Worker(ranged(make, topic, "b", slots=1))
    undone = [record.offset for batch in got[1:2] if batch is not None for record in batch.records]
    after = list(range(got[2].last + 1, 40))
    until(lambda: worker.offsets() == undone + after, "what was not done, and the rest, and nothing else")


def test_c11_at_most_once_what_a_consumer_had_taken_is_not_given_out_again_and_the_rest_of_its_range_is(
    make: Make,
) -> None:
    topic = Topic()
    topic.append(*map(str, range(40)))
    one = ranged(make, topic, "a", slots=1, delivery="at-most-once", barrier_timeout=0.2)
    batch = one.next_batch(30)
    assert batch is not None
    one.close()
    worker = Worker(ranged(make, topic, "b", slots=1, delivery="at-most-once"))
    until(lambda: len(worker.seen) == 40 - len(batch), "the rest")
    assert worker.offsets() == list(range(len(batch), 40))


def test_c11_records_one_by_one_go_on_around_one_that_takes_its_time(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(60)))
    handler = Handler(stuck=lambda item: item.offset == 0)
    consumer = ranged(make, topic, concurrency=4, order="none")
    running = Running(consumer, handler)
    until(lambda: sorted(handler.offsets()) == list(range(60)), "the rest goes on, over the ends of ranges")
    handler.go.set()
    until(lambda: consumer.lag() == 0, "and it is done")
    consumer.close()
    running.join()


def test_c11_slots_go_to_a_consumer_that_comes_later_with_their_ranges(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(30)))
    one = ranged(make, topic, "a")
    first = Worker(one)
    until(lambda: len(first.seen) == 30, "all of it")
    two = ranged(make, topic, "b")
    until(lambda: (len(slots(one)), len(slots(two))) in ((1, 2), (2, 1)), "shared out within one")
    second = Worker(two)
    topic.append(*map(str, range(200)))
    until(lambda: len(first.seen) + len(second.seen) == 230, "the rest")
    assert sorted(first.offsets() + second.offsets()) == list(range(230))
    seen = {claim.slot: claim.holder for claim in one.claims(all=True)}
    assert {seen[slot] for slot in slots(two)} == {two.id}
    assert list(seen) == [0, 1, 2], "and not the partition, which nobody holds"


def test_c2_with_latest_ranges_begin_at_the_end_where_nobody_has_been(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(50)))
    worker = Worker(ranged(make, topic, start="latest"))
    until(lambda: worker.consumer.claims(), "it holds slots")
    until(lambda: any(claim.position >= 50 for claim in worker.consumer.claims()), "it begins at the end")
    topic.append("x")
    until(lambda: worker.offsets() == [50], "what came then")


def test_c8_what_retention_took_before_it_was_claimed_is_passed_over_at_once_and_reported(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(5000)))
    topic.trim(4990)
    consumer = ranged(make, topic)
    worker = Worker(consumer)
    until(lambda: worker.offsets() == list(range(4990, 5000)), "what is left")
    assert any("lost 0 to 4989" in problem for problem in consumer.health().problems)


def test_c8_what_retention_took_of_a_range_is_skipped_and_reported(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(10)))
    consumer = ranged(make, topic, slots=1)
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 10, "a range of 16 is claimed")
    topic.trim(500)
    topic.append("x")
    until(lambda: worker.offsets()[10:] == [500], "it goes on at what is there")
    assert any("has lost 10 to 15" in problem for problem in consumer.health().problems)


def test_a_term_that_ends_while_it_is_fed_claims_nothing_and_breaks_nothing(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(10)))
    consumer = ranged(make, topic, slots=1)
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 10, "all of it")
    feeder = consumer._feeder
    (tenancy,) = feeder.tenancies.values()
    consumer.close()
    worker.join()
    assert tenancy.ranges is not None
    tenancy.ranges.runs.clear()  # another one would be due
    assert feeder._ranging.upto(tenancy, [tenancy]) is None
    assert worker.error is None


def test_c8_a_topic_that_has_lost_its_end_is_reported(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(10)))
    consumer = ranged(make, topic, slots=1)
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 10, "all of it")
    topic.logs[0] = topic.logs[0][:3]
    until(lambda: any("ends below" in problem for problem in consumer.health().problems), "it says so")


def test_c5_a_partition_is_rewound_with_all_its_slots(make: Make, url: str) -> None:
    topic = Topic()
    topic.append(*map(str, range(20)))
    worker = Worker(ranged(make, topic))
    until(lambda: len(worker.seen) == 20, "all of it")
    with pares.Admin(url, group="g") as admin:
        with pytest.raises(ConfigError, match="pause the role"):
            admin.rewind({("orders", 0): 5})
        admin.pause(seconds=60)
        until(lambda: not worker.consumer.claims(), "nobody holds a slot")
        until(lambda: admin.positions() == {("orders", 0): 20}, "the position has not moved")
        until(lambda: rewound(admin, {("orders", 0): 5}), "all slots are free")
        assert admin.positions() == {("orders", 0): 5}
        admin.resume()
    until(lambda: worker.offsets()[20:] == list(range(5, 20)), "again from there")


def test_c11_a_group_goes_on_with_ranges_where_whole_partitions_ended_and_back(make: Make) -> None:
    topic = Topic()
    topic.append(*map(str, range(20)))
    whole = make(topic, "a")
    worker = Worker(whole)
    until(lambda: len(worker.seen) == 20, "as a whole")
    several = ranged(make, topic, "b")
    second = Worker(several)
    until(
        lambda: any("held as a whole" in problem for problem in several.health().problems), "it says what it waits for"
    )
    whole.close()
    topic.append(*map(str, range(20)))
    until(lambda: second.offsets() == list(range(20, 40)), "it goes on")
    several.close()
    end = 20 + 20
    last = make(topic, "c")
    third = Worker(last)
    until(lambda: len(last.claims()) == 1, "it has the partition")
    time.sleep(0.2)  # it looks, behind ranges that were claimed ahead of the end
    assert not [problem for problem in last.health().problems if "rewound" in problem]
    topic.append(*map(str, range(300)))
    until(lambda: third.seen, "behind all ranges")
    assert third.offsets()[0] >= end


def test_ranges_need_room_for_their_slots(memory: str) -> None:
    with pytest.raises(ConfigError, match="fewer slots"):
        Consumer(memory, group="g", topics=[Topic(partitions=200)], claim="ranges", slots=100)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="slots"):
        Consumer(memory, group="g", topics=[Topic()], claim="ranges", slots=101)  # type: ignore[list-item]
