"""A member that its group has not let in, as its user sees it: not live, not ready, and why, until it has been let in."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from induction_tools import ROLES, member
from runtime_tools import CALM, PATIENCE, Crew, Faulty, binding, life, until

import pares
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger import Group
from pares.runtime.config.protocols import ProtocolName
from pares.runtime.neli import assignment

Told = Callable[[Sequence[int]], None]
FULL = "the group is full, by the test"


class Door:
    """One member's place in a group that a test lets it into."""

    callback_limit = 60.0

    def __init__(self, ledger: Guarded, told: tuple[Told, Told, Told], session: float | None) -> None:
        self.ledger = ledger
        self.reassignment_bound = CALM if session is None else session
        self.assigned, _, self.lost = told
        self.joined = False
        self.gone = False

    def poll(self, timeout: float = 0.0) -> None:
        time.sleep(min(timeout, 0.02))
        answer, self.ledger.answer = self.ledger.answer, None
        if answer is not None:
            answer(self)

    def leave(self) -> None:
        self.gone, self.joined = True, False


class Guarded(Faulty):
    """A ledger with a group of its own, which says once what a test has it say."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.answer: Callable[[Door], None] | None = None

    def join(
        self,
        group: str,
        partitions: int,
        on_assigned: Told,
        on_revoked: Told,
        on_lost: Told,
        session: float | None = None,
    ) -> Door:
        return Door(self, (on_assigned, on_revoked, on_lost), session)

    def says(self, answer: Callable[[Door], None]) -> None:
        """Returns when the member has heard it."""
        self.answer = answer
        until(lambda: self.answer is None, "the member has heard the group")


def refuses(door: Door) -> None:
    door.joined = False
    raise LedgerUnavailable(FULL)


def lets_in(*numbers: int) -> Callable[[Door], None]:
    def answer(door: Door) -> None:
        door.joined = True
        if numbers:
            door.assigned(numbers)

    return answer


def loses(door: Door) -> None:
    door.joined = False
    door.lost((0, 1))


@pytest.fixture
def ledger() -> Iterator[Guarded]:
    inner = pares.open(f"memory://{uuid.uuid4().hex}?partitions=2")
    made = Guarded(inner)
    assert isinstance(made, Group)
    yield made
    inner.close()


@pytest.fixture
def crew(ledger: Guarded) -> Crew:
    return Crew(ledger)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def looks(me: pares.Member, seconds: float = 0.4) -> set[tuple[str, bool, str | None]]:
    """Everything that is seen in a while."""
    found: set[tuple[str, bool, str | None]] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        health = me.health()
        found.add((health.state, health.ready, health.unreachable))
        time.sleep(0.002)
    return found


def read_all(me: pares.Member) -> None:
    until(lambda: binding(me).core.live, "it has read the logs")  # type: ignore[union-attr]  # pyright: ignore


@pytest.mark.parametrize("protocol", ["fast-neli", "neli"])
def test_who_is_not_let_in_is_not_live_and_says_why_until_it_is(
    ledger: Guarded, crew: Crew, protocol: ProtocolName
) -> None:
    me = member(crew, "one", protocol)
    read_all(me)
    assert looks(me, 0.2) == {("joining", False, None)}
    ledger.says(refuses)
    until(lambda: me.health().unreachable, "the reason is known")
    assert looks(me) == {("joining", False, FULL)}
    assert me.health().ok, "its own process is well"
    until(lambda: me.health().problems, "a person is told, when it lasts")
    ledger.says(refuses)
    assert looks(me) == {("joining", False, FULL)}
    assert me.health().problems == (f"not-in-its-group: {FULL}",), "once"
    ledger.says(lets_in(0, 1))
    assert all(me.wait(role, PATIENCE) for role in ROLES)
    until(lambda: me.health().ready, "it is in its group")
    health = me.health()
    assert (health.state, health.unreachable) == ("live", None)


def test_an_assignment_of_nothing_is_one(ledger: Guarded, crew: Crew) -> None:
    me = member(crew, "one", "fast-neli")
    read_all(me)
    ledger.says(lets_in())
    until(lambda: me.state == "live", "it is in its group, with nothing to do")
    assert looks(me, 0.2) == {("live", True, None)}


def test_who_is_lost_is_not_ready_until_it_is_back(ledger: Guarded, crew: Crew) -> None:
    me = member(crew, "one", "fast-neli")
    ledger.says(lets_in(0, 1))
    assert me.wait("0", PATIENCE)
    ledger.says(loses)
    until(lambda: not me.health().ready, "it is out")
    ledger.says(refuses)
    until(lambda: me.health().unreachable, "the reason is known")
    assert looks(me) == {("live", False, FULL)}
    ledger.says(lets_in(0))
    until(lambda: me.health().ready, "it is back")
    assert me.health().unreachable is None
    assert me.wait("0", PATIENCE)


def test_a_group_that_says_nothing_is_reported_too(
    ledger: Guarded, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "SILENCE", 0.1)
    me = member(crew, "one", "fast-neli", session=0.5)
    why = until(lambda: me.health().unreachable, "the group is silent")
    assert why is not None
    assert "has not let it in for 1 s" in why
    assert "look at its members" in why
    assert not me.health().ready
    until(lambda: me.health().problems, "a person is told")
    monkeypatch.undo()


def test_who_stays_away_on_purpose_is_not_waiting(ledger: Guarded, crew: Crew) -> None:
    fit = [False]
    me = member(crew, "one", "fast-neli", ready=lambda: fit[0], session=0.5)
    until(lambda: me.state == "live", "it has read the logs")
    assert me.health().unreachable is None
    fit[0] = True
    until(lambda: not me.health().ready, "it wants to come in now")
    ledger.says(lets_in(0, 1))
    assert me.wait("0", PATIENCE)
    until(lambda: me.health().ready, "it is in its group")


def test_a_barrier_may_take_as_long_as_the_group_waits_and_no_longer(ledger: Guarded, crew: Crew) -> None:
    with pytest.raises(
        ConfigError, match=r"barrier_timeout is 55\.5 s, and this group waits 60 s.* at most 55 s"
    ) as caught:
        member(crew, "one", "fast-neli", barrier_timeout=55.5)
    assert "max.poll.interval.ms=60500" in str(caught.value)
    member(crew, "two", "nele", barrier_timeout=55.5, overlap=6.0)  # it waits for no barrier there
    member(crew, "three", "neli", barrier_timeout=55)


def test_claims_wait_for_as_long_as_the_barrier_may_take() -> None:
    crew = Crew(f"memory://{uuid.uuid4().hex}?partitions=2")
    me: Any = member(crew, "one", "fast-neli", barrier_timeout=1000)
    assert binding(me).assignment.membership.callback_limit >= 1005
    assert life(binding(me).assignment.membership._member).barrier_limit >= 1005


# What is in force ----------------------------------------------------------------------------------------------------


def test_the_session_that_is_asked_for_is_the_groups(crew: Crew) -> None:
    """What is asked for is in force, and `member.session` says what is in force."""
    usual, asked = member(crew, "one", "fast-neli"), member(crew, "two", "fast-neli", session=2.0)
    assert usual.session == CALM, "nobody asked: it is what the group has"
    assert asked.session == 2.0
    for me in (usual, asked):
        assert binding(me).core.config.session_ms == 1000 * me.session  # type: ignore[attr-defined]  # pyright: ignore


@pytest.mark.parametrize(
    ("what", "value"),
    [("zone", "z"), ("settle", 0.5), ("rank", 1), ("weight", 2), ("lock_folder", "locks"), ("labels", {"a": "b"})],
)
def test_what_a_service_has_no_use_for_is_refused_by_name(crew: Crew, what: str, value: Any) -> None:
    with pytest.raises(CapabilityError, match=f"^{what} is .*leave it out, or use protocol='claims'"):
        member(crew, "one", "fast-neli", **{what: value})
