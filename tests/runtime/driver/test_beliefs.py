"""What was ended is believed by nobody again, whichever thread ended it and whatever the loop was doing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from runtime_tools import CALM, PATIENCE, QUICK, Crew, Faulty, break_down, driver, life, until

import pares
from pares.core.events import Closed
from pares.runtime.clock import stopwatch
from pares.runtime.here import here
from pares.runtime.term import Term

MOMENT = 0.3
"""Seconds that the loop stands still for whoever closes its member to get ahead of it, if he can."""


class Halting(dict[str, int]):
    """The deadlines of a member's beliefs. In the middle of `write` or `pop`, the member is closed without waiting for it."""

    def __init__(self, me: pares.Member, method: str) -> None:
        super().__init__(life(me).beliefs.until)
        self._me, self._method = me, method
        self._closer = threading.Thread(target=me.close, args=(0,))
        self._cleared = threading.Event()
        self.believed: list[bool] = []
        """After the write in whose midst it was closed: whether the closed member still believes."""
        self.done = threading.Event()

    def _close(self, method: str, act: Callable[[], Any]) -> Any:
        if method != self._method or self._closer.ident is not None:
            return act()
        term = self._me.term("A")
        self._closer.start()
        self._cleared.wait(MOMENT)
        try:
            return act()
        finally:
            if self._cleared.is_set():
                self.believed += [self._me.holds("A"), bool(term)]
            self.done.set()

    def __setitem__(self, role: str, until: int) -> None:
        self._close("write", lambda: super(Halting, self).__setitem__(role, until))

    def pop(self, role: str, *default: Any) -> Any:
        return self._close("pop", lambda: super(Halting, self).pop(role, *default))

    def clear(self) -> None:
        super().clear()
        if threading.current_thread() is self._closer:
            self._cleared.set()

    def join(self) -> None:
        assert self.done.wait(PATIENCE)
        self._closer.join(PATIENCE)


def halt(me: pares.Member, method: str) -> Halting:
    halting = Halting(me, method)
    life(me).beliefs.until = me._until = halting  # pyright: ignore
    return halting


def test_a_renewal_under_way_while_its_member_is_closed_renews_nothing(crew: Crew) -> None:
    me = crew.leader("a", session=QUICK)
    halting = halt(me, "write")
    halting.join()
    assert not any(halting.believed)
    assert me.state == "closed"
    assert not me.holds("A")
    assert me.term("A") is None


def test_the_end_of_a_term_while_its_member_is_closed_is_no_failure(crew: Crew) -> None:
    me = crew.leader("a")
    halting = halt(me, "pop")
    me.step_down("A")
    halting.join()
    assert me.state == "closed", me.health().problems


def test_on_lost_is_told_of_a_term_that_a_close_ended_by_itself(faulty: Faulty) -> None:
    """The loop hangs in an append: `close` ends the term without it, and it tells of that when it comes back."""
    lost: list[Term] = []
    me = Crew(faulty).leader("a", session=QUICK, on_lost=lost.append)
    term = me.term("A")
    faulty.hold_appends()
    assert faulty.held.wait(PATIENCE)
    me.close(timeout=0)
    assert not term
    assert not me.holds("A")
    assert me.health().thread_alive
    faulty.heal()
    until(lambda: lost, "on_lost is called")
    assert lost == [term]


def test_on_lost_is_told_of_a_term_that_ends_with_a_failed_loop(memory: str) -> None:
    """Also where no step of the protocol says so."""
    lost: list[Term] = []
    crew = Crew(memory)
    times = pares.AllCall(heartbeat=0.05, lease=CALM, skew=0.1)
    me = pares.Member(memory, group="g", roles="A", on_lost=lost.append, protocol=times)
    crew.members.append(me)
    term = me.wait("A", PATIENCE)
    break_down(me)
    until(lambda: lost, "on_lost is called")
    assert lost == [term]
    until(lambda: me.state == "failed", "it counts as failed")


class Looking(Term):
    """A term at which somebody looks in the moment in which it is ended."""

    def _set(self, until: int) -> None:
        Term._until.__set__(self, until)  # type: ignore[attr-defined]  # pyright: ignore
        if not until:
            self.seen = (bool(self), self.why)

    _until = property(lambda self: Term._until.__get__(self), _set)  # type: ignore  # pyright: ignore


def test_who_finds_a_term_over_finds_out_why() -> None:
    term = Looking("A", 0, 7, "a~1", stopwatch() + 10**12, here())
    assert (bool(term), term.why) == (True, "")
    term._end("drained")  # pyright: ignore
    assert term.seen == (False, "drained")


def test_a_signals_handler_may_close_the_member_that_the_thread_below_waits_for(crew: Crew) -> None:
    """In whatever step of its waiting: it hands over and leaves, and does not wait for a thread that waits for it."""
    me = crew.leader("a", session=QUICK, barrier_timeout=1.0)
    beliefs = life(me).beliefs
    valid = beliefs.valid

    def interrupted(role: str) -> Any:
        beliefs.valid = valid
        signal.raise_signal(signal.SIGUSR1)
        return valid(role)

    before = signal.signal(signal.SIGUSR1, lambda *_: me.close())
    try:
        beliefs.valid = interrupted
        term = me.wait("A", PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert term is None
    assert isinstance(driver(me).over, Closed), "it has left"
