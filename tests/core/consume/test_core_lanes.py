"""Lanes: one record of a lane at a time and in order, whatever is retried; no lane waits for another (C9, C10)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pares.core.consume.lanes import MAX_SLEEPING, Entry, Lanes, Order

KEYS = st.sampled_from([None, b"a", b"b", b"c"])


def lane_of(order: Order, at: int, key: bytes | None) -> object:
    return "all" if order == "partition" else at if order == "none" or key is None else key


@given(
    st.sampled_from(["partition", "key", "none"]),
    st.lists(KEYS, max_size=30),
    st.lists(st.tuples(st.sampled_from(["next", "done", "again", "back", "time"]), st.integers(0, 20)), max_size=120),
)
def test_c9_one_of_a_lane_at_a_time_and_in_order_and_nothing_is_lost(
    order: Order, keys: list[bytes | None], steps: list[tuple[str, int]]
) -> None:
    lanes: Lanes[int] = Lanes(order)
    out: list[Entry[int]] = []
    finished: dict[object, list[int]] = {}
    asleep: dict[int, int] = {}
    now = 0
    for at, key in enumerate(keys):
        lanes.add(at, key, at)
    for step, which in steps:
        entry = out[which % len(out)] if out else None
        if step == "time":
            now += which
            lanes.wake(now)
        elif step == "next":
            lanes.wake(now)
            found = lanes.next()
            if found is None:
                busy = {lane_of(order, e.offset, keys[e.offset]) for e in out}
                busy |= {lane_of(order, at, keys[at]) for at, due in asleep.items() if due > now}
                done = {at for ats in finished.values() for at in ats}
                left = [at for at, key in enumerate(keys) if at not in done and lane_of(order, at, key) not in busy]
                assert left == [], "what has nothing before it waits for nobody"
                continue
            lane = lane_of(order, found.value, keys[found.value])
            assert all(lane_of(order, e.offset, keys[e.offset]) != lane for e in out), "one at a time"
            before = [at for at, key in enumerate(keys[: found.offset]) if lane_of(order, at, key) == lane]
            assert finished.get(lane, []) == before, "in order"
            assert asleep.pop(found.offset, 0) <= now, "not before its time"
            out.append(found)
        elif entry is None:
            continue
        elif step == "done":
            lanes.done(entry)
            finished.setdefault(lane_of(order, entry.offset, keys[entry.offset]), []).append(entry.offset)
            out.remove(entry)
        elif step == "again":
            asleep[entry.offset] = now + which
            lanes.again(entry, now + which)
            out.remove(entry)
        else:
            before_tries = entry.tries
            lanes.put_back(entry)
            assert entry.tries == before_tries - 1
            out.remove(entry)
        assert lanes.left == len(keys) - sum(map(len, finished.values()))
        assert lanes.out == len(out)


def test_c10_what_is_given_out_again_is_counted_and_comes_first() -> None:
    lanes: Lanes[str] = Lanes("none")
    for at in range(3):
        lanes.add(at, None, "x", tries=2 if at == 2 else 0)
    first = lanes.next()
    assert first is not None
    assert (first.offset, first.tries) == (2, 3)
    lanes.again(first, 10)
    assert lanes.wakes_at() == 10
    lanes.wake(9)
    second = lanes.next()
    assert second is not None
    assert (second.offset, second.tries) == (0, 1)
    lanes.wake(10)
    assert lanes.next() is first
    assert first.tries == 4


def test_c10_while_too_many_wait_for_a_retry_nothing_new_is_given_out() -> None:
    lanes: Lanes[None] = Lanes("none")
    for at in range(MAX_SLEEPING + 5):
        lanes.add(at, None, None)
    for _ in range(MAX_SLEEPING):
        entry = lanes.next()
        assert entry is not None
        lanes.again(entry, 5)
    assert lanes.next() is None
    lanes.wake(5)
    assert lanes.next() is not None


@pytest.mark.parametrize("order", ["key", "none"])
def test_what_may_not_be_given_out_now_stays(order: Order) -> None:
    lanes: Lanes[None] = Lanes(order)
    lanes.add(0, b"a", None)
    assert lanes.next(lambda offset: offset != 0) is None
    assert lanes.next() is not None
