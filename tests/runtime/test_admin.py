"""Steering a group from outside: an administrator asks, holders act."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_tools import PATIENCE, QUICK, Crew, Faulty, Recorder, ids, rewound, until

import pares
from pares.core.errors import ClosedError, ConfigError, LedgerUnavailable
from pares.runtime.driver.requests import Requests


@pytest.fixture
def admin(crew: Crew) -> Iterator[pares.Admin]:
    with pares.Admin(crew.ledger, group="g", name="admin") as admin:
        yield admin


def test_an_administrator_leads_nothing_and_is_no_member_to_others(crew: Crew, admin: pares.Admin) -> None:
    me = crew.leader("a")
    assert admin.roles() == {"A": 1}
    assert ids(me) == {me.id}
    me.close()
    time.sleep(0.1)
    with pares.Observer(crew.ledger, group="g") as observer:
        assert observer.leader("A") is None


def test_handing_over(crew: Crew, admin: pares.Admin) -> None:
    barrier = Recorder()
    crew.leader("a", barrier=barrier)
    other, third = crew.standby("b"), crew.standby("c")
    admin.hand_over("A", to="c")
    assert third.wait("A", PATIENCE)
    admin.hand_over("A", to=other.id)
    assert other.wait("A", PATIENCE)
    admin.hand_over("A")
    until(lambda: not other.holds("A"), "to anybody else")
    assert barrier.kinds()[:2] == ["Acquired", "Revoked"]


def test_handing_over_a_seat_of_several(crew: Crew, admin: pares.Admin) -> None:
    members = [crew.member(name, seats=2) for name in "abc"]
    until(lambda: sum(m.holds("A") for m in members) == 2, "two lead")
    spare = next(m for m in members if not m.holds("A"))
    until(lambda: spare.state == "live", "the third is in the group, too")
    admin.hand_over("A", to=spare.name, seat=1)
    term = spare.wait("A", PATIENCE)
    assert term is not None
    assert term.seat == 1


def test_draining(crew: Crew, admin: pares.Admin) -> None:
    me, other = crew.leader("a", ["A", "B"]), crew.standby("b", ["A", "B"])
    admin.drain("a")
    assert other.wait("A", PATIENCE)
    assert other.wait("B", PATIENCE)
    assert not me.pulse(0)
    assert me.state == "live"


def test_draining_one_that_is_frozen_outside(crew: Crew, admin: pares.Admin, faulty: Faulty) -> None:
    """Only holders act: a drain of a member that hears nothing takes effect when its session is over."""
    deaf = pares.Member(faulty, group="g", roles=["A"], name="deaf", session=QUICK)
    assert deaf.wait("A", PATIENCE)
    other = crew.standby("b", session=QUICK)
    faulty.away()
    admin.drain("deaf")
    assert other.wait("A", PATIENCE)
    assert not deaf.holds("A")
    faulty.back()
    deaf.close()


def test_pausing_and_resuming(crew: Crew, admin: pares.Admin) -> None:
    me = crew.leader("a", ["A", "B"])
    admin.pause("A", seconds=600)
    until(lambda: me.leader("A") is None, "released")
    assert me.holds("B")
    admin.pause(seconds=600)
    until(lambda: me.leader("B") is None, "released")
    admin.resume()
    assert me.wait("B", PATIENCE)
    assert not me.holds("A")  # its own pause lasts
    admin.resume("A")
    assert me.wait("A", PATIENCE)


def test_a_pause_outlives_the_administrator(crew: Crew) -> None:
    me = crew.leader("a")
    began = time.monotonic()
    with pares.Admin(crew.ledger, group="g", name="admin") as admin:
        admin.pause(seconds=0.6)
    until(lambda: not me.holds("A"), "released")
    assert me.wait("A", PATIENCE)
    assert time.monotonic() - began >= 0.6


def test_a_pause_frees_the_seat_of_one_that_is_silent(crew: Crew, admin: pares.Admin, faulty: Faulty) -> None:
    silent = pares.Member(faulty, group="g", roles=["A"], name="silent", session=QUICK)
    assert silent.wait("A", PATIENCE)
    other = crew.standby("b", session=QUICK)
    faulty.away()
    admin.pause(seconds=600)
    until(lambda: other.leader("A") is None, "freed by R3")
    assert not other.holds("A")
    faulty.back()
    until(lambda: silent.health().unreachable is None, "it is back")
    assert silent.wait("A", 0.3) is None
    silent.close()


def test_roles(crew: Crew, admin: pares.Admin) -> None:
    me = crew.leader("a", ["A"], eligible="*")
    admin.add_role("B", seats=2, weight=3.5, spread="none")
    assert me.wait("B", PATIENCE)
    assert admin.roles() == {"A": 1, "B": 2}
    admin.remove_role("B")
    until(lambda: not me.holds("B"), "released")
    until(lambda: admin.roles() == {"A": 1}, "gone")


def test_marks_can_be_moved_only_of_free_seats_under_a_pause(crew: Crew, admin: pares.Admin) -> None:
    me = crew.leader("a", ["A", "B"])
    term = me.term("A")
    assert term is not None
    me.mark(term, 100)
    until(lambda: admin.positions() == {("A", 0): 100, ("B", 0): 0}, "marked")
    with pytest.raises(ConfigError, match=r"\('A', 0\) can't be moved: pause the role"):
        admin.rewind({("A", 0): 7})
    admin.pause("A", seconds=600)
    until(lambda: me.leader("A") is None, "released")
    until(lambda: rewound(admin, {("A", 0): 7}), "the administrator has read it too")
    assert admin.positions() == {("A", 0): 7, ("B", 0): 0}
    (seat,) = admin.rewind({("A", 0): 70})
    assert seat == ("A", 0, term.token + 1)
    assert admin.positions()["A", 0] == 70
    with pytest.raises(ConfigError, match=r"no seat \('A', 5\)"):
        admin.rewind({("A", 5): 7})
    for bad in (-1, 2**53):
        with pytest.raises(ConfigError):
            admin.rewind({("A", 0): bad})
    with pytest.raises(ConfigError):
        admin.rewind({("A", 0): "x"})  # type: ignore[dict-item]
    admin.resume("A")
    assert me.wait("A", PATIENCE)
    assert admin.positions()["A", 0] == 70


def test_a_rewind_of_which_a_part_fails_says_what_has_moved(
    crew: Crew, admin: pares.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another administrator comes between: a database has heard of neither, and records are left out of it."""
    me = crew.leader("a", ["A", "B"])
    admin.pause(seconds=600)
    until(lambda: not me.leader("A") and not me.leader("B"), "released")
    until(lambda: rewound(admin, {("A", 0): 7, ("B", 0): 7}), "the administrator has read it too")
    other = pares.Admin(crew.ledger, group="g", name="another")
    requests: Any = admin._steers._requests  # type: ignore[attr-defined]  # pyright: ignore
    perform = requests.perform

    def then_another(event: Any) -> None:
        perform(event)
        other.rewind({("B", 0): 90})

    monkeypatch.setattr(requests, "perform", then_another)
    with pytest.raises(
        ConfigError, match=r"of \[\('B', 0\)\] did not move: .*; those of \[\('A', 0\)\] did: .* once more"
    ):
        admin.rewind({("A", 0): 8, ("B", 0): 8})
    other.close()


def test_marks_of_many_seats_can_be_moved(crew: Crew, admin: pares.Admin) -> None:
    roles = [f"{number:04d}" + "x" * 150 for number in range(800)]
    me = crew.leader("a", roles, eligible="*")
    admin.pause(seconds=600)
    until(lambda: not any(me.leader(role) for role in roles), "all released")
    marks = {(role, 0): number for number, role in enumerate(roles)}
    until(lambda: rewound(admin, marks), "the administrator has read it too")
    assert admin.positions() == {(role, 0): number for number, role in enumerate(roles)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.hand_over("nosuch"), "no role 'nosuch'"),
        (lambda a: a.hand_over("A", to="nobody"), "no member 'nobody'"),
        (lambda a: a.hand_over("A", seat=5), "nobody holds seat 5 of 'A'"),
        (lambda a: a.drain("nobody"), "no member 'nobody'; it has: a"),
        (lambda a: a.pause("nosuch", seconds=1), "no role 'nosuch'"),
        (lambda a: a.pause(seconds=-1), "seconds is -1"),
        (lambda a: a.remove_role("nosuch"), "no role 'nosuch'"),
        (lambda a: a.add_role(""), "a role's name"),
        (lambda a: a.add_role("B", weight=-1), "weight"),
        (lambda a: a.rewind({("nosuch", 0): 1}), "no seat"),
    ],
)
def test_what_it_refuses(crew: Crew, admin: pares.Admin, call: object, message: str) -> None:
    crew.leader("a")
    assert callable(call)
    with pytest.raises(ConfigError, match=message):
        call(admin)
    assert admin.roles() == {"A": 1}  # and goes on


def test_what_nobody_holds_cant_be_handed_over(crew: Crew, admin: pares.Admin) -> None:
    admin.add_role("A")
    with pytest.raises(ConfigError, match="nobody holds 'A' now"):
        admin.hand_over("A")


def test_a_ledger_out_of_reach_is_said(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Requests.perform, "__defaults__", (0.5,))
    with pares.Admin(faulty, group="g", name="admin") as admin:
        admin.add_role("A")
        faulty.away()
        with pytest.raises(LedgerUnavailable, match="out of reach, by the test") as caught:
            admin.pause(seconds=1)
        assert caught.value.unknown
        faulty.back()
        assert admin.roles() == {"A": 1}


def test_when_a_call_returns_it_stands_in_the_log(faulty: Faulty, crew: Crew) -> None:
    """Also when the first append of it failed, or was not acknowledged."""
    me = crew.leader("a")
    with pares.Admin(
        faulty,
        group="g",
        name="admin",
    ) as admin:
        admin.roles()
        for refuse in (True, False):
            if refuse:
                faulty.break_appends = lambda: LedgerUnavailable("refused, by the test")
            else:
                faulty.lose_acknowledgements = True
            healer = threading.Timer(0.3, faulty.heal)
            healer.start()
            admin.pause("A", seconds=600)
            with pares.Observer(crew.ledger, group="g") as observer:
                assert observer.world.pauses
            until(lambda: not me.holds("A"), "released")
            admin.resume("A")
            assert me.wait("A", PATIENCE)


def test_a_closed_administrator(crew: Crew) -> None:
    admin = pares.Admin(crew.ledger, group="g", name="admin")
    admin.add_role("A")
    admin.close()
    admin.close()
    for call in (admin.roles, admin.positions, admin.resume):
        with pytest.raises(ClosedError):
            call()
    with pares.Observer(crew.ledger, group="g") as observer:
        assert observer.world.members == {}
