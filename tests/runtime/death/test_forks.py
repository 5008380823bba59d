"""Forks: a member never survives one, and nothing of it goes along."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, descriptors, ids, in_child, until
from script_tools import Script

import pares

pytestmark = pytest.mark.processes


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
