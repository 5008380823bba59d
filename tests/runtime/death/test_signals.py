"""`leave_on_signals`: a process that is told to end leaves its groups first. Each case is a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, Crew, ids, until
from script_tools import Script

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_leave_on_signals(sqlite: str, number: signal.Signals) -> None:
    """It hands over, leaves, and then dies of the signal as it would have done."""
    crew = Crew(sqlite)
    script = Script(
        sqlite,
        """
        def barrier(event):
            if isinstance(event, pares.Revoked):
                say("barrier", event.why)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        pares.leave_on_signals()
        me = member(session=60.0, barrier=barrier)
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    script.process.send_signal(number)
    assert other.wait("A", PATIENCE)
    assert script.end() == (-number, "barrier closed")
    until(lambda: ids(other) == {other.id}, "it has left")


@pytest.mark.parametrize("asleep", [0.01, 600.0])
def test_leave_on_signals_under_asyncio(sqlite: str, asleep: float) -> None:
    crew = Crew(sqlite)
    script = Script(
        sqlite,
        f"""
        import asyncio
        pares.leave_on_signals()
        async def main():
            async with pares.aio.Member(url, group="g", roles=["A"], name="child", session=60.0) as me:
                async for term in me.terms("A"):
                    async with term:
                        say("leads", me.id)
                        while term:
                            await asyncio.sleep({asleep})
        asyncio.run(main())
        """,
    )
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    script.process.send_signal(signal.SIGTERM)
    assert other.wait("A", PATIENCE), "long before a session of 60 s"
    assert script.process.wait(2 * PATIENCE) == -signal.SIGTERM
    script.process.communicate()
    until(lambda: ids(other) == {other.id}, "it has left")


def test_a_hook_before_the_signal_hands_over_for_who_does_not_listen_to_signals(sqlite: str) -> None:
    """As Kubernetes' preStop does it (docs/operating.md)."""
    crew = Crew(sqlite)
    script = Script(sqlite, "me = member(session=60.0)\nsleep()")
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    hook = [sys.executable, "-m", "pares", "drain", "child", "--ledger", sqlite, "--group", "g"]
    done = subprocess.run(hook, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert other.wait("A", PATIENCE), "long before a session of 60 s"
    script.process.send_signal(signal.SIGTERM)
    assert script.end() == (-signal.SIGTERM, "")
    assert other.holds("A")


def test_the_work_that_a_signal_interrupts_sees_the_end_of_its_term(sqlite: str) -> None:
    """And the handover waits for just that: nobody waits for the main thread while it waits for him."""
    crew = Crew(sqlite)
    script = Script(
        sqlite,
        """
        pares.leave_on_signals(timeout=600)
        me = pares.Member(url, group="g", roles=["A"], session=60.0, name="script", barrier_timeout=600)
        for term in me.terms("A"):
            say("leads", me.id)
            while term:
                time.sleep(0.01)
            say("over", term.why)
        say("through")
        """,
    )
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    for _ in range(3):
        script.process.send_signal(signal.SIGTERM)
    assert other.wait("A", PATIENCE)
    code, said = script.end()
    assert code == -signal.SIGTERM
    assert said.startswith("over closed")  # how much further it gets is between it and the signal
    until(lambda: ids(other) == {other.id}, "it has left")


def test_a_signal_in_the_middle_of_anything(sqlite: str) -> None:
    """Whatever the main thread holds when it is interrupted, it goes on."""
    for number in range(12):
        script = Script(
            sqlite,
            """
            pares.leave_on_signals(timeout=600)
            me = member(session=60.0)
            say("begins")
            while True:
                me.wait("A", 0.0001)
                me.step_down()
                me.health()
                threading.Thread(target=int).start()
            """,
        )
        assert script.line().startswith("leads")
        assert script.line() == "begins"
        time.sleep(0.001 * number)
        script.process.send_signal(signal.SIGTERM)
        script.process.communicate(timeout=2 * PATIENCE)  # it may say that the member is closed
        assert script.process.returncode == -signal.SIGTERM


def test_a_child_leaves_on_signals_too(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        pares.leave_on_signals(timeout=600)
        first = member()
        child = os.fork()
        if child == 0:
            me = pares.Member(url, group="g", roles=["A"], session=60.0, name="child")
            say("child", me.wait("A", 0.001))
            sleep()
        say("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    assert script.line().startswith("leads")
    assert script.line() == "child None"
    crew = Crew(sqlite)
    watcher = crew.standby("w")
    child = until(lambda: next((m for m in ids(watcher) if m.startswith("child~")), None), "the child is in")
    (pid,) = Path(f"/proc/{script.process.pid}/task/{script.process.pid}/children").read_text().split()
    os.kill(int(pid), signal.SIGTERM)
    assert script.line() == f"exit {-signal.SIGTERM}"
    until(lambda: child not in ids(watcher), "it has left, long before its session is over")
    assert script.end()[0] == 0


def test_sigint_is_a_keyboard_interrupt_as_before(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        pares.leave_on_signals()
        try:
            me = member()
            sleep()
        except KeyboardInterrupt:
            say("interrupted", me.state)
        """,
    )
    assert script.line().startswith("leads")
    script.process.send_signal(signal.SIGINT)
    assert script.end() == (0, "interrupted closed")


def test_an_earlier_handler_is_called_afterwards(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        def mine(number, frame):
            say("mine", me.state)
            sys.exit(3)
        signal.signal(signal.SIGTERM, mine)
        pares.leave_on_signals(signal.SIGTERM)
        me = member()
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    script.process.send_signal(signal.SIGTERM)
    assert script.end() == (3, "mine closed")


def test_a_signal_while_the_member_is_being_closed(sqlite: str) -> None:
    """Nobody waits for anybody who waits for him: it ends when the barrier has returned."""
    script = Script(
        sqlite,
        """
        def barrier(event):
            if isinstance(event, pares.Revoked):
                say("barrier")
                time.sleep(0.5)
        pares.leave_on_signals(timeout=60)
        me = member(barrier=barrier)
        me.close()
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    assert script.line() == "barrier"
    began = time.monotonic()
    script.process.send_signal(signal.SIGTERM)
    assert script.end()[0] == -signal.SIGTERM
    assert time.monotonic() - began < PATIENCE


def test_leaving_takes_no_longer_than_it_is_told(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        go = threading.Event()
        pares.leave_on_signals(timeout=0.3)
        def barrier(event):
            if isinstance(event, pares.Revoked):
                go.wait(600)
        me = member(session=0.4, barrier=barrier, barrier_timeout=600)
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    script.process.send_signal(signal.SIGTERM)
    assert script.end()[0] == -signal.SIGTERM


def test_a_process_dies_of_its_signal_also_when_a_member_can_not_be_closed(sqlite: str) -> None:
    """Nor does it hang in its end, waiting for who was to close them."""
    script = Script(
        sqlite,
        """
        import logging
        logging.disable()
        def broken(timeout=None):
            raise OSError("by the test")
        pares.leave_on_signals()
        me = member()
        me.close = broken
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    script.process.send_signal(signal.SIGTERM)
    assert script.end() == (-signal.SIGTERM, "")
