"""goNELI's behaviour that users know, and its weaknesses (docs/from-goneli.md) shown to be absent, with Fast NELI."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc

import pytest
from induction_tools import ROLE, leader, node
from runtime_tools import PATIENCE, Crew, Recorder, until

import pares
from pares.core.errors import ClosedError
from pares.ledger.memory import MemoryLedger


def test_closing_a_leader_runs_the_barrier_and_ends_its_leadership(crew: Crew) -> None:
    """W1: no event, and leader for ever."""
    barrier = Recorder()
    me = leader(crew, barrier=barrier)
    me.close()
    assert barrier.kinds() == ["Acquired", "Revoked"]
    assert not me.holds(ROLE)
    assert me.state == "closed"


def test_after_closing_nothing_pulses_and_no_task_runs(crew: Crew) -> None:
    """W2: 47 tasks after Close had returned."""
    runs: list[float] = []
    me = leader(crew)
    me.background(lambda: runs.append(time.monotonic()), ROLE)
    until(lambda: runs, "the task runs")
    me.close()
    count = len(runs)
    with pytest.raises(ClosedError):
        me.pulse(0.01)
    time.sleep(0.1)
    assert len(runs) == count
    assert not me.holds(ROLE)


def test_a_loop_that_fails_leads_no_more_and_everybody_can_see_it(crew: Crew) -> None:
    """W3: leader for ever, State Live, no event."""
    barrier = Recorder()
    me = leader(crew, barrier=barrier)

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    me._loop._read = broken  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
    until(lambda: me.state == "failed", "it has failed")
    assert not me.holds(ROLE)
    until(lambda: "Fenced" in barrier.kinds(), "it was told")
    assert not me.health().ok
    follower = node(crew, "b")
    assert follower.wait(ROLE, PATIENCE)


def test_a_standby_costs_no_memory(sqlite: str) -> None:
    """W5: 292 bytes for each poll of a standby that waits, 250 MB a day."""
    crew = Crew(sqlite)
    leader(crew)
    standby = node(crew, "b")
    until(lambda: standby.state == "live", "it is there")
    polls = 1000
    for _ in range(polls):
        standby.pulse(0.0005)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(polls):
        assert not standby.pulse(0.0005)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < polls * 100


def test_closing_from_within_the_barrier(crew: Crew) -> None:
    """W6: a deadlock."""
    closed = threading.Event()
    mine: list[pares.Member] = []

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Acquired):
            while not mine:
                time.sleep(0.001)
            mine[0].pulse(0.01)
            mine[0].close()
            closed.set()

    mine.append(node(crew, barrier=barrier, barrier_timeout=3600))
    assert closed.wait(PATIENCE)
    assert mine[0].state == "closed"


def test_pulsing_from_another_thread_while_a_barrier_runs(crew: Crew) -> None:
    """W6: pulse(10 ms) took as long as the barrier did. The barriers here end when the pulse has answered, and not before. What
    it answers is whether work may begin: not before the barrier has returned from `Acquired`."""
    come = {kind: threading.Event() for kind in (pares.Acquired, pares.Revoked)}
    go_on = {kind: threading.Event() for kind in come}
    returned: list[type[pares.Event]] = []

    def barrier(event: pares.Event) -> None:
        kind = type(event)
        if kind in come:
            come[kind].set()
            if go_on[kind].wait(3 * PATIENCE):
                returned.append(kind)

    def pulse_elsewhere() -> bool:
        answers: list[bool] = []
        pulsing = threading.Thread(target=lambda: answers.append(me.pulse(0.01)), daemon=True)
        pulsing.start()
        pulsing.join(PATIENCE)
        assert answers, "it waits for the barrier"
        return answers[0]

    me = node(crew, barrier=barrier, barrier_timeout=3600)
    assert come[pares.Acquired].wait(PATIENCE)
    assert not pulse_elsewhere()
    assert me.holds(ROLE)
    assert returned == []
    go_on[pares.Acquired].set()
    assert me.pulse(PATIENCE)
    assert returned == [pares.Acquired]
    other = node(crew, "b")
    until(lambda: {peer.name for peer in me.members()} == {"a", "b"}, "the other is in the group")
    me.hand_over(ROLE, to="b")
    assert come[pares.Revoked].wait(PATIENCE)
    assert not pulse_elsewhere()
    assert returned == [pares.Acquired]
    assert not other.holds(ROLE)
    go_on[pares.Revoked].set()
    assert other.wait(ROLE, PATIENCE)


def test_pulsing_takes_no_longer_than_it_is_told_while_the_log_is_flooded(crew: Crew, memory: str) -> None:
    """W7: it never returned while there was a next message."""
    leader(crew)
    standby = node(crew, "b")
    ledger, over = pares.open(memory), threading.Event()

    def flood() -> None:
        while not over.is_set():
            ledger.append_many([b"noise"] * 50)

    thread = threading.Thread(target=flood)
    thread.start()
    began = time.monotonic()
    assert not standby.pulse(0.01)
    took = time.monotonic() - began
    over.set()
    thread.join()
    ledger.close()
    assert took < PATIENCE


def test_leadership_is_a_lease_and_needs_nobody_to_pulse(crew: Crew, memory: str) -> None:
    """W3, W10: a flag that only a pulse takes away."""
    me = leader(crew, session=1.0)
    ledger = pares.open(memory)
    assert isinstance(ledger, MemoryLedger)
    term = me.term(ROLE)
    assert term is not None
    left = term.remaining()
    ledger.cut()
    time.sleep(left + 0.05)
    assert not me.holds(ROLE)
    assert not term
    ledger.heal()
    ledger.close()


def test_closing_twice(crew: Crew) -> None:
    """W12: a crash of the process."""
    me = leader(crew)
    me.close()
    me.close()
    assert me.state == "closed"


def test_a_leader_has_a_token_a_name_and_successors_with_greater_tokens(crew: Crew) -> None:
    """W10, W15: no term, and nobody can say who leads."""
    one = leader(crew, "one")
    term = one.term(ROLE)
    assert term is not None
    two = node(crew, "two")
    until(lambda: two.leader(ROLE) is not None, "the standby knows")
    holder = two.leader(ROLE)
    assert holder is not None
    assert (holder.name, holder.token) == ("one", term.token)
    one.close()
    again = two.wait(ROLE, PATIENCE)
    assert again is not None
    assert again.token > term.token
