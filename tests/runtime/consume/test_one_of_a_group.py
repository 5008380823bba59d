"""A consumer among others: what it shows of the group, and how it leaves it (docs/marshal.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from consume_tools import Topic, Worker
from runtime_tools import until

import pares
from pares.runtime.consume import consumer as consumer_module
from pares.runtime.consume.consumer import Consumer

Make = Callable[..., Consumer]


def test_another_group_has_claims_and_positions_of_its_own(make: Make, url: str) -> None:
    topic = Topic(partitions=2)
    topic.append(*"abc")
    one, other = make(topic, group="g"), make(topic, group="h")
    mine, others = Worker(one), Worker(other, done=False)
    until(lambda: mine.offsets() == others.offsets() == [0, 1, 2], "each group is given all")
    one.flush()
    other.flush()
    assert {claim.holder for claim in one.claims(all=True)} == {one.id}
    with pares.Admin(url, group="g") as g, pares.Admin(url, group="h") as h:
        assert (g.positions()["orders", 0], h.positions()["orders", 0]) == (3, 0)


def test_claims_are_values_and_show_who_has_what_in_the_whole_group(make: Make) -> None:
    topic = Topic(partitions=2)
    one, two = make(topic, "a"), make(topic, "b")
    until(lambda: one.load() == two.load() == 1, "shared out within one")

    def holders() -> dict[int, str | None]:
        return {claim.partition: claim.holder for claim in one.claims(all=True)}

    until(lambda: sorted(map(str, holders().values())) == sorted([one.id, two.id]), "it has read of the other one")
    theirs = next(claim for claim in one.claims(all=True) if claim.holder == two.id)
    assert theirs.state == "fresh"
    assert (theirs.end, theirs.lag) == (None, None), "only the holder has looked"
    assert [claim.holder for claim in one.claims()] == [one.id]
    found = one.claims(all=True)
    with pytest.raises(AttributeError):
        found[0].position = 99  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    found.clear()
    assert len(holders()) == 2
    two.close()
    until(lambda: set(holders().values()) == {one.id}, "what it has left is taken over")


def test_what_waits_to_be_given_out_holds_up_no_close_and_is_given_to_the_next(make: Make) -> None:
    topic, fetches = Topic(), 0

    def count(call: str) -> None:
        nonlocal fetches
        fetches += call == "fetch"

    topic.fail = count
    topic.append(*"abcdefgh")
    one = make(topic, batch=1)
    first = one.next_batch(30)
    assert first is not None
    until(lambda: fetches > 1, "more of them wait")
    first.done()
    one.close()
    assert one.state == "closed"
    assert one.next_batch(0) is None, "nothing is left in a queue"
    worker = Worker(make(topic, "b"))
    until(lambda: worker.offsets() == [1, 2, 3, 4, 5, 6, 7], "what was not given out, and nothing else")


def test_close_leaves_the_group_and_may_be_called_twice(make: Make, url: str) -> None:
    topic = Topic()
    consumer = make(topic)
    worker = Worker(consumer)
    until(lambda: consumer.load() == 1, "it holds the partition")
    consumer.close()
    consumer.close()
    worker.join()
    assert worker.error is None
    with pares.Observer(url, group="g") as observer:
        assert not observer.world.members
        assert [seat.holder for seat in observer.world.seats.values()] == [None]


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_position_of_what_was_done_out_of_turn_waits_for_what_is_before_it(make: Make, partitions: int) -> None:
    topic = Topic(partitions=partitions)
    topic.append(*"abcdef")
    consumer = make(topic, batch=2)
    batches = consumer.batches()
    first, second, third = (next(batches) for _ in range(3))

    def position() -> int:
        return next(claim.position for claim in consumer.claims() if claim.partition == 0)

    assert third.done()
    assert position() == 0
    assert first.done()
    assert position() == 2
    assert consumer.lag() == 2, "two offsets are not done"
    assert second.done()
    assert (position(), consumer.lag()) == (6, 0)


def test_one_that_does_not_release_what_it_falls_behind_with_keeps_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as `test_one_that_stands_still_is_relieved_by_another`, but for `release_if_behind`."""
    topic, looks = Topic(), 0

    def count(call: str) -> None:
        nonlocal looks
        looks += call == "ends"

    monkeypatch.setattr(consumer_module, "LOOKS", 0.002)
    topic.append(*"abc")
    stuck = make(topic, batch=1, release_if_behind=False)
    assert stuck.next_batch(30) is not None  # and is never done
    other = make(topic, "b")
    until(lambda: len({claim.holder for claim in other.claims(all=True)} - {None}) == 1, "it is there to take over")
    topic.fail = count
    until(lambda: looks > 20, "it has looked often enough to find that it stands still")
    assert (stuck.load(), other.load()) == (1, 0)
    assert stuck.claims()[0].lag == 3
