"""`pares.testing.FakeMember`: a member that leads when the test says so."""

import threading
from collections.abc import Callable, Iterator

import pytest

import pares
from pares.core.errors import ConfigError, LeadershipLost
from pares.core.events import Event
from pares.runtime.driver.answers import Answer
from pares.testing import FakeMember


@pytest.fixture
def told() -> list[pares.Event]:
    return []


@pytest.fixture
def me(told: list[pares.Event]) -> Iterator[FakeMember]:
    member = FakeMember(roles=["mail"], barrier=told.append)
    yield member
    member.close(timeout=2)


def wait_until(what: object, condition: threading.Event) -> None:
    assert condition.wait(10), what


def test_it_is_a_member_and_leads_nothing_at_first(me: FakeMember) -> None:
    assert isinstance(me, pares.Member)
    assert me.state == "live"
    assert not me.holds("mail")
    assert me.term("mail") is None
    assert me.leader("mail") is None
    assert me.roles() == {"mail": 1}


def test_lead_and_fence(me: FakeMember) -> None:
    term = me.lead("mail")
    assert me.holds("mail")
    assert me.term("mail") is term
    assert me.wait("mail", timeout=0) is term
    assert term.remaining() > 1000
    leader = me.leader("mail")
    assert leader is not None
    assert (leader.name, leader.token) == ("fake", term.token)
    me.fence("mail", why="a test")
    assert not term
    assert not me.holds("mail")
    assert term.why == "a test"
    assert me.health().fences == 1
    with pytest.raises(LeadershipLost):
        term.check()
    other = me.leader("mail")
    assert other is not None
    assert other.name == "somebody-else"
    assert other.token > term.token


def test_tokens_only_grow(me: FakeMember) -> None:
    tokens = list[int]()
    for _ in range(3):
        tokens.append(me.lead("mail").token)
        me.fence("mail")
    assert tokens == sorted(set(tokens))


def test_a_planned_end_waits_for_the_barrier() -> None:
    called, go_on, lost = threading.Event(), threading.Event(), threading.Event()

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Revoked):
            called.set()
            assert go_on.wait(10)

    with FakeMember(roles=["mail"], barrier=barrier, on_lost=lambda term: lost.set()) as me:
        me.lead("mail")
        me.revoke("mail")
        wait_until("the barrier is called", called)
        assert not me.holds("mail")
        leader = me.leader("mail")
        assert leader is not None
        assert leader.name == "fake"
        with pytest.raises(ConfigError, match="has not returned"):
            me.lead("mail")
        go_on.set()
        wait_until("on_lost is called", lost)
        for _ in range(1000):
            leader = me.leader("mail")
            assert leader is not None
            if leader.name == "somebody-else":
                break
            threading.Event().wait(0.01)
        assert leader.name == "somebody-else"


def test_events_come_in_order(me: FakeMember, told: list[pares.Event]) -> None:
    events = me.events()
    me.lead("mail")
    me.fence("mail")
    assert isinstance(next(events), pares.Acquired)
    assert isinstance(next(events), pares.Fenced)


def test_terms_only_and_background(me: FakeMember) -> None:
    runs, stop = threading.Event(), threading.Event()

    @me.only("mail")
    def work() -> str:
        return "done"

    assert work() is None
    background = me.background(lambda: (runs.set(), stop.wait(0.01)), "mail")
    assert not runs.is_set()
    terms = me.terms("mail", timeout=5)
    me.lead("mail")
    assert work() == "done"
    assert next(terms).role == "mail"
    wait_until("the background task runs", runs)
    me.fence("mail")
    assert work() is None
    background.stop(5)


def test_pulsing(me: FakeMember) -> None:
    assert not me.pulse(0.01)
    assert not me.pulse(0)
    leading = threading.Timer(0.05, me.lead, ["mail"])
    leading.start()
    assert me.pulse(10), "it waits for leadership"
    leading.join()
    assert me.pulse(0), "who leads does not wait"
    me.fence("mail")
    assert not me.pulse(0.01)
    me.close()
    with pytest.raises(pares.ClosedError):
        me.pulse(0.01)


def test_a_barrier_may_acquire_again() -> None:
    mine: list[FakeMember] = []

    def barrier(event: pares.Event) -> None:
        if isinstance(event, pares.Fenced):
            mine[0].lead("mail")

    with FakeMember(roles=["mail"], barrier=barrier) as me:
        mine.append(me)
        term = me.lead("mail")
        me.fence("mail")
        again = me.wait("mail", timeout=10)
        assert again is not None
        assert again.token > term.token
        assert me.pulse(0)


def test_what_the_code_under_test_may_ask(me: FakeMember) -> None:
    term = me.lead("mail")
    me.mark(term, 5)
    me.add_role("post", seats=2)
    assert me.roles() == {"mail": 1, "post": 2}
    me.lead("post")
    me.step_down("post")
    me.remove_role("post")
    me.pause("mail", seconds=5)
    assert not me.holds("mail")
    with pytest.raises(ConfigError, match="paused"):
        me.lead("mail")
    me.resume("mail")
    again = me.lead("mail")
    assert again.token > term.token
    me.drain()
    assert not me.holds("mail")


def test_out_of_reach(me: FakeMember) -> None:
    term = me.lead("mail")
    me.out_of_reach()
    assert not term
    assert not me.holds("mail")


def test_a_call_can_be_made_to_fail(me: FakeMember) -> None:
    term = me.lead("mail")
    me.fail("pulse")
    with pytest.raises(pares.LedgerUnavailable, match="pulse failed: the test says so"):
        me.pulse(0)
    assert me.pulse(0), "once, and no more"
    me.fail("terms")
    terms = me.terms("mail", timeout=5)
    with pytest.raises(pares.LedgerUnavailable):
        next(terms)
    assert next(me.terms("mail", timeout=5)) is term
    me.fail("hand_over", RuntimeError("mine"), times=2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"):
            me.hand_over("mail")
    assert not term.wait_lost(0.05), "what failed did nothing"
    me.hand_over("mail")
    assert term.wait_lost(10)
    for call in ("nonesuch", "holds", "lead", "_work"):
        with pytest.raises(ConfigError, match=f"call is '{call}': give one of add_role, "):
            me.fail(call)


def test_a_background_task_ends_with_the_error_of_its_member(me: FakeMember) -> None:
    """goNELI's MockPulseError: the pulser has the error, and is over."""
    runs = threading.Event()
    me.fail("wait")
    background = me.background(runs.set, "mail")
    background.thread.join(10)
    assert not background.thread.is_alive()
    me.lead("mail")
    assert not runs.is_set()
    me.background(runs.set, "mail")
    wait_until("another one runs", runs)


def test_closing_ends_everything() -> None:
    me = FakeMember(roles=["mail"])
    term = me.lead("mail")
    me.close()
    assert me.state == "closed"
    assert not term
    with pytest.raises(pares.ClosedError):
        me.step_down("mail")
    with pytest.raises(ConfigError, match="closed"):
        me.lead("mail")


def test_who_asks_while_it_is_closed_is_told_so_at_once(me: FakeMember) -> None:
    """As by a real member; not after the time in which a ledger must have answered."""
    request = me._puppet.request  # pyright: ignore

    def closed_before(event: Event, answer: Answer | None = None) -> None:
        me._puppet.request = request  # type: ignore[method-assign]  # pyright: ignore
        me.close()
        request(event, answer)

    me._puppet.request = closed_before  # type: ignore[method-assign]  # pyright: ignore
    with pytest.raises(pares.ClosedError):
        me.add_role("post")


def test_a_term_that_is_given_up_at_once_is_told_of_all_the_same(me: FakeMember) -> None:
    perform = me._puppet.perform  # pyright: ignore

    def and_step_down(job: Callable[[], object]) -> None:
        perform(job)
        me._puppet.perform = perform  # type: ignore[method-assign]  # pyright: ignore
        me.fence("mail")

    me._puppet.perform = and_step_down  # type: ignore[method-assign]  # pyright: ignore
    term = me.lead("mail")
    assert (term.role, bool(term)) == ("mail", False)


def test_leading_twice_is_a_mistake_of_the_test(me: FakeMember) -> None:
    me.lead("mail")
    with pytest.raises(ConfigError, match="leads 'mail' already"):
        me.lead("mail")
