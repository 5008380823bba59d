"""NELI's groups from outside: who looks on, and who steers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from induction_tools import ROLES, shared
from runtime_tools import PATIENCE, Crew, fresh_url, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.changes import DidChanged, MemberJoined, SeatChanged
from pares.runtime.detect import runs_induced
from pares.runtime.here import here
from pares.runtime.neli.world import Tenures
from pares.view import TenureStory, state, story_of

MODES: dict[str, dict[str, Any]] = {
    "fast-neli": {"protocol": "fast-neli"},
    "neli": {"protocol": "neli"},
    # A member that stops being exclusive leads on for its session and the overlap, and that is waited for.
    "nele": {"protocol": "nele", "overlap": 0.5, "session": 1.0},
}


on_each = pytest.mark.parametrize(
    ("ledger", "mode"),
    [(kind, mode) for kind in ("memory", "sqlite") for mode in MODES if kind == "memory" or mode == "fast-neli"],
    indirect=True,
)
"""The mode decides what is written, and the ledger how it is read: each mode, and each ledger, not each on each."""


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MODES[request.param]


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path) + "?partitions=2"


@on_each
def test_an_observer_sees_who_leads(ledger: str, mode: dict[str, Any]) -> None:
    crew = Crew(ledger)
    with pares.Observer(ledger, group="g") as observer:
        assert observer.leader("0") is None, "nothing is there yet, and nobody knows which protocol it will be"
        one = crew.member("one", ROLES, host="h1", **mode)
        assert all(one.wait(role, PATIENCE) for role in ROLES)
        until(lambda: all(observer.leader(role) for role in ROLES), "it was read")
        holder, term = observer.leader("0"), one.term("0")
        assert holder is not None
        assert term is not None
        assert (holder.member, holder.name, holder.host, holder.token) == (one.id, "one", "h1", term.token)
        assert set(observer.world.roles) == set(ROLES)
        assert [m.name for m in observer.world.members.values()] == ["one"]
        assert not observer.adrift
        one.close()
        until(lambda: observer.leader("0") is None, "it has left")


@on_each
def test_an_observer_tells_what_happens(ledger: str, mode: dict[str, Any]) -> None:
    crew = Crew(ledger)
    one = crew.member("one", ROLES, **mode)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    with pares.Observer(ledger, group="g") as observer:
        two = crew.member("two", ROLES, **mode)
        until(lambda: shared(one, two), "each leads one")
        one.close()
        until(lambda: all(two.holds(role) for role in ROLES), "the other leads both")
        until(lambda: all((observer.leader(role) or one).name == "two" for role in ROLES), "it was read")
    with pares.Observer(ledger, group="g") as late:
        changes = late.read()
    seats = [c for c in changes if isinstance(c, SeatChanged) and c.seat == ("0", 0) and c.holder is not None]
    assert seats[0].holder == one.id
    assert seats[-1].holder == two.id
    assert [c.token for c in seats] == sorted({c.token for c in seats})
    assert {c.name for c in changes if isinstance(c, MemberJoined)} == {"one", "two"}
    said = [(c.what, c.member) for c in changes if isinstance(c, DidChanged) and c.seat == ("0", 0)]
    assert ("lead", one.id) in said
    assert ("stop", one.id) in said


@on_each
def test_a_story_tells_every_move_with_its_cause(ledger: str, mode: dict[str, Any]) -> None:
    crew = Crew(ledger)
    one = crew.member("one", ROLES, host="h1", **mode)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = crew.member("two", ROLES, host="h2", **mode)
    until(lambda: shared(one, two), "each leads one")
    one.close()
    until(lambda: all(two.holds(role) for role in ROLES), "the other leads both")
    log = pares.open(ledger)
    story = story_of(log, "g")
    assert isinstance(story, TenureStory)

    def told() -> bool:
        story.catch_up()
        return all(story.world.seats[role, 0].holder == two.id for role in ROLES)

    until(told, "it was read")
    causes = {move.cause for move in story.moves if move.before == one.id}
    assert causes <= ({"handover"} if "overlap" in mode else {"released", "left"}), [m.reason() for m in story.moves]
    now = state(story, 2**50)
    assert [(row["role"], row["leader"], row["host"]) for row in now["roles"]] == [
        ("0", "two", "h2"),
        ("1", "two", "h2"),
    ]
    assert {row["name"] for row in now["members"]} == {"one", "two"}
    assert all(move.reason() for move in story.history())
    two.close()
    story.catch_up()
    assert [move.to for move in story.free()] == [None, None]
    log.close()


@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_two_that_have_read_the_same_say_the_same(tmp_path: Path, mode: dict[str, Any]) -> None:
    """Whenever they read it, and in whatever portions."""
    url = fresh_url("sqlite", tmp_path) + "?partitions=2"
    crew, log = Crew(url), pares.open(url)
    one, along = crew.member("one", ROLES, **mode), Tenures(pares.open(url), "g", here())
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    along.read()
    two = crew.member("two", ROLES, **mode)
    until(lambda: shared(one, two), "each leads one")
    along.read()
    one.close()
    two.close()
    along.read()
    late = Tenures(log, "g", here())
    late.read()
    assert {k: (s.holder, s.token) for k, s in along.world.seats.items()} == {
        k: (s.holder, s.token) for k, s in late.world.seats.items()
    }
    assert set(along.world.members) == set(late.world.members)
    along.log.close()
    log.close()


@pytest.mark.parametrize("ledger", ["memory", "sqlite"], indirect=True)
def test_which_protocol_is_told_by_the_newest_record(ledger: str) -> None:
    log = pares.open(ledger)
    assert not runs_induced(log, "g")
    with pares.Member(ledger, group="claims", roles=["0"]) as one, pares.Member(ledger, group="g", protocol="neli"):
        assert one.wait("0", PATIENCE)
        until(lambda: runs_induced(log, "g"), "it has written")
        assert not runs_induced(log, "claims")
        assert not runs_induced(log, "g/partitions")
    log.close()


# Steering --------------------------------------------------------------------------------------------------------------------


@on_each
def test_an_administrator_adds_and_removes_roles(ledger: str, mode: dict[str, Any]) -> None:
    one = Crew(ledger).member("one", ROLES, **mode)
    assert one.wait("0", PATIENCE)
    with pares.Admin(ledger, group="g") as admin:
        admin.add_role("pricing")
        assert one.wait("pricing", PATIENCE)
        assert admin.roles() == {"0": 1, "1": 1, "pricing": 1}
        admin.remove_role("pricing")
        until(lambda: not one.holds("pricing"), "it is gone")
        with pytest.raises(ConfigError, match="has no role 'pricing'"):
            admin.remove_role("pricing")
        with pytest.raises(CapabilityError, match="all roles have 1 seats"):
            admin.add_role("more", seats=3)
        with pytest.raises(CapabilityError, match="no marks"):
            admin.positions()
    assert one.state == "live", "an administrator of the claims protocol would have been in its way"


@on_each
def test_an_administrator_moves_and_pauses(ledger: str, mode: dict[str, Any]) -> None:
    crew = Crew(ledger)
    one = crew.member("one", ROLES, **mode)
    assert all(one.wait(role, PATIENCE) for role in ROLES)
    two = crew.member("two", ROLES, **mode)
    until(lambda: shared(one, two), "each leads one")
    role = next(role for role in ROLES if one.holds(role))
    with pares.Admin(ledger, group="g") as admin:
        until(lambda: admin.roles() == {"0": 1, "1": 1}, "both roles are known")
        admin.hand_over(role, to="two")
        until(lambda: two.holds(role) and not one.holds(role), "it was moved")
        admin.pause(role, seconds=60)
        until(lambda: not one.holds(role) and not two.holds(role), "nobody leads it")
        admin.resume(role)
        until(lambda: one.holds(role) or two.holds(role), "it goes on")
        admin.drain("two")
        until(lambda: all(one.holds(r) for r in ROLES) and not any(two.holds(r) for r in ROLES), "two is drained")
