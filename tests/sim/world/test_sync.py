"""Locks, flags, conditions and mailboxes of virtual time do what their namesakes of the standard library do."""

from __future__ import annotations

from queue import Empty

import pytest
from world_tools import alone

from pares.sim.engine import MS, SECOND
from pares.sim.world.process import Process


@pytest.mark.parametrize("kind", ["lock", "rlock"])
@pytest.mark.parametrize("seed", range(5))
def test_a_lock_has_one_holder(kind: str, seed: int) -> None:
    inside: list[int] = []
    most: list[int] = []

    def main(process: Process) -> None:
        host = process.host
        lock = getattr(host, kind)()

        def work() -> None:
            for _ in range(10):
                with lock:
                    inside.append(1)
                    most.append(len(inside))
                    host.sleep(0.001)
                    inside.pop()

        for task in [host.spawn(work, "w") for _ in range(4)]:
            task.join()

    alone(main, seed=seed)
    assert len(most) == 40
    assert max(most) == 1


def test_an_rlock_is_taken_again_by_its_holder_and_by_nobody_else() -> None:
    order: list[str] = []

    def main(process: Process) -> None:
        lock = process.host.rlock()

        def other() -> None:
            assert not lock.acquire(blocking=False)
            assert not lock.acquire(timeout=0.01)
            with lock:
                order.append("other")

        with lock, lock:
            task = process.host.spawn(other, "other")
            process.host.sleep(0.1)
            order.append("first")
        task.join()
        with pytest.raises(RuntimeError):
            lock.release()

    alone(main)
    assert order == ["first", "other"]


def test_a_lock_can_be_tried_and_waited_for() -> None:
    def main(process: Process) -> None:
        lock, host = process.host.lock(), process.host
        assert lock.acquire()
        assert not lock.acquire(blocking=False)
        before = host.now()
        assert not lock.acquire(timeout=0.25)
        assert 250 * MS <= host.now() - before < 260 * MS
        lock.release()
        with pytest.raises(RuntimeError):
            lock.release()
        assert lock.acquire(timeout=0.25)

    alone(main)


def test_a_flag_wakes_everybody_and_stays_set() -> None:
    woken: list[bool] = []

    def main(process: Process) -> None:
        host = process.host
        flag = host.flag()
        tasks = [host.spawn(lambda: woken.append(flag.wait(5)), "w") for _ in range(3)]
        assert not flag.wait(0.1)
        flag.set()
        for task in tasks:
            task.join()
        assert flag.wait(0)
        flag.clear()
        assert not flag.is_set()

    alone(main)
    assert woken == [True] * 3


def test_a_condition_gives_its_lock_back_while_it_waits() -> None:
    said: list[str] = []

    def main(process: Process) -> None:
        host = process.host
        condition = host.condition()

        def waiter() -> None:
            with condition, condition:  # twice, as an RLock lets it
                said.append(f"woken {condition.wait(5)}")

        task = host.spawn(waiter, "waiter")
        host.sleep(0.1)
        with condition:
            said.append("notifies")
            condition.notify()
        task.join()
        with condition:
            before = host.now()
            assert not condition.wait(0.2)
            assert host.now() - before >= 200 * MS
            assert not condition.wait_for(lambda: False, 0.1)
            assert condition.wait_for(lambda: True, 0.1)

    alone(main)
    assert said == ["notifies", "woken True"]


@pytest.mark.parametrize("seed", range(10))
def test_a_mailbox_hands_each_item_to_one_taker_in_order(seed: int) -> None:
    taken: list[int] = []

    def main(process: Process) -> None:
        host = process.host
        box = host.mailbox()

        def taker() -> None:
            while (item := box.get()) is not None:
                taken.append(item)

        takers = [host.spawn(taker, "taker") for _ in range(3)]
        for item in range(30):
            box.put(item)
            if item % 7 == 0:
                host.sleep(0.001)
        for _ in takers:
            box.put(None)
        for task in takers:
            task.join()
        assert box.empty()
        with pytest.raises(Empty):
            box.get_nowait()
        before = host.now()
        with pytest.raises(Empty):
            box.get(timeout=0.5)
        assert host.now() - before >= SECOND // 2

    alone(main, seed=seed)
    assert sorted(taken) == list(range(30))


def test_a_join_waits_for_the_end_or_for_its_timeout() -> None:
    def main(process: Process) -> None:
        host = process.host
        task = host.spawn(lambda: host.sleep(1), "sleeper")
        task.join(0.1)
        assert task.is_alive()
        task.join()
        assert not task.is_alive()
        task.join()
        with pytest.raises(RuntimeError):
            host.task().join()

    alone(main)
