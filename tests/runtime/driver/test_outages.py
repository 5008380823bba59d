"""Ledgers that fail: out of reach and back, half an answer, a writer that blocks all others, a fault nobody thought of."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, QUICK, Crew, Faulty, Recorder, ids, until

import pares
from pares.core.errors import ClosedError, LedgerUnavailable, ParesError
from pares.runtime.driver.event_log import Journal
from pares.runtime.here import here


@contextlib.contextmanager
def writer_that_blocks(url: str) -> Iterator[None]:
    """Another process' transaction, as it were: it holds SQLite's write lock."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout=10000")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def test_a_ledger_that_goes_away_and_comes_back(faulty: Faulty) -> None:
    crew, barrier = Crew(faulty), Recorder()
    me = crew.leader("a", session=QUICK, barrier=barrier)
    first = me.term("A")
    assert first is not None
    faulty.away()
    until(lambda: me.health().unreachable, "it is said")
    assert "out of reach, by the test" in str(me.health().unreachable)
    assert first.wait_lost(PATIENCE)
    assert not me.holds("A")
    assert me.health().ok  # it knows why
    assert me.state == "live"
    until(lambda: barrier.kinds() == ["Acquired", "Fenced"], "the user is told")
    faulty.back()
    second = me.wait("A", PATIENCE)
    assert second is not None
    assert second.token > first.token
    assert me.health().unreachable is None
    assert me.health().restarts == 0


def test_a_short_outage_costs_nothing(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a", session=CALM)
    term = me.term("A")
    faulty.away()
    until(lambda: me.health().unreachable, "it is noticed")
    faulty.back()
    until(lambda: me.health().unreachable is None, "and over")
    assert term
    assert me.health().fences == 0


@pytest.mark.parametrize("what", ["reads", "appends", "acknowledgements"])
def test_half_an_outage(faulty: Faulty, crew: Crew, what: str) -> None:
    """Whatever the half: the one that is cut off stops in time, and somebody else leads, before the outage ends."""
    cut_off = pares.Member(faulty, group="g", roles=["A"], name="a", session=QUICK, settle=0.05)
    term = cut_off.wait("A", PATIENCE)
    assert term is not None
    other = crew.standby("b", session=QUICK)
    until(lambda: other.id in ids(cut_off), "they know each other")
    if what == "reads":
        faulty.break_reads = lambda: LedgerUnavailable("no reads, by the test")
    elif what == "appends":
        faulty.break_appends = lambda: LedgerUnavailable("no appends, by the test")
    else:
        faulty.lose_acknowledgements = True
    if what == "acknowledgements":
        # Its records stand in the log, and it reads them back: nothing is lost but the certainty.
        time.sleep(3 * QUICK)
        until(lambda: cut_off.holds("A") or other.holds("A"), "somebody leads all the while")
    else:
        assert term.wait_lost(PATIENCE)
        successor = other.wait("A", PATIENCE)
        assert successor is not None
        assert not term
        assert successor.token > term.token
    faulty.back()
    faulty.lose_acknowledgements = False
    until(lambda: cut_off.holds("A") or other.holds("A"), "somebody leads")
    until(lambda: cut_off.health().unreachable is None, "it is back")
    cut_off.close()


def test_an_append_that_hangs_ends_beliefs_in_time(faulty: Faulty) -> None:
    """The loop is stuck in an append; checks need no loop."""
    crew = Crew(faulty)
    me = crew.leader("a", session=QUICK)
    term = me.term("A")
    assert term is not None
    faulty.hold_appends()
    assert faulty.held.wait(PATIENCE)
    began = time.monotonic()
    assert term.wait_lost(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    assert not me.holds("A")
    assert not faulty.free.is_set()
    faulty.free.set()
    assert me.wait("A", PATIENCE)


def test_close_does_not_wait_for_an_append_that_hangs(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a", session=QUICK)
    term = me.term("A")
    faulty.hold_appends()
    assert faulty.held.wait(PATIENCE)
    began = time.monotonic()
    me.close(timeout=0.1)
    assert time.monotonic() - began < PATIENCE / 2
    assert not me.holds("A")
    assert not term
    faulty.free.set()
    until(lambda: not me.health().thread_alive, "the loop ends")
    assert not me.holds("A")
    assert me.state == "closed"


def test_close_without_a_ledger(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a", session=QUICK)
    faulty.away()
    me.close(timeout=0.2)
    assert me.state == "closed"
    assert me.health().problems == ()
    faulty.back()


def test_a_member_made_while_the_ledger_is_away_joins_later(faulty: Faulty) -> None:
    faulty.away()
    crew = Crew(faulty)
    me = crew.member("a", session=QUICK)
    assert me.wait("A", 0.5) is None
    assert me.state == "joining"
    assert me.health().unreachable
    faulty.back()
    assert me.wait("A", PATIENCE)


def test_a_writer_that_blocks_all_others(sqlite: str, caplog: pytest.LogCaptureFixture) -> None:
    crew = Crew(sqlite + "?busy_timeout=0.2")
    me, other = crew.leader("a", session=QUICK), crew.standby("b", session=QUICK)
    first = me.term("A")
    assert first is not None
    with writer_that_blocks(sqlite):
        assert first.wait_lost(PATIENCE)
        # Reading works all the while: that nothing can be written is said all the same.
        until(lambda: f"{me.id}: the ledger is out of reach" in caplog.text, "it is logged")
        until(lambda: me.health().unreachable, "health says so")
        assert other.wait("A", 1.0) is None  # nobody can claim
        assert me.state == other.state == "live"
    until(lambda: me.holds("A") or other.holds("A"), "somebody leads again")
    assert me.health().restarts == other.health().restarts == 0


def test_a_blocked_writer_tells_the_barrier_in_time(sqlite: str) -> None:
    """An append that waits for the busy timeout must not keep `Fenced` from the user any longer than that."""
    barrier = Recorder()
    crew = Crew(sqlite + "?busy_timeout=1")
    me = crew.leader("a", session=QUICK, barrier=barrier)
    term = me.term("A")
    assert term is not None
    with writer_that_blocks(sqlite):
        assert term.wait_lost(PATIENCE)
        until(lambda: barrier.kinds() == ["Acquired", "Fenced"], "told while the writer still blocks")


def test_a_ledger_file_that_is_locked_when_a_member_is_made(sqlite: str) -> None:
    pares.open(sqlite).close()
    crew = Crew(sqlite + "?busy_timeout=0.1")
    with writer_that_blocks(sqlite):
        me = crew.member("a", session=QUICK)
        assert me.wait("A", 0.5) is None
    assert me.wait("A", PATIENCE)


# A fault nobody thought of --------------------------------------------------------------------------------------------


def test_a_failed_loop_closes_the_member_and_fences_its_terms(faulty: Faulty) -> None:
    crew, barrier, lost = Crew(faulty), Recorder(), list[pares.Term]()
    me = crew.leader("a", ["A", "B"], barrier=barrier, on_lost=lost.append)
    terms = [me.term("A"), me.term("B")]
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            for _ in me.terms("A"):
                time.sleep(0.001)
        except ParesError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    events = me.events()
    faulty.break_reads = lambda: ZeroDivisionError("by the test")
    until(lambda: me.state == "failed", "it fails")
    assert not any(terms)
    assert not me.holds("A")
    until(lambda: not me.health().thread_alive, "its thread has ended")
    health = me.health()
    assert not health.ok
    assert "ZeroDivisionError" in str(health.failure)
    assert "ZeroDivisionError" in health.problems[-1]
    thread.join(PATIENCE)
    assert len(waiting) == 1
    assert "its loop failed: ZeroDivisionError" in str(waiting[0])
    for call in (me.step_down, me.drain, me.pulse, lambda: me.wait("A"), lambda: me.pause(seconds=1)):
        with pytest.raises(ParesError, match="its loop failed"):
            call()
    assert [type(next(events)).__name__ for _ in range(2)] == ["Fenced", "Fenced"]
    with pytest.raises(ParesError, match="its loop failed: ZeroDivisionError"):
        next(events)
    until(lambda: barrier.kinds().count("Fenced") == 2, "the barrier is told")
    until(lambda: len(lost) == 2, "on_lost too")
    me.close()  # may still be called
    assert me.state == "failed"
    faulty.break_reads = None


def test_a_fault_in_an_append(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a", session=QUICK)
    term = me.term("A")
    faulty.break_appends = lambda: RecursionError("by the test")
    until(lambda: me.state == "failed", "it fails")
    assert not term
    assert "RecursionError" in str(me.health().failure)
    faulty.break_appends = None


def test_others_take_over_from_a_failed_member(faulty: Faulty, crew: Crew) -> None:
    me = pares.Member(faulty, group="g", roles=["A"], name="a", session=QUICK)
    assert me.wait("A", PATIENCE)
    other = crew.standby("b", session=QUICK)
    faulty.break_reads = lambda: OSError("by the test")
    assert other.wait("A", PATIENCE)
    assert me.state == "failed"
    me.close()


def test_a_request_to_a_member_that_fails_is_answered(faulty: Faulty) -> None:
    crew = Crew(faulty)
    me = crew.leader("a")
    faulty.break_appends = lambda: ZeroDivisionError("by the test")
    with pytest.raises(ParesError, match="ZeroDivisionError"):
        me.pause(seconds=1)
    faulty.break_appends = None


@pytest.mark.parametrize("session", [0.05, 5.0])
def test_a_ledger_that_is_closed_under_its_member(memory: str, session: float) -> None:
    ledger = pares.open(memory)
    me = pares.Member(ledger, group="g", roles=["A"], session=session, name="a")
    assert me.wait("A", PATIENCE)
    ledger.close()
    until(lambda: not me.health().thread_alive, "its loop ends")
    assert me.state == "closed"
    assert not me.holds("A")
    assert "ledger-closed" in me.health().problems[0]
    with pytest.raises(ClosedError):
        me.step_down("A")
    me.close()


def test_a_ledger_that_comes_and_goes_is_told_of_once(faulty: Faulty, caplog: pytest.LogCaptureFixture) -> None:
    """And how often it was, when it is told of again."""
    me = Crew(faulty).leader("a", session=1.0)
    driver: Any = me._loop
    for number in range(6):
        if number == 5:
            driver._quiet_until = 0  # some seconds later
        faulty.away()
        until(lambda: me.health().unreachable, "it notices")
        faulty.back()
        until(lambda: me.health().unreachable is None, "it is back")
    said = [record.message for record in caplog.records if "out of reach" in record.message]
    assert len(said) == 2, said
    assert said[1].endswith("(and 4 times since this was last said)")


def test_a_problem_that_comes_again_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(here())
    for _ in range(120):
        journal.problem("seats", "too many")
    journal.problem("seats", "too few")
    journal.problem("seats", "too many")
    assert journal.problems == ("seats: too many (120 times)", "seats: too few", "seats: too many")
    told = ["seats: too many", "seats: too many (10 times)", "seats: too many (100 times)", "seats: too few"]
    assert [record.message for record in caplog.records] == [*told, "seats: too many"]
