"""Virtual time: what happens when, what a kill and a freeze do to tasks, and that nothing of a world is left behind."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest
from world_tools import alone

from pares.runtime.here import here
from pares.sim.engine import MS, SECOND, Stopwatch
from pares.sim.world.faults import Strike
from pares.sim.world.process import Process
from pares.sim.world.simulation import World


def test_virtual_hours_take_no_real_time() -> None:
    began = time.monotonic()
    seen: list[float] = []

    def main(process: Process) -> None:
        before = process.host.now()
        process.host.sleep(36_000)
        seen.append((process.host.now() - before) / SECOND)

    alone(main, seconds=40_000)
    assert seen[0] == pytest.approx(36_000, abs=0.001)
    assert time.monotonic() - began < 60


def test_here_is_the_host_of_the_process_in_each_of_its_tasks() -> None:
    found: list[bool] = []

    def main(process: Process) -> None:
        found.append(here() is process.host)
        process.host.spawn(lambda: found.append(here() is process.host), "other").join()

    outside = here()
    alone(main)
    assert found == [True, True]
    assert here() is outside


def test_each_task_has_context_variables_of_its_own() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def main(process: Process) -> None:
        def other() -> None:
            assert variable.get() == 0, "as a new thread, it begins with none of those of its maker"
            variable.set(2)
            process.host.sleep(1)
            assert variable.get() == 2

        variable.set(1)
        task = process.host.spawn(other, "other")
        process.host.sleep(0.5)
        assert variable.get() == 1
        task.join()

    alone(main)


def test_everything_runs_on_one_thread_of_the_system() -> None:
    threads: set[int] = set()

    def main(process: Process) -> None:
        tasks = [process.host.spawn(lambda: threads.add(threading.get_ident()), "t") for _ in range(5)]
        for task in tasks:
            task.join()

    alone(main)
    assert threads == {threading.get_ident()}


def test_a_stopwatch_runs_at_its_rate_and_sleeps_go_by_it() -> None:
    with World(1).playing() as world:
        took: dict[str, int] = {}

        def main(process: Process) -> None:
            process.host.sleep(10)
            took[process.name] = world.now

        world.start("fast", main, stopwatch=Stopwatch(5, 1.25))
        world.start("slow", main, stopwatch=Stopwatch(7, 0.8))
        world.run(20 * SECOND)
    assert took["fast"] / SECOND == pytest.approx(8, abs=0.001)
    assert took["slow"] / SECOND == pytest.approx(12.5, abs=0.001)


def test_a_sleep_never_ends_early_by_a_stopwatch_whose_rate_changes() -> None:
    with World(1).playing() as world:
        slept: list[int] = []

        def main(process: Process) -> None:
            before = process.host.now()
            process.host.sleep(10)
            slept.append(process.host.now() - before)

        process = world.start("a", main)
        world.at(5 * SECOND, process.set_rate, 0.5)
        world.run(30 * SECOND)
    assert slept[0] >= 10 * SECOND
    assert world.now == 30 * SECOND


def test_a_stopwatch_never_goes_back_when_its_rate_changes() -> None:
    watch = Stopwatch(100, 1.1)
    readings = [watch.read(at) for at in (0, SECOND)]
    watch.change(SECOND, 0.9)
    readings += [watch.read(at) for at in (SECOND, 2 * SECOND)]
    assert readings == [100, 100 + 11 * SECOND // 10, 100 + 11 * SECOND // 10, 100 + 2 * SECOND]
    assert watch.read(watch.when(100 + 3 * SECOND)) >= 100 + 3 * SECOND > watch.read(watch.when(100 + 3 * SECOND) - 2)


def test_a_task_that_spins_lets_time_pass_and_others_run() -> None:
    seen: list[int] = []

    def main(process: Process) -> None:
        process.host.spawn(lambda: (process.host.sleep(0.001), seen.append(process.host.now())), "other")
        end = process.host.now() + 5 * MS
        while process.host.now() < end:
            pass
        assert seen, "the other one had its turn meanwhile"
        assert seen[0] < end

    alone(main)


def test_a_killed_process_runs_no_finally_while_the_world_lasts() -> None:
    cleaned: list[str] = []
    with World(1).playing() as world:

        def main(process: Process) -> None:
            try:
                process.host.sleep(10)
            finally:
                cleaned.append("after" if world.dead else "during")
                process.host.sleep(1)
                cleaned.append("never")

        process = world.start("a", main)
        world.run(SECOND)
        world.kill(process)
        world.run(30 * SECOND)
        assert cleaned == []
    assert cleaned == ["after"], "unwound when the world is over, behind a host on which every call ends at once"


def test_a_task_that_catches_its_end_is_left_where_it_stands() -> None:
    with World(1).playing() as world:

        def main(process: Process) -> None:
            while True:
                try:
                    process.host.sleep(10)
                except BaseException:
                    pass

        world.start("a", main)
        world.run(SECOND)


def test_a_frozen_process_does_nothing_and_its_clock_goes_on() -> None:
    seen: list[float] = []
    with World(1).playing() as world:

        def main(process: Process) -> None:
            began = process.host.now()
            for _ in range(10):
                process.host.sleep(0.1)
                seen.append((process.host.now() - began) / SECOND)

        process = world.start("a", main)
        world.at(SECOND // 4, world.freeze, process, 3 * SECOND)
        world.run(SECOND)
        assert len(seen) == 2
        world.run(10 * SECOND)
    assert len(seen) == 10
    assert seen[2] == pytest.approx(3.25, abs=0.01)


def test_a_strike_stops_at_the_very_call() -> None:
    def calls_before_death(at: int) -> list[int]:
        made: list[int] = []
        with World(1).playing() as world:

            def main(process: Process) -> None:
                for number in range(50):
                    process.host.now()
                    made.append(number)

            process = world.start("a", main)
            process.arm(Strike("kill", at))
            world.run(SECOND)
            assert not process.alive
        return made

    assert calls_before_death(1) == []
    assert calls_before_death(7) == list(range(6))


def test_a_strike_can_name_a_kind_of_call() -> None:
    done: list[str] = []
    with World(1).playing() as world:

        def main(process: Process) -> None:
            lock = process.host.lock()
            for place in ("first", "second", "third"):
                process.host.now()
                with lock:
                    done.append(place)

        world.start("a", main).arm(Strike("kill", 2, "lock"))
        world.run(SECOND)
    assert done == ["first"]


def test_what_a_strike_raises_comes_out_of_the_call() -> None:
    caught: list[BaseException] = []

    def main(process: Process) -> None:
        process.arm(Strike("raise", 1, "sleep", error="OSError"))
        for _ in range(2):
            try:
                process.host.sleep(0.1)
            except OSError as error:
                caught.append(error)

    alone(main)
    assert [error.errno for error in caught if isinstance(error, OSError)] == [24]


@pytest.mark.parametrize("late", [False, True])
def test_a_clock_that_was_read_late_or_early_around_a_pause(late: bool) -> None:
    read: list[int] = []

    def main(process: Process) -> None:
        process.arm(Strike("starve", 1, "now", length=SECOND, late=late))
        read.append(process.host.now())
        read.append(process.host.now())

    alone(main)
    waited = read[1] - read[0]
    assert (waited > SECOND // 2) is late, "an old reading is used a second after it was true"


def test_a_starved_task_comes_back_late_and_the_others_go_on() -> None:
    order: list[str] = []

    def main(process: Process) -> None:
        def other() -> None:
            process.host.sleep(0.1)
            order.append("other")

        task = process.host.spawn(other, "other")
        process.arm(Strike("starve", 1, "lock", length=SECOND))
        with process.host.lock():
            order.append("starved")
        task.join()

    alone(main)
    assert order == ["other", "starved"]


def test_a_process_that_returns_exits_and_its_other_tasks_are_gone() -> None:
    ticks: list[int] = []
    with World(1).playing() as world:

        def main(process: Process) -> None:
            def other() -> None:
                while True:
                    process.host.sleep(1)
                    ticks.append(world.now)

            process.host.spawn(other, "other")
            process.host.sleep(3.5)

        process = world.start("a", main)
        world.run(10 * SECOND)
        assert not process.alive
    assert len(ticks) == 3


def test_a_process_whose_main_thread_raises_exits_too() -> None:
    with World(1).playing() as world:

        def main(process: Process) -> None:
            raise ValueError("a mistake of the program's")

        process = world.start("a", main)
        world.run(SECOND)
        assert not process.alive
        assert [str(error) for _, error in process.failures] == ["a mistake of the program's"]


def test_a_host_asked_from_outside_of_any_process_says_so() -> None:
    with World(1).playing() as world:
        process = world.start("a", lambda process: None)
        with pytest.raises(RuntimeError, match="not called by a simulated process"):
            process.host.sleep(1)


def test_one_seed_is_one_history_and_another_seed_another() -> None:
    def history(seed: int) -> list[str]:
        with World(seed, told=True).playing() as world:

            def main(process: Process) -> None:
                lock = process.host.lock()

                def one(number: int) -> None:
                    for _ in range(5):
                        with lock:
                            world.told(process, f"{number} {process.host.random().token_hex(2)}")
                            process.host.sleep(0.001)

                for task in [process.host.spawn(lambda number=number: one(number), "t") for number in range(3)]:
                    task.join()

            world.start("a", main)
            world.start("b", main)
            world.run(SECOND)
            return list(world.trace.lines)

    assert history(1) == history(1)
    assert history(1) != history(2)
