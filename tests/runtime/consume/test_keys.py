"""Slots of keys, claimed by several consumers of one partition (C12)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from consume_tools import Handler, Running, Topic, Worker
from runtime_tools import rewound, until

import pares
from pares.core.consume.names import place_of
from pares.core.errors import ConfigError
from pares.runtime.consume.consumer import Consumer
from pares.runtime.consume.divided.keying import BESIDE, MOST_KEPT

Make = Callable[..., Consumer]
KEYS = [b"k%d" % number for number in range(12)]


def keyed(make: Make, topic: Any, name: str = "a", **more: Any) -> Consumer:
    return make(topic, name, **{"claim": "keys", "slots": 6, "batch": 8, **more})


def fill(topic: Topic, count: int) -> None:
    for number in range(count):
        topic.append(str(number), key=KEYS[number % len(KEYS)])


def slots(consumer: Consumer) -> list[int | None]:
    return [claim.slot for claim in consumer.claims()]


def by_key(calls: list[Any]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for call in calls:
        found.setdefault(call.key, []).append(call.offset)
    return found


class Log:
    """What all handlers of a test were given, in the order of time, and whether a key was with two of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: list[tuple[str, Any]] = []
        self._busy: set[bytes | None] = set()
        self.twice: list[Any] = []

    def by(self, who: str, pause: float = 0.0) -> Callable[[Any], None]:
        def handle(given: Any) -> None:
            records = getattr(given, "records", (given,))
            keys = {record.key for record in records}
            with self._lock:
                self.twice += [key for key in keys if key in self._busy]
                self._busy |= keys
                self.calls += [(who, record) for record in records]
            if pause:
                threading.Event().wait(pause)
            with self._lock:
                self._busy -= keys

        return handle

    def of(self, key: bytes) -> list[int]:
        return [record.offset for _, record in list(self.calls) if record.key == key]

    def offsets(self) -> list[int]:
        return sorted(record.offset for _, record in list(self.calls))


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c12_several_work_on_one_partition_and_each_key_is_in_order_and_with_one_of_them(
    make: Make, delivery: str
) -> None:
    topic, log = Topic(), Log()
    consumers = [keyed(make, topic, name, delivery=delivery) for name in "abc"]
    until(lambda: sorted(len(slots(each)) for each in consumers) == [2, 2, 2], "two slots for each")
    fill(topic, 300)
    workers = [Worker(each, handle=log.by(each.name)) for each in consumers for _ in range(2)]
    until(lambda: len(log.calls) >= 300, "all is given out")
    assert log.offsets() == list(range(300))
    for key in KEYS:
        assert log.of(key) == sorted(log.of(key)), "in order"
        assert len({who for who, record in log.calls if record.key == key}) == 1, "by one of them"
    assert log.twice == []
    for consumer in consumers:
        mine = {place_of(record.key, record.offset) % 6 for who, record in log.calls if who == consumer.name}
        assert mine <= set(slots(consumer))
    until(lambda: [each.lag() for each in consumers] == [0, 0, 0], "all is done")
    assert all(worker.error is None for worker in workers)


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c12_slots_move_while_work_is_in_flight_and_no_key_is_lost_repeated_or_out_of_order(
    make: Make, delivery: str
) -> None:
    topic, log = Topic(), Log()
    fill(topic, 120)
    more: dict[str, Any] = {"delivery": delivery, "order": "key", "concurrency": 4}
    one = keyed(make, topic, "a", **more)
    first = Running(one, log.by("a", 0.002))
    until(lambda: len(log.calls) > 20, "one works alone")
    two = keyed(make, topic, "b", **more)
    second = Running(two, log.by("b", 0.002))
    until(lambda: (len(slots(one)), len(slots(two))) == (3, 3), "shared out while it works")
    fill(topic, 120)
    until(lambda: len(log.calls) > 140, "both work")
    one.close()
    first.join()
    fill(topic, 120)
    # What "a" had taken and no handler had begun is not given out at all at most once, and all else is.
    lost = 2 * 4 if delivery == "at-most-once" else 0
    until(lambda: len(log.calls) >= 360 - lost and two.lag() == 0, "the other one has all slots now, and all is done")
    assert len(log.offsets()) == len(set(log.offsets())) >= 360 - lost
    for key in KEYS:
        assert log.of(key) == sorted(log.of(key))
    assert log.twice == []
    assert {who for who, _ in log.calls} == {"a", "b"}
    two.close()
    second.join()


def test_c12_of_a_slot_one_batch_is_out_at_a_time_whoever_takes_it(make: Make) -> None:
    topic = Topic()
    for number in range(20):
        topic.append(str(number), key=b"same")
    consumer = keyed(make, topic, batch=4, slots=1)
    first = consumer.next_batch(30)
    assert first is not None
    assert consumer.next_batch(0.3) is None, "the next one waits for it"
    first.done()
    second = consumer.next_batch(30)
    assert second is not None
    assert second.first == first.last + 1


def test_c12_a_record_that_fails_holds_up_its_key_and_no_other_and_its_deliveries_go_with_the_slot(make: Make) -> None:
    topic = Topic()
    fill(topic, 60)
    poison = KEYS[3]
    calls: list[Any] = []

    def handle(item: Any) -> None:
        calls.append(item)
        if item.offset == 3:
            item.retry(after=0.05)

    more: dict[str, Any] = {"order": "key", "concurrency": 2, "retries": 100_000}
    one = keyed(make, topic, "a", **more)
    running = Running(one, handle)
    until(lambda: len({item.offset for item in list(calls)}) == 60 - 4, "all other keys go on")
    assert set(by_key(calls)[poison]) == {3}
    until(lambda: len(by_key(list(calls))[poison]) >= 3, "it comes again")
    one.close()
    running.join()
    before, calls[:] = by_key(calls)[poison], []
    running = Running(two := keyed(make, topic, "b", **more), lambda item: calls.append(item))
    until(lambda: len(calls) == 5, "what is left, and nothing that was done")
    assert [item.offset for item in calls] == [3, 15, 27, 39, 51]
    assert calls[0].deliveries == len(before) + 1
    two.close()
    running.join()


def test_c12_records_without_a_key_are_shared_out_over_all_slots(make: Make) -> None:
    topic, log = Topic(), Log()
    consumers = [keyed(make, topic, name, slots=2) for name in "ab"]
    until(lambda: [len(slots(each)) for each in consumers] == [1, 1], "a slot for each")
    topic.append(*map(str, range(40)))
    for each in consumers:
        Worker(each, handle=log.by(each.name))
    until(lambda: len(log.calls) >= 40, "all is given out")
    odd = {who for who, record in log.calls if record.offset % 2}
    assert log.offsets() == list(range(40))
    assert len(odd) == 1
    assert {who for who, record in log.calls if record.offset % 2 == 0} == {"a", "b"} - odd


# From one division to another ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_c12_a_group_goes_from_partitions_to_keys_to_other_slots_and_back_without_loss_and_repetition(
    make: Make, delivery: str
) -> None:
    topic, log = Topic(), Log()
    fill(topic, 400)
    more: dict[str, Any] = {"delivery": delivery, "batch": 8}
    divisions: list[dict[str, Any]] = [
        {},
        {"claim": "keys", "slots": 5},
        {"claim": "keys", "slots": 3},
        {},
        {"claim": "keys", "slots": 5},
    ]
    for number, division in enumerate(divisions):
        consumer = make(topic, f"c{number}", **more, **division)
        handle, last = log.by(consumer.name), number == len(divisions) - 1
        enough = len(topic.logs[0]) if last else len(log.calls) + 40
        parts = division.get("slots", 1)
        until(lambda consumer=consumer, parts=parts: len(consumer.claims()) == parts, "it has all of the partition")
        while len(log.calls) < enough and (not last or consumer.lag() > 0):
            batch = consumer.next_batch(1)
            if batch is not None:
                handle(batch)
                batch.done()
        consumer.close()
    # A batch that was taken, and that no worker had yet when its consumer was closed, is not given out at all at most once.
    lost = 4 * 8 if delivery == "at-most-once" else 0
    assert len(log.offsets()) == len(set(log.offsets())) >= 400 - lost
    for key in KEYS:
        assert log.of(key) == sorted(log.of(key))


def test_c12_a_consumer_that_divides_in_another_way_is_told_what_it_waits_for_and_goes_on_then(make: Make) -> None:
    topic = Topic()
    fill(topic, 30)
    whole = make(topic, "a")
    worker = Worker(whole)
    until(lambda: len(worker.seen) == 30, "as a whole")
    several = keyed(make, topic, "b")
    until(lambda: any(f"{whole.id} holds it as a whole" in each for each in several.health().problems), "it says so")
    assert several.claims() == []
    other = keyed(make, topic, "c", slots=4)
    whole.close()
    until(lambda: len(several.claims()) + len(other.claims()) > 0, "one of them begins")
    left, right = (several, other) if several.claims() else (other, several)
    until(lambda: any("holds a slot of its keys" in each for each in right.health().problems), "the other one waits")
    assert right.claims() == []
    fill(topic, 30)
    going_on = Worker(left)
    until(lambda: sorted(going_on.offsets()) == list(range(30, 60)), "it goes on")
    left.close()
    fill(topic, 30)
    last = Worker(right)
    until(lambda: sorted(last.offsets()) == list(range(60, 90)), "and now the other one")


def test_c12_slots_begin_when_ranges_were_taken_back_by_a_rewind(make: Make, url: str) -> None:
    topic = Topic()
    fill(topic, 20)
    ranged = make(topic, "a", claim="ranges", slots=2, batch=8)
    worker = Worker(ranged)
    until(lambda: len(worker.seen) == 20, "by ranges")
    ranged.close()
    consumer = keyed(make, topic, "b")
    until(lambda: any("ranges that are not done" in each for each in consumer.health().problems), "it says so")
    second = Worker(consumer)
    with pares.Admin(url, group="g") as admin:
        admin.pause(seconds=60)
        until(lambda: rewound(admin, admin.positions()), "nobody holds it")
        admin.resume()
    fill(topic, 20)
    until(lambda: sorted(second.offsets()) == list(range(20, 40)), "from there on")


def test_c5_a_partition_is_rewound_with_all_its_slots_of_keys(make: Make, url: str) -> None:
    topic = Topic()
    fill(topic, 20)
    worker = Worker(keyed(make, topic))
    until(lambda: len(worker.seen) == 20, "all of it")
    with pares.Admin(url, group="g") as admin:
        with pytest.raises(ConfigError, match="pause the role"):
            admin.rewind({("orders", 0): 5})
        admin.pause(seconds=60)
        until(lambda: not worker.consumer.claims(), "nobody holds a slot")
        until(lambda: admin.positions() == {("orders", 0): 20}, "the position is where all slots are")
        until(lambda: rewound(admin, {("orders", 0): 5}), "all slots are free")
        assert admin.positions() == {("orders", 0): 5}
        admin.resume()
    until(lambda: sorted(worker.offsets()[20:]) == list(range(5, 20)), "again from there")


# What a consumer reads, and says ---------------------------------------------------------------------------------------


def test_c12_a_consumer_fetches_a_partition_once_for_all_its_slots(make: Make) -> None:
    topic = Topic()
    fill(topic, 600)
    fetched: list[int] = []
    fetch = topic.fetch

    def counted(*args: Any, **named: Any) -> Any:
        found = fetch(*args, **named)
        fetched.extend(record.offset for record in found.records)
        return found

    topic.fetch = counted  # type: ignore[method-assign]
    consumer = keyed(make, topic, slots=6, batch=50)
    until(lambda: len(slots(consumer)) == 6, "all slots")
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 600, "all of it")
    assert fetched == list(range(600))


def kept(consumer: Consumer) -> int:
    """Records that it keeps for slots that stay behind."""
    keying = consumer._feeder._keying  # pyright: ignore[reportPrivateUsage]
    pieces = list(keying._pieces.values())  # pyright: ignore[reportPrivateUsage]
    return sum(len(part) for piece in pieces for part in piece._of.values())  # pyright: ignore[reportPrivateUsage]


def test_c12_a_slot_that_stays_behind_fetches_again_what_is_not_kept_and_memory_is_bounded(make: Make) -> None:
    topic = Topic()
    for number in range(400):
        topic.append("x" * 1000, key=KEYS[number % len(KEYS)])
    stuck = KEYS[0]
    handler = Handler(stuck=lambda item: item.offset == 0)
    # Lanes take what is fetched; so a slot stays behind when it has enough of it.
    consumer = keyed(make, topic, batch=10, batch_bytes=10_000, order="partition", concurrency=2, slots=4)
    running = Running(consumer, handler)
    slot = place_of(stuck, 0) % 4
    others = [at for at in range(400) if place_of(KEYS[at % len(KEYS)], at) % 4 != slot]
    until(lambda: set(others) <= set(handler.offsets()), "all other slots go on")
    assert kept(consumer) <= MOST_KEPT * 10_000 // 1000
    handler.go.set()
    until(lambda: sorted(handler.offsets()) == list(range(400)), "and then this one")
    until(lambda: consumer.lag() == 0, "all is done")
    consumer.close()
    running.join()


def test_c12_records_without_payload_that_wait_for_a_slot_are_bounded_too(make: Make) -> None:
    topic, count = Topic(), 600
    for number in range(count):
        topic.append("", key=KEYS[number % len(KEYS)])
    consumer = keyed(make, topic, batch=10, batch_bytes=10_000, slots=4)
    slot = place_of(KEYS[0], 0) % 4
    others = {at for at in range(count) if place_of(KEYS[at % len(KEYS)], at) % 4 != slot}
    seen: set[int] = set()
    held = None
    while not others <= seen:
        batch = consumer.next_batch(30)
        assert batch is not None
        if place_of(batch.records[0].key, 0) % 4 == slot:
            assert held is None, "of a slot one batch is out at a time"
            held = batch
            continue
        seen.update(record.offset for record in batch.records)
        batch.done()
    assert held is not None
    assert 0 < kept(consumer) <= MOST_KEPT * 10_000 // BESIDE
    held.done()
    seen.update(record.offset for record in held.records)
    while len(seen) < count:
        batch = consumer.next_batch(30)
        assert batch is not None
        seen.update(record.offset for record in batch.records)
        batch.done()


def test_c12_claims_and_lag_say_what_they_count(make: Make) -> None:
    topic = Topic()
    consumer = keyed(make, topic, slots=2)
    until(lambda: slots(consumer) == [0, 1], "both slots")
    fill(topic, 10)
    assert consumer.lag() == 10, "of the partition, and not of each slot"
    claims = consumer.claims()
    assert [(claim.partition, claim.slots, claim.position, claim.lag) for claim in claims] == [(0, 2, 0, 10)] * 2
    assert consumer.claims(all=True) == claims, "nobody holds the partition as a whole, and nobody may"
    assert consumer.load() == 2
    worker = Worker(consumer)
    until(lambda: len(worker.seen) == 10 and consumer.lag() == 0, "all is done")
    assert [claim.position for claim in consumer.claims()] == [10, 10], "also past what belongs to others"


def test_c8_what_retention_took_is_skipped_by_each_slot(make: Make) -> None:
    topic = Topic()
    fill(topic, 50)
    topic.trim(40)
    consumer = keyed(make, topic)
    worker = Worker(consumer)
    until(lambda: sorted(worker.offsets()) == list(range(40, 50)), "what is left")
    assert any("lost 0 to 39" in problem for problem in consumer.health().problems)


def test_c2_with_latest_slots_begin_at_the_end_where_nobody_has_been(make: Make) -> None:
    topic = Topic()
    fill(topic, 50)
    worker = Worker(keyed(make, topic, start="latest", slots=3))
    until(lambda: [claim.position for claim in worker.consumer.claims()] == [50] * 3, "they begin at the end")
    fill(topic, 12)
    until(lambda: sorted(worker.offsets()) == list(range(50, 62)), "what came then")


def test_order_none_is_refused_with_keys(memory: str) -> None:
    with pytest.raises(ConfigError, match="order is 'none'"):
        Consumer(memory, group="g", topics=[Topic()], claim="keys", order="none")  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="fewer slots"):
        Consumer(memory, group="g", topics=[Topic(partitions=200)], claim="keys", slots=100)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="slots"):
        Consumer(memory, group="g", topics=[Topic()], claim="keys", slots=0)  # type: ignore[list-item]


def test_c4_no_handover_waits_for_a_batch_that_was_taken_and_that_nobody_has(make: Make) -> None:
    topic = Topic()
    fill(topic, 20)
    consumer = make(topic, delivery="at-most-once", batch=4, barrier_timeout=600)
    batch = consumer.next_batch(30)
    assert batch is not None
    consumer.put_back(batch)
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(120)
    assert not closing.is_alive(), "it waits for a worker that there is not"
    assert any("not-given-out" in problem for problem in consumer.health().problems)
