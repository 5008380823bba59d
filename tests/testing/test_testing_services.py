"""Users' own code on a stage: its sleeps, clocks, threads and errors, and defects of its own that a test of it finds."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from time import sleep as imported_by_name
from typing import Any

import pytest

import pares
from pares.core.errors import ConfigError
from pares.testing import Stage

Write = tuple[float, str, int]
real_lock = threading.Lock()


class Table:
    """What services write to. It tells the writes that a newer term's came before."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.writes: list[Write] = []

    def write(self, who: str, token: int) -> None:
        self.writes.append((self.stage.now, who, token))

    def stale(self) -> list[Write]:
        newest, found = 0, []
        for write in self.writes:
            if write[2] < newest:
                found.append(write)
            newest = max(newest, write[2])
        return found


def careful(name: str, table: Table, url: str) -> None:
    """Looks at its term before each write."""
    with pares.Member(url, group="app", roles=["mail"], name=name) as me:
        for term in me.terms("mail"):
            while term:
                time.sleep(0.05)
                if term:
                    table.write(name, term.token)


def careless(name: str, table: Table, url: str) -> None:
    """The defect: works for as long as it has a role at all, and looks at its term only once in a while."""
    with pares.Member(url, group="app", roles=["mail"], name=name) as me:
        for term in me.terms("mail"):
            while term:
                for _ in range(20):
                    time.sleep(0.05)
                    table.write(name, term.token)


def play(stage: Stage, service: Any, url: str = "kafka://broker:9092/pares") -> Table:
    """The leader is frozen for longer than its lease, while it is at work."""
    table = Table(stage)
    for name in ("a", "b"):
        stage.start(name, service, name, table, url)
    stage.until(lambda: table.writes)
    stage.freeze(stage.leader("mail") or "", 3)
    stage.run(8)
    return table


def test_a_service_that_looks_at_its_term_writes_nothing_late_and_one_that_does_not_is_found() -> None:
    with Stage() as stage:
        table = play(stage, careful)
        assert {who for _, who, _ in table.writes} == {"a", "b"}
        assert table.stale() == []
    with Stage() as stage:
        stale = play(stage, careless).stale()
        assert stale
        assert min(at for at, _, _ in stale) > 3, "those of the one that was frozen, when it wakes"


def test_struck_at_every_call_even_a_careful_service_writes_late_without_a_fence() -> None:
    """Nothing is promised for the time between a check and the act: frozen exactly there, it acts too late."""
    found: set[bool] = set()
    for call in range(1, 40):
        with Stage() as stage:
            table = Table(stage)
            for name in ("a", "b"):
                stage.start(name, careful, name, table, stage.url)
            stage.until(lambda: len(table.writes) > 3)  # noqa: B023
            stage.freeze(stage.leader("mail") or "", 3, at=call)
            stage.run(5)
            assert any("freeze at call" in line for line in stage.trace)
            found.add(bool(table.stale()))
    assert found == {True, False}


def test_killed_at_a_call_it_does_no_more() -> None:
    with Stage() as stage:
        table = Table(stage)
        actor = stage.start("a", careful, "a", table, stage.url)
        stage.until(lambda: table.writes)
        stage.kill(actor, at=500)
        stage.run(5)
        assert actor.state == "dead"
        assert table.writes[-1][0] < 4.9
        before = len(table.writes)
        stage.restart(actor)
        stage.run(3)
        assert len(table.writes) > before
        assert table.stale() == []


def test_on_one_host_a_death_is_proven_and_on_another_only_silence_tells() -> None:
    """What the machine is decides how long nobody leads."""
    gaps: dict[str, float] = {}
    for other in ("one", "another"):
        with Stage() as stage:
            table = Table(stage)
            stage.start("a", careful, "a", table, stage.url, host="one")
            stage.until(lambda: stage.leader("mail"))
            stage.start("b", careful, "b", table, stage.url, host=other)
            stage.run(2)
            killed = stage.now
            stage.kill("a")
            stage.until(lambda: stage.leader("mail") == "b")
            gaps[other] = stage.now - killed
    assert gaps["one"] < 0.1 < 0.5 < gaps["another"]


def test_clocks_sleeps_and_threads_are_those_of_the_process() -> None:
    told: dict[str, Any] = {}

    def program() -> None:
        before = time.monotonic(), time.time(), time.perf_counter_ns()
        time.sleep(100)
        imported_by_name(100)
        told["slept"] = [
            time.monotonic() - before[0],
            time.time() - before[1],
            (time.perf_counter_ns() - before[2]) / 1e9,
        ]
        told["not main"] = threading.current_thread() is not threading.main_thread()
        box: queue.Queue[float] = queue.Queue()
        stop, both = threading.Event(), threading.Barrier(2)

        def worker() -> None:
            both.wait()
            while not stop.wait(10):
                box.put(time.monotonic())

        thread = threading.Thread(target=worker)
        thread.start()
        both.wait()
        times = [box.get(timeout=20) for _ in range(3)]
        told["every"] = times[2] - times[0]
        with pytest.raises(queue.Empty):
            box.get(timeout=2)
        told["alive"] = thread.is_alive()
        stop.set()
        thread.join()
        told["dead"] = thread.is_alive()
        condition = threading.Condition()
        with condition:
            told["waited"] = condition.wait_for(lambda: False, 5)
        with ThreadPoolExecutor(3) as pool:
            began = time.monotonic()
            list(pool.map(time.sleep, [30, 30, 30]))
            told["at once"] = time.monotonic() - began
        threading.Timer(7, lambda: told.update(timer=True)).start()

    began = time.monotonic()
    with Stage() as stage:
        actor = stage.start("a", program)
        stage.until(lambda: actor.state == "closed", 600)
    assert time.monotonic() - began < 30, "in no time"
    assert told.pop("slept") == pytest.approx([200, 200, 200], abs=0.01)
    assert told.pop("every") == pytest.approx(20, abs=0.01)
    assert told.pop("at once") == pytest.approx(30, abs=0.01)
    assert told == {"not main": True, "alive": True, "dead": False, "waited": False, "timer": True}


def test_clocks_are_skewed_and_the_test_itself_keeps_the_real_ones() -> None:
    told: list[tuple[float, float]] = []

    def program() -> None:
        while True:
            told.append((time.monotonic(), time.time()))
            time.sleep(1)

    with Stage() as stage:
        actor = stage.start("a", program)
        stage.run(9.5)
        stage.skew(actor, rate=2.0, wall=-3600)
        stage.run(10)
        assert abs(time.time() - told[0][1]) > 1000
    slow, fast = told[:10], told[10:]
    assert len(slow) == 10
    assert 19 <= len(fast) <= 21, "twice as many seconds"
    assert fast[0][1] < slow[-1][1] - 3000


def test_threads_that_starve_go_on_late() -> None:
    told: list[float] = []

    def program() -> None:
        while True:
            time.sleep(0.1)
            told.append(time.monotonic())

    with Stage() as stage:
        actor = stage.start("a", program)
        stage.run(20)
        quick = len(told)
        stage.slow(actor, threads=0.5)
        stage.run(20)
        starved = len(told) - quick
        stage.slow(actor)
        stage.run(20)
        assert 195 <= quick <= 200
        assert 40 < starved < 80, "0.1 s, and 0.25 s more on the average"
        assert 195 <= len(told) - quick - starved <= 200


def test_what_ends_a_thread_ends_the_run() -> None:
    def program() -> None:
        threading.Thread(target=lambda: [time.sleep(1), [][1]]).start()
        time.sleep(2)
        raise ValueError("by the test")

    with Stage() as stage:
        stage.start("a", program)
        with pytest.raises(IndexError) as found:
            stage.run(5)
        assert "process 'a', 1.0" in found.value.__notes__[0]
        with pytest.raises(ValueError, match="by the test"):
            stage.run(5)
        stage.run(5)
        assert stage.actors["a"].state == "closed"


HISTORY = """
import asyncio, threading, time
import pares
from pares.testing import Stage

async def main(name, said):
    async with pares.aio.Member("any://log", group="g", roles=["mail"], name=name) as me:
        async for term in me.terms("mail"):
            while term:
                said.append((name, term.token))
                await asyncio.to_thread(time.sleep, 0.05)

def program(name, said):
    threading.Timer(1.7, lambda: said.append((name, time.monotonic_ns()))).start()
    asyncio.run(main(name, said))

said = []
with Stage(seed=9, drift=0.05) as stage:
    for name in ("a", "b", "c"):
        stage.start(name, program, name, said)
    stage.run(3)
    stage.freeze("b", 2)
    stage.kill("a")
    stage.run(5)
    print(said, *stage.trace, sep="\\n")
"""


def test_one_seed_is_one_history_in_another_python_too() -> None:
    """Nothing depends on hashes or on where objects lie."""
    told = [
        subprocess.run(
            [sys.executable, "-c", HISTORY], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(told[0].splitlines()) > 20
    assert told[0] == told[1]


def test_what_ends_the_test_ends_it_and_what_ends_a_program_does_not() -> None:
    def program(error: BaseException) -> None:
        time.sleep(1)
        raise error

    with Stage() as stage:
        leaves = stage.start("a", program, SystemExit(3))
        stage.run(2)
        assert leaves.state == "closed"
        stage.start("b", program, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            stage.run(2)
        stage.start("c", stage.run, 1)
        with pytest.raises(RuntimeError, match="let it sleep"):
            stage.run(2)


def test_stages_that_are_closed_in_any_order_leave_nothing() -> None:
    logger = logging.getLogger("pares")
    before = list(logger.handlers), logger.propagate, logger.level
    one, other = Stage(), Stage()
    for stage in (one, other):
        stage.member("a", roles=["mail"])
        stage.run(1)
    one.close()
    other.run(1)
    assert other.leader("mail") == "a"
    other.close()
    assert (list(logger.handlers), logger.propagate, logger.level) == before
    assert time.sleep is imported_by_name


def test_one_that_waits_in_real_time_is_an_error_that_says_what_to_do() -> None:
    def program() -> None:
        with real_lock:
            pass

    with real_lock, Stage(patience=0.6) as stage:
        stage.start("a", program)
        with pytest.raises(
            RuntimeError, match=r"process 'a' .*test_testing_services.py:\d+ \(with real_lock:\)"
        ) as found:
            stage.run(5)
    assert "Wait by time.sleep, threading, queue or asyncio" in str(found.value)


def test_one_that_computes_is_left_alone() -> None:
    def program() -> None:
        end = cpu() + 1.0
        while cpu() < end:
            pass

    cpu = time.process_time
    with Stage(patience=0.4) as stage:
        actor = stage.start("a", program)
        stage.run(1)
        assert actor.state == "closed"


def test_what_a_user_asks_of_a_member_runs_in_its_process() -> None:
    with Stage() as stage:
        alice, bob = (stage.member(name, roles=["mail"]) for name in ("alice", "bob"))
        stage.run(1)
        first, second = (alice, bob) if alice.holds("mail") else (bob, alice)
        first.do(lambda me: me.hand_over("mail", to=second.name))
        stage.until(lambda: second.holds("mail"), 1)
        second.do(lambda me: me.add_role("post", seats=2))
        assert alice.member.roles() == {"mail": 1, "post": 2}
        admin = stage.member("admin")
        stage.run(0.5)
        admin.do(lambda me: me.pause(seconds=5))
        stage.run(1)
        assert stage.leader("mail") is None
        admin.do(lambda me: me.resume())
        stage.until(lambda: stage.leader("mail"), 2)
        with pytest.raises(ConfigError, match="no role"):
            admin.do(lambda me: me.remove_role("nonesuch"))
        with pytest.raises(TimeoutError, match="within 2 s"):
            admin.do(lambda me: time.sleep(3), timeout=2)
        stage.stop(second)
        stage.run(1)
        assert (second.state, first.holds("mail")) == ("closed", True)


def test_only_background_events_and_waits_are_the_real_ones() -> None:
    ran: list[float] = []
    events: list[str] = []

    def program() -> None:
        with pares.Member("memory://x", group="g", roles=["mail"], name="a") as me:
            threading.Thread(target=lambda: events.extend(type(e).__name__ for e in me.events()), daemon=True).start()

            @me.only("mail")
            def guarded() -> int:
                return 1

            assert guarded() is None
            me.background(lambda: ran.append(time.monotonic()), "mail", every=0.5)
            assert me.wait("mail", 10)
            assert guarded() == 1
            assert me.pulse(1)
            time.sleep(5)

    with Stage() as stage:
        stage.start("a", program)
        stage.run(8)
    assert len(ran) in (10, 11)
    assert ran[1] - ran[0] == pytest.approx(0.5, abs=0.01)
    assert {"Acquired", "Revoked"} <= set(events)


def test_a_log_that_is_replaced_ends_all_terms_and_tokens_grow() -> None:
    with Stage() as stage:
        alice = stage.member("alice", roles=["mail"])
        stage.run(3)
        token, before = alice.token("mail") or 0, alice.member.id
        stage.replace_log()
        stage.run(3)
        assert alice.member.id != before
        assert (alice.token("mail") or 0) > token


def test_a_ledger_that_is_out_of_reach_can_not_be_opened() -> None:
    with Stage() as stage:
        bob = stage.member("bob", roles=["mail"], start=False)
        assert bob.state == "waiting"
        stage.cut(bob)
        stage.restart(bob)
        with pytest.raises(pares.LedgerUnavailable):
            stage.run(2)
        stage.heal(bob)
        stage.restart(bob)
        stage.until(lambda: bob.holds("mail"), 3)


def test_wrong_use_is_told() -> None:
    with Stage() as stage:
        alice = stage.member("alice", roles=["mail"])
        with pytest.raises(ConfigError, match="there is a process 'alice'"):
            stage.member("alice")
        with pytest.raises(TypeError, match="sesion"):
            stage.member("bob", sesion=3)
        with pytest.raises(ConfigError, match="has no member"):
            _ = alice.member
        with pytest.raises(ConfigError, match="say for how many seconds"):
            stage.freeze(alice, at=3)
        with pytest.raises(ConfigError, match="no process 'bob' on the stage; it has: alice"):
            stage.kill("bob")
        with pytest.raises(AssertionError, match="not within 1 s"):
            stage.until(lambda: False, 1)
        stage.kill(alice)
        with pytest.raises(ConfigError, match="does not run"):
            stage.stop(alice)
    with pytest.raises(RuntimeError, match="closed"):
        stage.run(1)
