"""What a member tells: events to whoever iterates, the same events to the barrier, ended terms to `on_lost`."""

from __future__ import annotations

import gc
import queue
import threading
import time
import weakref

from runtime_tools import PATIENCE, Crew, Faulty, Recorder, life, until

import pares
from pares.core.events import Closed, Moved
from pares.core.wire.changes import MemberJoined, MemberLeft
from pares.runtime.driver.lifecycle import Life
from pares.runtime.here import here
from pares.runtime.work.barriers import Barriers


class Listener:
    """Iterates over a member's events on a thread."""

    def __init__(self, member: pares.Member) -> None:
        self.events: list[pares.Event] = []
        self._iterator = member.events()  # what happens from here on
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for event in self._iterator:
            self.events.append(event)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def test_a_planned_life(any_crew: Crew) -> None:
    before = time.time()
    me = any_crew.member("a")
    listener = Listener(me)
    term = me.wait("A", PATIENCE)
    assert term is not None
    other = any_crew.standby("b")
    until(lambda: "Joined" in listener.kinds(), "it is told of the other one")
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    other.close()
    assert me.wait("A", PATIENCE)
    me.close()
    listener.thread.join(PATIENCE)
    assert not listener.thread.is_alive()
    kinds = listener.kinds()
    assert kinds[-5:] == ["Joined", "Revoked", "Left", "Acquired", "Revoked"] or kinds[-5:] == [
        "Joined",
        "Revoked",
        "Acquired",
        "Left",
        "Revoked",
    ]
    for event in listener.events:
        assert before <= event.at <= time.time()
        if isinstance(event, pares.Acquired | pares.Revoked):
            assert (event.role, event.seat) == ("A", 0)
        elif isinstance(event, pares.Joined | pares.Left):
            assert (event.member, event.name) == (other.id, "b")
    revoked = [event for event in listener.events if isinstance(event, pares.Revoked)]
    assert [event.why for event in revoked] == ["stepped down", "closed"]
    assert revoked[0].token == term.token
    left = next(event for event in listener.events if isinstance(event, pares.Left))
    assert left.why == "left"


def test_the_barrier_is_told_the_same(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.member("a", barrier=barrier)
    listener = Listener(me)
    assert me.wait("A", PATIENCE)
    other = crew.standby("b")
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    other.close()
    me.close()
    listener.thread.join(PATIENCE)
    until(lambda: len(barrier.events) >= len(listener.events), "the barrier was told everything")
    told, heard = (sorted(map(repr, events)) for events in (barrier.events, listener.events))
    assert [event for event in told if event in heard] == heard


def test_a_lease_that_runs_out_is_fenced(faulty: Faulty) -> None:
    crew = Crew(faulty)
    lost: queue.Queue[pares.Term] = queue.Queue()
    me = crew.leader("a", session=1.0, on_lost=lost.put)
    listener = Listener(me)
    term = me.term("A")
    assert term is not None
    faulty.away()
    assert term.wait_lost(PATIENCE)
    assert lost.get(timeout=PATIENCE) is term
    until(lambda: listener.kinds() == ["Fenced"], "it is told")
    (fenced,) = listener.events
    assert isinstance(fenced, pares.Fenced)
    assert (fenced.role, fenced.seat, fenced.token, fenced.why) == ("A", 0, term.token, "lease ran out")
    assert term.why == "lease ran out"
    health = me.health()
    assert (health.fences, health.lapses) == (1, 1)
    faulty.back()
    assert me.wait("A", PATIENCE)
    until(lambda: listener.kinds() == ["Fenced", "Acquired"], "and that it leads again")


def test_on_lost_is_called_once_with_each_term_that_ended(crew: Crew) -> None:
    lost: list[pares.Term] = []
    me = crew.leader("a", on_lost=lost.append)
    other = crew.standby("b")
    first = me.term("A")
    me.step_down("A")
    assert other.wait("A", PATIENCE)
    other.step_down("A")
    second = me.wait("A", PATIENCE)
    me.close()
    until(lambda: len(lost) >= 2, "both were told")
    assert lost == [first, second]
    assert not any(lost)
    assert [term.why for term in lost] == ["stepped down", "closed"]


def test_an_exception_in_on_lost_hurts_nobody(crew: Crew) -> None:
    calls: list[pares.Term] = []

    def on_lost(term: pares.Term) -> None:
        calls.append(term)
        raise RuntimeError("by the test")

    me = crew.leader("a", on_lost=on_lost)
    other = crew.standby("b")
    for _ in range(3):
        me.step_down("A")
        assert other.wait("A", PATIENCE)
        other.step_down("A")
        assert me.wait("A", PATIENCE)
    until(lambda: len(calls) == 3, "it is called again all the same")
    assert me.health().ok


def test_each_iteration_has_its_own_events(crew: Crew) -> None:
    me = crew.leader("a")
    early = [Listener(me), Listener(me)]
    crew.standby("b")
    until(lambda: all(listener.kinds() == ["Joined"] for listener in early), "both are told")
    late = Listener(me)
    me.close()
    for listener in (*early, late):
        listener.thread.join(PATIENCE)
        assert not listener.thread.is_alive()
    assert early[0].kinds() == ["Joined", "Revoked"]
    assert early[0].events == early[1].events
    assert late.events == early[0].events[1:]


def test_iterations_that_are_dropped_are_forgotten(crew: Crew) -> None:
    me = crew.leader("a")
    begun = me.events()
    crew.standby("b")
    assert isinstance(next(begun), pares.Joined)
    dropped = [weakref.ref(me.events()), weakref.ref(begun)]
    del begun
    gc.collect()
    assert [reference() for reference in dropped] == [None, None]


def test_a_slow_iteration_holds_nobody_up(crew: Crew) -> None:
    """Events for an iterator that nobody reads are kept up to a limit, and the member goes on."""
    me = crew.leader("a")
    slow = me.events()
    for number in range(20):
        crew.standby(f"b{number}").close()
    until(lambda: len(me.members()) == 1, "they have come and gone")
    me.close()
    kinds = [type(event).__name__ for event in slow]
    assert kinds.count("Joined") == kinds.count("Left") == 20
    assert kinds[-1] == "Revoked"


def test_the_past_of_the_group_is_not_told(crew: Crew) -> None:
    crew.leader("a")
    for _ in range(3):
        crew.standby("x").close()
    newcomer = crew.member("b")
    listener = Listener(newcomer)
    until(lambda: newcomer.state == "live", "it is in the group")
    crew.standby("c")
    until(lambda: listener.events, "it is told of what comes")
    assert [event.name for event in listener.events if isinstance(event, pares.Joined | pares.Left)] == ["c"]


def test_everybody_who_iterates_over_the_same_events_sees_their_end(crew: Crew) -> None:
    me = crew.leader("a")
    events, seen = me.events(), list[pares.Event]()
    readers = [threading.Thread(target=lambda: seen.extend(events), daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    me.close()
    for reader in readers:
        reader.join(PATIENCE)
    assert not any(reader.is_alive() for reader in readers)
    assert [type(event) for event in seen].count(pares.Revoked) == 1
    assert next(events, None) is None


def test_who_is_closed_before_it_is_in_its_group_is_not_told_of_the_groups_past() -> None:
    life = Life("it", Barriers("it", None, lambda key: None, here()), None, here(), lapsed=print, give_up=print)
    events = life.journal.events()
    assert life.begin_closing()
    life.carry(Moved([MemberJoined(0, "old~1", "old", "here"), MemberLeft(1, "old~1", "old", "left")]))
    life.carry(Closed())
    assert list(events) == []


def test_the_beginning_of_a_term_that_was_waited_for_is_not_told_again(faulty: Faulty) -> None:
    """Not even if the loop takes its time to tell it, while the term stands for whoever only looks."""
    faulty.away()
    me = Crew(faulty).member("a")
    publish = life(me).journal.publish

    def late(event: pares.Event) -> None:
        time.sleep(0.2)
        publish(event)

    life(me).journal.publish = late
    faulty.back()
    until(lambda: me.holds("A"), "it leads")
    assert me.wait("A", PATIENCE)
    events = me.events()
    me.close()
    assert [type(event) for event in events] == [pares.Revoked]
