"""Barriers (R5): a planned handover waits for the user's work, beside the loop, and never for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from runtime_tools import PATIENCE, Crew, Recorder, binding, driver, pares_threads, until

import pares
from pares.runtime.work.barriers import Barriers, Body


def barrier_threads() -> list[str]:
    return [name for name in pares_threads() if name.endswith((": barrier", ": fenced", ": callback"))]


def test_a_handover_waits_for_the_barrier(any_crew: Crew) -> None:
    barrier = Recorder()
    me = any_crew.leader("a", barrier=barrier)
    other = any_crew.standby("b")
    barrier.hold()
    me.hand_over("A", to="b")
    assert barrier.entered.wait(PATIENCE)
    assert not me.holds("A")  # the belief ends before the barrier begins
    assert other.wait("A", 0.3) is None
    assert (held := me.leader("A")) is not None
    assert held.name == "a"  # as far as the log goes
    barrier.let_go.set()
    assert other.wait("A", PATIENCE)
    assert barrier.kinds() == ["Acquired", "Revoked"]


def test_the_group_hears_from_a_member_whose_barrier_runs(crew: Crew) -> None:
    """Beats go on while the barrier runs, for much longer than a session."""
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier, session=1.0, barrier_timeout=PATIENCE)
    other = crew.standby("b", session=1.0)
    barrier.hold()
    me.step_down("A")
    assert barrier.entered.wait(PATIENCE)
    before = binding(me).core.outbox.sent.n  # pyright: ignore[reportPrivateUsage]
    assert other.wait("A", 1.8) is None
    assert binding(me).core.outbox.sent.n >= before + 5  # pyright: ignore[reportPrivateUsage]
    assert me.health().fences == 0
    assert me.health().ok
    barrier.let_go.set()
    assert other.wait("A", PATIENCE)
    assert barrier.kinds() == ["Acquired", "Revoked"]


def test_the_barrier_runs_on_a_thread_that_exists_only_for_it(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier)
    crew.standby("b")
    until(lambda: not barrier_threads(), "no thread while there is nothing to run")
    barrier.hold()
    me.step_down("A")
    assert barrier.entered.wait(PATIENCE)
    assert len(barrier_threads()) == 1
    assert driver(me).thread.ident not in barrier.threads
    barrier.let_go.set()
    until(lambda: not barrier_threads(), "and none afterwards")


def test_barriers_of_many_seats_share_a_few_threads(crew: Crew) -> None:
    roles = [f"r{i:02d}" for i in range(40)]
    running, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    def barrier(event: pares.Event) -> None:
        nonlocal running, most
        if isinstance(event, pares.Revoked):
            with lock:
                running += 1
                most = max(most, running)
            go.wait(PATIENCE)
            with lock:
                running -= 1

    me = crew.leader("a", roles, barrier=barrier, barrier_timeout=PATIENCE)
    other = crew.standby("b", roles, settle=3600)
    me.step_down()
    until(lambda: running >= 2, "several run at once")
    time.sleep(0.1)  # time for more to begin, if there were no bound
    assert 2 <= most <= 8
    assert len(barrier_threads()) <= 8
    go.set()
    for role in roles:
        assert other.wait(role, PATIENCE)
    until(lambda: not barrier_threads(), "no thread is left")


def test_a_barrier_slower_than_its_timeout_is_fenced_then_released(any_crew: Crew) -> None:
    barrier = Recorder()
    me = any_crew.leader("a", barrier=barrier, barrier_timeout=0.3)
    other = any_crew.standby("b")
    first = me.term("A")
    assert first is not None
    barrier.hold()
    me.hand_over("A", to="b")
    assert barrier.entered.wait(PATIENCE)
    # `Fenced` reaches the barrier that still runs.
    until(lambda: barrier.kinds() == ["Acquired", "Revoked", "Fenced"], "it is fenced")
    fenced = barrier.events[-1] if isinstance(barrier.events[-1], pares.Fenced) else None
    assert fenced is None or (fenced.token, fenced.why) == (first.token, "barrier timed out")
    successor = other.wait("A", PATIENCE)
    assert successor is not None
    assert successor.token > first.token
    assert me.health().fences == 1
    assert me.health().lapses == 0
    barrier.let_go.set()
    # The late return is of another term, and does nothing.
    time.sleep(0.1)
    assert successor


def test_stepping_down_stands_also_if_the_barrier_times_out(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier, barrier_timeout=0.2)
    other = crew.standby("b")
    barrier.hold()
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    barrier.let_go.set()


@pytest.mark.parametrize("error", [RuntimeError("by the test"), SystemExit(1), KeyboardInterrupt()])
def test_an_exception_counts_as_the_return(crew: Crew, error: BaseException) -> None:
    calls: list[str] = []

    def barrier(event: pares.Event) -> None:
        calls.append(type(event).__name__)
        if isinstance(event, pares.Revoked):
            raise error

    roles = [f"r{i}" for i in range(10)]
    me = crew.leader("a", roles, barrier=barrier, barrier_timeout=PATIENCE)
    other = crew.standby("b", roles, settle=3600)
    for role in roles:  # more of them than there may be threads
        me.hand_over(role, to="b")
        assert other.wait(role, PATIENCE / 3)
    other.hand_over("r0", to="a")
    assert me.wait("r0", PATIENCE)
    until(lambda: calls.count("Acquired") == 11, "the callback is called as before")
    assert me.health().fences == 0
    assert me.state == "live"


def test_fenced_reaches_a_barrier_that_still_runs(crew: Crew, memory: str) -> None:
    """The ledger goes away while the barrier runs: the lease runs out, and the barrier must hear of it."""
    ledger = pares.open(memory)
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier, session=0.5, barrier_timeout=PATIENCE)
    crew.standby("b", session=0.5)
    barrier.hold()
    me.step_down("A")
    assert barrier.entered.wait(PATIENCE)
    ledger.cut("refused")  # type: ignore[attr-defined]
    try:
        until(lambda: "Fenced" in barrier.kinds(), "Fenced comes while Revoked is still held back")
        assert barrier.kinds() == ["Acquired", "Revoked", "Fenced"]
    finally:
        barrier.let_go.set()
        ledger.heal()  # type: ignore[attr-defined]
        ledger.close()


def test_the_lease_of_other_roles_lasts_while_one_barrier_runs(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", ["A", "B"], barrier=barrier, session=1.0, barrier_timeout=PATIENCE)
    crew.standby("b", ["A"], settle=3600)
    term = me.term("B")
    assert term is not None
    barrier.hold()
    me.hand_over("A", to="b")
    assert barrier.entered.wait(PATIENCE)
    assert term.wait_lost(1.8) is False
    barrier.let_go.set()


def test_release_waits_for_a_body_that_runs(crew: Crew) -> None:
    """With no barrier at all: a body under `terms` must see the end of its term before somebody else leads."""
    me = crew.leader("a")
    other = crew.standby("b")
    begun, saw_the_end, may_end = (threading.Event() for _ in range(3))

    def work() -> None:
        for term in me.terms("A"):
            begun.set()
            term.wait_lost()
            saw_the_end.set()
            may_end.wait(PATIENCE)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(PATIENCE)
    me.step_down("A")
    assert saw_the_end.wait(PATIENCE)
    assert other.wait("A", 0.3) is None
    may_end.set()
    assert other.wait("A", PATIENCE)
    me.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_body_that_never_ends_is_waited_for_no_longer_than_the_timeout(crew: Crew) -> None:
    me = crew.leader("a", barrier_timeout=0.3)
    other = crew.standby("b")
    body = me.terms("A")
    next(body)  # and never again
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    assert me.health().fences == 1
    del body


def test_a_generator_that_outlives_its_thread_is_waited_for_and_named(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """Another thread may go on with it: so its work counts as under way, and only a person can know better."""
    me = crew.leader("a", barrier_timeout=3600)
    other = crew.standby("b")
    terms = me.terms("A")
    thread = threading.Thread(target=lambda: next(terms), name="took the first step")
    thread.start()
    thread.join(PATIENCE)
    me.step_down("A")
    assert other.wait("A", 0.3) is None
    assert "'A'" in caplog.text
    assert "'took the first step', which has ended" in caplog.text
    terms.close()
    assert other.wait("A", PATIENCE)


def test_work_whose_thread_goes_on_is_waited_for_without_a_word(crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    me = crew.leader("a", barrier_timeout=3600)
    other = crew.standby("b")
    terms = me.terms("A")
    next(terms)
    me.step_down("A")
    assert other.wait("A", 0.3) is None
    terms.close()
    assert other.wait("A", PATIENCE)
    assert "which has ended" not in caplog.text


def test_with_neither_barrier_nor_body_release_goes_out_at_once(crew: Crew) -> None:
    me = crew.leader("a", barrier_timeout=3600)
    other = crew.standby("b")
    me.step_down("A")
    assert other.wait("A", PATIENCE)


def test_close_waits_for_the_barrier(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier)
    crew.standby("b")
    barrier.hold()
    thread = threading.Thread(target=me.close)
    thread.start()
    assert barrier.entered.wait(PATIENCE)
    thread.join(0.2)
    assert thread.is_alive()
    assert me.state == "closing"
    barrier.let_go.set()
    thread.join(PATIENCE)
    assert me.state == "closed"
    assert me.health().fences == 0


def test_close_with_a_timeout_does_not_wait_for_ever(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", barrier=barrier, barrier_timeout=3600, session=0.5)
    barrier.hold()
    began = time.monotonic()
    me.close(timeout=0.2)
    assert time.monotonic() - began < PATIENCE / 2
    assert me.state == "closed"
    assert not me.holds("A")
    barrier.let_go.set()


@pytest.mark.parametrize("where", ["acquired", "barrier", "terms", "only", "background"])
def test_a_member_can_be_closed_from_its_own_work(crew: Crew, where: str) -> None:
    """The thread that closes is not waited for."""
    done = threading.Event()
    timeout = 60.0  # far beyond what the test waits

    def close() -> None:
        me.close()
        done.set()

    def barrier(event: pares.Event) -> None:
        if not isinstance(event, pares.Joined | pares.Left):
            kinds.append(type(event).__name__)
        if where == "barrier" and isinstance(event, pares.Revoked):
            close()
        elif where == "acquired" and isinstance(event, pares.Acquired):
            ready.wait(PATIENCE)
            close()

    kinds: list[str] = []
    ready = threading.Event()
    me = crew.member("a", barrier=barrier, barrier_timeout=timeout)
    until(lambda: me.holds("A"), "it leads")
    assert where == "acquired" or me.wait("A", PATIENCE)
    crew.standby("b")
    ready.set()
    if where == "barrier":
        me.step_down("A")
    elif where == "acquired":
        pass
    elif where == "terms":
        body = me.terms("A")
        threading.Thread(target=lambda: [close() for _ in body], daemon=True).start()
    elif where == "only":
        threading.Thread(target=me.only("A")(close), daemon=True).start()
    else:
        me.background(close, "A")
    assert done.wait(PATIENCE)
    assert me.state == "closed"
    until(lambda: kinds == ["Acquired", "Revoked"], "it is told all the same")


@pytest.mark.parametrize("where", ["only", "background"])
def test_work_whose_term_ends_just_before_it_begins_does_not_run(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Between the look at the term and the word that something runs in it: nobody waits for that yet."""
    me = crew.leader("a", rank=1)
    other = crew.standby("b")
    begin, ran, between = Barriers.begin, list[bool](), threading.Event()

    def late(self: Barriers, key: tuple[str, int, int], thread: int | None = None) -> Body:
        if thread is None and not between.is_set():
            between.set()
            me.step_down("A")
            assert other.wait("A", PATIENCE)
        return begin(self, key, thread)

    monkeypatch.setattr(Barriers, "begin", late)
    if where == "only":
        assert me.only("A")(lambda: ran.append(True))() is None
        assert between.is_set()
    else:
        me.background(lambda: ran.append(True), "A")
        assert between.wait(PATIENCE)
        assert other.wait("A", PATIENCE)
        me.close()
    assert ran == []


def test_events_of_one_seat_come_in_order_and_one_at_a_time(crew: Crew) -> None:
    inside, overlapping, kinds = threading.Lock(), [], []

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Acquired | pares.Revoked):
            if not inside.acquire(blocking=False):
                overlapping.append(event)
                return
            kinds.append(type(event).__name__)
            time.sleep(0.005)
            inside.release()

    me = crew.leader("a", barrier=barrier)
    other = crew.standby("b")
    for _ in range(8):
        me.step_down("A")
        assert other.wait("A", PATIENCE)
        other.step_down("A")
        assert me.wait("A", PATIENCE)
    until(lambda: len(kinds) == 17, "all came")
    assert overlapping == []
    assert kinds == ["Acquired"] + ["Revoked", "Acquired"] * 8


def test_the_interpreter_can_end_while_a_barrier_runs() -> None:
    script = """
import sys, time, threading, pares
from pares.runtime.death import exit_hooks as forks
forks.leave_all.__defaults__ = (0.5,)  # how long the interpreter's end waits is not what is asked here
started = threading.Event()
def barrier(event):
    if isinstance(event, pares.Revoked):
        started.set()
        time.sleep(600)
me = pares.Member("memory://x", group="g", roles=["A"], barrier=barrier, barrier_timeout=600, session=0.3)
me.wait("A", 30)
threading.Thread(target=me.step_down, args=("A",)).start()
started.wait(30)
print("ends", flush=True)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "ends\n"
