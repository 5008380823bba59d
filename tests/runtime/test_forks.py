"""Forks (a member never survives one), ends of processes, and signals. Each case is a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, QUICK, Crew, descriptors, ids, in_child, until

import pares

pytestmark = pytest.mark.processes

PREAMBLE = """
import os, signal, sys, threading, time
import pares
url = sys.argv[1]
def say(*words):
    print(*words, flush=True)
def member(**settings):
    global me
    me = pares.Member(url, group="g", roles=["A"], name="child", **({"session": 5.0} | settings))
    assert me.wait("A", 30)
    say("leads", me.id)
    return me
def sleep():
    while True:
        time.sleep(0.02)  # in one long sleep CPython may overlook a signal that came right before it
"""


class Script:
    """A Python process that runs `body` after the preamble; its output line by line."""

    def __init__(self, url: str, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(body), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self._lines = self.process.stdout

    def line(self) -> str:
        return self._lines.readline().strip()

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it said on its way out."""
        out, err = self.process.communicate(timeout=2 * PATIENCE)
        assert "Traceback" not in err, err
        return self.process.returncode, out.strip()


def test_in_a_forked_child_an_inherited_member_is_dead(any_crew: Crew) -> None:
    me = any_crew.leader("a")
    term = me.term("A")
    assert term is not None
    assert in_child(lambda: me.holds("A")) == "False"
    assert in_child(lambda: bool(term)) == "False"
    assert in_child(lambda: (me.state, term.remaining(), term.why)) == "('failed', 0.0, 'forked')"
    assert in_child(lambda: me.health().ok) == "False"
    assert in_child(me.close) == "None"
    assert in_child(lambda: term.wait_lost(60)) == "True"
    calls: dict[str, Callable[[], object]] = {
        "term": lambda: me.term("A"),
        "wait": lambda: me.wait("A", 1),
        "terms": lambda: next(me.terms("A")),
        "pulse": lambda: me.pulse(1),
        "members": me.members,
        "leader": lambda: me.leader("A"),
        "roles": me.roles,
        "add_role": lambda: me.add_role("B"),
        "hand_over": lambda: me.hand_over("A"),
        "step_down": me.step_down,
        "drain": me.drain,
        "pause": lambda: me.pause(seconds=1),
        "mark": lambda: me.mark(term, 1),
        "only": lambda: me.only("A")(lambda: None)(),
        "background": lambda: me.background(lambda: None, "A"),
        "events": lambda: list(me.events()),
        "check": term.check,
    }
    for name, call in calls.items():
        assert in_child(call).startswith("ForkedError: "), name
    # The parent knows nothing of all that.
    assert term
    assert me.holds("A")
    assert me.health().ok
    assert me.health().fences == 0
    me.add_role("B")


def test_a_body_that_forks_ends_in_the_child(crew: Crew) -> None:
    me = crew.leader("a")
    body = me.terms("A", timeout=PATIENCE)
    term = next(body)
    assert in_child(lambda: next(body)).startswith("ForkedError: ")
    assert term


def test_a_child_may_have_members_of_its_own(sqlite: str) -> None:
    crew = Crew(sqlite)
    me = crew.leader("a", ["A"])

    def child() -> object:
        with pares.Member(sqlite, group="g", roles=["B"], name="child", session=CALM) as mine:
            term = mine.wait("B", PATIENCE)
            return bool(term), mine.leader("A") is not None, len(mine.members())

    assert in_child(child) == "(True, True, 2)"
    assert me.holds("A")
    until(lambda: ids(me) == {me.id}, "the child's member has left")


def test_a_child_that_exits_leaves_its_parent_in_the_group(sqlite: str) -> None:
    """By sys.exit, with all exit handlers; and by multiprocessing, with its own."""
    crew = Crew(sqlite)
    me, other = crew.leader("a"), crew.standby("b")
    term = me.term("A")
    child = os.fork()
    if child == 0:
        import atexit

        atexit._run_exitfuncs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    other.add_role("after")  # by now the log would say so
    assert ids(other) == {me.id, other.id}
    assert term


def fill(queue: multiprocessing.Queue[tuple[str, bool]], member: pares.Member | None) -> None:
    queue.put((multiprocessing.current_process().name, member is not None and member.holds("A")))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(sqlite: str, method: str) -> None:
    crew = Crew(sqlite)
    me, other = crew.leader("a"), crew.standby("b")
    term = me.term("A")
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [
        context.Process(target=fill, args=(queue, me if method == "fork" else None), name=f"w{i}") for i in range(3)
    ]
    for worker in workers:
        worker.start()
    found = sorted(queue.get(timeout=PATIENCE) for _ in workers)
    assert found == [("w0", False), ("w1", False), ("w2", False)]
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    other.add_role("after")
    assert ids(other) == {me.id, other.id}
    assert term


def test_no_descriptor_goes_to_children(any_crew: Crew) -> None:
    before = set(descriptors().values())
    any_crew.leader("a")
    any_crew.standby("b")
    mine = {number: what for number, what in descriptors().items() if what not in before}
    assert mine, "a member has descriptors"

    def left_over() -> object:
        return {n: what for n, what in descriptors().items() if mine.get(n) == what}

    assert in_child(left_over) == "{}"
    # And a program that is started with everything that may be inherited.
    found = subprocess.run(
        ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False, timeout=60
    )
    inherited = [line.split(" -> ")[1] for line in found.stdout.splitlines() if " -> " in line]
    assert [what for what in inherited if what in mine.values() and what not in before] == []


def test_a_death_is_proven_although_a_forked_child_lives_on(sqlite: str) -> None:
    """The child closed its copy of the lock: the parent's death can be proven at once, and the child never was a member."""
    crew = Crew(sqlite)
    script = Script(
        sqlite,
        """
        me = member(session=60.0)
        child = os.fork()
        if child == 0:
            time.sleep(120)
            os._exit(0)
        say(child)
        sleep()
        """,
    )
    assert script.line().startswith("leads")
    child = int(script.line())
    other = crew.standby("b", session=60)
    script.process.kill()
    try:
        assert other.wait("A", PATIENCE), "long before a session of 60 s"
    finally:
        os.kill(child, signal.SIGKILL)
        script.process.wait()
        assert script.process.stdout is not None
        assert script.process.stderr is not None
        script.process.stdout.close()
        script.process.stderr.close()


def test_many_forks_in_the_middle_of_everything(sqlite: str) -> None:
    """Whatever the member's threads are at, a fork neither blocks nor breaks either side."""
    crew = Crew(sqlite)
    me, other = crew.leader("a", session=1.0), crew.standby("b", session=1.0)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            me.step_down("A")
            other.step_down("A")
            time.sleep(0.002)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(40):
            assert in_child(lambda: (me.holds("A"), other.holds("A"))) == "(False, False)"
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert me.health().ok
    assert other.health().ok
    until(lambda: me.holds("A") or other.holds("A"), "somebody leads")


# Ends of processes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("raise SystemExit('gone')", 1),
    ],
)
def test_a_process_that_ends_normally_leaves(sqlite: str, how: str, code: int) -> None:
    """Without close() and without `with`. Sessions are long, so nobody else could lead so soon."""
    crew = Crew(sqlite)
    script = Script(sqlite, f"me = member(session=60.0)\n{how}")
    assert script.line().startswith("leads")
    assert script.end()[0] == code
    other = crew.member("b", session=60)
    assert other.wait("A", PATIENCE)
    assert ids(other) == {other.id}


def test_an_uncaught_error_leaves_too(sqlite: str) -> None:
    crew = Crew(sqlite)
    body = "me = member(session=60.0)\nsys.excepthook = lambda *_: None\nraise RuntimeError('by the test')"
    script = Script(sqlite, body)
    assert script.line().startswith("leads")
    assert script.end()[0] == 1
    other = crew.member("b", session=60)
    assert other.wait("A", PATIENCE)
    assert ids(other) == {other.id}


def test_barriers_run_at_a_normal_exit(sqlite: str) -> None:
    script = Script(
        sqlite,
        """
        def barrier(event):
            if isinstance(event, pares.Revoked):
                time.sleep(0.2)
                say("barrier", event.why)
        me = member(barrier=barrier)
        """,
    )
    assert script.line().startswith("leads")
    assert script.end() == (0, "barrier closed")


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


def test_a_killed_leader_is_succeeded_long_before_its_session_ends(sqlite: str) -> None:
    crew = Crew(sqlite)
    script = Script(sqlite, "me = member(session=60.0)\nsleep()")
    assert script.line().startswith("leads")
    other = crew.standby("b", session=60)
    script.process.kill()
    assert other.wait("A", PATIENCE), "proof of death"
    assert script.end()[0] == -signal.SIGKILL
    until(lambda: ids(other) == {other.id}, "it is declared dead")


def test_a_restart_under_the_same_name_takes_its_seat_back(sqlite: str) -> None:
    """It proves its own earlier death, so that it waits for no session (R8)."""
    first = Script(sqlite, "me = member(session=60.0)\nsleep()")
    assert first.line().startswith("leads")
    first.process.kill()
    first.end()
    second = Script(sqlite, "me = member(session=60.0)")
    assert second.line().startswith("leads")
    assert second.end()[0] == 0


def test_lock_files_of_the_dead_and_the_living(sqlite: str, tmp_path: Path) -> None:
    """A member that leaves takes its lock file along; one that was killed leaves it until it is buried."""
    folder = Path(sqlite.removeprefix("sqlite:///") + "-locks")
    crew = Crew(sqlite)
    me = crew.leader("a", session=QUICK)
    assert len(list(folder.iterdir())) == 1
    other = crew.standby("b", session=QUICK)
    assert len(list(folder.iterdir())) == 2
    other.close()
    until(lambda: len(list(folder.iterdir())) == 1, "one has left")
    script = Script(
        sqlite,
        """
        me = pares.Member(url, group="g", roles=["B"], session=0.4)
        me.wait("B", 30)
        say("leads")
        sleep()
        """,
    )
    assert script.line() == "leads"
    assert len(list(folder.iterdir())) == 2
    script.process.kill()
    script.end()
    until(lambda: len(list(folder.iterdir())) == 1, "the dead one is buried")
    me.close()
    assert list(folder.iterdir()) == []
