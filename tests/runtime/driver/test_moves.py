"""Planned moves: handing over, stepping down, draining, pausing, roles that come and go, and a member that is not ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from runtime_tools import PATIENCE, QUICK, Crew, Faulty, Recorder, binding, until

import pares
from pares.core.errors import ConfigError
from pares.core.events import Ask
from pares.ledger.memory import drop


def test_a_handover_goes_to_whom_it_names_and_stays(any_crew: Crew) -> None:
    me = any_crew.leader("a")
    any_crew.standby("b")
    to = any_crew.standby("c")
    before = me.term("A")
    me.hand_over("A", to="c", why="the operator wants it")
    after = to.wait("A", PATIENCE)
    assert before is not None
    assert after is not None
    assert after.token > before.token
    assert before.why == "the operator wants it"
    time.sleep(0.3)  # settle is 0.05: were it to be balanced, it would be by now
    assert to.holds("A")


def test_a_handover_by_id(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    me.hand_over("A", to=other.id)
    assert other.wait("A", PATIENCE)


def test_a_handover_to_anybody(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    me.hand_over("A")
    assert other.wait("A", PATIENCE)


def test_a_handover_that_nobody_can_take_is_reported(crew: Crew) -> None:
    me = crew.leader("a")
    crew.standby("b", ["B"])
    term = me.term("A")
    me.hand_over("A", to="b")
    until(lambda: me.health().problems, "it is reported")
    assert "not-handed-over" in me.health().problems[0]
    assert "not eligible" in me.health().problems[0]
    assert term
    me.hand_over("A")
    until(lambda: len(me.health().problems) == 2, "this, too")
    assert "nobody else" in me.health().problems[1]
    assert term


def test_handing_over_what_one_does_not_hold_does_nothing(crew: Crew) -> None:
    me, other = crew.leader("a"), crew.standby("b")
    term = me.term("A")
    other.hand_over("A", to="a")
    other.step_down("A")
    other.add_role("after", seats=1)
    assert term


def test_a_handover_leaves_no_gap_of_a_session(crew: Crew) -> None:
    me, other = crew.leader("a", session=60), crew.standby("b", session=60)
    for _ in range(5):
        me.hand_over("A", to="b")
        assert other.wait("A", PATIENCE)
        other.hand_over("A", to="a")
        assert me.wait("A", PATIENCE)


def test_stepping_down_from_everything(crew: Crew) -> None:
    roles = ["A", "B", "C"]
    me, other = crew.leader("a", roles), crew.standby("b", roles, settle=3600)
    until(lambda: sum(other.holds(r) for r in roles) == 1, "the surplus has moved")
    me.step_down()
    for role in roles:
        assert other.wait(role, PATIENCE)


def test_stepping_down_alone_is_no_way_out(crew: Crew) -> None:
    """If nobody else can hold it, the seat falls back: somebody should."""
    me = crew.leader("a")
    before = me.term("A")
    assert before is not None
    me.step_down("A")
    until(lambda: (term := me.term("A")) is not None and term.token > before.token, "it leads again")


def test_a_drained_member_takes_nothing_more(any_crew: Crew) -> None:
    roles = ["A", "B"]
    me, other = any_crew.leader("a", roles), any_crew.standby("b", roles)
    me.drain()
    for role in roles:
        assert other.wait(role, PATIENCE)
    peer = next(peer for peer in other.members() if peer.name == "a")
    assert peer.draining
    other.close()
    assert me.wait("A", 0.5) is None
    assert me.state == "live"


def test_drained_is_for_life_also_on_a_new_log(memory: str) -> None:
    crew = Crew(memory)
    me = crew.leader("a", session=QUICK)
    me.drain()
    until(lambda: not me.holds("A"), "it has let go")
    drop(memory.removeprefix("memory://"))
    until(lambda: me.health().restarts == 1 and me.state == "live", "it has begun anew")
    assert me.wait("A", 1.0) is None


def test_drained_is_for_life_also_when_it_begins_anew_while_that_is_asked(memory: str) -> None:
    """What is drained is this member, under whatever id it goes by when the request is served."""
    crew = Crew(memory)
    me = crew.leader("a", session=QUICK)
    earlier = Ask(drain=me.id)
    drop(memory.removeprefix("memory://"))
    until(lambda: me.health().restarts == 1 and me.holds("A"), "it has begun anew, and leads")
    me._requests.perform(earlier)  # pyright: ignore
    until(lambda: not me.holds("A"), "it has let go")
    assert me.wait("A", 1.0) is None


class Watched:
    """A request at whose kind a loop looks; at the `nth` look the member is drained by another thread."""

    def __init__(self, nth: int, drain: Callable[[], None]) -> None:
        self._looks, self._nth, self._drain = 0, nth, drain

    @property
    def __class__(self) -> type[Watched]:  # type: ignore[override]  # pyright: ignore
        self._looks += 1
        if self._looks == self._nth:
            thread = threading.Thread(target=self._drain)
            thread.start()
            thread.join()
        return Watched


@pytest.mark.parametrize("nth", range(1, 5))
def test_whoever_asks_for_something_else_meanwhile_undoes_no_draining(memory: str, nth: int) -> None:
    me = Crew(memory).leader("a")
    claims = binding(me)
    drains = list[Ask]()

    def drain() -> None:
        drains.append(claims.ask(Ask(drain=me.id)))

    claims.ask(Watched(nth, drain))
    assert claims._drained or not drains, "drained once it was asked for"


def test_a_pause_holds_everybody_off_until_resumed(any_crew: Crew) -> None:
    barrier = Recorder()
    me = any_crew.leader("a", ["A", "B"], barrier=barrier, eligible="*")
    other = any_crew.standby("b", ["A", "B"])
    me.pause("A", seconds=600)
    until(lambda: me.leader("A") is None, "released")
    revoked = [event for event in barrier.events if isinstance(event, pares.Revoked) and event.role == "A"]
    assert [event.why for event in revoked] == ["paused"] or not revoked
    assert not me.holds("A")
    assert not other.holds("A")
    until(lambda: me.holds("B") or other.holds("B"), "other roles go on")
    assert other.wait("A", 0.3) is None
    other.resume("A")
    until(lambda: me.holds("A") or other.holds("A"), "somebody leads again")


def test_a_pause_of_the_group_ends_by_itself(any_crew: Crew) -> None:
    me, other = any_crew.leader("a"), any_crew.standby("b")
    began = time.monotonic()
    me.pause(seconds=0.5)
    until(lambda: me.leader("A") is None, "released")
    until(lambda: me.holds("A") or other.holds("A"), "it is over")
    assert time.monotonic() - began >= 0.5


def test_roles_come_and_go(any_crew: Crew) -> None:
    me = any_crew.leader("a", ["A"], eligible="*")
    other = any_crew.standby("b", [], eligible="*")
    me.add_role("B", seats=2)
    assert me.wait("B", PATIENCE)
    assert other.wait("B", PATIENCE)
    assert me.roles() == {"A": 1, "B": 2}
    other.remove_role("B")
    until(lambda: not me.holds("B") and not other.holds("B"), "nobody leads it any more")
    assert "B" not in me.roles()  # also while its last holder's barrier still runs
    with pares.Observer(any_crew.ledger, group="g") as observer:
        until(lambda: list(observer.world.roles) == ["A"], "it is gone")
    me.pause("A", seconds=0.001)  # by its end this member has read everything before
    with pytest.raises(ConfigError, match="no role 'B'"):
        me.remove_role("B")
    me.add_role("B")
    until(lambda: me.holds("B") or other.holds("B"), "and comes back")


def test_removing_a_role_runs_its_barrier_first(crew: Crew) -> None:
    barrier = Recorder()
    me = crew.leader("a", ["A", "B"], barrier=barrier)
    barrier.hold()
    me.remove_role("A")
    assert barrier.entered.wait(PATIENCE)
    assert me.leader("A") is not None
    assert "A" not in me.roles()
    barrier.let_go.set()
    until(lambda: me.leader("A") is None, "released")
    revoked = [event for event in barrier.events if isinstance(event, pares.Revoked)]
    assert [(event.role, event.why) for event in revoked] == [("A", "role removed")]
    assert me.holds("B")


def test_fewer_seats(crew: Crew) -> None:
    members = [crew.member(name, seats=3, eligible="*") for name in "abc"]
    until(lambda: sum(m.holds("A") for m in members) == 3, "all three lead")
    members[0].add_role("A", seats=1)
    until(lambda: sum(m.holds("A") for m in members) == 1, "one leads")
    until(lambda: len(members[0].leaders("A")) == 1, "and the log says so")


def test_who_is_not_ready_gives_up_and_comes_back(any_crew: Crew) -> None:
    ready = threading.Event()
    ready.set()
    me = any_crew.leader("a", ready=ready.is_set, session=1.0)
    other = any_crew.standby("b", session=1.0)
    ready.clear()
    assert other.wait("A", PATIENCE)
    other.close()
    assert me.wait("A", 0.5) is None
    ready.set()
    assert me.wait("A", PATIENCE)
    assert me.state == "live"


def test_who_is_not_ready_never_leads(memory: str) -> None:
    """Not before it has said so for the first time, however long it thinks; and not after a restart on a new log."""
    crew = Crew(memory)

    def ready() -> bool:
        time.sleep(0.3)
        return False

    me = crew.member("a", ready=ready, session=QUICK)
    until(lambda: me.state == "live", "it is in the group")
    assert me.wait("A", 1.0) is None
    drop(memory.removeprefix("memory://"))
    until(lambda: me.health().restarts >= 1 and me.state == "live", "it has begun anew")
    assert me.wait("A", 1.0) is None
    assert me.health().terms == 0


def test_a_ready_that_raises_is_taken_for_false(crew: Crew) -> None:
    broken = threading.Event()

    def ready() -> bool:
        if broken.is_set():
            raise RuntimeError("by the test")
        return True

    me = crew.leader("a", ready=ready, session=1.0)
    other = crew.standby("b", session=1.0)
    broken.set()
    assert other.wait("A", PATIENCE)
    broken.clear()
    other.close()
    assert me.wait("A", PATIENCE)


def test_a_ready_that_hangs_stops_nothing_else(crew: Crew) -> None:
    hangs, inside, go = threading.Event(), threading.Event(), threading.Event()

    def ready() -> bool:
        if hangs.is_set():
            inside.set()
            go.wait(PATIENCE)
        return True

    me = crew.leader("a", ready=ready)
    other = crew.standby("b")
    hangs.set()
    assert inside.wait(PATIENCE)
    assert me.holds("A")
    me.hand_over("A", to="b")
    assert other.wait("A", PATIENCE)
    go.set()


def test_closing_while_ready_comes_back_closes(crew: Crew) -> None:
    """`ready` again begins a new incarnation, `close` ends the member: whichever comes first, it ends."""
    ready = threading.Event()
    ready.set()
    me = crew.leader("a", ready=ready.is_set, session=QUICK)
    ready.clear()
    until(lambda: not me.holds("A"), "it has given up")
    ready.set()
    me.close(timeout=PATIENCE)
    assert me.state == "closed"
    assert me.health().problems == () or "abandoned" not in str(me.health().problems)
    with pares.Observer(crew.ledger, group="g") as observer:
        assert observer.world.members == {}


def test_closing_while_the_log_is_replaced_closes(memory: str) -> None:
    crew, barrier = Crew(memory), Recorder()
    me = crew.leader("a", barrier=barrier, barrier_timeout=60.0)
    barrier.hold()
    thread = threading.Thread(target=me.close)
    thread.start()
    assert barrier.entered.wait(PATIENCE)
    drop(memory.removeprefix("memory://"))
    until(lambda: me.health().restarts == 1 or not thread.is_alive(), "it has seen the new log")
    barrier.let_go.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert me.state == "closed"
    assert me.health().terms == 1


def test_marks_stay_with_the_seat(any_crew: Crew) -> None:
    me, other = any_crew.leader("a"), any_crew.standby("b")
    term = me.term("A")
    assert term is not None
    me.mark(term, 41)
    me.mark(term, 42)
    me.hand_over("A", to="b")
    assert other.wait("A", PATIENCE)
    with pares.Admin(any_crew.ledger, group="g", name="admin") as admin:
        assert admin.positions() == {("A", 0): 42}
        me.mark(term, 99)  # of a term that is over: no effect
        present = other.wait("A", PATIENCE)
        assert present is not None
        other.mark(present, 50)
        until(lambda: admin.positions() == {("A", 0): 50}, "the new holder's mark counts")


def test_marks_of_many_seats(crew: Crew) -> None:
    """However many there are, no record becomes too large for it."""
    roles = [f"{number:03d}" + "x" * 150 for number in range(500)]
    me = crew.leader("a", roles, eligible="*")
    for number, role in enumerate(roles):
        term = me.term(role)
        assert term is not None
        me.mark(term, number + 1)
    with pares.Admin(crew.ledger, group="g", name="admin") as admin:
        expected = {(role, 0): number + 1 for number, role in enumerate(roles)}
        until(lambda: admin.positions() == expected, "all marks stand in the log")
    assert me.health().fences == 0


def test_a_handover_to_a_member_that_has_only_just_joined(any_crew: Crew) -> None:
    """Its join stands in the log, and this member has not read it yet: it reads first, then answers."""
    crew = any_crew
    me = crew.leader("a")
    go_on, stands = threading.Event(), threading.Event()
    me._loop.each_round = lambda: (stands.set(), go_on.wait(PATIENCE))  # pyright: ignore
    binding(me).bells.ring()
    assert stands.wait(PATIENCE)
    other = crew.member("b")
    until(lambda: other.state == "live", "the other has joined")
    assert "b" not in {peer.name for peer in me.members()}
    said: list[object] = []

    def hand_over() -> None:
        try:
            said.append(me.hand_over("A", to="b"))
        except pares.ParesError as error:
            said.append(error)

    asking = threading.Thread(target=hand_over, daemon=True)
    asking.start()
    asking.join(0.1)
    go_on.set()
    asking.join(PATIENCE)
    assert said == [None]
    assert other.wait("A", PATIENCE)


def test_a_handover_to_nobody_is_refused_also_while_the_ledger_is_away(faulty: Faulty) -> None:
    me = Crew(faulty).leader("a")
    with pytest.raises(pares.ConfigError, match="no member 'nobody'"):
        me.hand_over("A", to="nobody")
    faulty.away()
    until(lambda: me.health().unreachable, "it is away")
    with pytest.raises(pares.LedgerUnavailable, match="as far as could be read"):
        me.hand_over("A", to="nobody")
