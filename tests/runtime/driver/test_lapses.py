"""A belief that has run out is over for good, wherever the thread that renews it was stopped; and when anything fails,
beliefs end before locks are let go, and before they are forgotten."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from runtime_tools import CALM, PATIENCE, Crew, Elsewhere, Recorder, binding, driver, in_child, life, until

import pares
from pares.core.events import Extend, Follow, Jumped, Lead
from pares.core.reasons import LEASE_RAN_OUT
from pares.runtime.clock import stopwatch
from pares.runtime.driver.beliefs import Beliefs
from pares.runtime.here import OS
from pares.runtime.host import Host
from pares.runtime.term import Term

SECOND = 10**9
SHORT = 20_000_000


def believing(until: int, host: Host = OS) -> tuple[Beliefs, Term]:
    beliefs = Beliefs(host)
    term = beliefs.lead(Lead(("A", 0), 7, until), "a~1")
    assert term is not None
    return beliefs, term


def holds(beliefs: Beliefs) -> bool:
    """As `Member.holds` asks."""
    return stopwatch() < beliefs.until.get("A", 0) or ("A" in beliefs.until and beliefs.believes("A"))


@pytest.mark.parametrize("seats", [None, (("A", 0),)], ids=["all", "one"])
def test_what_ran_out_is_not_renewed(seats: tuple[tuple[str, int], ...] | None) -> None:
    beliefs, term = believing(stopwatch() + SHORT)
    time.sleep(2 * SHORT / SECOND)
    later = stopwatch() + SECOND
    _, lapsed = beliefs.extend(Extend(later, seats))
    assert lapsed == [term]
    assert not term
    assert not holds(beliefs)
    assert beliefs.valid("A") is None
    assert term.why == LEASE_RAN_OUT


def test_what_was_seen_to_be_over_is_over_though_its_renewer_had_looked_at_the_clock_before() -> None:
    """The renewer is stopped between its look at the clock and the new deadline; meanwhile somebody finds the term over."""
    deadline, host = stopwatch() + SHORT, Elsewhere()
    beliefs, term = believing(deadline, host)
    looked, go_on = threading.Event(), threading.Event()
    renewer = threading.Thread(target=lambda: beliefs.extend(Extend(stopwatch() + 100 * SECOND)))

    def clock() -> int:
        if threading.current_thread() is renewer and not looked.is_set():
            before = deadline - 1
            looked.set()
            go_on.wait(PATIENCE)
            return before
        return stopwatch()

    host.stopwatch = clock
    renewer.start()
    assert looked.wait(PATIENCE)
    until(lambda: stopwatch() > deadline, "the lease has run out")
    assert not term
    assert not holds(beliefs)
    go_on.set()
    renewer.join(PATIENCE)
    assert not term, "it turned True again"
    assert not holds(beliefs)


def test_a_renewal_that_was_decided_in_time_is_seen_by_a_reader_of_the_old_deadline() -> None:
    """The other order: nobody sees False in a term that goes on."""
    beliefs, term = believing(stopwatch() + SHORT)
    assert beliefs.extend(Extend(stopwatch() + 100 * SECOND))[1] == []
    term._until = beliefs.until["A"] = 1  # as a reader that was stopped after it had read the deadline  # pyright: ignore
    assert term
    assert holds(beliefs)


def test_no_reader_sees_a_term_come_back() -> None:
    """Readers and a renewer that is often late, without pause, on threads of their own."""
    for _ in range(30):
        beliefs, term = believing(stopwatch() + 1_000_000)
        back: list[str] = []
        stop = threading.Event()

        def look(
            beliefs: Beliefs = beliefs, term: Term = term, stop: threading.Event = stop, back: list[str] = back
        ) -> None:
            over = False
            while not stop.is_set():
                believed = bool(term) or holds(beliefs)
                if over and believed:
                    back.append("it came back")
                    return
                over = not (bool(term) and holds(beliefs)) or over

        readers = [threading.Thread(target=look) for _ in range(2)]
        for reader in readers:
            reader.start()
        while term:
            beliefs.extend(Extend(stopwatch() + 300_000))
        for _ in range(50):
            beliefs.extend(Extend(stopwatch() + SECOND))
        stop.set()
        for reader in readers:
            reader.join(PATIENCE)
        assert not back
        assert not term


@pytest.mark.parametrize("protocol", ["claims", "fast-neli", "allcall"])
def test_a_member_whose_lease_ran_out_in_the_middle_of_a_renewal_leads_again_in_a_new_term(
    crew: Crew, protocol: str
) -> None:
    """As found: `terms()` had ended its body and waited for a higher token for ever, while `holds()` said yes."""
    settings: dict[str, Any] = {"protocol": protocol, "session": CALM, "settle": 0.05}
    if protocol == "allcall":
        settings = {"protocol": pares.AllCall(heartbeat=0.05, lease=0.5, skew=0.05)}
    recorder = Recorder()
    me = pares.Member(crew.ledger, group="g", roles="A", barrier=recorder, **settings)
    crew.members.append(me)
    terms = me.terms("A", timeout=PATIENCE)
    first = next(terms)
    first._lease.until = 1  # pyright: ignore
    first._until = me._until["A"] = 1  # the loop stands still until the lease is over  # pyright: ignore
    assert not first
    second = next(terms)
    assert second.token > first.token
    assert first.why == LEASE_RAN_OUT
    assert not first
    until(lambda: recorder.kinds()[:3] == ["Acquired", "Fenced", "Acquired"], "its barrier is told")
    health = me.health()
    assert (health.lapses, health.fences) == (1, 1)
    terms.close()


# Ends ------------------------------------------------------------------------------------------------------------------


def test_no_lock_is_let_go_while_anything_is_believed(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop fails while the first of two `Follow`s is carried, when the protocol itself is over already."""
    me = crew.leader("a", ["A", "B"], session=CALM)
    terms = [me.term("A"), me.term("B")]
    believed: list[bool] = []
    abandon = binding(me).incarnation.abandon  # pyright: ignore
    monkeypatch.setattr(binding(me).incarnation, "abandon", lambda: (believed.extend(map(bool, terms)), abandon()))  # pyright: ignore
    carry = life(me).carry

    def fails(effect: Any) -> None:
        if isinstance(effect, Follow):
            raise ZeroDivisionError("carrying a Follow")
        carry(effect)

    monkeypatch.setattr(life(me), "carry", fails)
    driver(me).each_round = lambda: driver(me)._step(Jumped("by the test"))
    binding(me).bells.ring()
    until(lambda: me.state == "failed", "the member has failed")
    assert believed == [False, False]
    assert not any(terms)
    assert not me.holds("A")
    assert not me.holds("B")


def test_no_lock_is_let_go_at_a_new_beginning_while_anything_is_believed(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the protocol forgot to end a term: its former id is left for dead (R8)."""
    me = crew.leader("a", session=CALM)
    term = me.term("A")
    assert term is not None
    believed: list[bool] = []
    first = binding(me).incarnation
    abandon = first.abandon
    monkeypatch.setattr(first, "abandon", lambda: (believed.append(bool(term)), abandon()))
    driver(me).each_round = lambda: None if believed else driver(me)._step(Jumped("by the test"))
    monkeypatch.setattr(binding(me).core.tenures, "drop_all", lambda *_: [])
    binding(me).bells.ring()
    until(lambda: believed, "the former incarnation is given up")
    assert believed == [False]
    assert not term
    again = me.wait("A", PATIENCE)
    assert again is not None, "it leads again"
    assert again.token > term.token


@pytest.mark.parametrize("how", ["follow", "lead", "end_all", "stop"])
def test_a_fork_in_the_middle_of_an_end_leaves_the_child_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two steps: in the child only what stands in the table can be ended."""
    beliefs, term = believing(stopwatch() + 100 * SECOND)
    real, said = Term._end, list[str]()  # pyright: ignore

    def looks() -> str:
        beliefs.die_in_child()
        return f"{bool(term)} {holds(beliefs)}"

    def end(self: Term, why: str) -> None:
        said.append(in_child(looks))
        real(self, why)

    monkeypatch.setattr(Term, "_end", end)
    if how == "follow":
        beliefs.follow(Follow(("A", 0), 7, "by the test", True, 0))
    elif how == "lead":
        beliefs.lead(Lead(("A", 0), 8, stopwatch() + SECOND), "a~1")
    elif how == "end_all":
        beliefs.end_all("by the test")
    else:
        beliefs.stop("by the test")
    assert said == ["False False"]
    assert not term


def test_stopped_beliefs_stay_stopped() -> None:
    """What comes late from the loop neither renews nor begins anything."""
    beliefs, term = believing(stopwatch() + 100 * SECOND)
    beliefs.stop("closed")
    assert beliefs.lead(Lead(("A", 0), 8, stopwatch() + SECOND), "a~1") is None
    assert beliefs.extend(Extend(stopwatch() + SECOND))[1] == []
    assert beliefs.extend(Extend(stopwatch() + SECOND, (("A", 0),)))[1] == []
    assert not holds(beliefs)
    assert not term


def test_the_end_of_another_term_ends_nothing() -> None:
    """A `Follow` names the token of its term: one that comes late for an earlier term leaves the present one alone."""
    beliefs, term = believing(stopwatch() + 100 * SECOND)
    for seat, token in ((("A", 0), 6), (("A", 1), 7), (("B", 0), 7)):
        assert beliefs.follow(Follow(seat, token, "by the test", True, 0)) is None
    assert term
    assert holds(beliefs)
    assert beliefs.follow(Follow(("A", 0), 7, "by the test", True, 0)) is term
    assert not term
